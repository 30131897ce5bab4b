"""torch.compile and CUDA graphs for a network: compiled or recorded once for each batch shape.

1. Compiled shapes are static, since the engine sends few shapes. After `MAX_SHAPES`, further shapes
   run uncompiled.
2. A CUDA graph saves the milliseconds that it takes to launch hundreds of kernels. A network with
   data-dependent control flow or synchronisation cannot be recorded, so graphs are opt-in. Such a
   network runs without them, and results carry a warning. The runs that warm up a graph also
   compile the network.
3. At most `MAX_GRAPHS` graphs are kept. The least recently used one makes room for another.
4. Another process receives the plain network, and compiles and records it itself.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ..core.device import CudaGraph, NotRecordable
from ..core.exactness import WITHOUT_GRAPHS
from ..data.user_code import with_kind
from ..errors import InputError, ModelFault

BACKEND = "inductor"
MAX_SHAPES = 16
MAX_VERSIONS = 256
"""Maximum number of compiled versions of one function for all networks; torch's default is 8."""
MAX_GRAPHS = 12
"""Maximum number of graphs kept; the engine sends fewer shapes in one run."""


class Compiled:
    """A network that is compiled for each shape it is called with."""

    def __init__(self, network: Callable[[Tensor], Any]) -> None:
        self.network = network
        self._compiled = torch.compile(network, backend=BACKEND, dynamic=False)
        self._shapes: set[torch.Size] = set()

    def __reduce__(self) -> tuple[type[Compiled], tuple[Callable[[Tensor], Any]]]:
        return Compiled, (self.network,)

    def __call__(self, batch: Tensor) -> Any:
        if batch.shape in self._shapes:
            return self._compiled(batch)
        if len(self._shapes) == MAX_SHAPES:
            return self.network(batch)
        try:
            with torch._dynamo.config.patch(cache_size_limit=MAX_VERSIONS):
                answer = self._compiled(batch)
        except torch._dynamo.exc.TorchDynamoException as error:
            raise ModelFault(f"the network cannot be compiled ({_reason(error)})") from None
        self._shapes.add(batch.shape)
        return answer


class Graphed:
    """A function of one CUDA tensor that is recorded for each shape it is called with."""

    def __init__(self, forward: Callable[[Tensor], Tensor]) -> None:
        self.forward = forward
        self._recorded: dict[torch.Size, CudaGraph] = {}
        self.notices: tuple[str, ...] = ()
        """The reason why nothing is recorded any more, for the warnings of results."""

    def __reduce__(self) -> tuple[type[Graphed], tuple[Callable[[Tensor], Tensor]]]:
        return Graphed, (self.forward,)

    def __call__(self, images: Tensor) -> Tensor:
        if (recorded := self._recorded.pop(images.shape, None)) is None and not self.notices:
            try:
                recorded = CudaGraph(self.forward, images)
            except NotRecordable as error:
                reason = with_kind(error.__cause__ or error)
                self.notices = (f"{WITHOUT_GRAPHS}: it cannot be recorded ({reason})",)
                self._recorded.clear()  # all shapes run in the same way
        if recorded is None:
            return self.forward(images)
        self._recorded[images.shape] = recorded
        if len(self._recorded) > MAX_GRAPHS:
            del self._recorded[next(iter(self._recorded))]
        return recorded(images)


@functools.cache
def check_compiler(device: torch.device) -> None:
    """Compile a small function, and raise InputError if that fails on this device."""
    try:
        compiled = torch.compile(lambda numbers: numbers + 1, backend=BACKEND, dynamic=False)
        compiled(torch.zeros(8, device=device))
    except Exception as error:  # no compiler, no Triton, no space, no permission: many types
        given = f"is set, but torch.compile does not work here ({_reason(error)})"
        expected, remedy = (
            "a C++ compiler such as g++, and on a GPU Triton",
            "leave it out otherwise",
        )
        raise InputError(given, expected=expected, remedy=remedy, input="compile") from None


def _reason(error: Exception) -> str:
    return with_kind(getattr(error, "inner_exception", error))
