"""A network made ready to be run: on a device, in a dtype and a layout, in eval mode.

The user's own network stays as it is. If something has to change, a copy is changed; if nothing
does, the network is shared.
"""

from __future__ import annotations

import copy

import torch
from torch import nn

from ..errors import InputError
from ..files.functions import with_kind


def convolves(network: nn.Module) -> bool:
    """Whether it has two-dimensional convolutions, for which the layout matters."""
    return any(isinstance(module, nn.Conv2d) for module in network.modules())


def prepared(
    network: nn.Module, device: torch.device, dtype: torch.dtype, layout: torch.memory_format
) -> nn.Module:
    """The network itself if it is ready, else a copy that is."""
    tensors = [*network.parameters(), *network.buffers()]
    place = torch.empty(0, device=device).device  # with its number, where there are several
    changes = {
        f"on {device}": any(tensor.device != place for tensor in tensors),
        f"in {dtype}": any(t.is_floating_point() and t.dtype != dtype for t in tensors),
        f"in {layout}": any(
            t.ndim == 4 and not t.is_contiguous(memory_format=layout) for t in tensors
        ),
        "in eval mode": any(getattr(m, "training", False) for m in network.modules()),
    }
    wanted = [state for state, changed in changes.items() if changed]
    if not wanted:
        return network
    try:
        own = copy.deepcopy(network)
    except Exception as error:  # a network may hold anything
        raise InputError(
            f"cannot be copied ({with_kind(error)}), and is not {' and '.join(wanted)}",
            expected="one that can, since it is left as it is",
            remedy="give it in the state in which it is to be run",
            input="network",
        ) from None
    own = own.to(device, dtype).eval()
    return own.to(memory_format=layout)  # type: ignore[call-overload, no-any-return]
