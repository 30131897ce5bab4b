"""Devices: one that torch can use, or a sentence that says why not."""

from __future__ import annotations

import torch

from ..errors import InputError
from ..files.tables import in_a_line


def usable(text: str | None, option: str) -> torch.device:
    """A device that works; by default the GPU if there is one, else the CPU. `option` is what the
    user calls it."""
    name = text or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        place = torch.device(name)
        if place.type == "meta":
            raise RuntimeError("it holds no numbers")
        torch.zeros(1, device=place).cpu()
    except (RuntimeError, AssertionError, NotImplementedError, ImportError) as error:
        raise InputError(
            f"{option} is {name!r}: {in_a_line(error)}. Expected cpu, cuda, cuda:1 or "
            "another device that this installation of torch can use."
        ) from None
    return place
