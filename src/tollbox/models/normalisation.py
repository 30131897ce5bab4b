"""Normalisation: (image - mean) / std, per channel, in one place.

1. `mean` and `std` are one number, or one per channel; std is above 0. Either may be left out.
2. Images are never changed: the result is a new tensor in the layout that the network wants, which
   is written once and divided in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from ..core.validation import shown
from ..errors import InputError


@dataclass(frozen=True)
class Normalisation:
    """Puts a batch of images into a layout, minus `mean`, over `std`; both (1, c, 1, 1)."""

    mean: Tensor | None
    std: Tensor | None
    layout: torch.memory_format = torch.preserve_format

    @classmethod
    def checked(
        cls,
        mean: Sequence[float] | float | None,
        std: Sequence[float] | float | None,
        *,
        dtype: torch.dtype,
        device: torch.device,
        layout: torch.memory_format,
        channels: int | None = None,
    ) -> Normalisation:
        """From numbers as a user gives them; for any number of channels if that is not known."""
        return cls(
            _per_channel("mean", mean, dtype, device, channels),
            _per_channel("std", std, dtype, device, channels),
            layout,
        )

    def __call__(self, images: Tensor) -> Tensor:
        """The normalised images, (n, c, h, w)."""
        batch = torch.empty_like(images, memory_format=self.layout)
        if self.mean is None:
            batch.copy_(images)
        elif images.requires_grad:  # `out=` cuts gradients off
            batch.copy_(images).sub_(self.mean)
        else:
            torch.sub(images, self.mean, out=batch)
        return batch if self.std is None else batch.div_(self.std)


class Normalised(nn.Module):
    """A network behind a normalisation, for weights that expect one."""

    def __init__(self, network: nn.Module, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        self.network = network
        for name, values in (("mean", mean), ("std", std)):
            self.register_buffer(name, torch.tensor(values).reshape(1, -1, 1, 1))

    def numbers(self) -> tuple[list[float], list[float]]:
        """Its mean and std."""
        return self.get_buffer("mean").flatten().tolist(), self.get_buffer("std").flatten().tolist()

    def forward(self, images: Tensor) -> Tensor:
        """What the network gives."""
        normalise = Normalisation(self.get_buffer("mean"), self.get_buffer("std"))
        output: Tensor = self.network(normalise(images))
        return output


def _per_channel(
    name: Literal["mean", "std"],
    values: Sequence[float] | float | None,
    dtype: torch.dtype,
    device: torch.device,
    channels: int | None,
) -> Tensor | None:
    if values is None:
        return None
    try:
        numbers = torch.as_tensor(values, dtype=dtype, device=device).reshape(1, -1, 1, 1)
    except (TypeError, ValueError, RuntimeError):
        raise InputError(
            f"is {shown(values)}", expected="one number, or one per channel", input=name
        ) from None
    count = numbers.numel()
    if count < 1 or (channels is not None and count not in (1, channels)):
        images = "" if channels is None else f", and the images have {channels} channels"
        raise InputError(
            f"has {count} numbers{images}", expected="one number, or one per channel", input=name
        )
    if not torch.isfinite(numbers).all() or (name == "std" and (numbers <= 0).any()):
        listed = torch.as_tensor(values, dtype=torch.float64).flatten().tolist()
        raise InputError(
            f"is {','.join(f'{value:g}' for value in listed)}",
            expected=f"finite numbers{' above 0' if name == 'std' else ''}, one or one per channel",
            input=name,
        )
    return numbers
