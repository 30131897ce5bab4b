"""A small network that keeps what it is asked, and images that it classifies correctly."""

from __future__ import annotations

import torch
from torch import Tensor, nn

CLASSES = 5
SHAPE = (3, 6, 7)


class Counted(nn.Module):
    """Two layers for pixels from `low` to `high`; `channels_last`: images are (n, h, w, c)."""

    def __init__(self, low: float = 0, high: float = 1, channels_last: bool = False) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(3)
        self.first = nn.Parameter(torch.randn(126, 16, generator=generator))
        self.second = nn.Parameter(torch.randn(16, CLASSES, generator=generator))
        self.low, self.high, self.channels_last = low, high, channels_last
        self.asked: list[Tensor] = []
        self.eval()

    def forward(self, images: Tensor) -> Tensor:
        self.asked.append(images.detach().clone())
        if self.channels_last:
            images = images.permute(0, 3, 1, 2)
        pixels = (images - self.low) / (self.high - self.low) - 0.5
        return torch.tanh(pixels.flatten(1) @ self.first) @ self.second

    def points(self) -> Tensor:
        """All that it was asked since the last time, one after another."""
        rows, self.asked = torch.cat(self.asked), []
        return rows


def pictures(count: int = 4) -> tuple[Tensor, Tensor]:
    """Images (n, c, h, w) in [0,1], and what the network answers."""
    images = torch.rand(count, *SHAPE, generator=torch.Generator().manual_seed(8))
    with torch.no_grad():
        return images, Counted()(images).argmax(1)


def goals(images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """A class to reach for each image, and an image of that class."""
    many, found = pictures(300)
    targets = (labels + 1) % CLASSES
    return targets, torch.stack([many[found == target][0] for target in targets])
