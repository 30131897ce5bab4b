"""DPAttack (USENIX Security 2026): a start from the image's own block DCT, then flips of its signs.

A way is x* + r v, clipped to [0,1]. In ℓ∞, v is a vector of signs s; in ℓ2 it leads to an image.

    d_n       for a block size b, each coefficient of the block DCT receives z times the variance of
              its frequency over the blocks, z ~ N(0,1); signs of the resulting image minus x*
    race      the d_n of b = 2, 4, 8, ... share one search of the radius; where one of them is
              adversarial, those that are not are dropped
    phi(d_r)  each block of the winner's size moves halfway to a random colour. If adversarial at
              the radius of d_n, both are shrunk in turn, and the closer one stays
    flips     s is cut into runs of equal signs, the negative ones first. The two halves of a block
              of runs are flipped, each alone, at the radius r. If one flip is adversarial, it
              stays, and competes with the next such flip; two competing flips are compared at
              smaller radii until one of them is flagged. The halves are the next blocks.

The source is the authors' code; the names are those of the paper.
"""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from ..core.ask import Answers, Ask, Asking, Iterate, first_adversarial
from ..core.by_side import at_side
from ..core.device import to_device
from ..core.metric import Metric
from ..core.prices import Prices
from ..core.problem import Problem
from ..core.stop import Stop
from ..parts.paths import Path, inward
from ..parts.registry import Checked, Count, Depth, InnerFraction, Limit, NonNegative
from ..parts.searches import Search
from ..parts.starts import PHASE as START
from ..parts.subspaces import Dct
from ..parts.vectors import LazyRows
from .rays import FAST_CHECK

SHRINK = "shrink"
"""The phase of queries at smaller radii."""
YCBCR = (0.299, 0.587, 0.114), (-0.168736, -0.331264, 0.5), (0.5, -0.418688, -0.081312)
RGB = (1.0, 0.0, 1.402), (1.0, -0.344136, -0.714136), (1.0, 1.772, 0.0)
"""JPEG's matrices, rounded as in JPEG."""
GREY, ROUNDING = 128 / 255, 1e-6
"""JPEG's middle grey, and the length below which a step counts as 0."""
RHO = 0.01401425, 2.37247315, -0.01584504, 0.02919938
"""a, b, c, d: a relative reduction x of a radius has the density a / (x + d)^b + c."""
FIFTH, FINEST, FIRST_ROUNDS = 0.2, 2e-4, 4
"""Share of a bracket by which d_n and phi(d_r) are shrunk, and the length of a bracket that is not
cut further after the first rounds."""
RATIOS = 0.1, 100.0
"""Smallest and largest c* for which radii are chosen; c* itself may be 0 or infinite."""

Block = tuple[int, int]
"""First position in the order of signs, and the position after the last."""


def dct_image(problem: Problem, size: int, chroma: float) -> Tensor:
    """Return x* with noise in the coefficients of its block DCT, for blocks of that size.

    The code scales transforms of all sizes as JPEG does for 8x8. So for size b, coefficients are
    b/8 of the orthonormal ones, and two transforms scale the image by (b/8)^2 around grey.
    """
    source, dct, gain = problem.source, Dct(1, block=size), size / 8
    colours = source.shape[0] == 3
    planes, noise = source, problem.noise("dct", size, 1, tuple(source.shape))[0:1]
    weights = torch.ones_like(source[:, :1, :1])
    grey = torch.full_like(weights, GREY)
    if colours:
        planes = mixed(YCBCR, source)
        weights[1:], grey[1:] = chroma, 0
    centred = planes - grey
    variances = 255 * spread(dct.project(centred[None])[0], size)
    noise = dct.expand(noise * variances, tuple(source.shape))[0]
    changed = grey + gain**2 * centred + gain**3 * weights * noise
    image: Tensor = mixed(RGB, changed) if colours else changed
    return image.clamp_(0, 1)


