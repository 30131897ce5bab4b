"""Models of other packages: Foolbox models and ART classifiers, recognised by their attributes.

1. Neither package is imported. A Foolbox model has `bounds` and `transform_bounds` and is callable;
   an ART classifier has `predict`, `clip_values` and `nb_classes`.
2. A point in [0,1] is scaled to the model's bounds and sent in its layout: (n, c, h, w), or
   (n, h, w, c) if channels are last. With the bounds 0 and 1 no value changes.
3. Only the outputs before the decision are used: logits or scores (n, classes).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError, ModelFault
from .validation import is_number, require, shown

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
        """Return the other package's images, the argument `name`, as (n, c, h, w) in [0,1]."""
        layout = "(n, c, h, w)" if self.channels_first else "(n, h, w, c)"
        if images.ndim != 4 or images.numel() == 0:
            given = f"has shape {tuple(images.shape)}"
            raise InputError(given, expected=f"{layout}, not empty", input=name)
        if not bool(((images >= self.low) & (images <= self.high)).all()):
            low, high = (value.item() for value in images.aminmax())
            raise InputError(
                f"has values from {low:g} to {high:g}",
                expected=f"{self.low:g} to {self.high:g}, the bounds of the model",
                input=name,
            )
        if not self.channels_first:
            images = images.permute(0, 3, 1, 2).contiguous()
        if (self.low, self.high) == (0, 1):
            return images
        return ((images - self.low) / (self.high - self.low)).clamp(0, 1)


@dataclass(frozen=True)
class FoolboxOutputs:
    """A function from points in [0,1] to the logits of a Foolbox model."""

    model: Callable[[Tensor], Any]
    pixels: Pixels

    def __call__(self, points: Tensor) -> Tensor:
        return _scores(self.model(self.pixels.encode(points)), "the Foolbox model")


@dataclass(frozen=True)
class ArtOutputs:
    """A function from points in [0,1] to the scores of an ART classifier, which uses arrays."""

    classifier: Any
    pixels: Pixels

    def __call__(self, points: Tensor) -> Tensor:
        images = self.pixels.encode(points).cpu().numpy()
        scores = self.classifier.predict(images, batch_size=len(images))
        return _scores(torch.as_tensor(np.asarray(scores)), "the ART classifier")


class ThirdPartyModel(NamedTuple):
    """A classifier of another package."""

    outputs: FoolboxOutputs | ArtOutputs
    device: torch.device = torch.device("cpu")
    classes: int | None = None

    @property
    def pixels(self) -> Pixels:
        return self.outputs.pixels


def third_party_model(model: Any) -> ThirdPartyModel | None:
    """Return a Foolbox model or an ART classifier as a third-party model; None for others."""
    if _is_foolbox(model):
        return foolbox_model(model)
    return art_model(model) if _is_art(model) else None


def _is_foolbox(model: Any) -> bool:
    known = hasattr(model, "bounds") and hasattr(model, "transform_bounds")
    return known and callable(model) and not isinstance(model, type)


def _is_art(model: Any) -> bool:
    known = all(hasattr(model, name) for name in ("predict", "clip_values", "nb_classes"))
    return known and not isinstance(model, type)


def foolbox_model(model: Any) -> ThirdPartyModel:
    require(_is_foolbox(model), "model", model, FOOLBOX)
    first = getattr(model, "data_format", "channels_first") != "channels_last"
    pixels = Pixels(*_bounds(model.bounds, "bounds"), channels_first=first)
    device = getattr(model, "device", None)
    device = device if isinstance(device, torch.device) else torch.device("cpu")
    return ThirdPartyModel(FoolboxOutputs(model, pixels), device)


def art_model(classifier: Any, channels_first: bool | None = None) -> ThirdPartyModel:
    """Return an ART classifier as a third-party model. If it does not say where its channels are,
    they are last, unless `channels_first` is set."""
    require(_is_art(classifier), "classifier", classifier, ART)
    if channels_first is None:
        channels_first = bool(getattr(classifier, "channels_first", False))
    low, high = _bounds(classifier.clip_values, "clip_values")
    outputs = ArtOutputs(classifier, Pixels(low, high, channels_first))
    return ThirdPartyModel(outputs, classes=int(classifier.nb_classes))


def _bounds(bounds: Any, name: str) -> tuple[float, float]:
    """Return the smallest and the largest value of a pixel; arrays of one value are accepted."""
    ends = [np.unique(np.asarray(end)) for end in bounds] if bounds is not None else []
    if any(len(end) > 1 for end in ends):
        given = f"the model has {name} that differ from pixel to pixel"
        raise InputError(given, expected="two numbers")
    values = [end.item() for end in ends if len(end)]
    valid = len(values) == 2 and all(is_number(value) for value in values)
    if not valid or not -np.inf < values[0] < values[1] < np.inf:
        raise InputError(
            f"the model has {name} = {shown(bounds)}",
            expected="the smallest and the largest value of a pixel",
            remedy=f"make it with {name}=(0, 1) or {name}=(0, 255)",
        )
    return float(values[0]), float(values[1])


def _scores(output: Any, who: str) -> Tensor:
    if isinstance(output, Tensor) and output.ndim == 2 and output.shape[1] > 1:
        return output if output.is_floating_point() else output.float()
    what = f"shape {tuple(output.shape)}" if hasattr(output, "shape") else type(output).__name__
    raise ModelFault(f"{who} answered with {what}: expected scores (n, classes), 2 classes or more")
