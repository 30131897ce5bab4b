"""Small models for Fashion-MNIST that stand in for the paper's; nothing has to be downloaded.

| here             | stands for         | description                                              |
|------------------|--------------------|----------------------------------------------------------|
| `convolutional`  | ResNet-50          | the embedded network                                     |
| `vit_7`, `vit_4` | ViT-B/32, ViT-B/16 | a small transformer with 16, and with 49, tokens         |
| `zero_shot`      | CLIP, zero-shot    | cosines of its last features with a prototype per class  |
| `fine_tuned`     | CLIP, fine-tuned   | the embedded network, whose last layer was trained       |

Each is a function without arguments, for `source` in a study; `images` is for `path` in [images].
`tools/train_vits.py` trains the transformers, which have about 60,000 parameters.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..core.validation import require
from ..data.images import ImageSet
from .embedded import CLASSES, embedded, shipped_weights

__all__ = ["convolutional", "fine_tuned", "images", "vit_4", "vit_7", "zero_shot"]

SIDE = 28
WIDTH, DEPTH, HEADS, INNER = 48, 3, 4, 96
PATCHES = (7, 4)


class Block(nn.Module):
    """A transformer block: attention and a small network, each added to its input."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.mixing, self.joining = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.inner = nn.Sequential(nn.Linear(WIDTH, INNER), nn.GELU(), nn.Linear(INNER, WIDTH))

    def forward(self, tokens: Tensor) -> Tensor:
        count, length, _ = tokens.shape
        mixed = self.mixing(self.before(tokens)).view(count, length, 3, HEADS, WIDTH // HEADS)
        query, key, value = mixed.permute(2, 0, 3, 1, 4)
        weights = (query @ key.transpose(-1, -2) / (WIDTH // HEADS) ** 0.5).softmax(-1)
        tokens = tokens + self.joining((weights @ value).transpose(1, 2).reshape(tokens.shape))
        return torch.add(tokens, self.inner(self.between(tokens)))


class TinyViT(nn.Module):
    """A vision transformer from images (n, 1, 28, 28) in [0,1] to logits (n, 10)."""

    def __init__(self, patch: int) -> None:
        super().__init__()
        self.patch = patch
        self.embedding = nn.Linear(patch * patch, WIDTH)
        self.places = nn.Parameter(0.02 * torch.randn((SIDE // patch) ** 2, WIDTH))
        self.blocks = nn.Sequential(*(Block() for _ in range(DEPTH)))
        self.last = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, 10)

    def forward(self, images: Tensor) -> Tensor:
        across = SIDE // self.patch
        pixels = (images - 0.5).reshape(len(images), across, self.patch, across, self.patch)
        patches = pixels.transpose(2, 3).reshape(len(images), across**2, self.patch**2)
        tokens = self.blocks(self.embedding(patches) + self.places)
        logits: Tensor = self.head(self.last(tokens).mean(1))
        return logits


class Prototypes(nn.Module):
    """A classifier by the cosines between an image's features and a prototype of each class."""

    def __init__(self, features: nn.Module, prototypes: Tensor) -> None:
        super().__init__()
        self.features = features
        self.register_buffer("prototypes", functional.normalize(prototypes, dim=1))

    def forward(self, images: Tensor) -> Tensor:
        features = functional.normalize(self.features(images), dim=1)
        return features @ self.get_buffer("prototypes").T


def tiny_vit(patch: int) -> tuple[TinyViT, float]:
    """Return the trained network with patches of 7x7 or 4x4 pixels, and its test accuracy."""
    require(patch in PATCHES, "patch", patch, "7 or 4")
    tensors, about = shipped_weights(f"tiny_vit_{patch}")
    network = TinyViT(patch)
    network.load_state_dict(tensors)
    return network.eval(), about["test_accuracy"]


def vit_7() -> nn.Module:
    return tiny_vit(7)[0]


def vit_4() -> nn.Module:
    return tiny_vit(4)[0]


def convolutional() -> nn.Sequential:
    return cast(nn.Sequential, embedded().model.network)


fine_tuned = convolutional


def zero_shot() -> nn.Module:
    """Return a classifier whose prototypes are the mean unit features of each class's images."""
    shipped = embedded()
    body = convolutional()[:-1]
    with torch.inference_mode():
        features = functional.normalize(body(shipped.images.clone()), dim=1)
        means = [features[shipped.labels == label].mean(0) for label in range(len(CLASSES))]
    return Prototypes(body, torch.stack(means).clone()).eval()


def images() -> ImageSet:
    """Return the embedded images that all of these models classify correctly."""
    shipped = embedded()
    correct = torch.ones(len(shipped.labels), dtype=torch.bool)
    with torch.inference_mode():
        for make in (convolutional, vit_7, vit_4, zero_shot):
            correct &= make()(shipped.images.clone()).argmax(1) == shipped.labels
    names = tuple(map(str, torch.nonzero(correct).flatten().tolist()))
    labels = tuple(shipped.labels[correct].tolist())
    origins = ("the embedded images",) * len(names)
    return ImageSet(shipped.images[correct], labels, names, origins, CLASSES)
