"""TOML files, read strictly: every mistake is one sentence with the file, the line and the key.

1. Nothing is converted: `true` and "5" are not numbers, and 5.0 is not a whole number. NaN is
   refused everywhere. Whole numbers have at most 64 bits, as in TOML.
2. Text is not empty and has no control characters, so that it can be a path, a name, a message.
3. An unknown key is refused with the closest known key. A key from the top of the file that is
   found inside a table is reported as such, since everything after a [table] belongs to that table.

`tomllib` returns values without their lines. The line of a key is the first one after which the
text, cut there and completed, has the key (`line_of`). A key that is not found has no line.
"""

from __future__ import annotations

import bisect
import contextlib
import itertools
import math
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..data.tables import LARGEST, in_a_line, kind_of, shortened
from ..errors import FileError, InputError, UnknownNameError

Key = tuple[str | int, ...]
"""Names of tables and keys, and positions in lists, from 0: ("attacks", 1, "search", "tau")."""

MOST_NESTED = 3
"""Maximum depth of nested lists and inline tables that end on a later line."""
CLOSINGS = [
    f"\n{quotes}\n{''.join(brackets)}"
    for depth in range(MOST_NESTED + 1)
    for quotes in ("", '"""', "'''")
    for brackets in itertools.product("]}", repeat=depth)
]
"""Texts that may complete a TOML text that was cut after a line."""


def line_of(text: str, key: Key) -> int | None:
    """Return the line, from 1, of a key, table or list entry in a TOML text; None if not found."""
    lines = text.split("\n")

    def found(count: int) -> bool:
        return _has(_parsed_start("\n".join(lines[:count])), key)

    line = bisect.bisect_left(range(len(lines) + 1), True, key=found)
    return line if line <= len(lines) else None


def _parsed_start(text: str) -> dict[str, Any]:
    for closing in CLOSINGS:
        with contextlib.suppress(tomllib.TOMLDecodeError):
            return tomllib.loads(text + closing)
    return {}


def _has(values: Any, key: Key) -> bool:
    try:
        for name in key:
            values = values[name]
    except (KeyError, IndexError, TypeError):
        return False
    return True


MOST_BYTES = 1 << 20
MOST_NAME_CHARACTERS = 200


def read_text(path: str | Path) -> str:
    name = f"the study file {path}"
    expected = "a TOML file that describes a study"
    kind = kind_of(path, name)
    if kind != "file":
        what = {"nothing": "does not exist", "folder": "is a folder"}.get(kind, "is not a file")
        remedy = "`tollbox init` writes one" if kind == "nothing" else ""
        raise FileError(f"{name} {what}", expected=expected, remedy=remedy)
    try:
        with open(path, "rb") as file:
            raw = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise FileError(f"{name} cannot be read: {error.strerror}.") from None
    if len(raw) > MOST_BYTES:
        large = f"{name} is larger than {MOST_BYTES >> 20} MiB"
        raise FileError(large, expected=expected, remedy="is it the right file?")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise FileError(
            f"byte 0x{raw[error.start]:02x} is not UTF-8",
            expected="a TOML file in UTF-8",
            remedy="save it in that encoding",
            where=f"{path}, line {line}",
        ) from None


