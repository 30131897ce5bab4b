"""What a row's answer was found to depend on, besides the row itself.

1. Found on some probes, by the model check: what it has seen is so, what it has not seen may be.
2. Logits are compared bit for bit where they are known. Labels alone rarely change, so what was
   seen by labels only says little.
3. It is kept with results and in stores, so it is plain data, and needs no torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any


class Seen(StrEnum):
    """How the check looked, or why it did not."""

    LOGITS = "logits"
    LABELS = "labels"
    NOT_CHECKED = "not checked"
    METERED = "metered"
    FAILED = "failed"
    NOT_KNOWN = "not known"


REASONS = {
    Seen.NOT_CHECKED: "Not checked",
    Seen.METERED: "Not probed, since each row of a metered model is a query",
    Seen.FAILED: "Not known, since the model failed when it was checked",
    Seen.NOT_KNOWN: "Not known",
}
MATTERS = {
    "chance": "chance",
    "place": "its place in the batch",
    "neighbours": "its neighbours in the batch",
    "shape": "the batch shape",
}
"""What a row may depend on, by field, and how it is called."""


@dataclass(frozen=True)
class Exactness:
    """What was found of a model, in one precision and layout, in batches of some shapes."""

    seen: Seen = Seen.NOT_CHECKED
    chance: bool = False
    """The same batch was answered differently the second time."""
    place: bool = False
    neighbours: bool = False
    shape: bool = False
    shapes: tuple[int, ...] = ()
    """Rows of the batches, rising."""
    layout: str = ""
    precision: str = ""
    digest: str = ""
    """Of what the model gave for the probes: the same bits on the same machine."""
    ended: str = ""
    """What put an end to it during the run, in words."""

    @property
    def known(self) -> bool:
        """Whether anything was compared."""
        return self.seen in (Seen.LOGITS, Seen.LABELS)

    @property
    def exact(self) -> bool:
        """Whether a row was found to depend on nothing else, in all batches of the run."""
        return self.known and not self.matters and not self.ended

    @property
    def matters(self) -> list[str]:
        """What a row depends on, in words."""
        return [words for name, words in MATTERS.items() if getattr(self, name)]

    @property
    def sentence(self) -> str:
        """In plain words, for a reader of results."""
        if not self.known:
            return f"{REASONS[self.seen]}: repeated runs may or may not agree bit for bit."
        by = ", seen by labels only" if self.seen is Seen.LABELS else ""
        layout = f", {self.layout}" if self.layout else ""
        where = f"in batches of {_range(self.shapes)} ({self.precision}{layout})"
        if not self.matters:
            found = f"a row's {self.seen} depend on nothing but the row, {where}"
            if self.ended:
                return f"Exact{by} at first only: {found}. What ended it: {self.ended}."
            return f"Exact{by}: {found}."
        return (
            f"Repeated runs may differ in the last digits or more: a row's {self.seen} depend on "
            f"{listed(self.matters)}, {where}."
        )

    def after(self, warnings: Iterable[str]) -> Exactness:
        """The same after a run whose results carry these warnings. Any of them ends it: batches had
        to become smaller, or a point was answered differently when it was asked again."""
        texts = sorted(set(warnings))
        return replace(self, ended="; ".join(texts)) if self.known and texts else self

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Exactness:
        """What was written as plain data; keys of a later version are passed over."""
        known = {key: value for key, value in values.items() if key in cls.__dataclass_fields__}
        return cls(**{**known, "seen": Seen(values["seen"]), "shapes": tuple(values["shapes"])})


NOT_CHECKED = Exactness()


def listed(words: list[str]) -> str:
    """a, b and c."""
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def _range(shapes: tuple[int, ...]) -> str:
    return f"{shapes[0]}" if len(shapes) == 1 else f"{shapes[0]} to {shapes[-1]}"
