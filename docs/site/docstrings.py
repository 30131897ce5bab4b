"""How docstrings are read: sentences of plain text with `code`, and three forms that reST has
otherwise.

1. Lines of the form "name: what it is", with what follows indented, are a list of arguments.
2. An indented block after a line that ends with a colon is code.
3. A type in a signature is linked to the public name of that class, wherever it is defined.
"""

from __future__ import annotations

import re
from typing import Any

import tollbox

PACKAGES = (tollbox, tollbox.attack, tollbox.studies, tollbox.data, tollbox.detection)
"""Packages with public names."""
ARGUMENT = re.compile(r"([a-z_]\w*(?:, [a-z_]\w*)*): (\S.*)")


def mended(lines: list[str]) -> list[str]:
    """A docstring's lines as reST."""
    result: list[str] = []
    for place, line in enumerate(lines):
        found = ARGUMENT.fullmatch(line)
        if found and _in_list(lines, place):
            names = ", ".join(f"``{name}``" for name in found[1].split(", "))
            result += [names, f"    {found[2]}"]
        else:
            code = line.endswith(":") and _indented(lines, place + 2) and not lines[place + 1]
            result.append(f"{line}:" if code else line)
    return result


def _in_list(lines: list[str], place: int) -> bool:
    """Whether the paragraph of a line is a list of arguments: it begins with one."""
    while place and lines[place - 1]:
        place -= 1
    return ARGUMENT.fullmatch(lines[place]) is not None


def _indented(lines: list[str], place: int) -> bool:
    return place < len(lines) and lines[place].startswith("    ")


def _process(
    _app: Any, _what: str, _name: str, _value: Any, _options: Any, lines: list[str]
) -> None:
    lines[:] = mended(lines)


def _resolve(app: Any, env: Any, node: Any, contnode: Any) -> Any:
    """A reference to a class by another name than its public one."""
    if node.get("refdomain") != "py":
        return None
    last = node["reftarget"].rpartition(".")[2]
    domain = env.get_domain("py")
    for package in PACKAGES:
        if not hasattr(package, last):
            continue
        name = f"{package.__name__}.{last}"
        for kind in ("class", "exc", "func"):
            found = domain.resolve_xref(
                env, node["refdoc"], app.builder, kind, name, node, contnode
            )
            if found is not None:
                return found
    return None


def setup(app: Any) -> dict[str, bool]:
    """Sphinx calls this."""
    app.connect("autodoc-process-docstring", _process)
    app.connect("missing-reference", _resolve)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
