"""Asks: what an attack yields, and the answers it is sent back.

1. An ask holds one or more runs. A run is an ordered batch of points, asked one after another;
   with `until` it ends after the first such answer. Points after that are not asked.
2. Runs are charged in their order: all of the first, then all of the second.
3. Points may be lazy: anything with a length whose slices are tensors (`Rows`). A row must come
   out the same, bit for bit, whatever slice it is asked for in. The engine asks for what it needs.
4. Answers hold what was asked and nothing else: after an `until`, fewer rows than the run had.

An attack or a part is a generator that yields asks:

    def probe(problem):
        answers = yield Ask(problem.source[None] + 0.1, phase="probe")
        return bool(answers.adversarial[0])

`first_adversarial` asks until the first adversarial answer; `together` runs several generators side
by side, as one ask a round.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from .goal import Goal
from .prices import Prices

T = TypeVar("T")


class Rows(Protocol):
    """Points in order, made when they are needed; a tensor is one too.

    Slices must not depend on where they begin and end: `rows[2:5][0]` is `rows[0:8][2]`.

        class Ring:
            def __init__(self, centre, directions): ...
            def __len__(self): return len(self.directions)
            def __getitem__(self, rows): return self.centre + self.directions[rows]
    """

    def __len__(self) -> int:
        """Number of points."""

    def __getitem__(self, rows: slice, /) -> Tensor:
        """The points of a slice, as one tensor (n, c, h, w)."""


class Until(enum.Enum):
    """The answer after which a run ends."""

    ADVERSARIAL = True
    NOT_ADVERSARIAL = False


class Sequential(NamedTuple):
    """Points to be asked one after another."""

    points: Rows
    until: Until | None = None


@dataclass(slots=True)
class Answers:
    """The answers to one run, in order; or, for an ask of several runs, to all, with `runs`."""

    labels: NDArray[np.int64]
    adversarial: NDArray[np.bool_]
    """The label is what the goal asks for."""
    distances: NDArray[np.float64]
    """Distance of each point, as it was sent, from the source image, in the problem's metric."""
    goal: Goal
    """For the image: which labels are flagged."""
    tariff: Prices
    parts: tuple[Answers, ...] = field(default=(), repr=False)
    """The runs, if there were several."""

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def flagged(self) -> NDArray[np.bool_]:
        """The label is on the source side."""
        return self.goal.is_flagged(self.labels)

    @property
    def prices(self) -> NDArray[np.float64]:
        """What each answer cost; of a price that grows, flagged ones as the first."""
        return self.tariff.value_array[self.tariff.levels(self.labels, self.goal)]

    @property
    def runs(self) -> tuple[Answers, ...]:
        """Answers run by run."""
        return self.parts or (self,)

    def of_runs(self, first: int, last: int) -> Answers:
        """The answers to some of the runs, as if they had been an ask of their own."""
        return joined(self.runs[first:last])


class Ask:
    """What an attack yields: `Ask(points, until=, phase=)`, or `Ask(runs=[...], phase=)`."""

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
            raise ValueError("an ask has no points, or a run of it has none")
        for run in self.runs:
            if not (run.until is None or isinstance(run.until, Until)):
                raise TypeError(f"until is {run.until!r}: expected an Until, or None")


Asking = Generator[Ask, Answers, T]
"""A generator that yields asks, is sent answers, and returns a T."""


class Iterate(NamedTuple):
    """An adversarial point that was asked."""

    point: Tensor
    distance: float
    """From the source, as it was sent."""
    theta: float = 0.0
    """Where on the path that was searched it is; 0, where that does not matter."""


def at_once(value: T) -> Asking[T]:
    """An asking that asks nothing, and returns `value`."""
    yield from ()
    return value


def handled(asking: Asking[T], handle: Callable[[Ask], Asking[Answers]]) -> Asking[T]:
    """The same asking, each of its asks answered by what `handle` makes of it."""
    answers = None
    while True:
        try:
            ask = asking.send(answers)  # type: ignore[arg-type]
        except StopIteration as end:
            result: T = end.value
            return result
        answers = yield from handle(ask)


def first_adversarial(points: Rows, phase: str) -> Asking[Iterate | None]:
    """Ask one after another until one is adversarial; that one, or None."""
    answers = yield Ask(points, until=Until.ADVERSARIAL, phase=phase)
    if not answers.adversarial[-1]:
        return None
    row = len(answers) - 1
    return Iterate(points[row : row + 1][0], float(answers.distances[-1]))


def joined(runs: Sequence[Answers]) -> Answers:
    """Answers to several runs as the answers to one ask."""
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
    """Run several askings side by side, one ask a round; returns what each returned, in order."""
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
            raise ValueError(f"askings side by side are in different phases: {sorted(phases)}")
        answers = yield Ask(runs=[r for _, ask in asks for r in ask.runs], phase=phases.pop())
        first = 0
        for index, ask in asks:
            last = first + len(ask.runs)
            advance(index, answers.of_runs(first, last))
            first = last
    return [results[index] for index in range(len(parts))]
