"""Class names, sets of flagged classes, and the labels that class names stand for.

1. A file of class names has one name per line, in the order of the labels. After a tab, a line may
   have a prompt for models that compare images with texts (CLIP). The default is `PROMPT`.
2. A file of flagged classes has one class, or one inclusive range such as 151-268, per line. Text
   after # is a comment.
3. A set of images may have its own class names: its folders, or the names of a data set. If the
   model's class names are known, each class gets the label of the model's class of that name.
   Otherwise labels follow the set's own order. The same holds if the model's names come from its
   configuration, both have the same number of classes and no name matches (n01440764, ...).
4. Case is ignored in names, and `_` is a space. "tench, Tinca tinca" matches both parts. A name
   that several classes share, as in ImageNet, identifies none of them.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from ..core.validation import MOST_CLASSES, require
from ..errors import FileError, InputError, mention
from .tables import read_lines, shortened

MAX_NAME_LENGTH = 200
PROMPT = "a photo of a {}"
EXPECTED = "a text file with a class on each line, in the order of the labels"
FLAGGED = "a text file with one class, or a range such as 151-268, on each line"
RANGE = re.compile(r"(\d{1,9})(?:\s*-\s*(\d{1,9}))?")


@dataclass(frozen=True)
class ClassNames:
    """The name of each class, and its prompt for models that compare images with texts."""

    names: tuple[str, ...]
    prompts: tuple[str, ...]

    @classmethod
    def of(cls, lines: Sequence[str]) -> ClassNames:
        pairs = [line.strip().partition("\t") for line in lines]
        names = tuple(name.strip() for name, _, _ in pairs)
        prompts = [prompt.strip() for _, _, prompt in pairs]
        default = [PROMPT.format(name) for name in names]
        return cls(names, tuple(p or d for p, d in zip(prompts, default, strict=True)))


def class_names(given: str | PathLike[str] | Sequence[str]) -> ClassNames:
    if not isinstance(given, str | PathLike):
        named = isinstance(given, Sequence) and bool(given)
        named = named and all(isinstance(name, str) and name.strip() for name in given)
        require(named, "names", given, f"{EXPECTED}, or a list")
        return ClassNames.of(given)
    file = Path(given)
    lines = read_lines(file, EXPECTED, input="names")
    while lines and not lines[-1].strip():
        lines.pop()
    if not lines:
        raise FileError(f"{file} is empty", expected=EXPECTED, input="names")
    for number, line in enumerate(lines, 1):
        name = line.partition("\t")[0].strip()
        if not name or len(name) > MAX_NAME_LENGTH or not name.isprintable():
            given = f"has {repr(shortened(name)) if name else 'no name'} for class {number - 1}"
            expected = f"a name of at most {MAX_NAME_LENGTH} characters on each line"
            where = f"{file}, line {number}"
            raise FileError(given, expected=expected, input="names", where=where)
    return ClassNames.of(lines)


def flagged_classes(file: Path) -> frozenset[int]:
    classes: set[int] = set()
    for number, line in enumerate(read_lines(file, FLAGGED, input="flagged"), 1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        found = RANGE.fullmatch(text)
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
        if not first <= last < first + MOST_CLASSES:
            given, where = f"the class is {shortened(text)!r}", f"{file}, line {number}"
            expected = "a whole number, 0 or more, or a range such as 151-268"
            raise FileError(given, expected=expected, where=where)
        classes.update(range(first, last + 1))
    if not classes:
        raise FileError(f"is {file}, which has no classes", expected=FLAGGED, input="flagged")
    return frozenset(classes)


def labels_of(classes: Sequence[str], names: Sequence[str], from_model: bool = False) -> list[int]:
    """Return each class's label (rule 3). `from_model`: whether `names` are the model's own."""
    if in_order(classes, names, from_model):
        return list(range(len(classes)))
    found = zip(classes, _matches(classes, names), strict=True)
    return [_label(name, labels, names) for name, labels in found]


def in_order(classes: Sequence[str], names: Sequence[str], from_model: bool) -> bool:
    """Return whether the labels of a set are the positions of its classes (rule 3)."""
    if not names:
        return True
    return from_model and len(classes) == len(names) and not any(_matches(classes, names))


def relabelled(
    labels: tuple[int, ...], classes: Sequence[str], names: Sequence[str], from_model: bool = False
) -> tuple[int, ...]:
    """Convert a set's labels to the model's (rule 3); keep those of a set without class names."""
    if not classes or in_order(classes, names, from_model):
        return labels
    used = sorted(set(labels))
    for label in used:
        if not 0 <= label < len(classes):
            given = f"a label is {label}, but the data set has {len(classes)} class names"
            raise InputError(given, expected=f"0 to {len(classes) - 1}")
    found = dict(zip(used, labels_of([classes[label] for label in used], names), strict=True))
    return tuple(found[label] for label in labels)


def check_names(names: Sequence[str], classes: int | None) -> None:
    """Raise InputError if the number of names is not the model's number of classes."""
    if names and classes is not None and len(names) != classes:
        known = f"{len(names)} class names ({shortened(names[0])}, ...)"
        given = f"the model has {classes} classes, but there are {known}"
        remedy = f"give all names in the model's order with {mention('names')}"
        raise InputError(given, expected="one for each", remedy=remedy)


def _matches(classes: Sequence[str], names: Sequence[str]) -> list[set[int]]:
    """Return, for each class, the labels that its name may stand for."""
    parts: dict[str, set[int]] = {}
    whole: dict[str, set[int]] = {}
    for label, name in enumerate(names):
        whole.setdefault(_plain(name), set()).add(label)
        for part in name.split(","):
            parts.setdefault(_plain(part), set()).add(label)
    return [whole.get(name) or parts.get(name) or set() for name in map(_plain, classes)]


def _label(name: str, found: set[int], names: Sequence[str]) -> int:
    subject = f"the class {shortened(name)!r}"
    if len(found) > 1:
        first, second = sorted(found)[:2]
        given = f"{subject} matches both {first} and {second} in the class names"
        remedy = f"rename it in {mention('names')}, or give labels as numbers"
        raise InputError(given, expected="a name that only one class has", remedy=remedy)
    if found:
        return min(found)
    close = difflib.get_close_matches(_plain(name), map(_plain, names), n=1)
    hint = f" (the closest is {close[0]!r})" if close else ""
    given = f"{subject} is none of the {len(names)} class names{hint}"
    remedy = f"rename it, leave it out, or give other names with {mention('names')}"
    raise InputError(given, expected="the name of a class for each", remedy=remedy)


def _plain(name: str) -> str:
    return " ".join(name.replace("_", " ").casefold().split())
