"""On which line a key of a TOML text stands, for messages.

`tomllib` gives values without their places. This scanner walks over a text that `tomllib` has
accepted, and so need not refuse anything: it knows strings, comments and brackets, and no types.
What it fails to find has no line, which is never an error.

Reading a TOML file strictly: every mistake is one sentence with the file, the line and the key.

1. Nothing is converted: `true` is no number, "5" is no number, 5.0 is no whole number; NaN is
   refused everywhere. Whole numbers have 64 bits, as TOML has it.
2. Text is not empty and has no control characters, and so is fit for a path, a name, a message.
3. A key that is not known is refused, with the nearest that is; one that belongs to the top of the
   file is reported as such, since whatever follows a [table] is part of it.
"""

from __future__ import annotations

import contextlib
import math
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ..data.tables import LARGEST, in_a_line, kind_of, shortened
from ..errors import FileError, InputError, UnknownNameError

Key = tuple[str | int, ...]
"""Names of tables and keys, and positions in lists from 0 on: ("attacks", 1, "search", "tau")."""

_TOKEN = re.compile(
    r"""
    (?P<skip>   [ \t\r]+ | \#[^\n]* )
  | (?P<line>   \n )
  | (?P<string> \"{3} (?:\\.|[^\\])*? \"{3,5}
              | '{3} .*? '{3,5}
              | \" (?:\\.|[^\"\\\n])* \"
              | ' [^'\n]* ' )
  | (?P<mark>   [\[\]{}=,.] )
  | (?P<bare>   [A-Za-z0-9_-]+ )
  | (?P<other>  . )
    """,
    re.VERBOSE | re.DOTALL,
)


def key_lines(text: str) -> dict[Key, int]:
    """The line, from 1 on, of each key, table and list entry of a TOML text."""
    scanner = _Scanner(text)
    with contextlib.suppress(RecursionError, IndexError):  # too deep, or cut short: this will do
        scanner.scan()
    return scanner.lines


class _Scanner:
    def __init__(self, text: str) -> None:
        self.lines: dict[Key, int] = {}
        self._tokens: list[tuple[str, str, int]] = []
        self._place = 0
        self._counts: dict[Key, int] = {}  # tables so far of each [[array]]
        line = 1
        for match in _TOKEN.finditer(text):
            if match.lastgroup != "skip":
                self._tokens.append((match.lastgroup or "", match[0], line))
            line += match[0].count("\n")

    def scan(self) -> None:
        table: Key = ()
        while self._place < len(self._tokens):
            kind, text, line = self._tokens[self._place]
            if kind == "line":
                self._place += 1
            elif text == "[":
                table = self._header(line)
            else:
                self._pair(table)

    def _header(self, line: int) -> Key:
        """[a.b] or [[a.b]]; the key of the table that it opens."""
        self._place += 1
        double = self._peek() == "["
        self._place += double
        *parents, last = self._names()
        self._place += 1 + double
        key: Key = ()
        for name in parents:
            key = self._latest((*key, name))
        key = (*key, last)
        if double:
            self._counts[key] = self._counts.get(key, 0) + 1
        key = self._latest(key)
        self._record(key, line)
        return key

    def _latest(self, key: Key) -> Key:
        """The last table so far, where the key is that of an array of tables."""
        return (*key, self._counts[key] - 1) if key in self._counts else key

    def _pair(self, table: Key) -> None:
        """key = value."""
        line = self._tokens[self._place][2]
        key: Key = (*table, *self._names())
        self._place += 1  # the =
        self._record(key, line)
        self._value(key)

    def _names(self) -> list[str]:
        """a."b".c, up to what follows it."""
        names = [self._name()]
        while self._peek() == ".":
            self._place += 1
            names.append(self._name())
        return names

    def _name(self) -> str:
        kind, text, _ = self._tokens[self._place]
        self._place += 1
        return str(tomllib.loads(f"key = {text}")["key"]) if kind == "string" else text

    def _value(self, key: Key) -> None:
        opening = self._peek()
        if opening not in ("[", "{"):
            while self._place < len(self._tokens) and not self._ended():
                self._place += 1
            return
        self._place += 1
        count = 0
        while True:
            kind, text, line = self._tokens[self._place]
            if kind == "line" or text == ",":
                self._place += 1
            elif text in ("]", "}"):
                self._place += 1
                return
            elif opening == "{":
                self._pair(key)
            else:
                self._record((*key, count), line)
                self._value((*key, count))
                count += 1

    def _ended(self) -> bool:
        kind, text, _ = self._tokens[self._place]
        return kind == "line" or (kind == "mark" and text in ",]}")

    def _peek(self) -> str:
        return self._tokens[self._place][1]

    def _record(self, key: Key, line: int) -> None:
        for length in range(1, len(key) + 1):
            self.lines.setdefault(key[:length], line)


