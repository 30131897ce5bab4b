"""A study's runs as a report reads them: arrays, a line of the grid at a time.

1. Of each run: at which cost (flagged queries, queries) which distance was reached, where it ended,
   and up to where that is known. Nothing else of a trace is held, so that a study of ten thousand
   cells fits into memory.
2. A distance counts from the cost under which it would have been reached: what was spent before the
   row, and the dearest answer (`Result.distance_at`).
3. The paper reads otherwise: the distances of the iterates alone, each at what was spent when it
   was accepted, and in between on a straight line (`Reading.PAPER`).
"""

from __future__ import annotations

import enum
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core.result import CUT_SHORT, By
from ..core.stop import Stop
from ..studies.grid import Place, Series
from ..studies.reading import StudyResults
from ..studies.store.codec import End, Trace

Values = NDArray[np.float64]


class Reading(enum.StrEnum):
    """How a distance is read at a cost."""

    HARD = "hard"
    """The best that was asked under a hard budget: a step function."""
    PAPER = "paper"
    """The iterates, interpolated linearly."""

    @property
    def words(self) -> str:
        """For a caption."""
        return {
            Reading.HARD: "best distance under a hard budget",
            Reading.PAPER: "the paper's reading: iterates only, interpolated",
        }[self]


@dataclass(frozen=True)
class CellCurve:
    """One run."""

    image: int
    seed: int
    stop: Stop
    needs: dict[By, Values]
    """From which cost, flagged queries or queries on each of `distances` counts."""
    distances: Values
    iterates: dict[By, Values]
    """What was spent when each iterate was accepted."""
    reached: Values
    """The distances of the iterates."""
    spent: dict[By, float]
    known: dict[By, float]
    """Up to where it is known what was reached."""
    phases: dict[str, float]
    """What each phase cost."""
    shares: Values
    """(n, 2): the share of low-cost answers that an estimate planned with, and what it got."""

    def at(self, marks: Values, by: By, reading: Reading) -> Values:
        """The distance at each mark: infinite before the first, NaN where it is not known."""
        if reading is Reading.HARD:
            reached = np.append(math.inf, self.distances)
            found = reached[np.searchsorted(self.needs[by], marks, side="right")]
        elif len(self.reached) == 0:
            found = np.full(len(marks), math.inf)
        else:
            places = self.iterates[by]
            found = np.interp(marks, places, self.reached)
            found = np.where(marks < places[0], math.inf, found)
        return np.where(marks > self.known[by], math.nan, found)


@dataclass(frozen=True)
class SeriesRuns:
    """All finished runs of a line that count: not those of images that are misclassified anyway."""

    line: Series
    name: str
    runs: list[CellCurve]
    misclassified: int
    cells: int
    """How many there will be."""


def lines(found: StudyResults) -> Iterator[SeriesRuns]:
    """The lines of a study, one after another."""
    gathered: dict[int, list[CellCurve]] = {line.number: [] for line in found.grid.series}
    left_out = dict.fromkeys(gathered, 0)
    ends = {end.cell: end for end in found.finished()}
    for cell, place, trace in found.traces():
        end = ends[cell]
        if end.stop == Stop.ALREADY_MISCLASSIFIED:
            left_out[place.series.number] += 1
        else:
            run = _run(place, found.images[place.image][1], end, trace)
            gathered[place.series.number].append(run)
    for line in found.grid.series:
        runs = sorted(gathered[line.number], key=lambda run: (run.image, run.seed))
        name = line.named(found.study)
        yield SeriesRuns(line, name, runs, left_out[line.number], found.grid.width)


def _run(place: Place, label: int, end: End, trace: Trace) -> CellCurve:
    line, seed, image = place
    stop = end.stop
    better = np.array(trace.improvements, float).reshape(-1, 4)
    steps = trace.steps
    accepted = np.array(
        [(step.cost, step.source, step.other, step.distance) for step in steps], float
    ).reshape(-1, 4)
    dearest = line.tariff.prices.dearest
    spent: dict[By, float] = {"cost": end.cost, "source": end.source, "queries": end.queries}
    return CellCurve(
        image,
        seed,
        stop,
        {"cost": better[:, 0] + dearest, "source": better[:, 1] + 1, "queries": better[:, 2] + 1},
        better[:, 3],
        {
            "cost": accepted[:, 0],
            "source": accepted[:, 1],
            "queries": accepted[:, 1] + accepted[:, 2],
        },
        accepted[:, 3],
        spent,
        _known(line, stop, spent),
        _phases(line, trace.counts, label),
        np.array(
            [
                (step.notes["planned_share"], step.notes["share"])
                for step in steps
                if "planned_share" in step.notes and step.notes.get("share") is not None
            ]
        ).reshape(-1, 2),
    )


def _known(line: Series, stop: Stop, spent: dict[By, float]) -> dict[By, float]:
    """As `Result.known_up_to` has it."""
    if stop in CUT_SHORT:
        return spent
    return {
        "cost": line.tariff.budget if stop is Stop.BUDGET else math.inf,
        "source": math.inf,
        "queries": line.tariff.max_queries if stop is Stop.MAX_QUERIES else math.inf,
    }


def _phases(line: Series, counts: dict[str, Counter[int]], label: int) -> dict[str, float]:
    prices = line.tariff.prices.for_source(label)
    values = prices.values
    return {
        phase: sum(n * values[prices.level(key, label)] for key, n in tally.items())
        for phase, tally in counts.items()
    }
