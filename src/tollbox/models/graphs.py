"""CUDA graphs: the launches of a forward pass recorded once for each batch shape, then replayed.

A network of a few hundred kernels takes milliseconds to launch, which a host that is busy with many
small asks does not have. The engine sends few fixed shapes, so few graphs are needed. Not every
network can be recorded (no data-dependent control flow, no synchronisation): this is for those who
ask for it.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

MOST = 4
"""Shapes that are recorded; further ones are run as they come."""
WARM_UP = 3


class Graphed:
    """A function of one CUDA tensor, recorded for each shape that it is called with."""

    def __init__(self, forward: Callable[[Tensor], Tensor]) -> None:
        self._forward = forward
        self._recorded: dict[torch.Size, tuple[torch.cuda.CUDAGraph, Tensor, Tensor]] = {}

    def __reduce__(self) -> tuple[type[Graphed], tuple[Callable[[Tensor], Tensor]]]:
        """Another process records its own."""
        return Graphed, (self._forward,)

    @torch.inference_mode()
    def __call__(self, images: Tensor) -> Tensor:
        """What the function gives."""
        if images.shape not in self._recorded:
            if len(self._recorded) == MOST:
                return self._forward(images)
            self._record(images)
        graph, given, answered = self._recorded[images.shape]
        with torch.cuda.device(images.device):
            given.copy_(images)
            graph.replay()
            return answered.clone()  # the next replay writes to the same place

    def _record(self, images: Tensor) -> None:
        with torch.cuda.device(images.device):
            self._recorded[images.shape] = self._captured(images)

    def _captured(self, images: Tensor) -> tuple[torch.cuda.CUDAGraph, Tensor, Tensor]:
        given = images.clone()
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(WARM_UP):
                self._forward(given)
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            answered = self._forward(given)
        return graph, given, answered
