"""Two small vision transformers for Fashion-MNIST: stand-ins for ViT-B/32 and ViT-B/16.

A patch of 7x7 pixels (16 tokens) or of 4x4 (49 tokens), three blocks of width 48, the mean of the
tokens, one linear layer; about 60 000 parameters each. Trained by `tools/train_vits.py`. They take
the images of the embedded model, and are meant for studies that must run anywhere.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..errors import InputError
from .shipped import shipped_weights

SIDE = 28
WIDTH, DEPTH, HEADS, INNER = 48, 3, 4, 96
PATCHES = (7, 4)


class Block(nn.Module):
    """Attention and a small network, each added to its input."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.mixing, self.joining = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.inner = nn.Sequential(nn.Linear(WIDTH, INNER), nn.GELU(), nn.Linear(INNER, WIDTH))

    def forward(self, tokens: Tensor) -> Tensor:
        """(n, tokens, width) to the same."""
        count, length, _ = tokens.shape
        mixed = self.mixing(self.before(tokens)).view(count, length, 3, HEADS, WIDTH // HEADS)
        query, key, value = mixed.permute(2, 0, 3, 1, 4)
        weights = (query @ key.transpose(-1, -2) / (WIDTH // HEADS) ** 0.5).softmax(-1)
        tokens = tokens + self.joining((weights @ value).transpose(1, 2).reshape(tokens.shape))
        return torch.add(tokens, self.inner(self.between(tokens)))


class TinyViT(nn.Module):
    """Images (n, 1, 28, 28) in [0,1] to logits of ten classes."""

    def __init__(self, patch: int) -> None:
        super().__init__()
        self.patch = patch
        self.embedding = nn.Linear(patch * patch, WIDTH)
        self.places = nn.Parameter(0.02 * torch.randn((SIDE // patch) ** 2, WIDTH))
        self.blocks = nn.Sequential(*(Block() for _ in range(DEPTH)))
        self.last = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, 10)

    def forward(self, images: Tensor) -> Tensor:
        """Logits (n, 10)."""
        across = SIDE // self.patch
        pixels = (images - 0.5).reshape(len(images), across, self.patch, across, self.patch)
        patches = pixels.transpose(2, 3).reshape(len(images), across**2, self.patch**2)
        tokens = self.blocks(self.embedding(patches) + self.places)
        logits: Tensor = self.head(self.last(tokens).mean(1))
        return logits


def tiny_vit(patch: int) -> tuple[TinyViT, float]:
    """The trained network with patches of 7 or 4 pixels, and its accuracy on the test images."""
    if patch not in PATCHES:
        raise InputError(f"is {patch}", expected="7 or 4", input="patch")
    tensors, about = shipped_weights(f"tiny_vit_{patch}")
    network = TinyViT(patch)
    network.load_state_dict(tensors)
    return network.eval(), about["test_accuracy"]


def vit_7() -> nn.Module:
    """Patches of 7x7, for a study's `source`."""
    return tiny_vit(7)[0]


def vit_4() -> nn.Module:
    """Patches of 4x4, for a study's `source`."""
    return tiny_vit(4)[0]
