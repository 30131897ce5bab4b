"""The reference of study files: which keys there are, of what kind, and what they are if left out.

1. Names, kinds and defaults are the code's (`tollbox.studies.spec`).
2. What a key is for is said once, in the comments of the example in `docs/studies.md`: a key that
   the example does not have is an error here, and so is one in it that the code does not know.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tollbox.studies import schema as sections
from tollbox.studies import schema as specs
from tollbox.studies import schema as tariffs
from tollbox.studies import schema as watch
from tollbox.studies import study

EXAMPLE = Path(__file__).parents[1] / "studies.md"
TABLES: Mapping[str, tuple[str, ...]] = {
    "": tuple(sorted(study.TOP - study.TABLES)),
    "images": sections.IMAGES_KEYS,
    "goal": sections.GOAL_KEYS,
    "watch": watch.KEYS,
    "models": sections.MODELS_KEYS,
    "attacks": sections.ATTACKS_KEYS,
    "attacks.surrogate": sections.SURROGATE_KEYS,
    "prices": tariffs.PRICE_KEYS,
}
"""By table of the file, its keys."""
HEADINGS = {
    "": "At the top of the file",
    "images": "`[images]`",
    "goal": "`[goal]`",
    "watch": "`[watch]`",
    "models": "`[[models]]`",
    "attacks": "`[[attacks]]`",
    "attacks.surrogate": "`surrogate` of an attack, as a table",
    "prices": "`[[prices]]`, or an entry of `prices` that is a table",
}
SPECS: Mapping[str, Any] = {
    "": study.Study,
    "images": specs.ImagesSpec,
    "goal": specs.GoalSpec,
    "watch": watch.WatchSpec,
    "models": specs.ModelSpec,
    "attacks": specs.AttackSpec,
    "attacks.surrogate": specs.SurrogateSpec,
    "prices": specs.Tariff,
}
"""The dataclass that each becomes."""
REQUIRED = {
    "": {"prices"},
    "images": {"path"},
    "watch": {"source"},
    "models": {"source"},
    "attacks": {"preset"},
    "attacks.surrogate": {"source"},
    "prices": {"ratio"},
}
KINDS = {
    "bool": "true or false",
    "bool | None": "true or false",
    "int": "a whole number",
    "int | None": "a whole number",
    "float": "a number",
    "tuple[float, ...] | None": "a number, or one for each channel",
    "str": "text",
    "str | None": "text",
    "Path": "a path",
    "Path | None": "a path",
    "tuple[int, ...]": "a list of whole numbers",
}
"""By the type of a dataclass's field."""
OTHER_KINDS = {
    ".prices": "a list of numbers, paths and tables",
    ".budget": "a number",
    ".max_queries": "a whole number",
    ".max_flagged": "a whole number",
    "watch.max_alarms": "a whole number",
    ".norm": "text",
    "images.list": "a path",
    "images.resize": "a whole number, or height and width",
    "images.crop": "a whole number, or height and width",
    "images.interpolation": "text",
    "goal.flagged": "a path, or a list of classes",
    "attacks.surrogate": "text, a list of texts, or a table",
    "attacks.surrogate.source": "text, or a list of texts",
    "prices.ratio": "a number, inf, or a path",
    "prices.max_queries": "a whole number",
    "prices.max_flagged": "a whole number",
}
"""Where that does not say it."""
DEFAULT = re.compile(r"(?:^|; )default(?: of both)?: ([^;]*)")


def text() -> str:
    """A table for each table of the file, as Markdown."""
    return "\n\n".join(_table(table, keys) for table, keys in TABLES.items())


def _table(table: str, keys: Iterable[str]) -> str:
    told = comments()
    fields = {field.name: field for field in dataclasses.fields(SPECS[table])}
    rows = []
    for key in keys:
        comment = told[_dotted(table, key)]
        in_words = DEFAULT.search(comment)
        default = _default(table, key, fields) or (in_words[1] if in_words else "")
        what = DEFAULT.sub("", comment).removeprefix("; ")
        rows.append(f"| `{key}` | {_kind(table, key, fields)} | {default} | {what} |")
    head = ["| key | kind | if left out | what it is |", "|---|---|---|---|"]
    return "\n".join([f"## {HEADINGS[table]}", "", *head, *rows])


def _dotted(table: str, key: str) -> str:
    return f"{table}.{key}" if table else key


def _kind(table: str, key: str, fields: Mapping[str, Any]) -> str:
    other = OTHER_KINDS.get(f"{table}.{key}")
    return other or KINDS[str(fields[key].type)]


def _default(table: str, key: str, fields: Mapping[str, Any]) -> str:
    if key in REQUIRED.get(table, ()):
        return "*it is needed*"
    value = fields[key].default if key in fields else None
    if value is dataclasses.MISSING or value is None:
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{list(value)}`" if isinstance(value, tuple) else f"`{value}`"


def comments() -> dict[str, str]:
    """By dotted key, what the example's comments say of it, with blocks of `[[prices]]`."""
    told: dict[str, str] = {}
    for block in re.findall(r"```toml\n(.*?)```", EXAMPLE.read_text("utf-8"), re.DOTALL):
        table, key = "", ""
        for line in block.splitlines():
            if header := re.match(r"\[+(\w+)\]+", line):
                table, key = header[1], ""
            elif pair := re.match(r"(?:# )?([\w.]+) = .*?(?:\s# (.*))?$", line):
                key = _dotted(table, pair[1])
                told[key] = told.get(key) or pair[2] or ""
            elif key and (more := re.match(r"\s+# (.*)", line)):
                told[key] += f" {more[1]}"
    return {key: text.replace("|", "\\|") for key, text in told.items()}
