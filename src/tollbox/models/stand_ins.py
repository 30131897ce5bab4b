"""What the small studies attack in place of the paper's models; nothing has to be downloaded.

| here             | stands for          | what it is                                          |
|------------------|---------------------|-----------------------------------------------------|
| `convolutional`  | ResNet-50           | the embedded network                                |
| `vit_7`, `vit_4` | ViT-B/32, ViT-B/16  | a small transformer with few, and with many, tokens |
| `zero_shot`      | CLIP, zero-shot     | cosine to class prototypes in the embedded          |
|                  |                     | network's features; its last layer is not used      |
| `fine_tuned`     | CLIP, fine-tuned    | the embedded network, whose last layer was trained  |

Each is a function without arguments, for `source` in a study; `images` is for `path` in [images].
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..files.images import ImageSet
from .embedded import CLASSES, Embedded, embedded
from .tiny_vit import vit_4, vit_7

__all__ = ["convolutional", "fine_tuned", "images", "vit_4", "vit_7", "zero_shot"]


class Prototypes(nn.Module):
    """Logits are the cosines between an image's features and a prototype for each class."""

    def __init__(self, features: nn.Module, prototypes: Tensor) -> None:
        super().__init__()
        self.features = features
        self.register_buffer("prototypes", functional.normalize(prototypes, dim=1))

    def forward(self, pictures: Tensor) -> Tensor:
        """(n, classes)."""
        features = functional.normalize(self.features(pictures), dim=1)
        return features @ self.get_buffer("prototypes").T


def convolutional() -> nn.Module:
    """The embedded network."""
    return _network(embedded())


def fine_tuned() -> nn.Module:
    """The embedded network."""
    return convolutional()


def zero_shot() -> nn.Module:
    """Prototypes are the mean features, each scaled to length one, of a class's shipped images."""
    shipped = embedded()
    body = _network(shipped)[:-1]
    with torch.inference_mode():
        features = functional.normalize(body(shipped.images.clone()), dim=1)
        means = [features[shipped.labels == label].mean(0) for label in range(len(CLASSES))]
    return Prototypes(body, torch.stack(means).clone()).eval()


def images() -> ImageSet:
    """The shipped images that all of these models classify correctly, by their numbers."""
    shipped = embedded()
    correct = torch.ones(len(shipped.labels), dtype=torch.bool)
    with torch.inference_mode():
        for make in (convolutional, vit_7, vit_4, zero_shot):
            correct &= make()(shipped.images.clone()).argmax(1) == shipped.labels
    numbers = torch.nonzero(correct).flatten()
    names = tuple(str(number) for number in numbers.tolist())
    labels = tuple(shipped.labels[numbers].tolist())
    origins = ("the embedded images",) * len(names)
    return ImageSet(shipped.images[numbers], labels, names, origins, CLASSES)


def _network(shipped: Embedded) -> nn.Sequential:
    network = shipped.model.network
    if not isinstance(network, nn.Sequential):
        raise TypeError("the embedded model has no network")
    return network
