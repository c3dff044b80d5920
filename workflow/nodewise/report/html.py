"""Turn values into safe HTML. Texts and numbers become HTML in this module only."""

import html
import json
import re
from functools import cache, lru_cache

import pandas as pd
from markupsafe import Markup

from nodewise.core.units import base_kind, write_number

# control characters, lone surrogates, and marks that change the direction of writing
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
# dots, commas, hyphens and underscores inside words and numbers need no escape, nor does any %
_NOT_PLAIN = re.compile(r"(?!(?<=[A-Za-z0-9])[.,_-][A-Za-z0-9])[^A-Za-z0-9 %\u00a0-\U0010ffff]")

_LONG, _CAPITAL = re.compile(r"[A-Za-z]{10}"), re.compile(r"(?<=[a-z])(?=[A-Z])")


def text(value: object) -> Markup:
    """Escape `value` for both HTML and Markdown; markup is returned as it is.

    Of the ASCII characters, only letters, digits, spaces, percent signs and punctuation that is
    harmless inside words are kept. All others, including newlines, become numeric character
    references, so the text can neither open markup nor start a Markdown block. Characters that are
    never visible become U+FFFD, because Markdown uses control characters as internal marks.
    """
    return value if isinstance(value, Markup) else _escaped(str(value))


@lru_cache(maxsize=4096)
def _escaped(value: str) -> Markup:
    known = _CONTROL.sub("\ufffd", value)
    return Markup(_NOT_PLAIN.sub(lambda found: f"&#{ord(found[0])};", known))  # noqa: S704


def breakable(value: object) -> Markup:
    """Escape `value` as `text` does; long names of classes may break at capitals."""
    escaped = text(value)
    if isinstance(value, Markup) or not _LONG.search(escaped):
        return escaped
    return Markup(_CAPITAL.sub("<wbr>", escaped))  # noqa: S704 (was escaped)


UNMARKED = frozenset({"counted", "error"})
"""The kinds of counts and of error rates. They are what they are called, so they get no badge."""


@cache
def badge(kind: str) -> Markup:
    """Return the badge of a kind of number; `kind` is a label of `units.kind_label`."""
    return Markup('<span class="nw-kind nw-kind--{}">{}</span>').format(base_kind(kind), text(kind))


def number(value: float | None, unit: str, kind: str) -> Markup:
    """Return a number followed by the badge of its kind; a dash if the value is missing.

    Counts and error rates, whose kind is one of `UNMARKED`, have no badge.
    """
    if value is None or pd.isna(value):
        return Markup("–")
    if kind in UNMARKED:
        return count(value, unit)
    return Markup(f"{data(value, unit)} {badge(kind)}")  # noqa: S704 (both are markup)


def data(value: float | None, unit: str) -> Markup:
    """Return a number without a badge, where the kind of several numbers is stated once."""
    return _data(value, unit, "")


def count(value: float | None, unit: str) -> Markup:
    """Return a count or an error rate, which needs no kind."""
    return _data(value, unit, ' class="nw-count"')


def _data(value: float | None, unit: str, attributes: str) -> Markup:
    if value is None or pd.isna(value):
        return Markup("–")
    written = text(write_number(float(value), unit).replace(" ", "\u00a0"))
    return Markup(f'<data value="{value:.6g}"{attributes}>{written}</data>')  # noqa: S704 (safe)


def interval(low: float, high: float, unit: str) -> Markup:
    """Return a 90 % interval in parentheses, to be written after its number and badge."""
    template = Markup(' <span class="nw-interval">(90\u00a0% interval {} to {})</span>')
    return template.format(data(low, unit), data(high, unit))


def script_json(value: object) -> Markup:
    """Return `value` as JSON that is safe inside a `<script>` element."""
    plain = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for sign in "<>&":
        plain = plain.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(plain)  # noqa: S704


def css_text(value: str) -> Markup:
    """Return `value` as a string of CSS, for use inside a `style` attribute in double quotes."""
    plain = re.sub(r"[^A-Za-z0-9 ]", lambda found: f"\\{ord(found[0]):x} ", _CONTROL.sub("", value))
    return Markup(f"'{plain}'")  # noqa: S704 (all signs of CSS and HTML are escaped)


def front_matter_text(value: str) -> Markup:
    """Return `value` as a YAML string that contains escaped HTML, which the theme prints as it is.

    Markdown does not process the front matter. Numeric character references, as `text` writes them,
    are avoided because the site's search does not find words that contain them.
    """
    known = html.escape(_CONTROL.sub("\ufffd", value))
    return Markup(json.dumps(known, ensure_ascii=False))  # noqa: S704


def titled(name: str, title: str) -> Markup:
    """Return a title as an element that also holds the name, by which scripts filter."""
    return Markup('<data class="nw-name" value="{}">{}</data>').format(text(name), text(title))


def slug(name: str) -> Markup:
    """Return `name` as part of a URL or an anchor: lower-case letters, digits and hyphens."""
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "unnamed"
    return Markup(plain)  # noqa: S704 (contains no special character)
