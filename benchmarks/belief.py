"""What `frugal` believes, in microseconds of the host: a chunk of answers, and an iteration.

    OMP_NUM_THREADS=1 python benchmarks/belief.py

No network and no tensor: answers are drawn from a slope and a bend that drift. A chunk is `aim`,
`update`, `scores` of the chunks that wait, and its share of `begin`; an iteration is what
`turn_belief.py` does around an estimate. Each figure is the least of so many rounds with the same
answers, in time of the processor: what else the machine does is left out.
"""

from __future__ import annotations

import argparse
import math
import time
from collections import defaultdict
from collections.abc import Callable
from typing import TypeVar

import numpy as np
import torch
from scipy.special import ndtr

from tollbox.attacks.frugal.attack import FALLBACK_OFFSET, LOW_OFFSETS
from tollbox.attacks.frugal.calibrated import UNWEIGHED_CHUNKS
from tollbox.attacks.frugal.overshoot_belief import OvershootBelief
from tollbox.attacks.frugal.turn_belief import (
    REFERENCE,
    BeliefPath,
    TurnBelief,
    bin_width,
    search_cost,
)
from tollbox.core.ask import Iterate
from tollbox.parts.paths import Circle

CHUNKS = (8, 8, 16, 32, 64)
"""Of an estimate."""
POINTS = 20
ANGLES = 8
"""Places of a path that are looked up in an iteration."""
T = TypeVar("T")


class Clock:
    """Seconds by what they went into."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)

    def __call__(self, what: str, do: Callable[..., T], *given: float) -> T:
        began = time.thread_time()
        done = do(*given)
        self.seconds[what] += time.thread_time() - began
        return done


def estimates(clock: Clock, ratio: float, slack: float) -> None:
    """Some estimates of one image; the slack is in units of z."""
    draw, belief, log_slope, bend = np.random.default_rng(0), OvershootBelief(ratio), 2.0, -0.3
    for _ in range(POINTS):
        log_slope, bend = log_slope + 0.2 * draw.normal(), bend + 0.1 * draw.normal()
        slope = math.exp(log_slope)
        place = draw.random() * slack / slope
        clock("begin", belief.begin, slack / slope)
        shifts: list[float] = []
        for rows in CHUNKS:
            shift = clock("aim", belief.aim)
            passed = int(draw.binomial(rows, ndtr(slope * (place + shift) + bend)))
            clock("update", belief.update, shift, passed, rows - passed)
            shifts = [*shifts, shift][-UNWEIGHED_CHUNKS:]
            clock("scores", belief.scores, *shifts)


def iterations(clock: Clock, ratio: float) -> None:
    """What is done around some estimates of one image, but for its tensors."""
    turns, nothing = TurnBelief(REFERENCE, LOW_OFFSETS[None], FALLBACK_OFFSET), torch.zeros(())
    circle = Circle(nothing, nothing, nothing, nothing)
    bins = 12

    def one() -> int:
        turns.widen()
        prior = turns.best_prior()
        goal = turns.best_information(search_cost(bins, ratio), prior)
        path = BeliefPath(circle, Iterate(nothing, 1.0), *turns.predict(goal, prior), 0.1)
        count = path.count_bins(bin_width(1.0, 0.16, goal))
        angle = [path.angle(k / ANGLES) for k in range(ANGLES)][1]
        turns.update(angle, goal, prior)
        return count

    for _ in range(POINTS):
        bins = clock("iteration", one)


def least(rounds: int, work: Callable[..., None], *given: float) -> dict[str, float]:
    """Microseconds of a point by what they went into, the least of the rounds."""
    found: list[dict[str, float]] = []
    for _ in range(rounds):
        clock = Clock()
        work(clock, *given)
        found.append(clock.seconds)
    return {what: min(each[what] for each in found) / POINTS * 1e6 for what in found[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--slack", type=float, default=0.5, help="tolerance of the search, in z")
    args = parser.parse_args()
    for ratio in (1.0, 2.0, 10.0, 100.0, 1000.0):
        points = least(args.rounds, estimates, ratio, args.slack)
        parts = {what: time / len(CHUNKS) for what, time in points.items()}
        listed = ", ".join(f"{what} {time:.0f}" for what, time in parts.items())
        around = least(args.rounds, iterations, ratio)
        print(
            f"c* = {ratio:g}: {sum(parts.values()):.0f} us a chunk ({listed}), "
            f"{around['iteration']:.0f} us an iteration",
            flush=True,
        )


if __name__ == "__main__":
    main()
