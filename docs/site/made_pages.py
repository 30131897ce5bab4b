"""Pages that are made, or completed, while the site is built, so that they cannot go stale.

1. A document in `docs/` is plain Markdown, and reads well on a code host. Where a line says
   `<!-- made: NAME -->`, the site has what the function of that name gives.
2. The lists of links in `index.md` are the table of contents: a heading is a part of it.
3. A line "- `tollbox.name`" of `reference/` is replaced by what the code says of that name.
4. A table that a command wrote has no heading; here it gets one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import catalogue
import commands
import notebook_pages
import study_keys

MADE: dict[str, Callable[[], str]] = {
    "commands": commands.text,
    "study keys": study_keys.text,
    "presets": catalogue.presets,
    "parts": catalogue.parts,
    "attacks": catalogue.attacks,
    **notebook_pages.made(),
}
HEADINGS = {
    "gallery/table-1": "Table 1, small",
    "gallery/vit-b-32": "Table 2, small",
    "gallery/vit-b-16": "Table 3, small",
    "tables/flagged": "Flagged queries",
    "tables/paper": "Table 1 on ResNet-50",
}
MARK = re.compile(r"^<!-- made: (.+) -->$", re.MULTILINE)
NAME = re.compile(r"^- `(tollbox[\w.]*)`$", re.MULTILINE)


def with_toctrees(text: str) -> str:
    """An index with its lists of links as hidden tables of contents, too."""
    trees = []
    for part in text.split("\n## ")[1:]:
        heading, _, rest = part.partition("\n")
        links = re.findall(r"^- \[(.+?)\]\((.+?)\.md\)", rest, re.MULTILINE)
        entries = "\n".join(f"{title} <{page}>" for title, page in links)
        trees.append(f"```{{toctree}}\n:hidden:\n:caption: {heading}\n\n{entries}\n```")
    return "\n\n".join([text, *trees])


def made(document: str, text: str) -> str:
    """The text of a document as the site has it."""
    if document in HEADINGS:
        deeper = re.sub(r"^#", "##", text, flags=re.MULTILINE)
        text = f"# {HEADINGS[document]}\n\n{deeper}"
    if document == "index":
        text = with_toctrees(text)
    if document.startswith("reference/"):
        text = NAME.sub(lambda found: catalogue.directive(found[1]), text)
    return MARK.sub(lambda found: MADE[found[1]](), text)


def _read(_: Any, document: str, source: list[str]) -> None:
    source[0] = made(document, source[0])


def _outdated(_: Any, env: Any, *__: Any) -> list[str]:
    """What is made is made anew each time: the code may have changed."""
    texts = {name: Path(env.doc2path(name)).read_text("utf-8") for name in env.found_docs}
    return [name for name, text in texts.items() if MARK.search(text) or NAME.search(text)]


def setup(app: Any) -> dict[str, bool]:
    """Sphinx calls this."""
    app.connect("source-read", _read)
    app.connect("env-get-outdated", _outdated)
    return {"parallel_read_safe": False}  # each process would run the notebooks again