MOST_BYTES = 1 << 20
"""A study file of more is some other file."""

MOST_NAME_CHARACTERS = 200


def read_text(path: str | Path) -> str:
    """The text of a study file, as it is."""
    name = f"the study file {path}"
    kind = kind_of(path, name)
    if kind != "file":
        what = {"nothing": "does not exist", "folder": "is a folder"}.get(kind, "is not a file")
        remedy = "`tollbox init` writes one" if kind == "nothing" else ""
        expected = "a TOML file that describes a study"
        raise FileError(f"{name} {what}", expected=expected, remedy=remedy)
    try:
        with open(path, "rb") as file:
            raw = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise FileError(f"{name} cannot be read: {error.strerror}.") from None
    if len(raw) > MOST_BYTES:
        raise FileError(
            f"{name} is larger than {MOST_BYTES >> 20} MiB: expected a TOML file that describes a "
            "study; is it the right file?"
        )
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise FileError(
            f"{path}, line {line}: byte 0x{raw[error.start]:02x} is not UTF-8: expected a TOML "
            "file in UTF-8; save it in that encoding."
        ) from None


def parsed(text: str, where: str) -> dict[str, Any]:
    """The values of a TOML text; `where` names it in messages."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _syntax_error(str(error), text, where) from None
    except RecursionError:
        raise FileError(f"{where} is nested too deeply: expected a study file.") from None
    except ValueError as error:  # a number of too many digits
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
    line = text.split("\n")[number - 1].strip()
    shown = f", in {shortened(line)!r}" if line else ""
    column = int(position[2]) - 1 if position else 0
    fraction = _FRACTION.match(text.split("\n")[number - 1], column)
    if fraction is not None:
        sign, digits = fraction.groups()
        hint = f"a number begins with a digit; write {sign}0{digits}"
        return FileError(f"{where}, {place}: {what[:1].lower()}{what[1:]}{shown}: {hint}.")
    hint = next((hint for start, hint in _HINTS.items() if what.startswith(start)), "")
    remedy = f"{hint}." if hint else "expected TOML; correct it there."
    return FileError(f"{where}, {place}: {what[:1].lower()}{what[1:]}{shown}: {remedy}")


def spelled(key: Key) -> str:
    """A key as a message names it: `images.limit`, `search.tau in [[attacks]] number 2`."""
    if len(key) > 2 and isinstance(key[1], int):
        return f"{_spelled(key[2:])} in {table_name(key[:2])}"
    return _spelled(key)


def _spelled(key: Key) -> str:
    if isinstance(key[-1], int):
        return f"number {key[-1] + 1} of {_spelled(key[:-1])}"
    return ".".join(shortened(str(name)) for name in key)


def table_name(key: Key) -> str:
    """A table as a message names it: `[images]`, `[[attacks]] number 2`, ..."""
    if len(key) == 1:
        return f"[{key[0]}]"
    if len(key) == 2 and isinstance(key[1], int):
        return f"[[{key[0]}]] number {key[1] + 1}"
    return spelled(key)


def shown(value: Any) -> str:
    """What was given, as TOML has it, fit for a message."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return repr(shortened(value))
    if isinstance(value, int) and value.bit_length() > 64:
        return f"an integer of {value.bit_length()} bits"
    if isinstance(value, int | float):
        return f"{value}"
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    return "a table" if isinstance(value, dict) else "a date or time"


@dataclass(frozen=True)
class Source:
    """A TOML text, to say where in it something is wrong."""

    where: str
    text: str
    top: frozenset[str] = frozenset()
    """The keys that are known at the top of the file."""

    @cached_property
    def lines(self) -> Mapping[Key, int]:
        """The line of each key."""
        return key_lines(self.text)

    def error(self, key: Key, message: str) -> FileError:
        """The error to raise about a key, or about what should have been there."""
        while key and key not in self.lines:
            key = key[:-1]
        place = f"{self.where}, line {self.lines[key]}" if key else self.where
        return FileError(message, where=place)

    def about(
        self, error: InputError, keys: Mapping[str, Key], otherwise: Key = (), table: Key = ()
    ) -> FileError:
        """What was said of an argument, said of its key among `keys`.

        The place is that of the key `otherwise` if the error concerns none of them; keys of the
        `table` go by their short names.
        """

        def naming(name: str) -> str:
            key = keys.get(name, (name,))
            return spelled(key[len(table) :] if table and key[: len(table)] == table else key)

        return self.error(keys.get(error.input, otherwise), error.sentence(naming))


