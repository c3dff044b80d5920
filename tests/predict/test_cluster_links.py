"""Links of real clusters: names, rates, and what all-reduce benchmarks printed."""

import pytest

from mistakes import user_error
from nodewise.predict.cluster_links import read_link

NCCL = """# nThread 1 nGpus 8 minBytes 1048576 maxBytes 67108864 step: 4(factor)
#       size         count      type   redop    root     time   algbw   busbw #wrong     time
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)
     1048576        262144     float     sum      -1    60.81   17.24   30.18      0    57.82
    16777216       4194304     float     sum      -1    250.1   67.08  117.39      0    248.3
    67108864      16777216     float     sum      -1    700.0   95.87  167.77      0    699.0
# Avg bus bandwidth    : 105.1
"""
OLD_NCCL = """#                                                     out-of-place         in-place
     8388608       2097152   float     sum   4030.0    2.08    3.64    0e+00   4010.0
   134217728      33554432   float     sum  67000.0    2.00    3.50    0e+00  66900.0
"""
OSU = """# OSU MPI Allreduce Latency Test v7.0
# np = 4
# Size       Avg Latency(us)
8388608              10000.00
67108864             80000.00
"""


@pytest.mark.parametrize(
    ("text", "families", "gbyte"),
    [
        ("100gbit-rdma", {"rdma"}, 12.5),
        ("8x400gbit-rdma", {"rails"}, 400),
        ("25Gbit-TCP", {"tcp"}, 3.125),
        ("400gbit-efa", {"rdma"}, 50),
        *((x, {"tcp", "rdma"}, 12.5) for x in ("100Gb/s", "100 Gbit/s", "100Gbps", "100 GbE")),
        ("1600gbit", {"tcp", "rails"}, 200),
        ("250mbit", {"tcp", "rdma"}, 0.03125),
        ("hdr", {"rdma"}, 25),
    ],
)
def test_a_link_between_nodes_has_a_rate_and_possible_transports(text, families, gbyte):
    assert read_link("between", text) == dict.fromkeys(families, gbyte * 1e9)


def test_a_link_within_a_node_has_a_name_or_a_rate():
    assert read_link("within", "nvlink3") == {"nvlink": 300e9}
    assert read_link("within", "PCIe4-no-p2p") == {"no_p2p": 31.5e9}
    assert read_link("within", "31.5GB/s") == {"pcie": 31.5e9}


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        (NCCL, 167e9),
        (OLD_NCCL, 3.56e9),
        # a ring of n processes sends 2(1 − 1/n) of the message in 80 ms
        *((OSU.replace("np = 4", f"np = {n}"), 2 * (1 - 1 / n) * 2**26 / 0.08) for n in (2, 4, 64)),
    ],
)
def test_what_a_benchmark_printed_decides(tmp_path, text, rate):
    path = tmp_path / "run.log"
    path.write_text(text)
    ((family, found),) = read_link("between", str(path)).items()
    assert family == ("all_reduces" if rate > 1.25e9 else "calibrated")
    assert found == pytest.approx(rate, rel=0.01)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hello\n", "no row"),
        (OSU.replace("# np = 4\n", ""), "how many processes"),
        ("8 2 float sum -1 9.5 0.1 0.1 0 9.4\n", "largest message"),
        (NCCL.replace("     sum ", "    none "), "no row"),
        (NCCL.replace("     0 ", "     7 "), "#wrong"),
        ("#  Rank  0 on a device 0\n#  Rank  1 on b device 0\n" + NCCL, "2 hosts"),
    ],
)
def test_a_log_that_says_too_little_is_refused(tmp_path, text, said):
    path = tmp_path / "run.log"
    path.write_text(text)
    message = user_error(read_link, "within", str(path))
    assert "run.log: " in message and said in message


@pytest.mark.parametrize(
    "text", ["wifi", "0gbit", "1e-7mbit", "0x100gbit", "9999999999gbit", "100gb/s"]
)
def test_an_unknown_link_is_answered_by_what_is_allowed(text):
    assert f"link {text}: must be " in user_error(read_link, "between", text)
