"""Blocks: which pixels of a perturbation to weaken or strengthen next.

A part proposes factors (1, h, w) for the pixels of a perturbation: alternatives, in the order in
which they are tried. All of it stays on the device.

    Quarters (SeRI, 2026)   the block whose perturbation has the largest l2 norm, times 0.2 or 1.8;
                            then it is split into four. At first, the image is in four blocks.
    Weakest (SAR, 2026)     the p of its blocks whose perturbation was weakest at first, times 0.9,
                            for p = 1/2, 1/4, 3/4, 1/8, 3/8, ...
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Protocol

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d

from ..core.validation import MAX_VALUE, number
from .registry import Checked, Count, Fraction, register

Propose = Callable[[Tensor], list[Tensor]]
"""Function of the perturbation, up to its length, that returns factors; none at the end."""
EXACT = 2.0**40
"""Energies are added as whole numbers of this fraction, so that the order does not matter."""
SHARES = 10_000


class Blocks(Protocol):
    """A part that proposes factors."""

    def begin(self, perturbation: Tensor) -> Propose:
        """Return the proposals for one image, with their own state."""


@register(Blocks)
class Quarters(Checked):
    """SeRI's blocks."""

    smaller: Fraction = 0.2
    larger: Annotated[float, number(1, MAX_VALUE)] = 1.8

    def begin(self, perturbation: Tensor) -> Propose:
        height, width = perturbation.shape[1:]
        places = [torch.arange(side, device=perturbation.device) for side in (height, width)]
        grid = torch.meshgrid(*places, indexing="ij")
        owner, count = torch.zeros_like(grid[0]), 1
        most = 2 * height * width

        def split(inside: Tensor) -> Tensor:
            """Return the owners after a block is split at the middles of its sides."""
            quarter = torch.zeros_like(owner)
            for axis in grid:
                first = torch.where(inside, axis, axis.numel()).amin()
                last = torch.where(inside, axis, -1).amax()
                quarter = 2 * quarter + (axis > (first + last) // 2)
            return torch.where(inside & (quarter > 0), count + quarter - 1, owner)

        owner, count = split(owner == 0), 4

        def propose(perturbation: Tensor) -> list[Tensor]:
            nonlocal owner, count
            if count > most:
                return []
            energy = perturbation.square().sum(0)
            energy = (energy * (EXACT / energy.sum())).nan_to_num().long()
            total, size = energy.new_zeros(2, count)
            total.index_add_(0, owner.flatten(), energy.flatten())
            size.index_add_(0, owner.flatten(), torch.ones_like(owner).flatten())
            chosen = torch.where(size > 1, total, -1).argmax()
            inside = owner == chosen
            owner, count = split(inside), count + 3
            mask = inside.to(perturbation)[None]
            return [1 + (factor - 1) * mask for factor in (self.smaller, self.larger)]

        return propose


def share_of(index: int) -> float:
    """Return 1/2, 1/4, 3/4, 1/8, 3/8, 5/8, 7/8, 1/16, ... for 0, 1, 2, ..."""
    level = (index + 1).bit_length()
    return (2 * (index + 1 - (1 << (level - 1))) + 1) / (1 << level)


@register(Blocks)
class Weakest(Checked):
    """SAR's blocks."""

    size: Count = 16
    """Number of pixels on a side of a block; the last ones of a row or column may be smaller."""
    factor: Fraction = 0.9

    def begin(self, perturbation: Tensor) -> Propose:
        height, width = perturbation.shape[1:]
        size, index = min(self.size, height, width), 0
        means = avg_pool2d(perturbation.abs().mean(0)[None], size, ceil_mode=True)
        weight = means.repeat_interleave(size, 1).repeat_interleave(size, 2)[:, :height, :width]
        used = weight.flatten().masked_fill(weight.flatten() == 0, math.nan)  # not outside the mask

        def propose(_: Tensor) -> list[Tensor]:
            nonlocal index
            if index == SHARES:
                return []
            lowest = weight <= torch.nanquantile(used, share_of(index))
            index += 1
            return [1 + (self.factor - 1) * lowest.to(weight)]

        return propose
