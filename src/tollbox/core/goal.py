"""The goal: which labels are flagged, and which are adversarial.

1. Flagged labels have the price c*. By default that is the image's class.
2. Every label that is not flagged is adversarial. With a `target`, only that class is adversarial,
   and a third class is neither.
3. An image whose clean answer is not flagged is already misclassified, whatever its label.

    tb.Goal()                              any class except the image's class
    tb.Goal.reach(7)                       class 7
    tb.Goal.leave(range(151, 269))         any class that is not a dog
    tb.Goal.reach(7, flagged={3, 5})       class 7, while 3 and 5 are flagged

`for_label` fills in the image's class; a goal cannot classify labels before that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import mention
from .validation import (
    CLASS,
    MOST_CLASSES,
    check,
    expect,
    is_several,
    or_none,
    plain,
    require,
    shown,
)

MOST_SHOWN = 4
"""Maximum number of labels in a set that is written out."""


@dataclass(frozen=True)
class Goal:
    """What an attack has to achieve: leave the flagged labels, or reach a target."""

    flagged: frozenset[int] | None = None
    """The flagged labels; None for the image's class."""
    target: int | None = None
    """The class to reach; None for any class that is not flagged."""

    def __post_init__(self) -> None:
        if self.flagged is not None:
            object.__setattr__(self, "flagged", _checked(self.flagged))
        check(self, target=or_none(CLASS))
        given = f"is {shown(self.target)}, which is flagged"
        outside = self.target not in (self.flagged or ())
        expect(outside, given, "a class that is not flagged", input="target")

    @classmethod
    def leave(cls, labels: Iterable[int]) -> Goal:
        """Return the goal to reach any label outside a set of flagged labels."""
        return cls(_checked(labels))

    @classmethod
    def reach(cls, target: int, flagged: Iterable[int] | None = None) -> Goal:
        """Return the goal to reach one class; `flagged` defaults to the image's class."""
        return cls(None if flagged is None else _checked(flagged), target)

    def for_label(self, label: int) -> Goal:
        return self if self.flagged is not None else replace(self, flagged=frozenset({label}))

    @cached_property
    def _labels(self) -> NDArray[np.int64]:
        if self.flagged is None:
            raise RuntimeError("this goal has no image yet: use for_label")
        return np.array(sorted(self.flagged), np.int64)

    def flags(self, label: int) -> bool:
        return self.flagged is not None and label in self.flagged

    def is_flagged(self, labels: NDArray[np.int64]) -> NDArray[np.bool_]:
        if len(self._labels) == 1:  # fast path for the usual case
            return np.equal(labels, self._labels)
        return np.isin(labels, self._labels)

    def is_adversarial(self, labels: NDArray[np.int64]) -> NDArray[np.bool_]:
        if self.target is None:
            return ~self.is_flagged(labels)
        return np.equal(labels, self.target)

    def check(self, classes: int | None) -> None:
        """Raise InputError unless a model with `classes` classes has the goal's classes, and at
        least one of its classes is adversarial."""
        if classes is None:
            return
        expected = f"0 to {classes - 1}"
        require(self.target is None or self.target < classes, "target", self.target, expected)
        flagged = self.flagged or frozenset()
        given = f"has class {max(flagged, default=0)}, but the model has {classes} classes"
        expect(max(flagged, default=0) < classes, given, expected, input="flagged")
        given = f"has all {classes} classes of the model"
        expected = "at least one class outside the set, which an attack may reach"
        expect(len(flagged) < classes, given, expected, input="flagged")

    def flagged_text(self, shown: Callable[[int], str] = str) -> str:
        """Return the flagged set in a few words, e.g. "classes 3, 5"; `shown` formats a class."""
        if self.flagged is None:
            return ""
        labels = sorted(self.flagged)
        if len(labels) <= MOST_SHOWN:
            return f"class{'es' * (len(labels) > 1)} {', '.join(map(shown, labels))}"
        return f"{len(labels)} classes from {shown(labels[0])} to {shown(labels[-1])}"


def aim(label: int, target: int | None, goal: Goal | None) -> Goal:
    """Return the goal for an image of class `label`; a `target` replaces that of the goal."""
    goal = goal or Goal()
    return (goal if target is None else replace(goal, target=target)).for_label(label)


def check_start(
    target: int | None, start: object | None, names: tuple[str, str] = ("target", "start")
) -> None:
    """Raise InputError if there is a target class and no image of it to start from."""
    given = f"is {target}, but {mention(names[1])} is not given"
    expected = "an image of that class to start from"
    expect(target is None or start is not None, given, expected, input=names[0])


def _checked(labels: Any) -> frozenset[int]:
    """Return labels as a set; raise InputError unless all are classes."""
    require(is_several(labels), "flagged", labels, "a set of classes, as {151, 152}")
    listed = [plain(label) for label in islice(labels, MOST_CLASSES + 1)]
    expect(bool(listed), "is empty", "at least one class", input="flagged")
    given, expected = "has too many classes", f"at most {MOST_CLASSES:,}"
    expect(len(listed) <= MOST_CLASSES, given, expected, input="flagged")
    expected = "classes as whole numbers, 0 or more"
    for label in listed:
        expect(CLASS.holds(label), f"has {shown(label)}", expected, input="flagged")
    return frozenset(map(int, listed))


def class_name(label: int, names: Sequence[str]) -> str:
    """Return the name of a class, or "" if it is not known."""
    return names[label] if 0 <= label < len(names) else ""


def numbered(label: int, names: Sequence[str], before: str = "") -> str:
    """Return the number of a class, followed by its name if it is known: `5 (sandal)`."""
    name = class_name(label, names)
    return f"{before}{label} ({name})" if name else f"{before}{label}"


def class_words(label: int, names: Sequence[str]) -> str:
    """Return the name of a class, or "class 5" if it is not known."""
    return class_name(label, names) or f"class {label}"