def parsed(text: str, where: str) -> dict[str, Any]:
    """Return the values of a TOML text; `where` names it in messages."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _syntax_error(str(error), text, where) from None
    except RecursionError:
        raise FileError(f"{where} is nested too deeply", expected="a study file") from None
    except ValueError as error:  # a number with too many digits
        raise FileError(f"{where} cannot be read as TOML: {in_a_line(error)}.") from None


_FRACTION = re.compile(r"([+-]?)(\.\d+)")
_HINTS = {
    "Invalid value": "text is in double quotes, and numbers, true and false are bare",
    "Unescaped": "put a path with \\ in single quotes",
    "Invalid hex value": "put a path with \\ in single quotes",
    "Illegal character": "close the quotes on the same line",
    "Cannot overwrite": "give each key once",
    "Cannot declare": "open each table once; for several of a kind use double brackets, as "
    "[[models]]",
    "Cannot mutate": "give a list or table in one place, either inside brackets or below a header",
    "Expected '='": "a line is key = value, [table] or [[table]]",
    "Unclosed array": "close the list that is open here with ]",
}


def _syntax_error(message: str, text: str, where: str) -> FileError:
    what, _, at = message.partition(" (at ")
    position = re.match(r"line (\d+), column (\d+)", at)
    number = int(position[1]) if position else text.rstrip("\n").count("\n") + 1
    place = f"line {number}, column {position[2]}" if position else f"line {number}, the end"
    line = text.split("\n")[number - 1]
    quoted = f", in {shortened(line.strip())!r}" if line.strip() else ""
    fraction = _FRACTION.match(line, int(position[2]) - 1 if position else 0)
    if fraction is not None:
        hint = f"a number begins with a digit; write {fraction[1]}0{fraction[2]}"
    else:
        hints = (hint for start, hint in _HINTS.items() if what.startswith(start))
        hint = next(hints, "expected TOML; correct it there")
    return FileError(f"{what[:1].lower()}{what[1:]}{quoted}: {hint}.", where=f"{where}, {place}")


def spelled(key: Key) -> str:
    """Return a key as messages name it: `images.limit`, `search.tau in [[attacks]] number 2`."""
    if len(key) > 2 and isinstance(key[1], int):
        return f"{spelled(key[2:])} in {table_name(key[:2])}"
    if isinstance(key[-1], int):
        return f"number {key[-1] + 1} of {spelled(key[:-1])}"
    return ".".join(shortened(str(name)) for name in key)


def table_name(key: Key) -> str:
    """Return a table as messages name it: `[images]`, `[[attacks]] number 2`."""
    if len(key) == 1:
        return f"[{key[0]}]"
    if len(key) == 2 and isinstance(key[1], int):
        return f"[[{key[0]}]] number {key[1] + 1}"
    return spelled(key)


def shown(value: Any) -> str:
    """Return a value in TOML syntax, or its kind, short enough for a message."""
    if isinstance(value, str):
        return repr(shortened(value))
    if isinstance(value, int) and value.bit_length() > 64:
        return f"an integer of {value.bit_length()} bits"
    if isinstance(value, int | float):
        return str(value).lower()  # true, not True
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    return "a table" if isinstance(value, dict) else "a date or time"


@dataclass(frozen=True)
class Source:
    """A TOML text with the information needed to locate errors in it."""

    where: str
    text: str
    top: frozenset[str] = frozenset()
    """Known keys at the top of the file that are not tables."""
    folder: Path = Path()
    """Folder that relative paths start from."""
    files: bool = True
    """Whether the files that the text names must exist."""

    def error(self, key: Key, message: str) -> FileError:
        """Return an error at the line of a key, or of the closest table around it."""
        line = None
        while key and (line := line_of(self.text, key)) is None:
            key = key[:-1]
        return FileError(message, where=self.where + ("" if line is None else f", line {line}"))

    def about(
        self, error: InputError, keys: Mapping[str, Key], otherwise: Key = (), table: Key = ()
    ) -> FileError:
        """Return an error about an argument as an error about the argument's key in `keys`.

        The error is at the key `otherwise` if it concerns none of them. Keys of `table` are named
        without the table.
        """

        def naming(name: str) -> str:
            key = keys.get(name, (name,))
            return spelled(key[len(table) :] if table and key[: len(table)] == table else key)

        return self.error(keys.get(error.input, otherwise), error.sentence(naming))


@dataclass(frozen=True)
class Item:
    """A value of the file with its key; its methods read it as one kind of value."""

    source: Source
    key: Key
    value: Any

    def wrong(self, expected: str) -> FileError:
        return self.error(f"{spelled(self.key)} is {shown(self.value)}: expected {expected}.")

    def error(self, message: str) -> FileError:
        return self.source.error(self.key, message)

    @contextlib.contextmanager
    def reporting(self, keys: Mapping[str, Key]) -> Iterator[None]:
        """Give an InputError without a line the line of its key in `keys`, or else of this item."""
        try:
            yield
        except InputError as error:
            if error.where:
                raise
            raise self.source.about(error, keys, self.key) from None

    def text(self, expected: str = "text in quotes") -> str:
        if not isinstance(self.value, str) or not self.value.strip():
            raise self.wrong(expected)
        if any(ord(c) < 32 or 127 <= ord(c) < 160 for c in self.value):
            raise self.wrong(f"{expected}, without control characters")
        return self.value

    def name(self) -> str:
        name = self.text("a name in quotes")
        if len(name) > MOST_NAME_CHARACTERS:
            raise self.wrong(f"a name of at most {MOST_NAME_CHARACTERS} characters")
        return name

    def flag(self) -> bool:
        if not isinstance(self.value, bool):
            raise self.wrong("true or false, without quotes")
        return self.value

    def number(self, expected: str = "a number") -> float:
        """Return any number except NaN; it may be infinite."""
        try:
            value = float(self._numeric(int | float, expected))
        except OverflowError:
            raise self.wrong(f"{expected}; this is more than a float can hold") from None
        if math.isnan(value):
            raise self.wrong(expected)
        return value

    def whole(self, expected: str = "a whole number") -> int:
        if isinstance(self.value, float) and self.value.is_integer():
            raise self.wrong(f"{expected}; write {self.value:.0f}")
        value: int = self._numeric(int, expected)
        if abs(value) > LARGEST:
            raise self.wrong(f"{expected}, of at most 64 bits")
        return value

    def _numeric(self, kind: Any, expected: str) -> Any:
        if isinstance(self.value, bool) or not isinstance(self.value, kind):
            quoted = "; write it without quotes" if self.is_quoted_number else ""
            raise self.wrong(expected + quoted)
        return self.value

    def path(self, expected: str, kinds: tuple[str, ...] = ("file",)) -> Path:
        """Return a path; if files must exist, its `kind_of` must be one of `kinds`."""
        path = self.source.folder / self.text(f"{expected}, as a path in quotes")
        if self.source.files and self.kind_at(path) not in kinds:
            raise self.missing(path, expected)
        return path

    def kind_at(self, path: Path) -> str:
        try:
            return kind_of(path, "it")
        except FileError as error:
            raise self.error(f"{spelled(self.key)} is {shown(self.value)}: {error}") from None

    def missing(self, path: Path, expected: str) -> FileError:
        what = {"nothing": "does not exist", "folder": "is a folder"}
        return self.error(
            f"{spelled(self.key)} is {shown(self.value)}: {path} "
            f"{what.get(self.kind_at(path), 'is not a file')}: expected {expected}; relative paths "
            "are from the folder of the study file."
        )

    def entries(self, example: str) -> list[Item]:
        """Return the entries of a list that is not empty; `example` shows how to write one."""
        if not isinstance(self.value, list) or not self.value:
            raise self.wrong(f"a list that is not empty, as {example}")
        return [Item(self.source, (*self.key, i), v) for i, v in enumerate(self.value)]

    def table(self, known: Iterable[str] | None = None) -> dict[str, Item]:
        """Return the items of a table; with `known`, refuse any other key."""
        if not isinstance(self.value, dict):
            raise self.wrong("a table, of the form key = value")
        if known is not None:
            self.check_names(known, f"key in {table_name(self.key)}" if self.key else "key")
        return {k: Item(self.source, (*self.key, k), v) for k, v in self.value.items()}

    def check_names(self, known: Iterable[str], kind: str) -> None:
        """Raise FileError for the first unknown name in this table; `kind` says what it names."""
        names = frozenset(known)
        for name in (each for each in self.value if each not in names):
            message = str(UnknownNameError(kind, shortened(name), names))
            if self.key and name in self.source.top:
                message = (
                    f"{name} stands in {table_name(self.key)}: expected it at the top of the "
                    "file; move it before the first [table]."
                )
            raise self.source.error((*self.key, name), message)

    @property
    def is_list(self) -> bool:
        return isinstance(self.value, list)

    @property
    def is_quoted_number(self) -> bool:
        try:
            float(self.value if isinstance(self.value, str) else "")
        except ValueError:
            return False
        return True
