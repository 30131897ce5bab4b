"""CUDA graphs: the launches of a forward pass recorded once for each batch shape, then replayed.

A network of a few hundred kernels takes milliseconds to launch, which a host that is busy with many
small asks does not have. The engine sends few fixed shapes, so few graphs are needed. Not every
network can be recorded (no data-dependent control flow, no synchronisation), so it is opt-in. A
compiled network is compiled in the runs that warm up, and recorded after that.

At most `MOST_SHAPES` graphs are kept; that which was used longest ago makes room for another.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ..core.recording import Recorded

MOST_SHAPES = 12
"""More than the engine sends in one run."""


class Graphed:
    """A function of one CUDA tensor, recorded for each shape that it is called with."""

    def __init__(self, forward: Callable[[Tensor], Tensor]) -> None:
        self.forward = forward
        self._recorded: dict[torch.Size, Recorded] = {}
        """By shape, the one that was used last at the end."""

    def __reduce__(self) -> tuple[type[Graphed], tuple[Callable[[Tensor], Tensor]]]:
        """Another process records its own."""
        return Graphed, (self.forward,)

    def __call__(self, images: Tensor) -> Tensor:
        """The function's output."""
        recorded = self._recorded.pop(images.shape, None) or Recorded(self.forward, images)
        self._recorded[images.shape] = recorded
        if len(self._recorded) > MOST_SHAPES:
            del self._recorded[next(iter(self._recorded))]
        return recorded(images)
