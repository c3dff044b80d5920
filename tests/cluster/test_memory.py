"""Workers keep memory that a step frees: the kernel need not provide new pages in each step."""

import projects

SETTLED = """
import subprocess, sys
from nodewise.measure.environment import settle_environment
settle_environment()
subprocess.run([sys.executable, "-c", sys.argv[1]], check=True)
"""
COUNT = """
import ctypes, resource
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]
def step():
    buffers = [libc.malloc(ctypes.c_size_t(2**25 + 4096 * i)) for i in range(4)]
    for buffer in buffers:
        ctypes.memset(buffer, 1, 2**25)
    for buffer in buffers:
        libc.free(buffer)
step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
PAGES_OF_A_STEP = 4 * 2**25 // 4096


def test_the_pages_of_a_step_are_those_of_the_step_before():
    assert int(projects.python("-c", SETTLED, COUNT)) < PAGES_OF_A_STEP / 100
