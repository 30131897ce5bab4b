"""Classifiers of Foolbox and of ART: what each package calls a model, known by what it has.

1. Neither package is imported. A Foolbox model has `bounds` and `transform_bounds`, and is called;
   an ART classifier has `predict`, `clip_values` and `nb_classes`.
2. A point in [0,1] is sent between their bounds, and in their layout: (n, c, h, w), or (n, h, w, c)
   where channels are last. With the bounds 0 and 1 no value changes.
3. What a peer gives before the decision, logits or scores (n, classes), is all that is taken.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError, ModelFault
from .validation import is_number, shown

FOOLBOX = "a Foolbox model, such as foolbox.PyTorchModel(network, bounds=(0, 1))"
ART = "an ART classifier, such as art.estimators.classification.PyTorchClassifier(...)"


@dataclass(frozen=True)
class Pixels:
    """How another package has its images."""

    low: float = 0.0
    high: float = 1.0
    channels_first: bool = True

    def theirs(self, images: Tensor) -> Tensor:
        """Images (n, c, h, w) in [0,1] as the other package takes them; the very values that it is
        sent, whoever asks."""
        if (self.low, self.high) != (0, 1):
            images = (images * (self.high - self.low) + self.low).clamp(self.low, self.high)
        return images if self.channels_first else images.permute(0, 2, 3, 1).contiguous()

    def ours(self, images: Tensor, name: str) -> Tensor:
        """Images of the other package, the argument `name`, as (n, c, h, w) in [0,1]."""
        layout = "(n, c, h, w)" if self.channels_first else "(n, h, w, c)"
        if images.ndim != 4 or images.numel() == 0:
            raise InputError(
                f"has shape {tuple(images.shape)}", expected=f"{layout}, not empty", input=name
            )
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
    """Points in [0,1] to the logits of a Foolbox model."""

    model: Callable[[Tensor], Any]
    pixels: Pixels

    def __call__(self, points: Tensor) -> Tensor:
        """(n, classes)."""
        return _scores(self.model(self.pixels.theirs(points)), "the Foolbox model")


@dataclass(frozen=True)
class ArtOutputs:
    """Points in [0,1] to the scores of an ART classifier, which takes and gives arrays."""

    classifier: Any
    pixels: Pixels

    def __call__(self, points: Tensor) -> Tensor:
        """(n, classes)."""
        images = self.pixels.theirs(points).cpu().numpy()
        scores = self.classifier.predict(images, batch_size=len(images))
        return _scores(torch.as_tensor(np.asarray(scores)), "the ART classifier")


class Peer(NamedTuple):
    """A classifier of another package, ready to be asked."""

    outputs: FoolboxOutputs | ArtOutputs
    device: torch.device = torch.device("cpu")
    classes: int | None = None

    @property
    def pixels(self) -> Pixels:
        """How it has its images."""
        return self.outputs.pixels


def peer_of(model: Any) -> Peer | None:
    """The model as a peer, if it is a Foolbox model or an ART classifier."""
    if is_foolbox(model):
        return foolbox_peer(model)
    return art_peer(model) if is_art(model) else None


def is_foolbox(model: Any) -> bool:
    """Whether it has what a Foolbox model has."""
    known = all(hasattr(model, name) for name in ("bounds", "transform_bounds"))
    return known and callable(model) and not isinstance(model, type)


def is_art(model: Any) -> bool:
    """Whether it has what an ART classifier has."""
    known = all(hasattr(model, name) for name in ("predict", "clip_values", "nb_classes"))
    return known and not isinstance(model, type)


def foolbox_peer(model: Any) -> Peer:
    """A Foolbox model as a peer."""
    if not is_foolbox(model):
        raise InputError(f"is {shown(model)}", expected=FOOLBOX, input="model")
    first = getattr(model, "data_format", "channels_first") != "channels_last"
    pixels = Pixels(*_bounds(model.bounds, "bounds"), channels_first=first)
    device = getattr(model, "device", None)
    outputs = FoolboxOutputs(model, pixels)
    return Peer(outputs, device if isinstance(device, torch.device) else torch.device("cpu"))


def art_peer(classifier: Any, channels_first: bool | None = None) -> Peer:
    """An ART classifier as a peer; one that does not say where its channels are has them last,
    unless `channels_first` says it."""
    if not is_art(classifier):
        raise InputError(f"is {shown(classifier)}", expected=ART, input="classifier")
    if channels_first is None:
        channels_first = bool(getattr(classifier, "channels_first", False))
    low, high = _bounds(classifier.clip_values, "clip_values")
    outputs = ArtOutputs(classifier, Pixels(low, high, channels_first))
    return Peer(outputs, classes=int(classifier.nb_classes))


def _bounds(bounds: Any, name: str) -> tuple[float, float]:
    """The least and the largest value of a pixel; arrays will do whose values are all alike."""
    ends = [np.unique(np.asarray(end)) for end in bounds] if bounds is not None else []
    if any(len(end) > 1 for end in ends):
        raise InputError(
            f"the model has {name} that differ from pixel to pixel", expected="two numbers"
        )
    values = [end.item() for end in ends if len(end)]
    right = len(values) == 2 and all(is_number(value) for value in values)
    if not right or not -np.inf < values[0] < values[1] < np.inf:
        raise InputError(
            f"the model has {name} = {shown(bounds)}",
            expected="the least and the largest value of a pixel",
            remedy=f"make it with {name}=(0, 1) or {name}=(0, 255)",
        )
    return float(values[0]), float(values[1])


def _scores(output: Any, who: str) -> Tensor:
    if isinstance(output, Tensor) and output.ndim == 2 and output.shape[1] > 1:
        return output if output.is_floating_point() else output.float()
    what = f"shape {tuple(output.shape)}" if hasattr(output, "shape") else type(output).__name__
    raise ModelFault(f"{who} answered with {what}: expected scores (n, classes), 2 classes or more")
