"""Results: what one run reached, at any cost up to its budget, and medians over images.

1. `distance_at(B)` is what a run with budget B would have reached. A row counts if it would have
   been asked under B: what was spent before it, and the dearest answer, fit into B.
2. No adversarial point: distance infinity, and medians count it so.
3. An image that the model misclassifies anyway is left out of medians, and counted
   (`misclassified`). So is a run that was cut short, by an error, the clock or an interruption,
   before the cost in question (`unknown_at`): it says nothing about the image.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from .detector import BenignStats, FirstAlarm
from .exactness import NOT_CHECKED, Exactness
from .ledger import Ledger
from .limits import Limits
from .metric import Metric
from .stop import Stop
from .validation import is_number, shown

if TYPE_CHECKING:
    from torch import Tensor

    from .cell import Cell
    from .prices import Prices

By = Literal["cost", "source", "queries"]

Values = NDArray[np.float64]
AXES: tuple[By, ...] = ("cost", "source", "queries")


def needed(
    improvements: Sequence[Improvement], prices: Prices, by: By = "cost", alarm_price: float = 0.0
) -> Values:
    """From which cost (flagged queries, queries) on each improvement counts (rule 1).

    The values rise, whatever the prices: an answer that was the dearest next one is in the cost.
    """
    if by == "cost":
        # The answer itself is adversarial, and so never flagged: before it as many were as after.
        counts = [[row.queries - row.source, row.source] for row in improvements]
        dearest = prices.dearest_next(np.array(counts, np.int64).reshape(-1, 2))
        before = np.array([row.cost_before for row in improvements], float)
        return np.asarray(before + (dearest + alarm_price))
    if by == "source":  # the answer itself is adversarial, and so never flagged
        return np.array([row.source for row in improvements], float) + 1.0
    return np.maximum([row.queries for row in improvements], 1.0)  # a free clean image counts too


def reached_at(needs: Values, distances: Values, values: Values | float) -> Values:
    """The distance reached at each of `values`, when `distances` count from `needs` on (`needed`).

    Infinity before the first. Where it is known is another question (`known_up_to`).
    """
    reached = np.append(math.inf, distances)
    return np.asarray(reached[np.searchsorted(needs, values, side="right")])


def check_axis(by: By) -> None:
    """Raise InputError unless it is one of `AXES`."""
    if not isinstance(by, str) or by not in AXES:
        raise InputError(f"is {shown(by)}", expected="'cost', 'source' or 'queries'", input="by")


def _check_value(value: float, by: By) -> None:
    """Raise InputError unless it is a cost, or a number of queries, 0 or more."""
    check_axis(by)
    if not (is_number(value) and value >= 0):
        raise InputError(f"is {shown(value)}", expected="a number, 0 or more", input="value")


def known_up_to(stop: Stop, by: By = "cost", *, spent: float, limits: Limits) -> float:
    """The largest cost (flagged queries, queries) at which it is known what a run reached.

    A run that was ended by its budget, a cap, an error, the clock or an interruption would have
    gone on: beyond what ended it nothing is known. `spent` is what it spent in terms of `by`.
    """
    check_axis(by)
    if stop.cut_short:
        return spent
    ended_by: dict[tuple[By, Stop], float] = {
        ("cost", Stop.BUDGET): limits.budget,
        ("queries", Stop.MAX_QUERIES): limits.max_queries,
        ("source", Stop.MAX_FLAGGED): limits.max_flagged,
    }
    return ended_by.get((by, stop), math.inf)


@dataclass(frozen=True)
class Step:
    """One accepted step."""

    iteration: int
    cost: float
    source: int
    other: int
    distance: float
    """Of the iterate, as it was sent, in the metric of the run."""
    by_phase: dict[str, float]
    notes: dict[str, Any]


class Improvement(NamedTuple):
    """A row that was nearer than any adversarial row before it, and the account that includes it:
    all that had been spent once it was found."""

    cost: float
    source: int
    queries: int
    distance: float
    cost_before: float
    """What had been spent before it was asked."""
    alarms: int = 0
    """All that had been raised, its own included."""


@dataclass(frozen=True, eq=False, repr=False)
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
    norm: Metric = Metric.L2
    """What its distances are measured in."""
    max_flagged: float = math.inf
    max_alarms: float = math.inf
    watched: bool = False
    """Whether a detector was shown its queries."""
    first_alarm: FirstAlarm | None = None
    """When its first alarm came, if one did."""

    @property
    def limits(self) -> Limits:
        """What it could cost and take."""
        return Limits(self.budget, float(self.max_queries), float(self.max_flagged))

    @classmethod
    def nothing(cls, index: int, cell: Cell, stop: Stop) -> Result:
        """The result of a cell of which nothing is known."""
        goal = cell.aim
        prices = cell.prices.for_source(cell.label, goal)
        terms = None if cell.detection is None else cell.detection.terms
        ledger = Ledger(prices, goal, detection=terms)
        limits = cell.budget, cell.max_queries, cell.seed
        return cls(
            index,
            cell.name,
            stop,
            "",
            ledger,
            None,
            (),
            (),
            *limits,
            norm=Metric(cell.norm),
            max_flagged=cell.max_flagged,
            max_alarms=cell.max_alarms,
            watched=cell.watch is not None,
        )

    def __repr__(self) -> str:
        name = f"{self.index} {self.name!r}" if self.name else f"{self.index}"
        return f"<Result {name}: {self.stop}, {self.norm} {self.distance:.4g}, {self.ledger}>"

    @property
    def distance(self) -> float:
        """The least distance of an adversarial point that was asked; infinity without one."""
        return self.improvements[-1].distance if self.improvements else math.inf

    def known_up_to(self, by: By = "cost") -> float:
        """The largest cost (flagged queries, queries) at which it is known what was reached."""
        check_axis(by)
        ledger = self.ledger
        spent = {"cost": ledger.cost, "source": ledger.flagged, "queries": ledger.queries}
        return known_up_to(self.stop, by, spent=spent[by], limits=self.limits)

    def distance_at(self, value: float, by: By = "cost") -> float:
        """What a run that ends at `value` (a cost, flagged queries or queries) would have reached.

        A value above `known_up_to` is an error.
        """
        _check_value(value, by)
        if value > self.known_up_to(by):
            raise InputError(
                f"{by} {value:g} is above {self.known_up_to(by):g}, where this run ended "
                f"({self.stop})",
                remedy="run it with a larger limit to know what it would have reached",
            )
        needs = needed(self.improvements, self.ledger.prices, by, self.ledger.alarm_price)
        distances = np.array([row.distance for row in self.improvements])
        return float(reached_at(needs, distances, value))


@dataclass(frozen=True, eq=False, repr=False)
class Results(Sequence[Result]):
    """Results in input order, and what they say together."""

    results: tuple[Result, ...]
    findings: tuple[str, ...] = field(default=())
    """What `check=True` found about the model; empty if all was well or nothing was checked."""
    exactness: Exactness = NOT_CHECKED
    """Whether repeated runs agree bit for bit, as far as it was checked; see its `sentence`."""
    benign: BenignStats | None = None
    """What the detector says of harmless queries, if there is one detector for all; see its
    `sentence`."""

    def __init__(
        self,
        results: Iterable[Result],
        findings: Iterable[str] = (),
        exactness: Exactness = NOT_CHECKED,
        benign: BenignStats | None = None,
    ) -> None:
        object.__setattr__(self, "results", tuple(results))
        object.__setattr__(self, "findings", tuple(findings))
        object.__setattr__(self, "exactness", exactness)
        object.__setattr__(self, "benign", benign)

    def __repr__(self) -> str:
        queries = sum(r.ledger.queries for r in self.results)
        counted = [r for r in self.counted if not r.stop.cut_short]
        distances, norms = [r.distance for r in counted], {r.norm for r in counted}
        median = f", median {norms.pop()} {np.median(distances):.4g}" if len(norms) == 1 else ""
        return (
            f"<Results: {len(self)} images, {self.misclassified} misclassified anyway, "
            f"{self.failed} failed{median}, {queries:,} queries{self._alarms}>"
        )

    @property
    def _alarms(self) -> str:
        """How many alarms there were, beside those of harmless sessions, if anybody watched."""
        if not any(r.watched for r in self.results):
            return ""
        alarmed = sum(r.ledger.alarms > 0 for r in self.results)
        benign = "not known" if self.benign is None else f"{self.benign.all.rate:.1%}"
        return f", {self.alarms:,} alarms at {alarmed} images (benign sessions: {benign})"

    @property
    def alarms(self) -> int:
        """All alarms of a detector."""
        return sum(r.ledger.alarms for r in self.results)

    @overload
    def __getitem__(self, index: int) -> Result: ...
    @overload
    def __getitem__(self, index: slice) -> Results: ...
    def __getitem__(self, index: int | slice) -> Result | Results:
        if isinstance(index, slice):
            return Results(self.results[index], self.findings, self.exactness, self.benign)
        return self.results[index]

    def __len__(self) -> int:
        return len(self.results)

    def __iter__(self) -> Iterator[Result]:
        return iter(self.results)

    @property
    def counted(self) -> Results:
        """All but the images that are misclassified anyway."""
        attacked = (r for r in self.results if r.stop.attacked)
        return Results(attacked, self.findings, self.exactness, self.benign)

    @property
    def misclassified(self) -> int:
        """How many images the model misclassifies anyway."""
        return len(self) - len(self.counted)

    @property
    def failed(self) -> int:
        """How many runs ended in an error of the model or the attack; see their `reason`."""
        return sum(r.stop.failed for r in self.results)

    def unknown_at(self, value: float, by: By = "cost") -> int:
        """How many runs were cut short before `value` by an error, the clock or an interruption."""
        _check_value(value, by)
        return sum(r.stop.cut_short and value > r.known_up_to(by) for r in self.counted)

    def _distances(self, value: float, by: By) -> list[float]:
        _check_value(value, by)
        if len({r.norm for r in self.counted}) > 1:
            raise InputError(
                "these results are in several metrics",
                expected="one",
                remedy="take those of each on their own, by their `norm`",
            )
        return [
            r.distance_at(value, by)
            for r in self.counted
            if not (r.stop.cut_short and value > r.known_up_to(by))
        ]

    def median_at(self, value: float, by: By = "cost") -> float:
        """Median distance at `value`; NaN if no image counts."""
        distances = self._distances(value, by)
        return float(np.median(distances)) if distances else math.nan

    def success_at(self, value: float, by: By = "cost", within: float = math.inf) -> float:
        """Share of images with an adversarial point nearer than `within` at `value`."""
        if not is_number(within):
            raise InputError(f"is {shown(within)}", expected="a number", input="within")
        distances = self._distances(value, by)
        return float(np.mean([d < within for d in distances])) if distances else math.nan
