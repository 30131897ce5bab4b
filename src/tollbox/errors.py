"""Errors, which are for the caller. What goes wrong with one image is a value (`core.stop`).

TollboxError
├── InputError            an argument is not what was expected
│   ├── UnknownNameError  a name that is not known; suggests the nearest
│   └── FileError         a file is missing or cannot be read; names the file, and the line if any
└── ModelFault            the model raised or answered with something that is not labels;
                          the engine turns it into Stop.MODEL_ERROR for the cells concerned

1. An InputError keeps what it says in fields, and is one sentence made of them:

       [where: ]input given: expected ...; remedy.

2. `input` is the argument's name as Python has it (`batch_size`). A caller that calls it otherwise,
   a command line (`--batch-size`) or a study file (`goal.start`), renders the sentence with names
   of its own (`sentence`), and never looks into a text for them. A field that speaks of another
   argument writes it as `mention("max_queries")`.
3. `placed` gives the same error with a place before it, such as a file and a line; `renamed` about
   an argument of another name.
"""

from __future__ import annotations

import copy
import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self, TypeVar

E = TypeVar("E", bound="InputError")

_MENTION = re.compile("\x00([a-z0-9_]+)\x00")


def mention(name: str) -> str:
    """An argument, inside a field of an error: rendered by whatever name its reader knows."""
    return f"\x00{name}\x00"


class TollboxError(Exception):
    """Base of all errors that tollbox raises on purpose."""


class InputError(TollboxError, ValueError):
    """The caller's mistake."""

    def __init__(
        self, given: str, *, expected: str = "", remedy: str = "", input: str = "", where: str = ""
    ) -> None:
        """`given` says what was given ("is 0"), as a clause that follows the name of `input`."""
        super().__init__()
        self.given, self.expected, self.remedy = given, expected, remedy
        self.input, self.where = input, where

    def sentence(self, naming: Callable[[str], str] = str) -> str:
        """The error in one sentence, with each argument called what `naming` says."""
        text = " ".join(
            part for part in (mention(self.input) * bool(self.input), self.given) if part
        )
        if self.expected:
            text += f": expected {self.expected}"
        if self.remedy:
            text += f"; {self.remedy}"
        text = text if text.endswith((".", "?", "!")) else f"{text}."
        place = f"{self.where}: " if self.where else ""
        return place + _MENTION.sub(lambda name: naming(name[1]), text)

    def placed(self, where: str) -> Self:
        """The same error, with a place before those that it has."""
        other = copy.copy(self)
        other.where = f"{where}: {self.where}" if self.where else where
        return other

    def renamed(self, names: Mapping[str, str]) -> Self:
        """The same error, about an argument that goes by another name here."""
        other = copy.copy(self)
        other.input = names.get(self.input, self.input)
        return other

    def __str__(self) -> str:
        return self.sentence()

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (type(self), self.__dict__)

    def __copy__(self) -> Self:
        return _rebuilt(type(self), self.__dict__)


def _rebuilt(kind: type[E], fields: dict[str, Any]) -> E:
    error = kind.__new__(kind)
    error.__dict__.update(fields)
    return error


class UnknownNameError(InputError):
    """A name that is not among the known ones."""

    def __init__(self, kind: str, given: str, known: Iterable[str], where: str = "") -> None:
        names = sorted(known)
        near = difflib.get_close_matches(given, names, n=3, cutoff=0.4)
        hint = f"did you mean {' or '.join(map(repr, near))}?" if near else "none is near it."
        text = f"unknown {kind} {given!r}: {hint} Known: {', '.join(names)}."
        super().__init__(text, where=where)


class FileError(InputError):
    """A file that is missing, unreadable or not what it should be."""


class ModelFault(TollboxError):
    """The model raised, or its answer is not one integer label per image."""


class ModelWarning(UserWarning):
    """The model is not fit to be measured; the message says why."""
