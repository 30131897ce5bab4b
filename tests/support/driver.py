"""Drives one part by hand: answers what it asks, one query at a time, and writes down what it did.

For parts that are tested without an engine: a sweep, a search, an estimate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import Tensor

import tollbox as tb
from tollbox.core.ask import joined


@dataclass
class Driven:
    returned: Any = field(default=None, repr=False)
    asks: int = 0
    """Rounds: asks that were yielded."""
    offered: list[int] = field(default_factory=list, repr=False)
    """Rows that each run had."""
    points: list[Tensor] = field(default_factory=list, repr=False)
    """What was asked, in order."""
    labels: list[int] = field(default_factory=list, repr=False)
    phases: set[str] = field(default_factory=set)
    phased: list[str] = field(default_factory=list, repr=False)
    """The phase of each query."""

    @property
    def flagged(self) -> int:
        return self.labels.count(0)


def drive(asking, problem: tb.attack.Problem, label: Callable[[Tensor], int]) -> Driven:
    """Answer `asking` by `label`, a function of one point, until it returns."""
    done, answers = Driven(), None
    while True:
        try:
            ask = asking.send(answers)
        except StopIteration as end:
            done.returned = end.value
            return done
        done.asks += 1
        done.phases.add(ask.phase)
        runs = []
        for run in ask.runs:
            done.offered.append(len(run.points))
            labels, apart = [], []
            for row in range(len(run.points)):
                point = run.points[row : row + 1][0].clone()
                assert point.isfinite().all()
                labels.append(label(point))
                apart.append(float(problem.norm.norms((point - problem.source)[None])))
                done.points.append(point)
                done.phased.append(ask.phase)
                good = bool(problem.is_adversarial(np.array(labels[-1:]))[0])
                if run.until is not None and good is run.until.value:
                    break
            done.labels += labels
            label_array = np.array(labels)
            good = problem.is_adversarial(label_array)
            runs.append(
                tb.attack.Answers(label_array, good, np.array(apart), problem.goal, problem.prices)
            )
        answers = joined(runs)
