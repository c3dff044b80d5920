"""Values -> safe pieces of a page. The only place where text and numbers become HTML."""

import html
import json
import re
from functools import cache, lru_cache
from typing import Any

import pandas as pd
from markupsafe import Markup

from nodewise.core.units import base_kind, write_number

# control characters, lone surrogates, and marks that turn the direction of writing
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
# points, commas, hyphens and underscores inside words and numbers are plain, and so is any %
_NOT_PLAIN = re.compile(r"(?!(?<=[A-Za-z0-9])[.,_-][A-Za-z0-9])[^A-Za-z0-9 %\u00a0-\U0010ffff]")


def text(value: object) -> Markup:
    """Return `value` as text that means nothing to HTML or to Markdown.

    Every ASCII character but letters, digits, spaces and what is harmless inside words becomes a
    numeric character reference, a new line too, so that the text can neither open markup nor start
    a Markdown block. What is never shown (Markdown uses control characters as marks of its own)
    becomes U+FFFD.
    """
    return value if isinstance(value, Markup) else _escaped(str(value))


@lru_cache(maxsize=4096)
def _escaped(value: str) -> Markup:
    known = _CONTROL.sub("\ufffd", value)
    return Markup(_NOT_PLAIN.sub(lambda found: f"&#{ord(found[0])};", known))  # noqa: S704


@cache
def badge(kind: str) -> Markup:
    """Return the mark of a kind of number; `kind` is a label of `quantities.kind_label`."""
    return Markup('<span class="nw-kind nw-kind--{}">{}</span>').format(base_kind(kind), text(kind))


def number(value: float | None, unit: str, kind: str) -> Markup:
    """Return a number for running text, its kind beside it; a dash alone if there is none."""
    if value is None or pd.isna(value):
        return Markup("–")
    return Markup(f"{data(value, unit)} {badge(kind)}")  # noqa: S704 (both are markup)


def data(value: float | None, unit: str) -> Markup:
    """Return a number alone, for a place that says its kind once for several."""
    if value is None or pd.isna(value):
        return Markup("–")
    written = text(write_number(float(value), unit).replace(" ", "\u00a0"))
    return Markup(f'<data value="{value:.6g}">{written}</data>')  # noqa: S704 (both are safe)


def between_launches(row: "pd.Series[Any]") -> Markup:
    """Return what the launches of a point and of its one node leave possible of its speed-up."""
    if pd.isna(row["speedup_low"]):
        return Markup(", launched once")
    return interval(row["speedup_low"], row["speedup_high"], "×")


def interval(low: float, high: float, unit: str) -> Markup:
    """Return a 90 % interval, to follow the number that it is of, which says its kind."""
    ends = _between(low, high, unit)
    return Markup(' <span class="nw-interval">(90\u00a0% interval {})</span>').format(ends)


def between(low: float, high: float, unit: str, kind: str) -> Markup:
    """Return the least and the greatest of several numbers of a kind."""
    template = Markup('<span class="nw-interval">{}</span> {}')
    return template.format(_between(low, high, unit), badge(kind))


def _between(low: float, high: float, unit: str) -> Markup:
    return Markup("{} to {}").format(data(low, unit), data(high, unit))


def script_json(value: object) -> Markup:
    """Return `value` as JSON that can stand inside a `<script>` element."""
    plain = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for sign in "<>&":
        plain = plain.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(plain)  # noqa: S704


def front_matter_text(value: str) -> Markup:
    """Return `value` as a YAML string whose content is HTML text, as the theme prints it.

    Markdown does not read it, and a word that is written with references is not found by searches.
    """
    known = html.escape(_CONTROL.sub("\ufffd", value))
    return Markup(json.dumps(known, ensure_ascii=False))  # noqa: S704


def titled(name: str, title: str) -> Markup:
    """Return the title of something; scripts that filter by its name find that, too."""
    return Markup('<data class="nw-name" value="{}">{}</data>').format(text(name), text(title))


def slug(name: str) -> Markup:
    """Return `name` as a part of an address or an anchor: small letters, digits and hyphens."""
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "unnamed"
    return Markup(plain)  # noqa: S704 (no character of it means anything)
