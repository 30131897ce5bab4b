"""Errors that callers receive. A failure on one image is a value instead (`core.stop`).

    TollboxError
    ├── InputError            an argument is not what was expected
    │   ├── UnknownNameError  a name is not known; suggests similar names
    │   └── FileError         a file is missing or cannot be read; names the file and the line
    └── ModelFault            the model raised, or its answers are not labels

1. An InputError stores its parts in fields and joins them into one sentence:

       [where: ]input given: expected ...; remedy.

2. `input` is the argument's Python name (`batch_size`). A command line (`--batch-size`) or a study
   file (`goal.start`) passes its own names to `sentence` and never searches the text for them. A
   field that refers to another argument writes it as `mention("max_queries")`.
"""

from __future__ import annotations

import copy
import copyreg
import difflib
import os
import re
import traceback
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Self

_MENTION = re.compile("\x00([a-z0-9_]+)\x00")


def mention(name: str) -> str:
    """Return a placeholder for an argument in an error's field; `sentence` fills in its name."""
    return f"\x00{name}\x00"


class TollboxError(Exception):
    """Base class of all errors that tollbox raises on purpose."""


class InputError(TollboxError, ValueError):
    """A mistake by the caller."""

    def __init__(
        self, given: str, *, expected: str = "", remedy: str = "", input: str = "", where: str = ""
    ) -> None:
        """`given` says what was given ("is 0"), as a clause that follows the name of `input`."""
        super().__init__()
        self.given, self.expected, self.remedy = given, expected, remedy
        self.input, self.where = input, where

    def sentence(self, naming: Callable[[str], str] = str) -> str:
        """Return the error as one sentence; `naming` gives the display name of each argument."""
        text = f"{mention(self.input)} {self.given}".rstrip() if self.input else self.given
        if self.expected:
            text += f": expected {self.expected}"
        if self.remedy:
            text += f"; {self.remedy}"
        text = text if text.endswith((".", "?", "!")) else f"{text}."
        place = f"{self.where}: " if self.where else ""
        return place + _MENTION.sub(lambda name: naming(name[1]), text)

    def placed(self, where: str) -> Self:
        """Return the same error with `where` prepended to its location."""
        other = copy.copy(self)
        other.where = f"{where}: {self.where}" if self.where else where
        return other

    def renamed(self, names: Mapping[str, str]) -> Self:
        """Return the same error about other names of its input and of those that it mentions."""
        other = copy.copy(self)
        other.input = names.get(self.input, self.input)
        for field in ("given", "expected", "remedy"):
            text = _MENTION.sub(lambda m: mention(names.get(m[1], m[1])), getattr(self, field))
            setattr(other, field, text)
        return other

    def __str__(self) -> str:
        return self.sentence()

    def __reduce__(self) -> tuple[Any, ...]:
        return copyreg.__newobj__, (type(self),), self.__dict__  # type: ignore[attr-defined]


class UnknownNameError(InputError):
    """A name that is not among the known names."""

    def __init__(self, kind: str, given: str, known: Iterable[str], where: str = "") -> None:
        names = sorted(known)
        close = difflib.get_close_matches(given, names, n=3, cutoff=0.4)
        hint = f"did you mean {' or '.join(map(repr, close))}?" if close else "no name is similar."
        super().__init__(
            f"unknown {kind} {given!r}: {hint} Known: {', '.join(names)}.", where=where
        )


class FileError(InputError):
    """A file that is missing, unreadable or not of the expected kind."""


class ModelFault(TollboxError):
    """A model that raised, or whose answer is not one integer label per image."""


class ModelWarning(UserWarning):
    """A warning that a model is not fit to be measured, and why."""


def text_of(error: BaseException | str) -> str:
    """Return the message of an error of any type; its own code makes it, and may fail."""
    try:
        return str(error)
    except (Exception, SystemExit):
        return "a message that cannot be printed"


PACKAGES = ("site-packages", "dist-packages", str(Path(__file__).parent))
"""Parts of the paths of code that is not the user's."""


def described(error: BaseException) -> str:
    """Return an error with its type and its place: the last line of the user's code, if any."""
    text = f"{type(error).__name__}: {text_of(error)}"
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not any(part in frame.filename for part in PACKAGES)]
    if isinstance(error, TollboxError) or not frames:
        return text
    place = (own or frames)[-1]
    return f"{text} ({os.path.basename(place.filename)}:{place.lineno})"
