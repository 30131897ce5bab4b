"""In which precision a network computes; points are sent in float32, or in float64 (rule 5).

1. A network runs in float64 if one of its weights has it, else in float32, unless a dtype is given:
   half-precision weights are turned into float32. All of its weights and buffers get that dtype.
2. Lower precision is inside the model: images are normalised in float32 and cast after that.
3. `tf32` holds while the network is launched, and for nothing else: what attacks compute by
   themselves, and other models, keep torch's own setting.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch import nn

from ..core import validation as dtypes
from ..core.device import set_tf32, tf32_setting, tf32_turned
from ..core.validation import shown
from ..errors import InputError

DTYPES: dict[str, torch.dtype] = {name: getattr(torch, name) for name in dtypes.DTYPES}
"""What a network may compute in, by the names that study files use."""


def inner_dtype(dtype: torch.dtype | None, network: nn.Module) -> torch.dtype:
    """What the network computes in: as told, or else as its weights are."""
    if dtype is None:
        return points_dtype(own_dtype(network))
    if not isinstance(dtype, torch.dtype) or dtype not in DTYPES.values():
        raise InputError(
            f"is {shown(dtype)}",
            expected=f"torch's {dtypes.DTYPE_NAMES}",
            remedy="for a model that takes 8-bit images use quantize=8 and convert inside it",
            input="dtype",
        )
    return dtype


def own_dtype(network: nn.Module) -> torch.dtype:
    """float64 if a weight has it, else that of the first; of buffers if there are no weights."""
    for tensors in (network.parameters(), network.buffers()):
        found = [tensor.dtype for tensor in tensors if tensor.is_floating_point()]
        if found:
            return torch.float64 if torch.float64 in found else found[0]
    return torch.float32


def points_dtype(dtype: torch.dtype) -> torch.dtype:
    """What points are sent in to a network that computes in `dtype`."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def check_tf32(tf32: bool | None, device: torch.device) -> None:
    """Raise InputError if TF32 cannot be turned on there."""
    if tf32 and device.type != "cuda":
        raise InputError(
            f"is set, and the device is {device}", expected="a CUDA device", input="tf32"
        )


@contextlib.contextmanager
def matrix_products(tf32: bool | None) -> Iterator[None]:
    """While entered, float32 products and convolutions on CUDA are in TF32, or not; None: as is."""
    if tf32 is None:
        yield
        return
    before = tf32_setting()
    set_tf32(tf32_turned(tf32))
    try:
        yield
    finally:
        set_tf32(before)
