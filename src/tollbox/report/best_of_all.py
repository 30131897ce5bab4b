"""The best of all attacks: of each image, at each cost, the smallest distance that any attack has,
as if the attacker knew beforehand which to use.

It is no attack: no table marks it, and it has no rank. A run of it stands for the runs of all
attacks on one image with one seed, at one price on one model; where one of these is not known, it
is not either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..core.result import By, Values
from .runs import CellCurve, Reading, SeriesRuns

NAME = "best of all attacks"
WORDS = "for each image, as if the attacker knew which"


@dataclass(frozen=True)
class BestRun:
    """The runs of all attacks on one image."""

    image: int
    seed: int
    runs: Sequence[CellCurve]

    def at(self, marks: Values, by: By, reading: Reading) -> Values:
        """The smallest distance at each mark."""
        return np.asarray(np.min([run.at(marks, by, reading) for run in self.runs], axis=0))


def best_runs(all_series: Sequence[SeriesRuns]) -> list[BestRun]:
    """Of series at one price on one model: the images that all attacks with runs have; nothing of
    a single attack."""
    series = [{(run.image, run.seed): run for run in each.runs} for each in all_series if each.runs]
    if len(series) < 2:
        return []
    common = sorted(set.intersection(*(set(runs) for runs in series)))
    return [BestRun(*key, [runs[key] for runs in series]) for key in common]
