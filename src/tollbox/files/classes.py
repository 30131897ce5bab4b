"""A set of classes, from a text file: one class, or a range with both its ends, in each line.

    151-268     # all dogs
    273         # and dingos

What follows a # is left out, and so is an empty line. A class may stand there twice.
"""

from __future__ import annotations

import re
from pathlib import Path

from ..errors import FileError
from .tables import kind_of, shortened

LINE = re.compile(r"(\d{1,9})(?:\s*-\s*(\d{1,9}))?")
MOST_CLASSES = 1_000_000
"""In one range: a mistyped one must not fill the memory."""


def flagged_classes(file: Path) -> frozenset[int]:
    """The classes of a file."""
    kind = kind_of(file, str(file), input="flagged")
    expected = "a text file with one class, or a range as 151-268, in each line"
    if kind != "file":
        what = "does not exist" if kind == "nothing" else "is not a file"
        raise FileError(f"is {file}, which {what}", expected=expected, input="flagged")
    try:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError):
        raise FileError(
            f"is {file}, which cannot be read as text", expected=expected, input="flagged"
        ) from None
    classes: set[int] = set()
    for number, line in enumerate(lines, 1):
        text = line.partition("#")[0].strip()
        if text:
            classes.update(_range(text, f"{file}, line {number}"))
    if not classes:
        raise FileError(f"is {file}, which has no classes", expected=expected, input="flagged")
    return frozenset(classes)


def _range(text: str, where: str) -> range:
    found = LINE.fullmatch(text)
    first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
    if not first <= last < first + MOST_CLASSES:
        raise FileError(
            f"the class is {shortened(text)!r}",
            expected="a whole number, 0 or more, or a range as 151-268",
            where=where,
        )
    return range(first, last + 1)
