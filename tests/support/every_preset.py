"""All presets, those that need a surrogate included, with a small network for these."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

import tollbox as tb
from tollbox.attacks import PRESETS, WITH_SURROGATE


class Waves(nn.Module):
    """Five classes for images of any shape, each with the coefficient of a wave of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(10.0))

    def forward(self, images: Tensor) -> Tensor:
        flat = images.flatten(1)
        places = torch.arange(flat.shape[1], dtype=torch.float32)
        waves = torch.stack([torch.cos(0.1 * (k + 1) * places + k) for k in range(5)])
        return torch.tanh(flat - 0.45) @ waves.T * self.scale


NETWORK = Waves()
EVERY = {**PRESETS, **WITH_SURROGATE}


def names(norm: str | None = None) -> list[str]:
    return [n for n, each in EVERY.items() if norm is None or norm in each.norms]


def attack_of(name: str) -> Any:
    return tb.preset(name, surrogate=NETWORK if name in WITH_SURROGATE else None)
