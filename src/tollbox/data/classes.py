"""Names of classes from a text file: one class a line, in the order of the labels.

After a tab a line may have a prompt, for models that are asked with texts (CLIP); otherwise that is
`PROMPT` with the name.

A set of classes, from a text file: one class, or a range with both its ends, in each line.

    151-268     # all dogs
    273         # and dingos

What follows a # is left out, and so is an empty line. A class may stand there twice.

Names of classes: which label a name means.

1. Two classes may have one name, as in ImageNet; a class that is *given* by such a name is not
   known.
2. A set of images may have classes of its own: the folders that they lie in, or the names that a
   data set has. If the names of the model's classes are known, each goes by its name, and its label
   is the place of that name; else labels are the places in the set's own order. So they are, too,
   if there are as many classes as the model has, and none goes by a name that the model itself has
   for them: folders of ImageNet, for instance, which are called n01440764 and so on.
3. Names are compared without regard to case, and `_` is a space. A name such as "tench, Tinca
   tinca" is known by each of its words between commas.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from ..core.validation import shown
from ..errors import FileError, InputError, mention
from .tables import kind_of, shortened

MOST_CHARACTERS = 200
"""Of a name."""
PROMPT = "a photo of a {}"
EXPECTED = "a text file with a class on each line, in the order of the labels"


@dataclass(frozen=True)
class ClassNames:
    """The name of each class, and what a model of images and texts is asked with."""

    names: tuple[str, ...]
    prompts: tuple[str, ...]

    @classmethod
    def of(cls, lines: Sequence[str]) -> ClassNames:
        """From lines, each a name, or a name, a tab and a prompt."""
        pairs = [line.strip().partition("\t") for line in lines]
        names = tuple(name.strip() for name, _, _ in pairs)
        prompts = tuple(
            prompt.strip() or PROMPT.format(name)
            for name, (_, _, prompt) in zip(names, pairs, strict=True)
        )
        return cls(names, prompts)


def class_names(given: str | PathLike[str] | Sequence[str]) -> ClassNames:
    """The names in a file, or those of a list."""
    if isinstance(given, str | PathLike):
        return _read(Path(given))
    if (
        not isinstance(given, Sequence)
        or not given
        or not all(isinstance(name, str) and name.strip() for name in given)
    ):
        raise InputError(f"is {shown(given)}", expected=f"{EXPECTED}, or a list", input="names")
    return ClassNames.of(given)


def _read(file: Path) -> ClassNames:
    try:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise FileError(
            f"{file} cannot be read: {error.strerror}", expected=EXPECTED, input="names"
        ) from None
    except ValueError:  # what is not UTF-8, or NUL in the name
        raise FileError(f"{file} is not UTF-8 text", expected=EXPECTED, input="names") from None
    while lines and not lines[-1].strip():
        lines.pop()
    if not lines:
        raise FileError(f"{file} is empty", expected=EXPECTED, input="names")
    for number, line in enumerate(lines, 1):
        name = line.partition("\t")[0].strip()
        if not name or len(name) > MOST_CHARACTERS or not name.isprintable():
            raise FileError(
                f"has {shortened(name)!r} for class {number - 1}"
                if name
                else f"has no name for class {number - 1}",
                expected=f"a name of at most {MOST_CHARACTERS} characters on each line",
                input="names",
                where=f"{file}, line {number}",
            )
    return ClassNames.of(lines)


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


def labels_of(classes: Sequence[str], names: Sequence[str], own: bool = False) -> list[int]:
    """The label of each class of a set, by its name among `names`; in order if there are none.

    own: the names are the model's own, as its configuration has them.
    """
    if in_order(classes, names, own):
        return list(range(len(classes)))
    return [
        _place(name, found, names)
        for name, found in zip(classes, _found(classes, names), strict=True)
    ]


def in_order(classes: Sequence[str], names: Sequence[str], own: bool) -> bool:
    """Whether the labels of a set are the places of its classes, not of their names."""
    if not names:
        return True
    return own and len(classes) == len(names) and not any(_found(classes, names))


def _found(classes: Sequence[str], names: Sequence[str]) -> list[set[int]]:
    """For each class, the places among `names` that it may mean."""
    places: dict[str, set[int]] = {}
    whole: dict[str, set[int]] = {}
    for place, name in enumerate(names):
        whole.setdefault(_plain(name), set()).add(place)
        for word in name.split(","):
            places.setdefault(_plain(word), set()).add(place)
    plain = [_plain(name) for name in classes]
    return [whole.get(name) or places.get(name) or set() for name in plain]


def relabelled(
    labels: tuple[int, ...], classes: Sequence[str], names: Sequence[str], own: bool = False
) -> tuple[int, ...]:
    """The labels of the model for those of a set, by the names of both; as they are if either has
    none. `own` as for `labels_of`."""
    if not classes or in_order(classes, names, own):
        return labels
    for label in labels:
        if not 0 <= label < len(classes):
            raise InputError(
                f"a label is {label}, and the data set has {len(classes)} names of classes",
                expected=f"0 to {len(classes) - 1}",
            )
    used = sorted(set(labels))
    place = dict(zip(used, labels_of([classes[label] for label in used], names), strict=True))
    return tuple(place[label] for label in labels)


def _place(name: str, found: set[int], names: Sequence[str]) -> int:
    """The one place that was found for a name."""
    if len(found) == 1:
        return next(iter(found))
    if found:
        first, second = sorted(found)[:2]
        raise InputError(
            f"the class {shortened(name)!r} is both {first} and {second} by the names of the "
            "classes",
            expected="a name that one class has",
            remedy=f"rename it in {mention('names')}, or give labels as numbers",
        )
    near = difflib.get_close_matches(_plain(name), [_plain(each) for each in names], n=1)
    hint = f" (nearest is {near[0]!r})" if near else ""
    raise InputError(
        f"the class {shortened(name)!r} is none of the {len(names)} names of the classes{hint}",
        expected="the name of a class for each",
        remedy=f"rename it, or leave it out, or give other names with {mention('names')}",
    )


def check_names(names: Sequence[str], classes: int | None) -> None:
    """Raise InputError unless there is a name for each of the model's classes, as far as both are
    known."""
    if names and classes is not None and len(names) != classes:
        raise InputError(
            f"the model has {classes} classes, and there are {len(names)} names of classes "
            f"({shortened(names[0])}, ...)",
            expected="one for each",
            remedy=f"give all names in the model's order with {mention('names')}",
        )


def _plain(name: str) -> str:
    return " ".join(name.replace("_", " ").casefold().split())
