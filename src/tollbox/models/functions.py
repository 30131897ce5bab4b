"""Models from functions: `module:function`, scores with a threshold, and Foolbox and ART models.

1. `module:function` names a network, a function of images, or a function that returns a network.
   The module is imported with the current folder first on the path. A function without arguments is
   called to get the network. A Foolbox model or an ART classifier may take a network's place.
2. Many filters return a score in [0,1] for an image, and act above a threshold. `thresholded`
   turns such a filter into a model with two classes: label 1, flagged, for a score of at least
   `at`, and label 0 otherwise. An attack sees only the decision, never the score.
3. `tb.run` takes Foolbox models and ART classifiers directly. `from_foolbox` and `from_art` set
   what these do not specify, such as the rounding of pixels and the position of the channels (ART).
   Images are in [0,1], whatever the model's bounds.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..core.device import usable
from ..core.model import Model, from_third_party
from ..core.third_party_models import art_model, foolbox_model, third_party_model
from ..core.validation import check_flag, is_number, require
from ..data.user_code import called, imported
from ..errors import ModelFault
from .network import Network, Source

NETWORK = "a network (an instance of nn.Module)"
SCORES = "a score in [0,1] for each image"


def load_function(source: Source) -> Network:
    model = _wrapped(imported(source.text, "model"))
    if inspect.isfunction(model) and not inspect.signature(model).parameters:
        model = _wrapped(called(model, source.text, "model"))
        if not isinstance(model, nn.Module | Model):
            raise source.error(
                f", a function without arguments that returned {type(model).__name__}",
                f"{NETWORK} from it, or a function of images",
            )
    if isinstance(model, type) or not callable(model):
        what = "a class" if isinstance(model, type) else type(model).__name__
        either = "a function of images, or one without arguments that returns a network"
        raise source.error(f", which is {what}", f"{NETWORK}, {either}")
    if isinstance(model, nn.Module):
        return Network.of_torch(source, model)
    if isinstance(model, Model):
        ready = "a model that is ready for queries"
        return Network(source, model, model.dtype, model.batch, kind=ready)
    return Network(source, model)


def _wrapped(model: Any) -> Any:
    """Return a Foolbox or ART classifier as a model, and anything else unchanged."""
    return model if (peer := third_party_model(model)) is None else from_third_party(peer)


@dataclass(frozen=True)
class Threshold:
    """A function from images to labels by their scores; a class, so that it can be pickled."""

    scores: Callable[[Tensor], Any]
    at: float

    def __call__(self, images: Tensor) -> Tensor:
        answer = self.scores(images)
        try:
            scores = torch.as_tensor(answer)
        except (TypeError, ValueError, RuntimeError):
            kind = type(answer).__name__
            raise ModelFault(f"the scores are of type {kind}: expected {SCORES}") from None
        if scores.shape != images.shape[:1]:
            count, shape = len(images), tuple(scores.shape)
            expected = f"({count},), {SCORES}"
            raise ModelFault(
                f"the scores of {count} images have shape {shape}: expected {expected}"
            )
        if not scores.is_floating_point():
            raise ModelFault(f"the scores are {scores.dtype}: expected {SCORES}, as floats")
        within = (scores >= 0) & (scores <= 1)  # False for NaN
        if not within.all():  # on a GPU, this synchronises
            raise ModelFault(f"a score is {float(scores[~within][0]):g}: expected {SCORES}")
        return (scores >= self.at).long()


def thresholded(
    scores: Callable[[Tensor], Any],
    at: float = 0.5,
    *,
    device: str | torch.device = "cpu",
    dtype: torch.dtype = torch.float32,
    quantize: int | None = None,
    batch: int | None = None,
) -> Model:
    """Return a model with two classes from a function that gives each image a score in [0,1].

    A score of at least `at` gives label 1, which is flagged:

        model = tb.models.thresholded(my_filter, at=0.7)
        results = tb.run(tb.preset("frugal"), model, images, [1] * len(images), ...)
    """
    require(callable(scores), "scores", scores, "a function of images")
    require(is_number(at) and 0 < at <= 1, "at", at, "a number above 0, up to 1")
    return Model(Threshold(scores, float(at)), usable(device), dtype, quantize, batch, classes=2)


def from_foolbox(
    model: Any,
    *,
    device: str | torch.device | None = None,
    dtype: torch.dtype = torch.float32,
    quantize: int | None = None,
    batch: int | None = None,
    classes: int | None = None,
) -> Model:
    """Return a model from a Foolbox model that takes PyTorch tensors or NumPy arrays.

    The default device, the bounds and the preprocessing are those of the Foolbox model.
    """
    options = {"dtype": dtype, "quantize": quantize, "batch": batch, "classes": classes}
    chosen = None if device is None else usable(device)
    return from_third_party(foolbox_model(model), device=chosen, **options)


def from_art(
    classifier: Any,
    *,
    channels_first: bool | None = None,
    quantize: int | None = None,
    batch: int | None = None,
) -> Model:
    """Return a model from an ART classifier that has `clip_values`.

    `channels_first` applies if the classifier does not specify where its channels are; by default
    they are last.
    """
    if channels_first is not None:
        check_flag("channels_first", channels_first)
    return from_third_party(art_model(classifier, channels_first), quantize=quantize, batch=batch)
