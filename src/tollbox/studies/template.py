"""A study file to start from, with every key explained in a comment; `tollbox init` writes it.

1. It is a valid study of the given model and images. A commented-out key has its default, and can
   be uncommented as it is if the file that it names exists.
2. Comments are plain text in lines of at most 100 characters, whatever names are in them.
"""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .schema import ALL, find, keys
from .study import toml_value

MARK = "# A study for tollbox, made by `tollbox init`: models x attacks x prices x images."
WIDTH = 100
COLUMN = 34
"""Column at which comments on keys start."""
PRICES = (1, 100)
BUDGET = 5000
ATTACKS = {
    "hsja": "an attack that ignores prices",
    "a-hsja": "the same with the paper's asymmetric search and estimates",
    "frugal": "tollbox's own, which plans with the price throughout",
}
"""The attacks of the file, with a comment on each."""


@dataclass(frozen=True)
class Template:
    """The known parts of a study file; the user fills in the rest."""

    file: str
    top: Mapping[str, Any] = field(default_factory=dict)
    images: Mapping[str, Any] = field(default_factory=lambda: {"path": Path("images")})
    """Keys of [images]; paths start from the file's folder."""
    model: Mapping[str, Any] = field(default_factory=lambda: {"source": Path("model.pt2")})
    about_images: str = "To be filled in: your own folder or file."
    about_model: str = "To be filled in: your own model."
    digest: str | None = None

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        yield from (MARK, "#")
        for words, what in (
            (["run", self.file, "--dry-run"], "what it takes: cells, queries, time"),
            (["run", self.file, "--out", "results"], "run it"),
            (["resume", "results"], "resume it after any kind of stop"),
            (["report", "results"], "make a page of the results"),
        ):
            yield f"#     {_plain(shlex.join(['tollbox', *words])):44}  {what}"
        yield "#"
        yield from _comment(
            "Paths are from the folder of this file. A key behind a # has its default, and the "
            "value there is an example. docs/studies.md explains more."
        )
        yield ""
        yield from table_lines(ALL["study"], {"prices": list(PRICES), "budget": BUDGET, **self.top})
        yield from ("", "[images]", *_comment(self.about_images))
        examples = {} if self.digest is None else {"digest": f'"{self.digest}"'}
        yield from table_lines(ALL["images"], self.images, examples)
        yield from ("", "[[models]]", *_comment(self.about_model))
        yield from table_lines(ALL["models"], self.model)
        yield from ("", f"{'# [[models]]':{COLUMN}}# one more, on the same images")
        yield from ('# source = "hf:microsoft/resnet-50"', "")
        yield from _comment("Each attack runs at each price. `tollbox presets` lists them all.")
        for preset, why in ATTACKS.items():
            line = f'preset = "{preset}"'
            yield from ("[[attacks]]", f"{line:{COLUMN}}# {why}", "")
        yield from ("# [[attacks]]", '# preset = "a-cgba"')
        name = find(ALL["attacks"], "name")
        yield f"{f'# name = {name.kind.example}':{COLUMN}}# {name.help}"
        yield f"{'# estimate.delta = 0.5':{COLUMN}}# Any field of its parts can be changed."
        for table in ("goal", "detector"):
            about = (ALL[table].__doc__ or "").partition(": ")[2]
            yield from ("", *_comment(f"{about[:1].upper()}{about[1:]}"), f"# [{table}]")
            yield from table_lines(ALL[table], {})


def table_lines(
    table: type, values: Mapping[str, Any], examples: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Yield each key with its value, or commented out with an example, and with its help."""
    for each in keys(table):
        value = values.get(each.name)
        text = f"{each.name} = {'' if value is None else toml_value(value, Path())}"
        if value is None:
            text = f"# {text}{(examples or {}).get(each.name, each.kind.example)}"
        line = f"{text:{COLUMN - 2}}  # {each.help}"
        if len(line) <= WIDTH:
            yield line
        else:
            yield from (*_comment(each.help), text)


def _comment(text: str) -> list[str]:
    lines = textwrap.wrap(_plain(text), WIDTH - 2, break_on_hyphens=False)
    return [f"# {line}" for line in lines]


def _plain(text: str) -> str:
    """Return a text with `?` for line breaks and other characters that are not printable."""
    return "".join(each if each.isprintable() else "?" for each in text)
