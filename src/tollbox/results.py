"""Results: what one run reached, at any cost up to its budget, and medians over images.

1. `distance_at(B)` is what a run with budget B would have reached. A row counts if it would have
   been asked under B: what was spent before it, and the dearest answer, fit into B.
2. No adversarial point: distance infinity, and medians count it so.
3. An image that the model misclassifies anyway is left out of medians, and counted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, overload

import numpy as np
from torch import Tensor

from .errors import InputError, Stop
from .ledger import Ledger

By = Literal["cost", "source", "queries"]


@dataclass(frozen=True)
class Step:
    """One accepted step."""

    iteration: int
    cost: float
    source: int
    other: int
    distance: float
    """l2 of the iterate, as it was sent."""
    by_phase: dict[str, float]
    notes: dict[str, Any]


class Improvement(NamedTuple):
    """A row that was nearer than any adversarial row before it, and the account before it."""

    cost: float
    source: int
    queries: int
    distance: float


@dataclass(frozen=True, eq=False)
class Result:
    """How the run on one image went."""

    index: int
    """Position of the image, or cell, in the input."""
    name: str
    stop: Stop
    reason: str
    """More about the stop where there is more to say: the error of a model or an attack."""
    ledger: Ledger
    adversarial: Tensor | None
    """The nearest adversarial point that was asked, as it was sent; on the CPU."""
    improvements: tuple[Improvement, ...]
    trace: tuple[Step, ...]
    budget: float
    max_queries: float
    seed: int
    warnings: tuple[str, ...] = ()
    """What a reader of the numbers must know, e.g. that running out of memory changed the shape."""

    @property
    def distance(self) -> float:
        """The least l2 distance of an adversarial point that was asked; infinity without one."""
        return self.improvements[-1].distance if self.improvements else math.inf

    def distance_at(self, value: float, by: By = "cost") -> float:
        """What a run that ends at `value` (a cost, flagged queries or queries) would have reached.

        Beyond the end of a run that could have gone on nothing is known: for a cost above the
        budget, or queries above the cap, this is an error.
        """
        if by == "cost":
            limit, ended = self.budget, Stop.BUDGET
            needs = [step.cost + self.ledger.prices.dearest for step in self.improvements]
        elif by == "queries":
            limit, ended = self.max_queries, Stop.MAX_QUERIES
            needs = [float(step.queries + 1) for step in self.improvements]
        elif by == "source":
            limit, ended = math.inf, None
            needs = [float(step.source + 1) for step in self.improvements]
        else:
            raise InputError(f"by is {by!r}: expected 'cost', 'source' or 'queries'.")
        if self.stop is ended and value > limit:
            raise InputError(
                f"{by} {value:g} is above the limit {limit:g} of this run: run it with a larger "
                "one to know what it would have reached."
            )
        reached = math.inf
        for need, step in zip(needs, self.improvements, strict=True):
            if need > value:
                break
            reached = step.distance
        return reached


@dataclass(frozen=True, eq=False)
class Results(Sequence[Result]):
    """Results in input order, and what they say together."""

    results: tuple[Result, ...]
    findings: tuple[str, ...] = field(default=())
    """What `check=True` found about the model; empty if all was well or nothing was checked."""

    def __init__(self, results: Iterable[Result], findings: Iterable[str] = ()) -> None:
        object.__setattr__(self, "results", tuple(results))
        object.__setattr__(self, "findings", tuple(findings))

    @overload
    def __getitem__(self, index: int) -> Result: ...
    @overload
    def __getitem__(self, index: slice) -> Results: ...
    def __getitem__(self, index: int | slice) -> Result | Results:
        if isinstance(index, slice):
            return Results(self.results[index], self.findings)
        return self.results[index]

    def __len__(self) -> int:
        return len(self.results)

    def __iter__(self) -> Iterator[Result]:
        return iter(self.results)

    @property
    def counted(self) -> Results:
        """Those that medians count: all but the images that are misclassified anyway."""
        return Results(
            (r for r in self.results if r.stop is not Stop.ALREADY_MISCLASSIFIED), self.findings
        )

    @property
    def misclassified(self) -> int:
        """How many images the model misclassifies anyway."""
        return len(self) - len(self.counted)

    @property
    def failed(self) -> int:
        """How many runs ended in an error of the model or the attack; see their `reason`."""
        return sum(r.stop in (Stop.MODEL_ERROR, Stop.ATTACK_ERROR) for r in self.results)

    def median_at(self, value: float, by: By = "cost") -> float:
        """Median distance at `value`; NaN if no image counts."""
        distances = [r.distance_at(value, by) for r in self.counted]
        return float(np.median(distances)) if distances else math.nan

    def success_at(self, value: float, by: By = "cost", within: float = math.inf) -> float:
        """Share of images with an adversarial point nearer than `within` at `value`."""
        distances = [r.distance_at(value, by) for r in self.counted]
        return float(np.mean([d < within for d in distances])) if distances else math.nan
