"""Recording: a function of CUDA tensors as a graph, recorded once and replayed.

A function of some fifty small kernels takes a host longer to launch than a device to run; a graph
is one launch. It has memory of its own: what goes in is copied there, and what comes out is copied
from there, so that a replay on the same stream may follow at once. The kernels are the same, and so
are the results. All graphs share one pool for what they hold in between: each output is copied
right after its replay, in the same stream, before another replay may write to that memory.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

WARM_UP_RUNS = 3
"""In these, libraries choose their kernels, and a compiled function is compiled."""


@lru_cache(maxsize=8)
def _pool(device: torch.device) -> Any:
    with torch.cuda.device(device):
        return torch.cuda.graph_pool_handle()


class Recorded:
    """A function, recorded for tensors of the shapes of `inputs`."""

    @torch.no_grad()
    def __init__(self, function: Callable[..., Tensor], *inputs: Tensor) -> None:
        self._inputs = [each.clone() for each in inputs]
        self._device = inputs[0].device
        with torch.cuda.device(self._device):
            self._graph = torch.cuda.CUDAGraph()
            # Not `torch.cuda.graph`: it collects garbage and gives all free memory back first.
            aside = torch.cuda.Stream()
            aside.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(aside):
                for _ in range(WARM_UP_RUNS):
                    function(*self._inputs)
                torch.cuda.synchronize()
                self._graph.capture_begin(_pool(self._device), "thread_local")
                try:
                    self._output = function(*self._inputs)
                finally:
                    self._graph.capture_end()
            torch.cuda.current_stream().wait_stream(aside)

    @torch.no_grad()
    def __call__(self, *inputs: Tensor) -> Tensor:
        """The function's output, for tensors of the same shapes."""
        torch._foreach_copy_(self._inputs, list(inputs))
        with torch.cuda.device(self._device):
            self._graph.replay()
        return self._output.clone()
