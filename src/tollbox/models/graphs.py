"""CUDA graphs: the launches of a forward pass recorded once for each batch shape, then replayed.

A network of a few hundred kernels takes milliseconds to launch, which a host that is busy with many
small asks does not have. The engine sends few fixed shapes, so few graphs are needed. Not every
network can be recorded (no data-dependent control flow, no synchronisation), so it is opt-in. A
compiled network is compiled in the runs that warm up, and recorded after that.

1. At most `MOST_SHAPES` graphs are kept; that which was used longest ago makes room for another.
2. All of them take their memory from one pool, so that together they need little more than the
   largest. That is safe since each output is copied right after its replay, in the same stream,
   before another replay may write to that memory.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

MOST_SHAPES = 12
"""More than the engine sends in one run."""
WARM_UP_RUNS = 3

Recorded = tuple[torch.cuda.CUDAGraph, Tensor, Tensor]
"""A graph, what it reads and what it writes."""


class Graphed:
    """A function of one CUDA tensor, recorded for each shape that it is called with."""

    def __init__(self, forward: Callable[[Tensor], Tensor]) -> None:
        self.forward = forward
        self._recorded: dict[torch.Size, Recorded] = {}
        """By shape, the one that was used last at the end."""

    def __reduce__(self) -> tuple[type[Graphed], tuple[Callable[[Tensor], Tensor]]]:
        """Another process records its own."""
        return Graphed, (self.forward,)

    @torch.inference_mode()
    def __call__(self, images: Tensor) -> Tensor:
        """The function's output."""
        with torch.cuda.device(images.device):
            recorded = self._recorded.pop(images.shape, None) or self._captured(images)
            self._recorded[images.shape] = recorded
            if len(self._recorded) > MOST_SHAPES:  # only now: the others keep the pool alive
                del self._recorded[next(iter(self._recorded))]
            graph, inputs, output = recorded
            inputs.copy_(images)
            graph.replay()
            return output.clone()  # the next replay writes to the same place

    def _captured(self, images: Tensor) -> Recorded:
        pool = next((graph.pool() for graph, _, _ in self._recorded.values()), None)
        inputs = images.clone()
        side_stream = torch.cuda.Stream()
        side_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side_stream):
            for _ in range(WARM_UP_RUNS):
                self.forward(inputs)
        torch.cuda.current_stream().wait_stream(side_stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool):
            output = self.forward(inputs)
        return graph, inputs, output
