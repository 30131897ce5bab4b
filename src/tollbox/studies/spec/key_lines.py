"""On which line a key of a TOML text stands, for messages.

`tomllib` gives values without their places. This scanner walks over a text that `tomllib` has
accepted, and so need not refuse anything: it knows strings, comments and brackets, and no types.
What it fails to find has no line, which is never an error.
"""

from __future__ import annotations

import contextlib
import re
import tomllib

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