def mixed(matrix: tuple[tuple[float, ...], ...], planes: Tensor) -> Tensor:
    """Return weighted sums of three planes, (3, h, w), one for each row of the matrix."""
    rows = [planes[0] * a + planes[1] * b + planes[2] * c for a, b, c in matrix]
    return torch.stack(rows)


def spread(coefficients: Tensor, size: int) -> Tensor:
    """Return, for each coefficient (c, h, w) of a block DCT, the variance of its frequency over all
    whole blocks; 0 if there are fewer than two."""
    channels, height, width = coefficients.shape
    rows, columns = height // size, width // size
    if rows * columns < 2:
        return torch.zeros_like(coefficients)
    blocks = coefficients[:, : rows * size, : columns * size]
    blocks = blocks.reshape(channels, rows, size, columns, size)
    variances: Tensor = blocks.var(dim=(1, 3))
    return variances.repeat(1, rows + 1, columns + 1)[:, :height, :width]


def colour_image(problem: Problem, size: int) -> Tensor:
    """Return x* with each block halfway between its mean and a random colour: the lowest band of a
    Haar transform, mixed with uniform numbers between its smallest and largest value."""
    source = problem.source
    means = functional.avg_pool2d(source[None], size, ceil_mode=True, count_include_pad=False)[0]
    low, high = means.amin(), means.amax()
    uniform = torch.special.ndtr(problem.noise("colour", size, 1, tuple(means.shape))[0:1][0])
    blocks = (means + low + (high - low) * uniform) / 2
    wide: Tensor = blocks.repeat_interleave(size, 1).repeat_interleave(size, 2)
    return wide[:, : source.shape[1], : source.shape[2]]


def median_of(low: float, high: float) -> float:
    """Return the median of the density between low and high."""
    a, b, c, d = RHO

    def mass(x: float) -> float:
        return a / (1 - b) * math.pow(x + d, 1 - b) + c * x

    wanted = (mass(low) + mass(high)) / 2
    while high - low > 1 / 600:
        middle = (low + high) / 2
        low, high = (middle, high) if mass(middle) < wanted else (low, middle)
    return (low + high) / 2


