"""CUDA graphs: the launches of a forward pass recorded once for each batch shape, then replayed.

A network of a few hundred kernels takes milliseconds to launch, which a host that is busy with many
small asks does not have. The engine sends few fixed shapes, so few graphs are needed. Not every
network can be recorded (no data-dependent control flow, no synchronisation), so it is opt-in. A
compiled network is compiled in the runs that warm up, and recorded after that.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

MOST_SHAPES = 4
"""Shapes that are recorded; further ones are run without a graph."""
WARM_UP_RUNS = 3


class Graphed:
    """A function of one CUDA tensor, recorded for each shape that it is called with."""

    def __init__(self, forward: Callable[[Tensor], Tensor]) -> None:
        self.forward = forward
        self._recorded: dict[torch.Size, tuple[torch.cuda.CUDAGraph, Tensor, Tensor]] = {}

    def __reduce__(self) -> tuple[type[Graphed], tuple[Callable[[Tensor], Tensor]]]:
        """Another process records its own."""
        return Graphed, (self.forward,)

    @torch.inference_mode()
    def __call__(self, images: Tensor) -> Tensor:
        """The function's output."""
        if images.shape not in self._recorded:
            if len(self._recorded) == MOST_SHAPES:
                return self.forward(images)
            self._record(images)
        graph, inputs, output = self._recorded[images.shape]
        with torch.cuda.device(images.device):
            inputs.copy_(images)
            graph.replay()
            return output.clone()  # the next replay writes to the same place

    def _record(self, images: Tensor) -> None:
        with torch.cuda.device(images.device):
            self._recorded[images.shape] = self._captured(images)

    def _captured(self, images: Tensor) -> tuple[torch.cuda.CUDAGraph, Tensor, Tensor]:
        inputs = images.clone()
        side_stream = torch.cuda.Stream()
        side_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side_stream):
            for _ in range(WARM_UP_RUNS):
                self.forward(inputs)
        torch.cuda.current_stream().wait_stream(side_stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            output = self.forward(inputs)
        return graph, inputs, output
