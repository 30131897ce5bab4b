"""Directions within a mask: what a prior draws there, whatever the prior.

A direction is drawn as without a mask, set to 0 outside it, and made of length 1 again; so the
random numbers are the same, and all points that are made of directions, starts and the source image
stay within the mask. Attacks and parts begin a prior by `drawing_for`, and ask for its dimension by
`dimension_for`, so that a prior need not know of masks.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from torch import Tensor

from ..core.problem import Problem
from .subspaces import Drawing, Prior, Recordable, Shape
from .vectors import unit_rows


def drawing_for(problem: Problem, prior: Prior) -> Drawing:
    """What a prior draws at one image: within the mask, if the problem has one."""
    drawing = prior.begin(problem)
    if problem.mask is None:
        return drawing
    weights = problem.mask.to(problem.source.dtype)
    kind = _MaskedRecordable if isinstance(drawing, Recordable) else _MaskedDrawing
    return kind(drawing, weights)


def dimension_for(problem: Problem, prior: Prior) -> int:
    """d', the effective dimension of a prior at one image: of the part of it within the mask, as
    much as the mask is of the image."""
    whole = prior.dimension(tuple(problem.source.shape))
    if problem.mask is None:
        return whole
    return max(2, round(whole * problem.dimension / problem.source.numel()))


class _MaskedDrawing:
    """A drawing, with 0 outside a mask."""

    def __init__(self, drawing: Any, weights: Tensor) -> None:
        self._drawing, self._weights = drawing, weights

    @property
    def shape(self) -> Shape:
        shape: Shape = self._drawing.shape
        return shape

    def at(self, point: Tensor) -> Drawing:
        there = self._drawing.at(point)
        return self if there is self._drawing else type(self)(there, self._weights)

    def __call__(self, rows: Tensor, length: float) -> Tensor:
        return unit_rows(self._drawing(rows, 1.0) * self._weights).mul_(length)


class _MaskedRecordable(_MaskedDrawing):
    """The same of a drawing whose launches can be recorded."""

    @property
    def kind(self) -> Hashable:
        return "masked", self._drawing.kind

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return self._weights, *self._drawing.tensors

    def holding(self, *tensors: Tensor) -> Recordable:
        return _MaskedRecordable(self._drawing.holding(*tensors[1:]), tensors[0])
