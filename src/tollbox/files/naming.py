"""Names of classes: which label a name means.

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
from collections.abc import Sequence

from ..errors import InputError, mention
from .tables import shortened


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
