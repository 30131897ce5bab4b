"""Classifiers with known boundaries, and checks for custom attacks, detectors and models.

Each boundary has a source image of class 0, a metric, and the distance to the closest point of
another class. Labels on the far side vary (1 or 2), which exposes an attack that confuses labels
with sides. Each boundary computes in the dtype of its images. In ℓ∞, the closest point of a plane
<w, x> = b is at b / ‖w‖₁, and all pixels move by the same amount.

An attack that samples in a subspace of low frequencies cannot reach a boundary whose normal lies
elsewhere. With `factor`, normals contain only the lowest 1/factor of the frequencies.

`check_attack` runs an attack on a boundary and returns the rules that it breaks; `check_detector`
does the same for a detector, and `check_model` for a model. `NearDuplicates` is a reference
detector.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from .core.ask import Answers, Ask, Asking, handled
from .core.cell import Cell
from .core.limits import Limits
from .core.metric import Metric
from .core.model import Model, from_callable
from .core.prices import Prices
from .core.problem import Attack, Problem
from .core.result import Result
from .core.stop import Stop
from .core.validation import check_seed, require
from .detection import NearDuplicates, check_detector
from .engine.engine import Engine
from .model_check import check_model
from .parts.subspaces import Dct, Full, Subspace

Shape = tuple[int, ...]
SHAPE = (3, 16, 16)


@dataclass(frozen=True)
class Boundary:
    """A classifier whose smallest adversarial distance is known."""

    name: str
    source: Tensor
    """The image to attack, of class 0."""
    optimum: float
    """Smallest distance of an adversarial point in [0,1]^d; infinite if there is none."""
    adversarial: Callable[[Tensor], Tensor]
    """Function from differences from the source, (n, d), to whether each is adversarial, (n)."""
    norm: Metric = Metric.L2

    def labels(self, images: Tensor) -> Tensor:
        """Return 0 for the source class, and 1 or 2 for adversarial points."""
        apart = images.flatten(1) - self.source.flatten().to(images)
        far = self.adversarial(apart)
        return torch.where(far, 1 + (apart[:, 0] > 0).long(), 0)

    def model(self, dtype: torch.dtype = torch.float64, quantize: int | None = None) -> Model:
        return from_callable(self.labels, dtype=dtype, quantize=quantize, classes=3)


def _grey(shape: Shape) -> Tensor:
    return torch.full(shape, 0.5, dtype=torch.float64)


def _unit(seed: int, shape: Shape, factor: float = 1.0) -> Tensor:
    """Return a random unit vector with only the lowest 1/factor of the frequencies."""
    check_seed("seed", seed)
    generator = torch.Generator().manual_seed(int(seed))
    space: Subspace = Full() if factor == 1 else Dct(factor)
    drawn = torch.randn(space.shape(shape), generator=generator, dtype=torch.float64)
    vector = space.expand(drawn[None], shape).flatten()
    unit: Tensor = vector / torch.linalg.vector_norm(vector)
    return unit


def half_space(
    distance: float = 1.0,
    shape: Shape = SHAPE,
    seed: int = 0,
    factor: float = 1.0,
    norm: Metric = Metric.L2,
) -> Boundary:
    """Return a plane at ℓ2 `distance` from a mid-grey image; the box [0,1]^d does not matter."""
    normal = _unit(seed, shape, factor)
    optimum = distance / float(normal.abs().sum()) if norm is Metric.LINF else distance

    def adversarial(apart: Tensor) -> Any:
        return apart @ normal.to(apart) >= distance

    return Boundary("half-space", _grey(shape), optimum, adversarial, norm)


def half_space_in_box(
    shape: Shape = SHAPE, seed: int = 0, factor: float = 1.0, norm: Metric = Metric.L2
) -> Boundary:
    """Return a plane for an image near a corner of the box [0,1]^d, where pixels may clip."""
    generator = torch.Generator().manual_seed(seed + 1)
    source = 0.05 + 0.9 * torch.randint(0, 2, shape, generator=generator).double()
    normal = _unit(seed, shape, factor)
    step = normal.sign() if norm is Metric.LINF else normal
    room = (-source.flatten(), 1 - source.flatten())

    def nearest(multiplier: float) -> Tensor:  # the projection for one value of the dual variable
        return (multiplier * step).clamp(*room)

    low, high = 0.0, 1e4
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if nearest(middle) @ normal < 1 else (low, middle)
    optimum = float(norm.norms(nearest(high).view(1, *shape)))
    return Boundary(
        "half-space in box", source, optimum, lambda apart: apart @ normal.to(apart) >= 1, norm
    )


def sphere(shape: Shape = SHAPE, seed: int = 0, factor: float = 1.0) -> Boundary:
    """Return a boundary around a ball of radius 2, with its centre at distance 1."""
    centre = _unit(seed, shape, factor)

    def adversarial(apart: Tensor) -> Any:
        return torch.linalg.vector_norm(apart - centre.to(apart), dim=1) >= 2

    return Boundary("sphere", _grey(shape), 1.0, adversarial)


def wedge(shape: Shape = SHAPE, seed: int = 0, factor: float = 1.0) -> Boundary:
    """Return an adversarial wedge behind two planes at distance 0.8, with a cosine of 0.6 between
    their normals; the closest point lies on its edge."""
    one, other = _unit(seed, shape, factor), _unit(seed + 1, shape, factor)
    other = other - (other @ one) * one
    two = 0.6 * one + 0.8 * other / torch.linalg.vector_norm(other)

    def adversarial(apart: Tensor) -> Any:
        return (apart @ one.to(apart) >= 0.8) & (apart @ two.to(apart) >= 0.8)

    return Boundary("wedge", _grey(shape), math.sqrt(2 * 0.8**2 / (1 + 0.6)), adversarial)


def slab(shape: Shape = SHAPE, seed: int = 0, factor: float = 1.0) -> Boundary:
    """Return layers: adversarial from 1 to 1.2, class 0 from 1.2 to 1.3, adversarial beyond."""
    normal = _unit(seed, shape, factor)

    def adversarial(apart: Tensor) -> Any:
        height = apart @ normal.to(apart)
        return ((height >= 1) & (height <= 1.2)) | (height >= 1.3)

    return Boundary("slab", _grey(shape), 1.0, adversarial)


def cube(shape: Shape = SHAPE, seed: int = 0, factor: float = 1.0) -> Boundary:
    """Return a boundary around a cube of half side 0.2, with its centre at ℓ∞ distance 0.1."""
    centre = _unit(seed, shape, factor)
    centre = 0.1 * centre / centre.abs().amax()

    def adversarial(apart: Tensor) -> Any:
        return (apart - centre.to(apart)).abs().amax(1) >= 0.2

    return Boundary("cube", _grey(shape), 0.1, adversarial, Metric.LINF)


def corner(shape: Shape = SHAPE, seed: int = 0, factor: float = 1.0) -> Boundary:
    """Return an adversarial corner behind two planes at ℓ∞ distance 0.03, each of which depends on
    half of the values."""
    halves = _unit(seed, shape, factor).chunk(2)
    dark = [-(half * half.sum().sign() + half.abs().mean() / 2) for half in halves]
    normals = torch.block_diag(*(half[None] / half.abs().sum() for half in dark))

    def adversarial(apart: Tensor) -> Any:
        return (apart @ normals.T.to(apart) >= 0.03).all(1)

    return Boundary("corner", _grey(shape), 0.03, adversarial, Metric.LINF)


def constant(shape: Shape = SHAPE) -> Boundary:
    """Return a classifier without adversarial points: no attack finds a start."""
    return Boundary(
        "constant", _grey(shape), math.inf, lambda apart: torch.zeros(len(apart), dtype=torch.bool)
    )


def boundaries(factor: float = 1.0, norm: Metric = Metric.L2) -> list[Boundary]:
    """Return one boundary of each kind for a metric; normals contain only the lowest 1/factor of
    the frequencies."""
    makers = (cube, corner) if norm is Metric.LINF else (sphere, wedge, slab)
    return [
        half_space(factor=factor, norm=norm),
        half_space_in_box(factor=factor, norm=norm),
        *(make(factor=factor) for make in makers),
        replace(constant(), norm=norm),
    ]


def _observed(attack: Attack, faults: list[str]) -> Attack:
    """Return the attack with a check of each ask and iterate; violations go to `faults`."""

    def observed(problem: Problem) -> Asking[Stop]:
        known: deque[Tensor] = deque(maxlen=4000)
        source = problem.source.clone()

        def check_iterates() -> None:
            if not torch.equal(problem.source, source):
                faults.append("changed problem.source, which an attack may only read")
            for point, *_ in problem.accepted:
                if not any(torch.equal(point, seen) for seen in reversed(known)):
                    faults.append("accepted a point that was not sent and found adversarial")

        def checked(ask: Ask) -> Asking[Answers]:
            check_iterates()
            for run in ask.runs:
                size = min(len(run.points), 40)
                parts = torch.cat([run.points[i : i + 1] for i in range(size)])
                if not torch.equal(run.points[0:size], parts):
                    faults.append(f"rows of phase {ask.phase!r} depend on the slice they are in")
            answers = yield ask
            for run, run_answers in zip(ask.runs, answers.runs, strict=True):
                points = run.points[0 : len(run_answers)].clamp(0, 1)
                known.extend(points[torch.tensor(run_answers.adversarial)])
            return answers

        stop = yield from handled(attack(problem), checked)
        check_iterates()
        return Stop(stop)

    return observed


def check_attack(
    attack: Attack,
    boundary: Boundary,
    prices: Prices | None = None,
    budget: float = 2000.0,
    seed: int = 0,
    max_queries: float = math.inf,
) -> tuple[Result, list[str]]:
    """Run an attack on a boundary; return the result and the rules that the attack broke.

    It must stop with a reason, not change the source image, accept only points that were sent and
    found adversarial, send rows that do not depend on how they are sliced, stay within the budget,
    and report a point that is adversarial at the reported distance.
    """
    is_boundary = isinstance(boundary, Boundary)
    require(is_boundary, "boundary", boundary, "a boundary, such as tb.testing.sphere()")
    observed: list[str] = []
    prices, limits = Prices() if prices is None else prices, Limits(budget, max_queries)
    cell = Cell(attack, boundary.source, 0, prices, limits, seed=seed, norm=boundary.norm)
    cell = replace(cell, attack=_observed(cell.fitted, observed))
    [result] = Engine(boundary.model()).run([cell])
    faults = list(dict.fromkeys(observed))
    if result.stop.failed:
        faults.append(f"stopped with {result.stop}: {result.reason}")
    if result.ledger.cost > budget:
        faults.append(f"spent {result.ledger.cost} of {budget}")
    if result.adversarial is not None:
        apart = float(boundary.norm.norms((result.adversarial - boundary.source)[None])[0])
        if int(boundary.labels(result.adversarial[None])) == 0:
            faults.append("reports a point that is not adversarial")
        if not math.isclose(apart, result.distance, rel_tol=1e-9):
            faults.append(f"reports the distance {result.distance} for a point at {apart}")
        if result.distance < boundary.optimum * (1 - 1e-9):
            faults.append(f"reports {result.distance}, less than is possible")
    return result, faults


__all__ = [
    "Boundary",
    "NearDuplicates",
    "boundaries",
    "check_attack",
    "check_detector",
    "check_model",
    "constant",
    "corner",
    "cube",
    "half_space",
    "half_space_in_box",
    "slab",
    "sphere",
    "wedge",
]
