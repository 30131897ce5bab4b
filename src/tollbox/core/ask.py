"""Asks: the queries that an attack yields, and the answers that it receives.

1. An ask has one or more runs (`Sequential`). The points of a run are sent in order; with `until`,
   the run stops after the first answer of that kind, and the points after it are not sent.
2. Runs are charged in order: all of the first, then all of the second.
3. Points may be lazy (`Rows`): the engine slices only the rows that it needs.
4. Answers cover only the points that were sent: with `until`, they may be fewer than the points.

An attack or a part is a generator that yields asks:

    def probe(problem):
        answers = yield Ask(problem.source[None] + 0.1, phase="probe")
        return bool(answers.adversarial[0])
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from .goal import Goal
from .prices import Prices

T = TypeVar("T")


class Rows(Protocol):
    """A sequence of points, computed when sliced; a tensor is also `Rows`.

    A row must not depend on the slice that contains it: `rows[2:5][0]` is `rows[0:8][2]`.
    """

    def __len__(self) -> int: ...

    def __getitem__(self, rows: slice, /) -> Tensor: ...


class Until(enum.Enum):
    """The answer after which a run stops."""

    ADVERSARIAL = True
    NOT_ADVERSARIAL = False


class Sequential(NamedTuple):
    """A run: points to be sent one after another."""

    points: Rows
    until: Until | None = None


@dataclass(slots=True)
class Answers:
    """The answers to one run, in order; for an ask of several runs, the answers to all of them."""

    labels: NDArray[np.int64]
    adversarial: NDArray[np.bool_]
    """Whether each label satisfies the goal."""
    distances: NDArray[np.float64]
    """Distance of each point, as it was sent, from the source image, in the problem's metric."""
    goal: Goal
    """The goal for the image, which specifies the flagged labels."""
    tariff: Prices
    parts: tuple[Answers, ...] = field(default=(), repr=False)
    """The answers to each run, if there are several."""

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def flagged(self) -> NDArray[np.bool_]:
        return self.goal.is_flagged(self.labels)

    @property
    def prices(self) -> NDArray[np.float64]:
        """Price of each answer; if prices escalate, every flagged answer has the first price."""
        return self.tariff.value_array[self.tariff.levels(self.labels, self.goal)]

    @property
    def runs(self) -> tuple[Answers, ...]:
        return self.parts or (self,)


class Ask:
    """The queries that an attack yields: `Ask(points, until=, phase=)` or `Ask(runs=[...])`."""

    __slots__ = ("phase", "runs")

    def __init__(
        self,
        points: Rows | None = None,
        *,
        phase: str,
        until: Until | None = None,
        runs: Sequence[Sequential] = (),
    ) -> None:
        self.runs: tuple[Sequential, ...] = (
            tuple(runs) if points is None else (Sequential(points, until),)
        )
        self.phase = phase
        if not isinstance(phase, str):
            raise TypeError(f"the phase of an ask is {phase!r}: expected a word")
        if not self.runs or any(len(run.points) == 0 for run in self.runs):
            raise ValueError("an ask has no points, or one of its runs has none")
        for run in self.runs:
            if not (run.until is None or isinstance(run.until, Until)):
                raise TypeError(f"until is {run.until!r}: expected an Until, or None")


Asking = Generator[Ask, Answers, T]
"""A generator that yields asks, receives answers, and returns a T."""


class Iterate(NamedTuple):
    """An adversarial point that was sent."""

    point: Tensor
    distance: float
    """Distance from the source image, as the point was sent."""
    theta: float = 0.0
    """Position on the path that was searched; 0 where it does not matter."""


def at_once(value: T) -> Asking[T]:
    """Return `value` without a query."""
    yield from ()
    return value


def handled(asking: Asking[T], handle: Callable[[Ask], Asking[Answers]]) -> Asking[T]:
    """Run `asking`, with each of its asks answered by `handle(ask)`."""
    answers = None
    while True:
        try:
            ask = asking.send(answers)  # type: ignore[arg-type]
        except StopIteration as end:
            result: T = end.value
            return result
        answers = yield from handle(ask)


def first_adversarial(points: Rows, phase: str) -> Asking[Iterate | None]:
    """Send points one after another; return the first that is adversarial, or None."""
    answers = yield Ask(points, until=Until.ADVERSARIAL, phase=phase)
    if not answers.adversarial[-1]:
        return None
    row = len(answers) - 1
    return Iterate(points[row : row + 1][0], float(answers.distances[-1]))


def joined(runs: Sequence[Answers]) -> Answers:
    """Return the answers to several runs as the answers to one ask."""
    if len(runs) == 1:
        return runs[0]
    return Answers(
        np.concatenate([run.labels for run in runs]),
        np.concatenate([run.adversarial for run in runs]),
        np.concatenate([run.distances for run in runs]),
        runs[0].goal,
        runs[0].tariff,
        tuple(runs),
    )


def together(parts: Sequence[Asking[T]]) -> Asking[list[T]]:
    """Run several generators in parallel, with one ask per round; return their results in order."""
    results: dict[int, T] = {}
    waiting: dict[int, Ask] = {}

    def advance(index: int, answers: Answers | None) -> None:
        try:
            waiting[index] = parts[index].send(answers)  # type: ignore[arg-type]
        except StopIteration as stop:
            waiting.pop(index, None)
            results[index] = stop.value

    for index in range(len(parts)):
        advance(index, None)
    while waiting:
        asks = list(waiting.items())
        phases = {ask.phase for _, ask in asks}
        if len(phases) > 1:
            raise ValueError(f"generators in parallel are in different phases: {sorted(phases)}")
        answers = yield Ask(runs=[r for _, ask in asks for r in ask.runs], phase=phases.pop())
        runs = iter(answers.runs)
        for index, ask in asks:
            advance(index, joined(list(islice(runs, len(ask.runs)))))
    return [results[index] for index in range(len(parts))]
