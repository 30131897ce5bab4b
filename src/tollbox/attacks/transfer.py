"""Directions from surrogates that also work on other networks.

The raw gradient of a surrogate is a tangent of that one network. What transfers is a direction that
keeps working over a stretch, under noise and for several networks:

`transfer_rays`    a momentum attack on the surrogates from the source image, at several radii at
                   once: in each step, the gradient at a copy with noise, resized at random.
`smoothed`         the mean gradient of each network over copies of a point with noise.

Random numbers come from the problem's own streams. Batches have a fixed shape.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from ..core.noise import content_hash
from ..core.problem import Problem
from ..parts.subspaces import bilinear_basis
from ..parts.vectors import unit, unit_rows
from .surrogates import Surrogate

RADII = (0.005, 0.01, 0.02, 0.04)
"""Radii of the transfer attack, per pixel value."""
STEPS = 40
MOMENTUM = 0.9
NOISE = 0.03
"""Standard deviation of the noise in a copy, in every pixel."""
RESIZED_SHARE, SMALLEST_SIZE = 0.7, 0.85
"""Share of the steps in which copies are resized, and the minimum scale."""
STRIDE = 2.5
"""Length of all steps together, in radii."""
COPIES = 16


def guides_of(problem: Problem, surrogate: Surrogate | None) -> tuple[list[int], bool]:
    """Return the networks to use for an image, and whether they are known to recognise it: those
    with the model's classes that do, or else those with their own."""
    if surrogate is None:
        return [], False
    usable, own = surrogate.recognising(problem), surrogate.own_labels(problem)
    known = [each for each in usable if each not in own]
    return (known, True) if known else (usable, False)


def transfer_rays(problem: Problem, surrogate: Surrogate, members: Sequence[int]) -> Tensor:
    """Return a unit direction from the source for each of the radii, (n, c, h, w), the most
    promising first: the smallest radius at which the attack fools all members, then the nearest.
    The surrogate keeps them for other prices and attacks."""
    mask, start = (
        None if image is None else content_hash(image)
        for image in (problem.mask, problem.start_image)
    )
    about = (
        problem.label,
        problem.goal,
        problem.classes,
        problem.source.dtype,
        problem.source.device,
    )
    key = problem.content, problem.seed, *about, mask, start, tuple(members)
    rays = surrogate.rays.get(key)
    if rays is None:
        rays = _computed_rays(problem, surrogate, members).half().cpu()
        surrogate.keep(key, rays)
    return unit_rows(rays.to(problem.source))


def _computed_rays(problem: Problem, surrogate: Surrogate, members: Sequence[int]) -> Tensor:
    source, shape = problem.source, problem.source.shape
    radii = source.new_tensor(RADII).mul(math.sqrt(problem.dimension)).view(-1, 1, 1, 1)
    count = len(RADII)
    points = source.expand(count, *shape).clone()
    momentum = torch.zeros_like(points)
    choices = problem.noise("transfer sizes", 0, STEPS, (4,))[0:STEPS]
    chances = torch.special.ndtr(choices.double()).tolist()
    for step in range(STEPS):
        copies = points + NOISE * problem.noise("transfer", step, count)[0:count]
        resized = _resizing(shape, chances[step], points)
        total = torch.zeros_like(points)
        for found in surrogate.margins(problem, _apply(resized, copies), members):
            total += unit_rows(_apply([each.T for each in resized], found.gradients))
        momentum = MOMENTUM * momentum + unit_rows(problem.only_mask(total))
        points = points + STRIDE / STEPS * radii * unit_rows(momentum)
        away = points - source
        lengths = torch.linalg.vector_norm(away.flatten(1), dim=1).view(-1, 1, 1, 1)
        points = (source + away * (radii / lengths.clamp_min(1e-12)).clamp_max(1.0)).clamp(0, 1)
    margins = torch.stack([each.margins for each in surrogate.margins(problem, points, members)])
    fooled = (margins > 0).all(0).tolist()
    first = fooled.index(True) if True in fooled else count - 1
    order = sorted(range(count), key=lambda each: (abs(each - first), -each))
    rays = unit_rows(points - source)[order]
    return rays[rays.flatten(1).any(1)]  # none if the networks have no gradient


def smoothed(
    problem: Problem, surrogate: Surrogate, point: Tensor, step: int, members: Sequence[int]
) -> Tensor:
    """Return the sum of the members' unit mean gradients over copies of a point with noise, as a
    unit vector."""
    copies = point + NOISE * problem.noise("surrogate", step, COPIES)[0:COPIES]
    total = torch.zeros_like(point)
    for found in surrogate.margins(problem, copies, members):
        total += unit(found.gradients.mean(0))
    return unit(total)


def _resizing(shape: torch.Size, chances: list[float], like: Tensor) -> list[Tensor]:
    """Return matrices for rows and columns that resize an image at random and pad it with 0 to its
    own size. Products of matrices have the same bits every time; torch's own resizing does not."""
    share, scale, *places = chances
    if share >= RESIZED_SHARE:
        return []
    matrices = []
    for size, place in zip(shape[1:], places, strict=True):
        smaller = max(1, round((SMALLEST_SIZE + (1 - SMALLEST_SIZE) * scale) * size))
        first = round(place * (size - smaller))
        matrix = torch.zeros(size, size, dtype=torch.float64)
        matrix[first : first + smaller] = torch.from_numpy(bilinear_basis(smaller, size))
        matrices.append(matrix.to(like))
    return matrices


def _apply(matrices: list[Tensor], images: Tensor) -> Tensor:
    if not matrices:
        return images
    rows, columns = matrices
    return rows @ images @ columns.T
