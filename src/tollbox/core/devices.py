"""Devices: one that torch can use here, or a sentence that says which there are; and how an image
gets there without anyone waiting."""

from __future__ import annotations

import torch
from torch import Tensor

from ..errors import InputError
from .arguments import shown


def usable(device: str | torch.device | None) -> torch.device:
    """A device that works; by default the GPU if there is one, else the CPU."""
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        chosen = torch.device(device)
        if chosen.type == "meta":  # it holds no numbers
            raise RuntimeError
        torch.zeros(1, device=chosen).cpu()
    except (RuntimeError, AssertionError, NotImplementedError, ImportError, TypeError, ValueError):
        raise InputError(
            f"is {shown(str(device) if isinstance(device, torch.device) else device)}, which this "
            "installation of torch cannot use here",
            expected=" or ".join(_present()),
            input="device",
        ) from None
    return chosen


def carried(image: Tensor, device: torch.device, dtype: torch.dtype) -> Tensor:
    """An image on a device, in one piece. The host goes on at once: it would wait for all that a
    GPU has to do before, if the image lay in memory that the system may move."""
    if device.type == "cuda" and image.device.type == "cpu":
        image = image.to(dtype).pin_memory()
    return image.to(device, dtype, non_blocking=True).contiguous()


def _present() -> list[str]:
    """The devices of this machine that torch can use."""
    gpus = [f"cuda:{number}" for number in range(torch.cuda.device_count())]
    apple = ["mps"] if torch.backends.mps.is_available() else []
    return ["cpu", *gpus, *apple]
