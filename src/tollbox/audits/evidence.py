"""What an audit has recorded so far, as far as it counts.

1. A series (an attack at a price) counts once all its images are finished: of half a series those
   images would count whose runs end early. So what is reported depends on which series are
   complete, and on nothing else. The others are named, and left out.
2. Images that the model misclassifies anyway need no attack: they are left out, and counted. Which
   these are is known once any series is complete.
3. A run that failed counts up to where it came: what it found was asked.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..core.result import Values
from ..core.stop import Stop
from ..errors import InputError
from ..report.runs import CellCurve, SeriesRuns, series_of
from ..studies.grid import Series
from ..studies.results import StudyResults
from .answers import Reached, reached
from .questions import Questions

IN_PYTHON = "tollbox.audit"
"""Where an audit was begun that has its model from Python."""
SETTINGS = "audit"
"""Under this key of a record's settings is what an audit keeps beside its study."""


@dataclass(frozen=True)
class Evidence:
    """An audit's finished runs."""

    results: StudyResults
    complete: list[SeriesRuns]
    """Series all of whose images are finished."""
    left_out: list[tuple[Series, int]]
    """The others, with how many of their cells are finished."""

    @classmethod
    def of(cls, results: StudyResults) -> Evidence:
        """What a folder has; InputError if it is no audit."""
        if SETTINGS not in results.record.settings:
            raise InputError(
                f"{results.folder} has a study that is no audit",
                expected="a folder that `tollbox audit` has made",
                remedy=f"for its report say `tollbox report {results.folder}`",
            )
        width = results.grid.width
        done = np.bincount(
            [results.grid.series_of(end.cell) for end in results.finished()],
            minlength=len(results.grid.series),
        )
        runs = series_of(results)
        return cls(
            results,
            [each for each in runs if done[each.series.number] >= width],
            [
                (each.series, int(done[each.series.number]))
                for each in runs
                if done[each.series.number] < width
            ],
        )

    @property
    def settings(self) -> dict[str, Any]:
        """What the audit keeps beside its study."""
        return dict(self.results.record.settings[SETTINGS])

    @property
    def questions(self) -> Questions:
        """What was asked when it was begun."""
        return Questions.from_json(self.settings["questions"])

    @property
    def values(self) -> int:
        """Numbers in an image."""
        return math.prod(self.settings["shape"])

    @property
    def name(self) -> str:
        """What the model is called."""
        return self.results.study.name

    @property
    def given(self) -> int:
        """How many images there are."""
        return self.results.grid.images

    @property
    def misclassified(self) -> int | None:
        """How many of them need no attack; None as long as that is not known."""
        if not self.complete:
            return None
        return max(runs.misclassified for runs in self.complete)

    @property
    def failed(self) -> int:
        """Runs that failed, of those that count."""
        return sum(run.stop.failed for run in self.runs)

    @property
    def without_start(self) -> int:
        """Runs that found no adversarial image, of those that count."""
        return sum(run.stop is Stop.NO_START for run in self.runs)

    @property
    def runs(self) -> list[CellCurve]:
        """All runs that count."""
        return [run for runs in self.complete for run in runs.runs]

    @cached_property
    def nearest(self) -> Values:
        """How near each image was come to, in the order of `reached`."""
        return np.asarray(self.reached([]).distances.min(axis=1, initial=math.inf))

    def reached(self, epsilons: Sequence[float]) -> Reached:
        """The accounts of the first points within each ε."""
        return reached(self.complete, epsilons)
