"""Static pictures of charts, drawn outside of a browser."""

import json
from importlib.metadata import version
from pathlib import Path

import vl_convert

from nodewise.charts import theme
from nodewise.charts.figure import VEGA_LITE
from nodewise.outputs import digest, unchanged, update_folder

_SPEC = ".vl.json"


def draw_pictures(charts_dir: Path, out_dir: Path) -> int:
    """Draw NAME.svg of every NAME.vl.json in `charts_dir` into `out_dir`; return how many changed.

    What did not change is not drawn again; pictures of charts that are gone are removed.
    """
    specs = {
        f"{path.name.removesuffix(_SPEC)}.svg": _alone(path.read_text(encoding="utf-8"))
        for path in sorted(charts_dir.glob(f"*{_SPEC}"))
    }
    drawn_by = version("vl-convert-python")
    made_of = {name: digest(drawn_by, spec) for name, spec in specs.items()}
    kept = unchanged(out_dir, made_of)
    files = {name: None if name in kept else draw(spec) for name, spec in specs.items()}
    return update_folder(out_dir, files, made_of)


def bundle() -> str:
    """Return Vega, Vega-Lite and vega-embed as one script without other global names."""
    script = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=VEGA_LITE)
    return f"(() => {{{script}\n}})();\n"


def draw(spec: str) -> str:
    """Return a picture (SVG) of a specification."""
    svg: str = vl_convert.vegalite_to_svg(spec, vl_version=VEGA_LITE)
    return svg


def _alone(spec: str) -> str:
    """Return `spec` with the size of a picture, which has no page around it, and its background."""
    sized = json.loads(spec) | {"width": theme.WIDTH, "background": "white"}
    sized["config"] |= {"background": "white"}
    return json.dumps(sized)