@dataclass(frozen=True)
class Item:
    """A value of the file, and where it is from; read it by one of the methods."""

    source: Source
    key: Key
    value: Any

    def wrong(self, expected: str) -> FileError:
        """The error to raise: what was given, and what was expected."""
        return self.error(f"{spelled(self.key)} is {shown(self.value)}: expected {expected}.")

    def error(self, message: str) -> FileError:
        """The error to raise, with any message."""
        return self.source.error(self.key, message)

    def text(self, expected: str = "text in quotes") -> str:
        """Text that is not empty."""
        if not isinstance(self.value, str) or not self.value.strip():
            raise self.wrong(expected)
        if any(ord(c) < 32 or 127 <= ord(c) < 160 for c in self.value):
            raise self.wrong(f"{expected}, without control characters")
        return self.value

    def name(self) -> str:
        """What a study, a model, an attack or a price is called."""
        name = self.text("a name in quotes")
        if len(name) > MOST_NAME_CHARACTERS:
            raise self.wrong(f"a name of at most {MOST_NAME_CHARACTERS} characters")
        return name

    def flag(self) -> bool:
        """True or false."""
        if not isinstance(self.value, bool):
            raise self.wrong("true or false, without quotes")
        return self.value

    def number(self, expected: str = "a number") -> float:
        """Any number but NaN; it may be infinite."""
        if isinstance(self.value, bool) or not isinstance(self.value, int | float):
            raise self.wrong(expected + self._unquote())
        try:
            value = float(self.value)
        except OverflowError:
            raise self.wrong(f"{expected}; this is more than a float can hold") from None
        if math.isnan(value):
            raise self.wrong(expected)
        return value

    def whole(self, least: int = -LARGEST, most: int = LARGEST, expected: str = "") -> int:
        """A whole number from `least` to `most`."""
        if not expected:
            expected = f"a whole number from {least} to {most}"
            if most == LARGEST:
                expected = "a whole number"
                expected += f" of {least} or more" if least > -LARGEST else " of at most 64 bits"
        if isinstance(self.value, bool) or not isinstance(self.value, int):
            if isinstance(self.value, float) and self.value.is_integer():
                expected += f"; write {self.value:.0f}"
            raise self.wrong(expected + self._unquote())
        if not least <= self.value <= most:
            beyond = least != -LARGEST and self.value > LARGEST
            raise self.wrong(f"{expected}, of at most 64 bits" if beyond else expected)
        return self.value

    def path(self, folder: Path, expected: str) -> Path:
        """A path, relative to `folder` unless it is absolute."""
        return folder / self.text(f"{expected}, as a path in quotes")

    def entries(self, example: str) -> list[Item]:
        """The entries of a list that has some; `example` is one as it could be written."""
        if not isinstance(self.value, list) or not self.value:
            raise self.wrong(f"a list that is not empty, as {example}")
        return [Item(self.source, (*self.key, i), v) for i, v in enumerate(self.value)]

    def table(self, known: Iterable[str] | None = None) -> dict[str, Item]:
        """The items of a table, none of which is unknown if `known` is given."""
        if not isinstance(self.value, dict):
            raise self.wrong("a table, of the form key = value")
        if known is not None:
            self.check_names(known, f"key in {table_name(self.key)}" if self.key else "key")
        return {k: Item(self.source, (*self.key, k), v) for k, v in self.value.items()}

    def check_names(self, known: Iterable[str], kind: str) -> None:
        """Raise for the first name of this table that is not known; `kind` says what it names."""
        names = frozenset(known)
        for name in self.value:
            if name in names:
                continue
            key = (*self.key, name)
            if self.key and name in self.source.top:
                raise self.source.error(
                    key,
                    f"{name} stands in {table_name(self.key)}: expected it at the top of the "
                    "file; move it before the first [table].",
                )
            raise self.source.error(key, str(UnknownNameError(kind, shortened(name), names)))

    def _unquote(self) -> str:
        """What to do about a number in quotes."""
        try:
            float(self.value if isinstance(self.value, str) else "")
        except ValueError:
            return ""
        return "; write it without quotes"
