"""Models from scores with a threshold, from Foolbox models and from ART classifiers.

Many filters return a score in [0,1] for an image, and act above some level. `thresholded` makes
such a filter a model of two classes: label 1 is flagged, a score of at least `at`; label 0 is not.
So an image that the filter catches has the label 1:

    model = tb.models.thresholded(my_filter, at=0.7)
    results = tb.run(tb.preset("frugal"), model, images, [1] * len(images), ...)

An attack sees only the decision, never the score. An answer that is not one score in [0,1] for each
image is a `ModelFault`. This check of each batch makes a GPU synchronise.

`tb.run` takes Foolbox models and ART classifiers directly. `from_foolbox` and `from_art` set what
these do not know: rounding of pixels, dtype and device of points, and where an ART classifier has
its channels. Images are in [0,1], whatever the model's bounds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..core.device import usable
from ..core.model import Model, from_callable, from_third_party
from ..core.third_party_models import art_model, foolbox_model
from ..core.validation import check_flag, is_number, shown
from ..errors import InputError, ModelFault

EXPECTED = "a score in [0,1] for each image"


@dataclass(frozen=True)
class Threshold:
    """Labels from scores; a class, so that it can be pickled."""

    scores: Callable[[Tensor], Any]
    at: float

    def __call__(self, images: Tensor) -> Tensor:
        answer = self.scores(images)
        try:
            scores = torch.as_tensor(answer)
        except (TypeError, ValueError, RuntimeError):
            raise ModelFault(
                f"the scores are of type {type(answer).__name__}: expected {EXPECTED}"
            ) from None
        if scores.shape != images.shape[:1]:
            raise ModelFault(
                f"the scores of {len(images)} images have shape {tuple(scores.shape)}: expected "
                f"({len(images)},), {EXPECTED}"
            )
        if not scores.is_floating_point():
            raise ModelFault(f"the scores are {scores.dtype}: expected {EXPECTED}, as floats")
        within = (scores >= 0) & (scores <= 1)  # False for NaN
        if not within.all():
            wrong = float(scores[~within][0])
            raise ModelFault(f"a score is {wrong:g}: expected {EXPECTED}")
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
    """Return a model of two classes from a function that gives each image a score in [0,1].

    A score of `at` or more is label 1, flagged.
    """
    if not callable(scores):
        raise InputError(f"is {shown(scores)}", expected="a function of images", input="scores")
    if not (is_number(at) and 0 < at <= 1):
        raise InputError(f"is {shown(at)}", expected="a number above 0, up to 1", input="at")
    return from_callable(
        Threshold(scores, float(at)),
        device=device,
        dtype=dtype,
        quantize=quantize,
        batch=batch,
        classes=2,
    )


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
    return from_third_party(
        foolbox_model(model),
        device=None if device is None else usable(device),
        dtype=dtype,
        quantize=quantize,
        batch=batch,
        classes=classes,
    )


def from_art(
    classifier: Any,
    *,
    channels_first: bool | None = None,
    quantize: int | None = None,
    batch: int | None = None,
) -> Model:
    """Return a model from an ART classifier that has `clip_values`.

    `channels_first` applies if the classifier does not say where its channels are; by default they
    are last.
    """
    if channels_first is not None:
        check_flag("channels_first", channels_first)
    return from_third_party(art_model(classifier, channels_first), quantize=quantize, batch=batch)
