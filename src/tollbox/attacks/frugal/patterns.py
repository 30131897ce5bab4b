"""Patterns: rings and checkers, to which networks respond far from the image, and changes of a ray.

Close to an image, networks respond to the frequencies of photographs. Far from it, the direction
with the closest boundary is a regular pattern with a period of a few pixels (benchmarks/rays.py).
The distance depends on the period, the place and the colour, so several patterns are worth a query
each.

    Pattern    rings around a random centre, or checkers at a random angle, of one random period
    half       a ray without the perturbation on one side of a line through the middle
    spotlight  a ray whose perturbation fades away from a place near the middle
    blend      a ray plus a fresh one
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ...core.problem import Problem
from ...parts.priors import BRIGHTNESS
from ...parts.vectors import unit

EDGE = 12.0
"""Steepness of the edge of a half, per side of the image."""
FRESH_SHARE = 0.7
"""Length of a fresh ray relative to the one it is added to."""


@dataclass(frozen=True)
class Pattern:
    """A kind of pattern."""

    rings: bool
    """Whether it has rings; otherwise, it has checkers."""
    shortest: float
    """Minimum period in pixels."""
    longest: float
    """Maximum period in pixels."""
    contrast: float
    """How much of the image's contrast it removes; with 1, rays lead to an image of the pattern
    alone, without the source."""
    coloured: bool = False
    """Whether it has a random colour instead of changing the brightness."""

    def ray(self, problem: Problem, number: int) -> Tensor:
        """Return a unit direction from the source with this pattern."""
        source = problem.source
        channels, height, width = source.shape
        row = problem.noise("pattern", number, 1, (5 + channels,))[0:1][0]
        share, *places = torch.special.ndtr(row[:5])
        wave = 2 * math.pi / (self.shortest * (self.longest / self.shortest) ** share)
        down, right = _grid(source)
        if self.rings:
            away = torch.hypot(down - places[0] * height, right - places[1] * width)
            plane = torch.cos(wave * away + 2 * math.pi * places[2])
        else:
            cosine, sine = _direction(math.pi * places[3])
            along = wave * (down * sine + right * cosine) + 2 * math.pi * places[0]
            across = wave * (down * cosine - right * sine) + 2 * math.pi * places[1]
            plane = torch.cos(along) * torch.cos(across)
        colour = row[5:]
        if not self.coloured or channels == 1:
            mix = BRIGHTNESS if channels == 3 else (1.0,) * channels
            colour = torch.stack([torch.full_like(share, weight) for weight in mix])
        colour = (colour / colour.abs().amax()).view(-1, 1, 1)
        return unit(problem.only_mask(colour * plane + self.contrast * (1 - 2 * source)))


def half(problem: Problem, way: Tensor, number: int) -> Tensor:
    """Return a ray without its perturbation on a random side of a line through the middle."""
    return unit(way * torch.sigmoid(EDGE * _beyond_a_line(problem, number)))


def is_on_one_side(problem: Problem, number: int) -> Tensor:
    """Return the pixels on a random side of a line through the middle, (h, w)."""
    return _beyond_a_line(problem, number) > 0


def spotlight(problem: Problem, way: Tensor, number: int) -> Tensor:
    """Return a ray whose perturbation fades away from a random place near the middle."""
    (down, right), _, width = _middle(problem, number)
    spread = 0.2 + 0.2 * width
    return unit(way * torch.exp(-(down.square() + right.square()) / (2 * spread**2)))


def blend(way: Tensor, fresh: Tensor) -> Tensor:
    """Return a ray plus a fresh one."""
    return unit(torch.add(way, fresh, alpha=FRESH_SHARE))


def _grid(source: Tensor) -> tuple[Tensor, Tensor]:
    """Return the row of each pixel, (h, 1), and its column, (1, w)."""
    _, height, width = source.shape
    rows, columns = (
        torch.arange(side, device=source.device, dtype=source.dtype) for side in (height, width)
    )
    return rows[:, None], columns[None, :]


def _direction(angle: Tensor) -> tuple[Tensor, Tensor]:
    return torch.cos(angle), torch.sin(angle)


def _beyond_a_line(problem: Problem, number: int) -> Tensor:
    """Return the distance of each pixel from a random line through the middle, as a share of the
    sides; negative on its other side."""
    (down, right), angle, _ = _middle(problem, number)
    cosine, sine = _direction(2 * math.pi * angle)
    return right * cosine + down * sine


def _middle(problem: Problem, number: int) -> tuple[tuple[Tensor, Tensor], Tensor, Tensor]:
    """Return the places of pixels, as shares of the sides, relative to a random place near the
    middle, and two more uniform random numbers."""
    draws = torch.special.ndtr(problem.noise("window", number, 1, (4,))[0:1][0])
    (rows, columns), (_, height, width) = _grid(problem.source), problem.source.shape
    down = rows / height - 0.35 - 0.3 * draws[0]
    right = columns / width - 0.35 - 0.3 * draws[1]
    return (down, right), draws[2], draws[3]
