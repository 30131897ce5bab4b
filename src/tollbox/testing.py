"""Classifiers with known boundaries, and checks for custom attacks, detectors and models.

Each boundary has a source image of class 0, a metric, and the distance of the closest point of
another class. Labels on the far side vary (1 or 2), which exposes an attack that confuses labels
with sides. Each boundary computes in the dtype of its images.

    half-space          a plane at distance 1 from a mid-grey image; the box does not matter
    half-space in box   the same, for an image near the corners of [0,1]^d: clipping matters
    sphere              the source class is a ball; the image lies off its centre
    wedge               both of two half-spaces; the closest point lies on their edge
    slab                a thin adversarial layer, then source again, then adversarial
    constant            nothing is adversarial: there is no start

In ℓ∞ (`linf_boundaries`) the closest point of a plane <w, x> = b is at b / ‖w‖₁, and all pixels
move by the same amount:

    half-space          the same plane as above
    half-space in box   the same, for an image near the corners of [0,1]^d: clipping matters
    cube                the source class is a cube; the image lies off its centre
    corner              behind both of two planes, each of half of the pixels
    constant            as above

An attack that samples in a subspace of low frequencies cannot reach a boundary whose normal lies
elsewhere; `factor` makes boundaries whose normals have low frequencies only.

`check_attack` runs an attack on a boundary and returns the rules that it breaks; `check_detector`
does the same for a detector, and `check_model` for a model. `NearDuplicates` is a reference
detector.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from .core.ask import Ask, Asking
from .core.cell import Cell
from .core.limits import Limits
from .core.metric import Metric, check_made_for
from .core.model import Model, from_callable
from .core.prices import Prices
from .core.problem import Attack, Problem
from .core.result import Result
from .core.stop import Stop
from .detection import NearDuplicates, check_detector
from .engine.engine import Engine
from .model_check import check_model
from .parts.subspaces import Dct, Full, Subspace

SHAPE = (3, 16, 16)


@dataclass(frozen=True)
class Boundary:
    """A two-sided classifier whose smallest adversarial distance is known."""

    name: str
    source: Tensor
    """The image to attack, of class 0."""
    optimum: float
    """Smallest distance of an adversarial point in [0,1]^d; infinite if there is none."""
    adversarial: Callable[[Tensor], Tensor]
    """Function that returns which rows (n, d), as differences from the source, are adversarial."""
    norm: Metric = Metric.L2

    def labels(self, images: Tensor) -> Tensor:
        """Return 0 on the source side, else 1 or 2."""
        apart = images.flatten(1) - self.source.flatten().to(images)
        far = self.adversarial(apart)
        return torch.where(far, 1 + (apart[:, 0] > 0).long(), 0)

    def model(self, dtype: torch.dtype = torch.float64, quantize: int | None = None) -> Model:
        return from_callable(self.labels, dtype=dtype, quantize=quantize, classes=3)


def _unit(seed: int, shape: tuple[int, ...], factor: float = 1.0) -> Tensor:
    """Return a random direction with the lowest 1/factor of the frequencies."""
    generator = torch.Generator().manual_seed(seed)
    space: Subspace = Full() if factor == 1 else Dct(factor)
    drawn = torch.randn(space.shape(shape), generator=generator, dtype=torch.float64)
    vector = space.expand(drawn[None], shape).flatten()
    unit: Tensor = vector / torch.linalg.vector_norm(vector)
    return unit


def half_space(
    distance: float = 1.0, shape: tuple[int, ...] = SHAPE, seed: int = 0, factor: float = 1.0
) -> Boundary:
    """Return a plane at `distance` from a mid-grey image."""
    source = torch.full(shape, 0.5, dtype=torch.float64)
    normal = _unit(seed, shape, factor)
    return Boundary(
        "half-space", source, distance, lambda apart: apart @ normal.to(apart) >= distance
    )


def half_space_in_box(
    shape: tuple[int, ...] = SHAPE, seed: int = 0, factor: float = 1.0
) -> Boundary:
    """Return a plane for an image near the corners of the box, where half of the pixels clip."""
    generator = torch.Generator().manual_seed(seed + 1)
    bits = torch.randint(0, 2, shape, generator=generator).double()
    source = 0.05 + 0.9 * bits
    normal, level = _unit(seed, shape, factor), 1.0
    room = (-source.flatten(), 1 - source.flatten())

    def nearest(multiplier: float) -> Tensor:  # the projection for one value of the dual variable
        return torch.minimum(torch.maximum(multiplier * normal, room[0]), room[1])

    low, high = 0.0, 1e4
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if nearest(middle) @ normal < level else (low, middle)
    optimum = float(torch.linalg.vector_norm(nearest(high)))
    return Boundary(
        "half-space in box", source, optimum, lambda apart: apart @ normal.to(apart) >= level
    )


def sphere(shape: tuple[int, ...] = SHAPE, seed: int = 0, factor: float = 1.0) -> Boundary:
    """Return a source class that is a ball of radius 2 with its centre at distance 1."""
    source = torch.full(shape, 0.5, dtype=torch.float64)
    centre = _unit(seed, shape, factor)
    return Boundary(
        "sphere",
        source,
        1.0,
        lambda apart: torch.linalg.vector_norm(apart - centre.to(apart), dim=1) >= 2,
    )


def wedge(shape: tuple[int, ...] = SHAPE, seed: int = 0, factor: float = 1.0) -> Boundary:
    """Return an adversarial wedge behind two planes at 0.8 whose normals have cosine 0.6."""
    source = torch.full(shape, 0.5, dtype=torch.float64)
    one, other = _unit(seed, shape, factor), _unit(seed + 1, shape, factor)
    other = other - (other @ one) * one
    two = 0.6 * one + 0.8 * other / torch.linalg.vector_norm(other)
    return Boundary(
        "wedge",
        source,
        math.sqrt(2 * 0.8**2 / (1 + 0.6)),
        lambda apart: (apart @ one.to(apart) >= 0.8) & (apart @ two.to(apart) >= 0.8),
    )


def slab(shape: tuple[int, ...] = SHAPE, seed: int = 0, factor: float = 1.0) -> Boundary:
    """Return layers: adversarial from 1 to 1.2, source from 1.2 to 1.3, adversarial beyond."""
    source = torch.full(shape, 0.5, dtype=torch.float64)
    normal = _unit(seed, shape, factor)

    def adversarial(apart: Tensor) -> Tensor:
        height = apart @ normal.to(apart)
        return ((height >= 1) & (height <= 1.2)) | (height >= 1.3)

    return Boundary("slab", source, 1.0, adversarial)


def constant(shape: tuple[int, ...] = SHAPE) -> Boundary:
    """Return a classifier without adversarial points."""
    source = torch.full(shape, 0.5, dtype=torch.float64)
    return Boundary(
        "constant", source, math.inf, lambda apart: torch.zeros(len(apart), dtype=torch.bool)
    )


def boundaries(factor: float = 1.0) -> list[Boundary]:
    """Return one of each kind; their normals have only the lowest 1/factor of the frequencies."""
    return [
        half_space(factor=factor),
        half_space_in_box(factor=factor),
        sphere(factor=factor),
        wedge(factor=factor),
        slab(factor=factor),
        constant(),
    ]


def linf_half_space(
    distance: float = 1.0, shape: tuple[int, ...] = SHAPE, seed: int = 0, factor: float = 1.0
) -> Boundary:
    """Return a plane at ℓ2 `distance` from a mid-grey image."""
    optimum = distance / float(_unit(seed, shape, factor).abs().sum())
    return replace(half_space(distance, shape, seed, factor), optimum=optimum, norm=Metric.LINF)


def linf_half_space_in_box(
    shape: tuple[int, ...] = SHAPE, seed: int = 0, factor: float = 1.0
) -> Boundary:
    """Return a plane for an image near the corners of the box, where half of the pixels clip."""
    boundary, normal = half_space_in_box(shape, seed, factor), _unit(seed, shape, factor)
    source = boundary.source.flatten()
    room = torch.where(normal > 0, 1 - source, source)
    low, high = 0.0, 1.0
    for _ in range(100):
        middle = (low + high) / 2
        reached = float(normal.abs() @ room.clamp_max(middle))
        low, high = (middle, high) if reached < 1.0 else (low, middle)
    return replace(boundary, optimum=high, norm=Metric.LINF)


def linf_cube(shape: tuple[int, ...] = SHAPE, seed: int = 0, factor: float = 1.0) -> Boundary:
    """Return a source class that is a cube of half side 0.2, its centre at distance 0.1."""
    source = torch.full(shape, 0.5, dtype=torch.float64)
    centre = _unit(seed, shape, factor)
    centre = 0.1 * centre / centre.abs().amax()
    return Boundary(
        "cube",
        source,
        0.1,
        lambda apart: (apart - centre.to(apart)).abs().amax(1) >= 0.2,
        Metric.LINF,
    )


def linf_corner(shape: tuple[int, ...] = SHAPE, seed: int = 0, factor: float = 1.0) -> Boundary:
    """Return an adversarial corner behind two planes at 0.03, each of half of the pixels."""
    source = torch.full(shape, 0.5, dtype=torch.float64)
    halves = _unit(seed, shape, factor).chunk(2)
    dark = [-(half * half.sum().sign() + half.abs().mean() / 2) for half in halves]
    normals = torch.block_diag(*(half[None] / half.abs().sum() for half in dark))
    return Boundary(
        "corner",
        source,
        0.03,
        lambda apart: (apart @ normals.T.to(apart) >= 0.03).all(1),
        Metric.LINF,
    )


def linf_boundaries(factor: float = 1.0) -> list[Boundary]:
    """Return one of each kind, in ℓ∞."""
    return [
        linf_half_space(factor=factor),
        linf_half_space_in_box(factor=factor),
        linf_cube(factor=factor),
        linf_corner(factor=factor),
        replace(constant(), norm=Metric.LINF),
    ]


@dataclass(frozen=True)
class _Observed:
    """An attack whose asks and iterates are checked as they pass."""

    attack: Attack
    faults: list[str] = field(default_factory=list)

    def __call__(self, problem: Problem) -> Asking[Stop]:
        asking, answers = self.attack(problem), None
        known: list[Tensor] = []
        while True:
            try:
                ask: Ask = asking.send(answers)  # type: ignore[arg-type]
            except StopIteration as end:
                self._iterates(problem, known)
                return Stop(end.value)
            self._iterates(problem, known)
            self._slices(ask)
            answers = yield ask
            for run, run_answers in zip(ask.runs, answers.runs, strict=True):
                points = run.points[0 : len(run_answers)].clamp(0, 1)
                known += list(points[torch.tensor(run_answers.adversarial)])
            known = known[-4000:]

    def _iterates(self, problem: Problem, known: list[Tensor]) -> None:
        for point, *_ in problem.accepted:
            if not any(torch.equal(point, seen) for seen in reversed(known)):
                self.faults.append("accepted a point that was not sent and found adversarial")

    def _slices(self, ask: Ask) -> None:
        for run in ask.runs:
            size = min(len(run.points), 40)
            whole = run.points[0:size]
            parts = torch.cat([run.points[i : i + 1] for i in range(size)])
            if not torch.equal(whole, parts):
                self.faults.append(f"rows of phase {ask.phase!r} depend on the slice they are in")


def check_attack(
    attack: Attack,
    boundary: Boundary,
    prices: Prices | None = None,
    budget: float = 2000.0,
    seed: int = 0,
    max_queries: float = math.inf,
) -> tuple[Result, list[str]]:
    """Run an attack on a boundary; return the result and the rules that the attack broke.

    It must stop with a reason, accept only points that were sent and found adversarial, ask for
    rows that do not depend on how they are sliced, stay within the budget, and report a point that
    is adversarial at the reported distance.
    """
    check_made_for(attack, boundary.norm)
    observed = _Observed(attack)
    prices, limits = prices or Prices(), Limits(budget, max_queries)
    cell = Cell(observed, boundary.source, 0, prices, limits, seed=seed, norm=boundary.norm)
    [result] = Engine(boundary.model()).run([cell])
    faults = list(dict.fromkeys(observed.faults))
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
    "half_space",
    "half_space_in_box",
    "linf_boundaries",
    "linf_corner",
    "linf_cube",
    "linf_half_space",
    "linf_half_space_in_box",
    "slab",
    "sphere",
    "wedge",
]
