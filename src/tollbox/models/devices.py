"""Devices: one that torch can use, or a sentence that says why not."""

from __future__ import annotations

import torch

from ..errors import InputError
from ..files.tables import in_a_line


def usable(name: str | None) -> torch.device:
    """A device that works; by default the GPU if there is one, else the CPU."""
    name = name or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        if device.type == "meta":
            raise RuntimeError("it holds no numbers")
        torch.zeros(1, device=device).cpu()
    except (RuntimeError, AssertionError, NotImplementedError, ImportError) as error:
        raise InputError(
            f"is {name!r} ({in_a_line(error)})",
            expected="cpu, cuda, cuda:1 or another device that this installation of torch can use",
            input="device",
        ) from None
    return device
