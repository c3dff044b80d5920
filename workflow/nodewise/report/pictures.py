"""Static pictures of charts, drawn outside of a browser."""

import json
from functools import cache
from typing import Any

import vl_convert

from nodewise.report import theme
from nodewise.report.figure import VEGA_LITE


@cache  # takes longer than all charts of a small study
def bundle() -> str:
    """Return Vega, Vega-Lite and vega-embed as one script without other global names."""
    script = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=VEGA_LITE)
    return f"(() => {{{script}\n}})();\n"


def draw(spec: dict[str, Any]) -> str:
    """Return a picture (SVG) of a specification, of a fixed size on a white background."""
    alone = spec | {"width": theme.WIDTH, "background": "white"}
    alone["config"] = spec["config"] | {"background": "white"}
    svg: str = vl_convert.vegalite_to_svg(json.dumps(alone), vl_version=VEGA_LITE)
    return svg
