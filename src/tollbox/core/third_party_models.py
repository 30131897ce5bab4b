"""Models from other packages: Foolbox models and ART classifiers, recognised by their attributes.

1. Neither package is imported.
2. A point in [0,1] is scaled to the model's bounds and sent in its layout: (n, c, h, w), or
   (n, h, w, c) if channels are last. With the bounds 0 and 1 no value changes.
3. Only the outputs before the decision are used: logits or scores (n, classes).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import ModelFault
from .validation import expect, is_number, require, shown

FOOLBOX = "a Foolbox model, such as foolbox.PyTorchModel(network, bounds=(0, 1))"
ART = "an ART classifier, such as art.estimators.classification.PyTorchClassifier(...)"


@dataclass(frozen=True)
class Pixels:
    """The bounds and the layout of another package's images."""

    low: float = 0.0
    high: float = 1.0
    channels_first: bool = True

    def encode(self, images: Tensor) -> Tensor:
        """Return images (n, c, h, w) in [0,1] in the other package's bounds and layout."""
        if (self.low, self.high) != (0, 1):
            images = (images * (self.high - self.low) + self.low).clamp(self.low, self.high)
        return images if self.channels_first else images.permute(0, 2, 3, 1).contiguous()

    def decode(self, images: Tensor, name: str) -> Tensor:
        """Return the other package's images as (n, c, h, w) in [0,1]; messages call them `name`."""
        layout = "(n, c, h, w)" if self.channels_first else "(n, h, w, c)"
        shape = f"has shape {tuple(images.shape)}"
        expect(images.ndim == 4 and images.numel() > 0, shape, f"{layout}, not empty", input=name)
        low, high = (value.item() for value in images.aminmax())
        given = f"has values from {low:g} to {high:g}"
        expected = f"{self.low:g} to {self.high:g}, the bounds of the model"
        within = bool(((images >= self.low) & (images <= self.high)).all())  # in their dtype
        expect(within, given, expected, input=name)
        if not self.channels_first:
            images = images.permute(0, 3, 1, 2).contiguous()
        if (self.low, self.high) == (0, 1):
            return images
        return ((images - self.low) / (self.high - self.low)).clamp(0, 1)


@dataclass(frozen=True)
class ThirdPartyModel:
    """A classifier from another package, as a function from points in [0,1] to its scores."""

    model: Any
    pixels: Pixels
    device: torch.device
    classes: int | None = None
    is_art: bool = False
    """Whether `model` is an ART classifier, which takes and returns arrays, not a Foolbox model."""

    def __call__(self, points: Tensor) -> Tensor:
        images = self.pixels.encode(points)
        if self.is_art:
            array = images.cpu().numpy()
            scores = self.model.predict(array, batch_size=len(array))
            output = torch.as_tensor(np.asarray(scores))
        else:
            output = self.model(images)
        if isinstance(output, Tensor) and output.ndim == 2 and output.shape[1] > 1:
            return output if output.is_floating_point() else output.float()
        who = "the ART classifier" if self.is_art else "the Foolbox model"
        what = f"shape {tuple(output.shape)}" if hasattr(output, "shape") else type(output).__name__
        raise ModelFault(
            f"{who} answered with {what}: expected scores (n, classes), 2 classes or more"
        )


def third_party_model(model: Any) -> ThirdPartyModel | None:
    """Return a Foolbox model or ART classifier as a third-party model; None for anything else."""
    if _is_foolbox(model):
        return foolbox_model(model)
    return art_model(model) if _is_art(model) else None


def _is_foolbox(model: Any) -> bool:
    return callable(model) and _has(model, "bounds", "transform_bounds")


def _is_art(model: Any) -> bool:
    return _has(model, "predict", "clip_values", "nb_classes")


def _has(model: Any, *names: str) -> bool:
    return not isinstance(model, type) and all(hasattr(model, name) for name in names)


def foolbox_model(model: Any) -> ThirdPartyModel:
    require(_is_foolbox(model), "model", model, FOOLBOX)
    first = getattr(model, "data_format", "channels_first") != "channels_last"
    pixels = Pixels(*_bounds(model.bounds, "bounds"), channels_first=first)
    device = getattr(model, "device", None)
    device = device if isinstance(device, torch.device) else torch.device("cpu")
    return ThirdPartyModel(model, pixels, device)


def art_model(classifier: Any, channels_first: bool | None = None) -> ThirdPartyModel:
    """Return an ART classifier as a third-party model. `channels_first` overrides the classifier's
    attribute of that name; without either, channels are last."""
    require(_is_art(classifier), "classifier", classifier, ART)
    if channels_first is None:
        channels_first = bool(getattr(classifier, "channels_first", False))
    pixels = Pixels(*_bounds(classifier.clip_values, "clip_values"), channels_first)
    cpu, classes = torch.device("cpu"), int(classifier.nb_classes)
    return ThirdPartyModel(classifier, pixels, cpu, classes, is_art=True)


def _bounds(bounds: Any, name: str) -> tuple[float, float]:
    """Return the smallest and largest value of a pixel; arrays must repeat a single value."""
    ends = [np.unique(np.asarray(end)) for end in bounds] if bounds is not None else []
    same = all(len(end) <= 1 for end in ends)
    expect(same, f"the model has {name} that differ from pixel to pixel", "two numbers")
    values = [end.item() for end in ends if len(end)]
    valid = len(values) == 2 and all(is_number(value) for value in values)
    expect(
        valid and -np.inf < values[0] < values[1] < np.inf,
        f"the model has {name} = {shown(bounds)}",
        "the smallest and the largest value of a pixel",
        f"make it with {name}=(0, 1) or {name}=(0, 255)",
    )
    return float(values[0]), float(values[1])
