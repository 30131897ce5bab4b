"""Results: the distance that a run reached, at any cost up to its budget, and medians over images.

1. `distance_at(B)` is what a run with budget B would have reached. A row counts if it would have
   been sent under B: what was spent before it, plus the most expensive answer, fits into B.
2. Without an adversarial point the distance is infinite, also in medians. Medians exclude images
   that the model misclassifies anyway (`misclassified`), and runs that an error, the time limit or
   an interruption stopped before the cost in question (`unknown_at`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from textwrap import shorten
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from .detector import BenignStats, Detection, FirstAlarm
from .exactness import NOT_CHECKED, Exactness
from .ledger import Ledger
from .limits import Limits
from .metric import Metric
from .resolution import UNKNOWN, Resolution
from .stop import Stop
from .validation import expect, is_number, require

if TYPE_CHECKING:
    from torch import Tensor

    from .cell import Cell
    from .prices import Prices

By = Literal["cost", "source", "queries"]
"""Quantity against which distances are reported: cost, flagged queries or queries."""
Values = NDArray[np.float64]
AXES: tuple[By, ...] = ("cost", "source", "queries")


def needed(
    improvements: Sequence[Improvement], prices: Prices, by: By = "cost", alarm_price: float = 0.0
) -> Values:
    """Return the cost (flagged queries, queries) at which each improvement starts to count (rule
    1); the values increase under any prices."""
    if by == "cost":
        # The answer itself is adversarial, so not flagged: the flagged count before it is the same.
        counts = [[row.queries - row.source, row.source] for row in improvements]
        highest = prices.highest_next(np.array(counts, np.int64).reshape(-1, 2))
        before = np.array([row.cost_before for row in improvements], float)
        return np.asarray(before + (highest + alarm_price))
    if by == "source":  # the answer itself is adversarial, and so never flagged
        return np.array([row.source for row in improvements], float) + 1.0
    return np.maximum([row.queries for row in improvements], 1.0)  # a free clean image counts as 1


def reached_at(needs: Values, distances: Values, values: Values | float) -> Values:
    """Return the distance reached at each of `values`; each of `distances` counts from its entry in
    `needs`. Before the first one, the distance is infinite."""
    reached = np.append(math.inf, distances)
    return np.asarray(reached[np.searchsorted(needs, values, side="right")])


def check_axis(by: By) -> None:
    """Raise InputError unless `by` is one of `AXES`."""
    known = isinstance(by, str) and by in AXES
    require(known, "by", by, "'cost', 'source' or 'queries'")


def _check_value(value: float, by: By) -> None:
    check_axis(by)
    require(is_number(value) and value >= 0, "value", value, "a number, 0 or more")


def known_up_to(stop: Stop, by: By = "cost", *, spent: float, limits: Limits) -> float:
    """Return the largest cost (flagged queries, queries) at which the distance is known: a run that
    a limit, an error or an interruption stopped would have continued. `spent` is in terms of
    `by`."""
    if stop.cut_short:
        return spent
    stopped_by: dict[tuple[By, Stop], float] = {
        ("cost", Stop.BUDGET): limits.budget,
        ("queries", Stop.MAX_QUERIES): limits.max_queries,
        ("source", Stop.MAX_FLAGGED): limits.max_flagged,
    }
    return stopped_by.get((by, stop), math.inf)


@dataclass(frozen=True)
class Step:
    """One accepted step, with the account at that time."""

    iteration: int
    cost: float
    source: int
    other: int
    distance: float
    """Distance of the iterate as it was sent, in the metric of the run."""
    by_phase: dict[str, float]
    notes: dict[str, Any]


class Improvement(NamedTuple):
    """A row with a smaller distance than any adversarial row before it, and the account that
    includes it."""

    cost: float
    source: int
    queries: int
    distance: float
    cost_before: float
    """Cost of everything before this query was sent."""
    alarms: int = 0
    """Number of alarms, including that of this query."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Result:
    """The result of the run on one image."""

    index: int
    """Position of the image, or cell, in the input."""
    name: str = ""
    stop: Stop
    reason: str = ""
    """Details of the stop, such as the error of a model or an attack."""
    ledger: Ledger
    adversarial: Tensor | None = None
    """The adversarial point with the smallest distance, as it was sent; on the CPU."""
    improvements: tuple[Improvement, ...] = ()
    trace: tuple[Step, ...] = ()
    limits: Limits
    seed: int = 0
    warnings: tuple[str, ...] = ()
    """Caveats about the numbers, e.g. that a lack of memory changed the batch shape."""
    resolution: Resolution = UNKNOWN
    """Whether the model resolves the radius at which the attack samples; see its `found`."""
    norm: Metric = Metric.L2
    """The metric of the distances."""
    first_alarm: FirstAlarm | None = None
    """The account at the first alarm, if there was one."""

    @classmethod
    def of(
        cls, cell: Cell, index: int, stop: Stop, ledger: Ledger | None = None, **fields: Any
    ) -> Result:
        """Return the result of a cell; without a ledger, of one that sent no query."""
        if ledger is None:
            goal = cell.aim
            ledger = Ledger.of(cell.prices.for_source(cell.label, goal), goal, cell.detection)
        given = {name: getattr(cell, name) for name in ("name", "limits", "seed", "norm")}
        return cls(index=index, stop=stop, ledger=ledger, **given, **fields)

    def __repr__(self) -> str:
        name = f"{self.index} {self.name!r}" if self.name else f"{self.index}"
        return f"<Result {name}: {self.stop}, {self.norm} {self.distance:.4g}, {self.ledger}>"

    @property
    def detection(self) -> Detection | None:
        """The terms of alarms, without the detector; None if there was no detector."""
        return self.ledger.detection

    @property
    def distance(self) -> float:
        """The smallest distance of an adversarial point that was sent; infinite without one."""
        return self.improvements[-1].distance if self.improvements else math.inf

    @property
    def failure(self) -> str:
        """What failed and why, in one line; empty if nothing did."""
        start = {Stop.MODEL_ERROR: "the model failed: ", Stop.ATTACK_ERROR: "the attack failed: "}
        return " ".join(f"{start.get(self.stop, '')}{self.reason}".split()) * self.stop.failed

    def known_up_to(self, by: By = "cost") -> float:
        """Return the largest cost (flagged queries, queries) at which the distance is known."""
        check_axis(by)
        ledger = self.ledger
        spent = {"cost": ledger.cost, "source": ledger.flagged, "queries": ledger.queries}
        return known_up_to(self.stop, by, spent=spent[by], limits=self.limits)

    def distance_at(self, value: float, by: By = "cost") -> float:
        """Return the distance that a run up to `value` (cost, flagged queries, queries) reaches; a
        value above `known_up_to` is an error."""
        _check_value(value, by)
        known = self.known_up_to(by)
        if value > known and self.stop.failed:
            raise InputError(
                f"{self.failure}; the run stopped at {by} {known:g}, below {value:g}",
                remedy="fix the cause and run it again",
            )
        if value > known:
            raise InputError(
                f"{by} {value:g} is above {known:g}, where this run stopped ({self.stop})",
                remedy="run it with a larger limit to know what it would have reached",
            )
        needs = needed(self.improvements, self.ledger.prices, by, self.ledger.alarm_price)
        distances = np.array([row.distance for row in self.improvements])
        return float(reached_at(needs, distances, value))


