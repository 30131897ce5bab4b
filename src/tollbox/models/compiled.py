"""torch.compile for a network: compiled anew for each batch shape that it is called with.

1. Shapes are fixed: the engine sends few. Those past `MOST_SHAPES` are run as they are.
2. It is not torch's own mode with CUDA graphs, so that `graphs.Graphed` can record it.
3. A network goes to another process as it is, and is compiled there.
4. Whether anything can be compiled here is tried when the model is made.

CUDA graphs: the launches of a forward pass recorded once for each batch shape, then replayed.

A network of a few hundred kernels takes milliseconds to launch, which a host that is busy with many
small asks does not have. The engine sends few fixed shapes, so few graphs are needed. Not every
network can be recorded (no data-dependent control flow, no synchronisation), so it is opt-in. A
compiled network is compiled in the runs that warm up, and recorded after that.

At most `MOST_GRAPHS` graphs are kept; that which was used longest ago makes room for another.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ..core.device import CudaGraph
from ..data.user_code import with_kind
from ..errors import InputError, ModelFault

BACKEND = "inductor"
MOST_SHAPES = 16
"""Shapes that are compiled."""
MOST_VERSIONS = 256
"""Of one function, for all networks together; torch itself would stop at 8."""


class Compiled:
    """A network, compiled for each shape that it is called with."""

    def __init__(self, network: Callable[[Tensor], Any]) -> None:
        self.network = network
        self._compiled = torch.compile(network, backend=BACKEND, dynamic=False)
        self._shapes: set[torch.Size] = set()

    def __reduce__(self) -> tuple[type[Compiled], tuple[Callable[[Tensor], Any]]]:
        """Another process compiles its own."""
        return Compiled, (self.network,)

    def __call__(self, batch: Tensor) -> Any:
        """What the network gives."""
        if batch.shape in self._shapes:
            return self._compiled(batch)
        if len(self._shapes) == MOST_SHAPES:
            return self.network(batch)
        try:
            with torch._dynamo.config.patch(cache_size_limit=MOST_VERSIONS):
                answer = self._compiled(batch)
        except torch._dynamo.exc.TorchDynamoException as error:
            raise ModelFault(f"the network cannot be compiled ({_reason(error)})") from None
        self._shapes.add(batch.shape)
        return answer


@functools.cache
def check_compiler(device: torch.device) -> None:
    """Raise InputError if nothing can be compiled for the device; if it can, it is tried once."""
    try:
        torch.compile(_successor, backend=BACKEND, dynamic=False)(torch.zeros(8, device=device))
    except Exception as error:  # no compiler, no Triton, no room, nowhere to write: many kinds
        raise InputError(
            f"is set, and torch.compile does not work here ({_reason(error)})",
            expected="a C++ compiler such as g++, and on a GPU Triton",
            remedy="leave it out otherwise",
            input="compile",
        ) from None


def _reason(error: Exception) -> str:
    """What went wrong, without what torch puts around it."""
    return with_kind(getattr(error, "inner_exception", error))


def _successor(numbers: Tensor) -> Tensor:
    return numbers + 1


MOST_GRAPHS = 12
"""More than the engine sends in one run."""


class Graphed:
    """A function of one CUDA tensor, recorded for each shape that it is called with."""

    def __init__(self, forward: Callable[[Tensor], Tensor]) -> None:
        self.forward = forward
        self._recorded: dict[torch.Size, CudaGraph] = {}
        """By shape, the one that was used last at the end."""

    def __reduce__(self) -> tuple[type[Graphed], tuple[Callable[[Tensor], Tensor]]]:
        """Another process records its own."""
        return Graphed, (self.forward,)

    def __call__(self, images: Tensor) -> Tensor:
        """The function's output."""
        recorded = self._recorded.pop(images.shape, None) or CudaGraph(self.forward, images)
        self._recorded[images.shape] = recorded
        if len(self._recorded) > MOST_GRAPHS:
            del self._recorded[next(iter(self._recorded))]
        return recorded(images)
