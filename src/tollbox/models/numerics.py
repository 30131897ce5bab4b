"""Normalisation, (image - mean) / std per channel, and the precision of a network.

1. `mean` and `std` are one number, or one per channel. Both are optional.
2. Images are never changed: the result is a new tensor in the layout that the network wants.
3. By default a network runs in float64 if one of its weights is float64, else in float32. All
   weights and buffers get that dtype.
4. Points are sent in float32 or float64. Images are normalised in that dtype and cast to a lower
   precision afterwards, inside the model.
5. A float32 network computes in true float32 unless `tf32` is set, whatever torch's setting. This
   applies only while the network is launched. Other computations keep torch's setting.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..core import validation
from ..core.device import set_tf32, tf32_setting, tf32_turned
from ..core.validation import require, shown
from ..errors import InputError

DTYPES: dict[str, torch.dtype] = {name: getattr(torch, name) for name in validation.DTYPES}
"""The dtypes in which a network may compute, by their names in study files."""
Numbers = Sequence[float] | float | None


@dataclass(frozen=True)
class Normalisation:
    """A function that normalises a batch and sets its layout; `mean` and `std` are (1, c, 1, 1)."""

    mean: Tensor | None
    std: Tensor | None
    layout: torch.memory_format = torch.preserve_format

    @classmethod
    def checked(
        cls,
        mean: Numbers,
        std: Numbers,
        *,
        dtype: torch.dtype,
        device: torch.device,
        layout: torch.memory_format = torch.contiguous_format,
        channels: int | None = None,
    ) -> Normalisation:
        """Return a normalisation from a user's numbers; raise InputError if they are invalid."""
        return cls(
            _per_channel("mean", mean, dtype, device, channels),
            _per_channel("std", std, dtype, device, channels),
            layout,
        )

    def __call__(self, images: Tensor) -> Tensor:
        batch = torch.empty_like(images, memory_format=self.layout)
        if self.mean is None:
            batch.copy_(images)
        elif images.requires_grad:  # `out=` would cut off gradients
            batch.copy_(images).sub_(self.mean)
        else:
            torch.sub(images, self.mean, out=batch)
        return batch if self.std is None else batch.div_(self.std)


def numbers_in(values: Numbers) -> tuple[float, ...] | None:
    if values is None:
        return None
    return tuple(torch.as_tensor(values, dtype=torch.float64).flatten().tolist())


def _per_channel(
    name: str, values: Numbers, dtype: torch.dtype, device: torch.device, channels: int | None
) -> Tensor | None:
    if values is None:
        return None
    expected = "one number, or one per channel"
    try:
        kind = torch.as_tensor(values).dtype
        if kind.is_complex or kind == torch.bool:
            raise TypeError
        numbers = torch.as_tensor(values, dtype=dtype, device=device).reshape(1, -1, 1, 1)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise InputError(f"is {shown(values)}", expected=expected, input=name) from None
    count = numbers.numel()
    if count < 1 or (channels is not None and count not in (1, channels)):
        images = "" if channels is None else f", but the images have {channels} channels"
        raise InputError(f"has {count} numbers{images}", expected=expected, input=name)
    if not torch.isfinite(numbers).all() or (name == "std" and (numbers <= 0).any()):
        listed = torch.as_tensor(values, dtype=torch.float64).flatten().tolist()
        given = f"is {','.join(f'{value:g}' for value in listed)}"
        finite = "finite numbers above 0" if name == "std" else "finite numbers"
        raise InputError(given, expected=f"{finite}, one or one per channel", input=name)
    return numbers


def compute_dtype(dtype: torch.dtype | None, network: nn.Module) -> torch.dtype:
    """Return the dtype in which a network computes: the given one, or that of rule 3."""
    if dtype is None:
        return points_dtype(weights_dtype(network))
    known = isinstance(dtype, torch.dtype) and dtype in DTYPES.values()
    remedy = "for a model that takes 8-bit images use quantize=8 and convert inside it"
    require(known, "dtype", dtype, f"torch's {validation.DTYPE_NAMES}", remedy)
    return dtype


def weights_dtype(network: nn.Module) -> torch.dtype:
    """Return float64 if any weight (or else buffer) has it, otherwise the dtype of the first."""
    for tensors in (network.parameters(), network.buffers()):
        found = [tensor.dtype for tensor in tensors if tensor.is_floating_point()]
        if found:
            return torch.float64 if torch.float64 in found else found[0]
    return torch.float32


def points_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype in which points are sent to a network that computes in `dtype`."""
    return torch.float64 if dtype == torch.float64 else torch.float32


@contextlib.contextmanager
def matrix_products(tf32: bool) -> Iterator[None]:
    """Allow or forbid TF32 for matrix products and convolutions on CUDA."""
    before = tf32_setting()
    set_tf32(tf32_turned(tf32))
    try:
        yield
    finally:
        set_tf32(before)
