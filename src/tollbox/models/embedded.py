"""The embedded model: a small classifier for Fashion-MNIST, with 200 test images.

It has about 60,000 parameters. `tools/train_embedded.py` trains it and folds the batch norms into
the convolutions, so that no row of a batch can depend on another. Its weights are a safetensors
file, which contains no code. Fashion-MNIST is under the MIT licence (Zalando SE).
"""

from __future__ import annotations

import json
from importlib import resources
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ..core.model import Model
from ..data.user_code import optional
from .pytorch import from_torch

CLASSES = (
    *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
    *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
)
WIDTHS = ((1, 16, 2), (16, 32, 1), (32, 64, 2), (64, 64, 1))
"""(channels in, channels out, stride) of each convolution."""


class Embedded(NamedTuple):
    """The embedded model with images to attack."""

    model: Model
    images: Tensor
    """(200, 1, 28, 28) in [0,1], the first test images of Fashion-MNIST."""
    labels: Tensor
    """The true classes of the images."""
    accuracy: float
    """Fraction of the 10,000 test images that the model classifies correctly."""


def embedded(
    device: str = "cpu", dtype: torch.dtype | None = None, quantize: int | None = None
) -> Embedded:
    """Load the embedded model, its images and its labels."""
    tensors, about = shipped_weights("embedded")
    pixels, labels = tensors.pop("images"), tensors.pop("labels").long()
    net = network()
    net.load_state_dict(tensors)
    model = from_torch(net, device=device, dtype=dtype, quantize=quantize)
    images = pixels.to(model.dtype)[:, None] / 255
    return Embedded(model, images, labels, about["test_accuracy"])


def network() -> nn.Sequential:
    layers: list[nn.Module] = []
    for inputs, outputs, stride in WIDTHS:
        layers += [nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def shipped_weights(name: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors and the description in a file that comes with the package."""
    purpose = "the models that come with tollbox are read with it"
    safetensors = optional("safetensors", purpose, extra="cli")
    path = resources.files("tollbox.models") / f"{name}.safetensors"
    with resources.as_file(path) as file, safetensors.safe_open(file, framework="pt") as stored:
        tensors = {key: stored.get_tensor(key) for key in stored.keys()}  # noqa: SIM118
        return tensors, json.loads(stored.metadata()["about"])
