"""The mask: which pixels may change.

1. What is sent is the source image wherever the mask is False, bit for bit, whoever made the point:
   the engine sees to it for every attack (engine/batch_builder.py).
2. Directions, starts and noise of the shape of an image are made within the mask, so that paths
   stay there, lengths are those of what is sent, and nothing is asked in vain. `Problem.dimension`
   counts the numbers that may change.
3. A mask is not in the key of random numbers: those that are left are the same as without it.

A mask is a bool tensor (c, h, w), or (h, w) or (1, h, w) for all channels.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..errors import InputError
from .arguments import shown


def check_mask(mask: Any, image: Tensor, name: str) -> None:
    """Raise InputError unless it is a mask for an image (c, h, w) and lets something change."""
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        kind = f"a tensor of {mask.dtype}" if isinstance(mask, Tensor) else shown(mask)
        raise InputError(
            f"the mask of {name} is {kind}",
            expected="a bool tensor, True where a pixel may change",
            remedy="use mask > 0.5" if isinstance(mask, Tensor) else "",
        )
    shape, (channels, *size) = tuple(mask.shape), image.shape
    if shape not in (tuple(size), (1, *size), (channels, *size)):
        raise InputError(
            f"the mask of {name} has shape {shape}",
            expected=f"that of the image, {tuple(image.shape)}, or of its pixels, {tuple(size)}",
        )
    if not mask.any():
        raise InputError(
            f"the mask of {name} lets nothing change", expected="at least one pixel that may"
        )


def whole_mask(mask: Tensor, source: Tensor) -> Tensor:
    """The mask for each number of an image."""
    return mask.expand(source.shape).contiguous()
