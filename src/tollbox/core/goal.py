"""How a label is shown: by its number, and by the name of its class where that is known.

The goal: which labels are flagged, and which are adversarial.

1. `flagged` are the labels on the source side: each has the flagged price c*, and is counted in
   `ledger.flagged`. By default it is the image's own class.
2. Adversarial is any label that is not flagged; with a `target`, that class alone. A third class is
   then neither.
3. An image whose clean answer is not flagged is misclassified from the start, whatever its label.

    tb.Goal()                              any class but the image's own
    tb.Goal.reach(7)                       class 7
    tb.Goal.leave(range(151, 269))         no dog
    tb.Goal.reach(7, flagged={3, 5})       class 7, while 3 and 5 are flagged

`for_label` fills in the image's own class; only then does a goal tell labels apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from .validation import is_whole, shown


def class_name(label: int, names: Sequence[str]) -> str:
    """What a class is called; empty if that is not known."""
    return names[label] if 0 <= label < len(names) else ""


def numbered(label: int, names: Sequence[str], before: str = "") -> str:
    """The number of a class, with its name behind it if that is known: `5 (sandal)`."""
    name = class_name(label, names)
    return f"{before}{label} ({name})" if name else f"{before}{label}"


def class_words(label: int, names: Sequence[str]) -> str:
    """A class as a reader wants it: by its name, else by its number."""
    return class_name(label, names) or f"class {label}"


MOST_SHOWN = 4
"""Labels of a set that are written out."""


@dataclass(frozen=True)
class Goal:
    """What an attack is after: to leave the flagged labels, or to reach a target."""

    flagged: frozenset[int] | None = None
    """Labels on the source side; None: the image's own class."""
    target: int | None = None
    """The class to reach; None: any that is not flagged."""

    def __post_init__(self) -> None:
        if self.flagged is not None:
            object.__setattr__(self, "flagged", _checked(self.flagged))
        if self.target is not None and (not is_whole(self.target) or self.target < 0):
            raise InputError(
                f"is {shown(self.target)}", expected="a class, 0 or more", input="target"
            )
        if self.flagged is not None and self.target in self.flagged:
            raise InputError(
                f"is {self.target}, which is flagged",
                expected="a class that is not flagged",
                input="target",
            )

    @classmethod
    def leave(cls, labels: Iterable[int]) -> Goal:
        """Any label outside a set, all of which is flagged."""
        return cls(_checked(labels))

    @classmethod
    def reach(cls, target: int, flagged: Iterable[int] | None = None) -> Goal:
        """One class; flagged are those of a set, or the image's own class."""
        return cls(None if flagged is None else _checked(flagged), target)

    def for_label(self, label: int) -> Goal:
        """The goal for an image of that class."""
        return self if self.flagged is not None else replace(self, flagged=frozenset({label}))

    @cached_property
    def _labels(self) -> tuple[int, ...]:
        """The flagged labels, rising."""
        if self.flagged is None:
            raise RuntimeError("this goal is for no image yet: use for_label")
        return tuple(sorted(self.flagged))

    @cached_property
    def _label_array(self) -> NDArray[np.int64]:
        return np.array(self._labels, np.int64)

    @property
    def representative(self) -> int:
        """One of the flagged labels: that of the image, if there is no set."""
        return self._labels[0]

    def flags(self, label: int) -> bool:
        """Whether one label is flagged."""
        return self.flagged is not None and label in self.flagged

    def is_flagged(self, labels: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which labels are on the source side."""
        if len(self._labels) == 1:  # the usual case, made cheap
            return np.equal(labels, self._labels[0])
        return np.isin(labels, self._label_array)

    def is_adversarial(self, labels: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which labels are what the goal asks for."""
        if self.target is None:
            return ~self.is_flagged(labels)
        return np.equal(labels, self.target)

    def check(self, classes: int | None) -> None:
        """Raise InputError unless a model of so many classes has those of the goal, and one that is
        adversarial."""
        if classes is None:
            return
        if self.target is not None and self.target >= classes:
            raise InputError(f"is {self.target}", expected=f"0 to {classes - 1}", input="target")
        for label in sorted(self.flagged or ()):
            if label >= classes:
                raise InputError(
                    f"has class {label}, and the model has {classes} classes",
                    expected=f"0 to {classes - 1}",
                    input="flagged",
                )
        if self.flagged is not None and len(self.flagged) == classes:
            raise InputError(
                f"has all {classes} classes of the model",
                expected="at least one class outside, which an attack may reach",
                input="flagged",
            )

    def flagged_text(self, shown: Callable[[int], str] = str) -> str:
        """The set in a few words, as "classes 3, 5"; empty if there is none. `shown` gives a class
        as a reader wants it."""
        if self.flagged is None:
            return ""
        labels = self._labels
        if len(labels) <= MOST_SHOWN:
            return f"class{'es' * (len(labels) > 1)} {', '.join(map(shown, labels))}"
        return f"{len(labels)} classes from {shown(labels[0])} to {shown(labels[-1])}"


def aim(label: int, target: int | None, goal: Goal | None) -> Goal:
    """The goal for an image of class `label`; `target` is short for a goal that reaches it."""
    goal = goal or Goal()
    return (goal if target is None else replace(goal, target=target)).for_label(label)


def _checked(labels: Any) -> frozenset[int]:
    """A set of classes."""
    if hasattr(labels, "tolist"):
        labels = labels.tolist()
    if isinstance(labels, str) or not isinstance(labels, Iterable):
        raise InputError(
            f"is {shown(labels)}", expected="a set of classes, as {151, 152}", input="flagged"
        )
    listed = list(labels)
    for label in listed:
        if not is_whole(label) or label < 0:
            raise InputError(
                f"has {shown(label)}",
                expected="classes as whole numbers, 0 or more",
                input="flagged",
            )
    if not listed:
        raise InputError("is empty", expected="at least one class", input="flagged")
    return frozenset(map(int, listed))
