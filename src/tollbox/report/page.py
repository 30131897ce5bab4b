"""The page of a report: one HTML file that holds all it needs and reaches out to nothing.

1. Text of a study is data: it is embedded as JSON that cannot close its tag, and the page's
   script puts it into the document as text, never as markup.
2. Nothing is fetched. The parts below are inlined, and the page's own policy forbids the rest.
   Charts are drawn by plotly's JavaScript (`plotly.js-basic-dist-min` 4.1.1: lines, points, bars),
   which is shipped in `vendor/` with its licence.
3. Numbers are finite; what is infinite or unknown is None. Anything else raises ValueError.
"""

from __future__ import annotations

import json
import re
from html import escape
from importlib.resources import files
from typing import Any

PLACE = re.compile(r"\{\{(\w+)\}\}")


GENERATOR = b'<meta name="generator" content="tollbox">'
"""What a page of ours has, near its beginning;"""


def page(data: dict[str, Any]) -> str:
    """The whole page as text, to be written as UTF-8."""
    return assembled(data, packaged("page.js"))


def assembled(data: dict[str, Any], script: str, css: str = "") -> str:
    """A page of this data, with a script of its own after what all pages share, and more styles."""
    parts = {
        "title": escape(data["title"]).encode("ascii", "xmlcharrefreplace").decode(),
        "css": packaged("page.css") + css,
        "data": embedded(data),
        "plotly": packaged("vendor/plotly-basic.min.js"),
        "script": packaged("shared.js") + script,
    }
    # In one pass, so that what looks like a placeholder inside a part stays as it is.
    return PLACE.sub(lambda place: parts[place[1]], packaged("page.html"))


def packaged(name: str, package: str = __package__) -> str:
    """A file of this package, or of another."""
    return files(package).joinpath(name).read_text("utf-8")


def embedded(data: dict[str, Any]) -> str:
    """JSON for a script element: ASCII, and no `<` to end the element with."""
    return json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
