"""What draws charts outside of a browser, in processes of its own: it holds Python's lock.

Each of them imports this module, and so nothing here imports pandas or Altair.
"""

import os
import signal
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import vl_convert

from nodewise.parents import end_with

MANY = 50  # so many pictures cost what one process more does, to begin and to get up to speed


def artist() -> ProcessPoolExecutor:
    """Return a process that draws; it is not there before it has something to do."""
    # spawned: one that is forked would have this one's locks, but not the threads that free them
    return ProcessPoolExecutor(1, get_context("spawn"), _begin, (os.getpid(),))


def draw(spec: str, vega_lite: str) -> str:
    """Return a picture (SVG) of a specification of this version of Vega-Lite."""
    svg: str = vl_convert.vegalite_to_svg(spec, vl_version=vega_lite)
    return svg


def bundle(vega_lite: str) -> str:
    """Return Vega, Vega-Lite and vega-embed as one script without other global names."""
    script = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=vega_lite)
    return f"(() => {{{script}\n}})();\n"


def _begin(parent: int) -> None:
    """Let this process end with the one it draws for, and leave an interrupt to that one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if not end_with(parent):
        os._exit(1)