@dataclass(frozen=True, eq=False, repr=False)
class Results(Sequence[Result]):
    """Results in input order, and statistics over them."""

    results: tuple[Result, ...]
    findings: tuple[str, ...] = ()
    """Reasons why the model is not fit to be measured, found by `Execution(check=True)`."""
    exactness: Exactness = NOT_CHECKED
    """Whether repeated runs agree bit for bit, as far as it was checked; see its `sentence`."""
    benign: BenignStats | None = None
    """Alarms of the detector on harmless queries, if all images have the same detector."""

    def __repr__(self) -> str:
        queries = sum(r.ledger.queries for r in self.results)
        counted = [r for r in self.counted if not r.stop.cut_short]
        distances, norms = [r.distance for r in counted], {r.norm for r in counted}
        median = f", median {norms.pop()} {np.median(distances):.4g}" if len(norms) == 1 else ""
        failures = Counter(r.failure for r in self.results if r.stop.failed).most_common(1)
        why = "".join(f" ({count} because {shorten(text, 200)})" for text, count in failures)
        alarms = ""
        if any(r.detection is not None for r in self.results):
            alarmed = sum(r.ledger.alarms > 0 for r in self.results)
            benign = "not known" if self.benign is None else f"{self.benign.all.rate:.1%}"
            alarms = f", {self.alarms:,} alarms at {alarmed} images (benign sessions: {benign})"
        return (
            f"<Results: {len(self)} images, {self.misclassified} misclassified anyway, "
            f"{self.failed} failed{why}{median}, {queries:,} queries{alarms}>"
        )

    def _only(self, results: Iterable[Result]) -> Results:
        return replace(self, results=tuple(results))

    @property
    def alarms(self) -> int:
        return sum(r.ledger.alarms for r in self.results)

    @overload
    def __getitem__(self, index: int) -> Result: ...
    @overload
    def __getitem__(self, index: slice) -> Results: ...
    def __getitem__(self, index: int | slice) -> Result | Results:
        return self._only(self.results[index]) if isinstance(index, slice) else self.results[index]

    def __len__(self) -> int:
        return len(self.results)

    def __iter__(self) -> Iterator[Result]:
        return iter(self.results)

    @property
    def counted(self) -> Results:
        """The results without the images that are misclassified anyway."""
        return self._only(r for r in self.results if r.stop.attacked)

    @property
    def misclassified(self) -> int:
        """Number of images that the model misclassifies anyway."""
        return len(self) - len(self.counted)

    @property
    def failed(self) -> int:
        """Number of runs that an error of the model, attack or detector stopped; see `reason`."""
        return sum(r.stop.failed for r in self.results)

    def _known_at(self, value: float, by: By) -> list[Result]:
        _check_value(value, by)
        return [r for r in self.counted if not (r.stop.cut_short and value > r.known_up_to(by))]

    def unknown_at(self, value: float, by: By = "cost") -> int:
        """Return how many runs an error, time limit or interruption stopped before `value`."""
        return len(self.counted) - len(self._known_at(value, by))

    def _distances(self, value: float, by: By) -> list[float]:
        known = self._known_at(value, by)
        one = len({r.norm for r in self.counted}) <= 1
        remedy = "select those of one metric by their `norm`"
        expect(one, "these results are in several metrics", "one", remedy)
        return [r.distance_at(value, by) for r in known]

    def median_at(self, value: float, by: By = "cost") -> float:
        """Return the median distance at `value`; NaN if no image counts."""
        distances = self._distances(value, by)
        return float(np.median(distances)) if distances else math.nan

    def success_at(self, value: float, by: By = "cost", within: float = math.inf) -> float:
        """Return the share of images with an adversarial point closer than `within` at `value`."""
        require(is_number(within), "within", within, "a number")
        distances = self._distances(value, by)
        return float(np.mean([d < within for d in distances])) if distances else math.nan