class Runs:
    """Positions in the flattened image, in the order of their signs, and where runs of adjacent
    positions with equal signs start."""

    def __init__(self, problem: Problem, host: NDArray[np.int8]) -> None:
        free = problem.host_places
        self.order = order = free[np.argsort(host[free], kind="stable")]
        jumps = (np.diff(order) != 1) | (np.diff(host[order]) != 0)
        inner = np.flatnonzero(jumps) + 1
        self.starts: NDArray[np.int64] = np.concatenate([[0], inner, [len(order)]])
        self.places = to_device(torch.from_numpy(order), problem.source.device, torch.int64)

    def cut(self, block: Block) -> list[Block]:
        """Return the halves of a block: by runs, or by positions if it is one run."""
        first, last = block
        one, two = np.searchsorted(self.starts, block)
        count = int(two - one)
        middle = int(self.starts[one + (count + 1) // 2]) if count > 1 else (first + last) // 2
        return [half for half in ((first, middle), (middle, last)) if half[0] < half[1]]

    def flipped(self, signs: Tensor, block: Block) -> Tensor:
        signs = signs.clone()
        signs.view(-1)[self.places[slice(*block)]] *= -1
        return signs

    def flipped_host(self, host: NDArray[np.int8], block: Block) -> NDArray[np.int8]:
        host = host.copy()
        host[self.order[slice(*block)]] *= -1
        return host


class Signs(NamedTuple):
    """Signs on the device, and the same on the host, flattened."""

    values: Tensor
    host: NDArray[np.int8]

    @classmethod
    def of(cls, problem: Problem, step: Tensor) -> Signs:
        """Return the signs of a step. They can be read on the host from the next answer on, which
        comes later on the same stream."""
        values = problem.only_mask(signs_of(step))
        host = values.flatten().to(torch.int8).to("cpu", non_blocking=True)
        return cls(values, host.numpy())


class Radii(Path):
    """The radii from 1 to 0, as a path."""

    def __init__(self, problem: Problem) -> None:
        self.start = Iterate(self(0.0), 1.0)
        self.length = math.sqrt(problem.dimension)

    def __call__(self, theta: float) -> Tensor:
        return torch.tensor(1 - theta, dtype=torch.float64)


@dataclass
class Way:
    """A direction, with the bracket in which its boundary lies."""

    step: Tensor
    signs: Signs
    high: float
    found: Iterate
    low: float = 0.0
    flagged: int = 0
    recent: list[float] = field(default_factory=list)
    """Distances of the latest queries; infinite if flagged."""

    def leads(self, best: float) -> bool:
        """Return whether one of its last two queries is the best point."""
        return min(self.recent[-2:]) <= best


@dataclass(frozen=True)
class BlockSigns(Checked):
    """The base of DPAttack for both metrics."""

    search: Search
    """Search for the radius of the race, and on the line from a given start."""
    doublings: Depth = 4
    """Number of block sizes in the race: 2, 4, 8, ..."""
    until_one: bool = False
    """Whether the race stops when one size is left."""
    chroma: NonNegative = 0.0
    """Factor of the noise in the two chroma planes."""
    shrinkage: InnerFraction = 0.2
    """Share of its bracket by which a radius shrinks when flips are compared."""
    median: bool = False
    """Whether it shrinks by the median reduction under ADBA's density instead."""
    asymmetric: bool = False
    """Whether a radius shrinks by no larger share than 1 / (c* + 1), as in Algorithm 1; a c* above
    100 counts as 100."""
    rounds: Depth = 8
    """Maximum number of radii at which two ways are compared."""
    starts: Count = 1000
    """Maximum number of queries for a first adversarial point, completed to a pair."""
    passes: Limit = 1000
    """Maximum number of passes over all blocks."""

    finds_targets = False

    @property
    def rows(self) -> int:
        """Maximum number of points held: images and steps of all sizes, and the flips."""
        return 16 + 2 * self.doublings

    def __call__(self, problem: Problem) -> Asking[Stop]:
        attack = at_side(self, min(problem.source.shape[1:]))
        return (yield from attack.attack(problem))

    def toward(self, problem: Problem, image: Tensor) -> Tensor:
        """Return the step of the way to an image of the start."""
        step = image - problem.source
        return problem.only_mask(signs_of(step) if problem.norm is Metric.LINF else step)

    def step(self, problem: Problem, signs: Tensor) -> Tensor:
        """Return the step of the way with these signs."""
        linf = problem.norm is Metric.LINF
        return problem.only_mask(signs if linf else signs - problem.source)

    def attack(self, problem: Problem) -> Asking[Stop]:
        source = problem.source
        if problem.start_image is not None:
            signs = Signs.of(problem, problem.start_image - source)
            start = yield from first_adversarial(problem.start_image[None], START)
            if start is None:
                return Stop.NO_START
            iterate = yield from self.search(problem, inward(source, start, problem.norm))
            problem.accept(iterate)
            unit = 1.0 if problem.norm is Metric.LINF else math.sqrt(problem.dimension)
            return (yield from self.flip(problem, signs, iterate.distance / unit, True, 0))
        sizes = [2**k for k in range(1, self.doublings + 1) if 2**k <= max(2, *source.shape[1:])]
        steps = [self.toward(problem, dct_image(problem, b, self.chroma)) for b in sizes]
        read = [Signs.of(problem, step) for step in steps]
        live, radius, distances, tried = yield from self.race(problem, steps)
        if len(live) > 1:
            like = torch.empty(0, dtype=source.dtype)  # on the host, as the choice is
            draws = problem.noise("size", 0, 1, (len(sizes),), like)[0:1][0].tolist()
            live = [max(live, key=draws.__getitem__)]
        [chosen] = live
        step, signs, best = steps[chosen], read[chosen], None
        if distances:
            best = Iterate(at(problem, [step], radius)[0:1][0], distances[chosen], radius)
        colours = self.toward(problem, colour_image(problem, sizes[chosen]))
        others = Signs.of(problem, colours)
        other = yield from first_adversarial(at(problem, [colours], radius), START)
        if other is not None and best is not None:
            ways = [Way(colours, others, radius, other), Way(step, signs, radius, best)]
            closer = yield from self.shrink(problem, ways)
            signs, radius = closer.signs, closer.high
        elif other is not None:
            signs = others
        if other is not None and best is None:
            problem.accept(other)
        found = best is not None or other is not None
        return (yield from self.flip(problem, signs, radius, found, tried + 1))

    def race(
        self, problem: Problem, steps: list[Tensor]
    ) -> Asking[tuple[list[int], float, dict[int, float], int]]:
        """Run the search for the radius with all ways at once. Return those that are left, the
        smallest radius at which they are adversarial and the distance of each there (1 and nothing
        if there is none), and the number of queries."""
        live, best, distances, tried = list(range(len(steps))), 1.0, dict[int, float](), 0
        planned = copy(problem)
        answers: Any = None  # for the first ask
        planned.prices = Prices(bounded_ratio(problem), 1)
        searching = self.search(planned, Radii(problem))
        while True:
            try:
                ask = searching.send(answers)
            except StopIteration:
                return live, best, distances, tried
            [run], each = ask.runs, []
            for row in range(len(run.points)):
                radius = float(run.points[row : row + 1])
                points = at(problem, [steps[k] for k in live], radius)
                reply = yield Ask(points, phase=START)
                tried += len(live)
                passed = reply.adversarial
                first = int(passed.argmax())
                each.append((reply.labels[first], passed[first], reply.distances[first]))
                if passed.any():
                    apart = zip(live, reply.distances.tolist(), passed, strict=True)
                    distances = {way: distance for way, distance, ok in apart if ok}
                    live, best = list(distances), radius
                    problem.accept(Iterate(points[first : first + 1][0], distances[live[0]]))
                if tried >= self.starts or (self.until_one and len(live) == 1 < len(steps)):
                    return live, best, distances, tried
                if run.until is not None and passed.any() == run.until.value:
                    break
            labels, passed, column = (np.array(column) for column in zip(*each, strict=True))
            answers = Answers(labels, passed, column, reply.goal, reply.tariff)

    def shrink(self, problem: Problem, ways: list[Way]) -> Asking[Way]:
        """Shrink two ways in turn; return the closer one."""
        best = min(way.found.distance for way in ways)
        share, rounds = self.share(problem, FIFTH)
        for way in ways:
            way.recent = [way.found.distance]
        for turn in range(1, rounds + 1):
            asked = 0
            for way in ways:
                if way.flagged > 1 and not way.leads(best):
                    continue
                asked += 1
                radius = way.high - (way.high - way.low) * share
                points = at(problem, [way.step], radius)
                answers = yield Ask(points, phase=SHRINK)
                if answers.adversarial[0]:
                    distance = float(answers.distances[0])
                    way.high, way.found = radius, Iterate(points[0:1][0], distance)
                    best = min(best, distance)
                    way.recent.append(distance)
                else:
                    way.low, way.flagged = radius, way.flagged + 1
                    way.recent.append(math.inf)
            narrow = min(way.high - way.low for way in ways) <= FINEST
            if asked < len(ways) or (turn >= FIRST_ROUNDS and narrow):
                break
        closer = min(ways, key=lambda way: way.found.distance)
        problem.accept(closer.found)
        return closer

    def share(self, problem: Problem, share: float) -> tuple[float, int]:
        """Return the share by which a bracket shrinks, and the maximum number of times: more, if
        the share is smaller, so that the radius may shrink as far."""
        if not self.asymmetric:
            return share, self.rounds
        smaller = min(share, 1 / (bounded_ratio(problem) + 1))
        return smaller, math.ceil(self.rounds * share / smaller)

    def flip(
        self, problem: Problem, signs: Signs, radius: float, found: bool, tried: int
    ) -> Asking[Stop]:
        """Flip blocks of signs, larger blocks first; return the reason for stopping. Flips that win
        are repeated on the host."""
        kept: Signs | None = None
        whole, idle = problem.dimension, 0
        for _ in range(self.passes):
            runs, changed, before = Runs(problem, signs.host), False, radius
            blocks = runs.cut((0, whole)) if whole > 3 else [(0, whole)]
            pairs = [] if found else [[(0, 0), (0, whole)]]  # all signs as they are, and flipped
            while blocks or pairs:
                cuts = [pair for pair in map(runs.cut, blocks) if len(pair) == 2]
                blocks = [half for pair in cuts for half in pair]
                for pair in pairs + cuts:
                    flips = [runs.flipped(signs.values, half) for half in pair]
                    points = at(problem, [self.step(problem, each) for each in flips], radius)
                    phase = FAST_CHECK if found else START
                    answers = yield Ask(points, phase=phase)
                    tried += 2
                    passed = np.flatnonzero(answers.adversarial).tolist()
                    if not passed:
                        if not found and tried >= self.starts:
                            return Stop.NO_START
                        continue
                    found = changed = True
                    row = passed[0]
                    at_radius = Iterate(points[row : row + 1][0], float(answers.distances[row]))
                    rivals = [
                        Signs(flips[row], runs.flipped_host(signs.host, pair[row]))
                        for row in passed
                    ]
                    if len(rivals) == 1 and kept is None:
                        [signs] = [kept] = rivals
                        problem.accept(at_radius)
                        continue
                    if len(rivals) == 1 and kept is not None:
                        rivals, kept = [*rivals, kept], None
                    steps = [self.step(problem, each.values) for each in rivals]
                    row, radius = yield from self.compare(problem, steps, radius, at_radius)
                    signs = rivals[row]
                pairs = []
            idle = 0 if radius < before else idle + 1
            if not changed or idle > 1:
                return Stop.CONVERGED if found else Stop.NO_START
        return Stop.ITERATIONS

    def compare(
        self, problem: Problem, steps: list[Tensor], radius: float, found: Iterate
    ) -> Asking[tuple[int, float]]:
        """Return the number of the step whose boundary is closer, and its smallest adversarial
        radius."""
        low, high, chosen = 0.0, radius, 0
        turn, rounds = 0, self.rounds
        while turn < rounds:
            share = self.shrinkage
            if self.median:
                first, last = 1 - high / radius, 1 - low / radius  # reductions
                share = (median_of(first, last) - first) / (last - first)
            share, limit = self.share(problem, share)
            turn, rounds = turn + 1, max(rounds, limit) if turn == 0 else rounds
            middle = high - (high - low) * share
            points = at(problem, steps, middle)
            answers = yield Ask(points, phase=SHRINK)
            passed = np.flatnonzero(answers.adversarial).tolist()
            if passed:
                row = passed[0]
                chosen, high = row, middle
                found = Iterate(points[row : row + 1][0], float(answers.distances[row]))
            else:
                low = middle
            if len(passed) == 1 or (turn > FIRST_ROUNDS and high - low <= FINEST):
                break
        problem.accept(found)
        return chosen, high


def bounded_ratio(problem: Problem) -> float:
    """Return c*, or the nearest ratio for which radii are chosen."""
    return min(max(problem.prices.ratio, RATIOS[0]), RATIOS[1])


def signs_of(step: Tensor) -> Tensor:
    """Return -1 where a step is negative, and 1 elsewhere."""
    return torch.where(step < -ROUNDING, -1.0, 1.0).to(step)


def at(problem: Problem, steps: list[Tensor], radius: float) -> LazyRows:
    """Return one point x* + r v, clipped, for each step v."""
    return LazyRows.stack(
        steps, lambda step: torch.add(problem.source, step, alpha=radius).clamp_(0, 1)
    )


@dataclass(frozen=True)
class DPAttack(BlockSigns):
    """DPAttack for ℓ∞, the metric of the paper."""

    metrics = (Metric.LINF,)


@dataclass(frozen=True)
class DPAttackL2(BlockSigns):
    """DPAttack as in its script for ℓ2: ways lead to the images of the start, then to the signs
    themselves, x* + r (s - x*)."""

    metrics = (Metric.L2,)
