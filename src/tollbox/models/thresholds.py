"""A score with a threshold as a model of two classes.

Many filters give a score in [0,1] for an image, and act from some level on. Label 1 is flagged: the
score is at least `at`. Label 0 is not. So an image that the filter catches has the label 1, and an
attack on it ends where the score falls below the threshold:

    model = tb.models.thresholded(my_filter, at=0.7)
    results = tb.run(tb.preset("frugal"), model, images, [1] * len(images), ...)

The decision alone is seen by an attack, never the score. An answer that is not one score in [0,1]
for each image is a `ModelFault`; that is looked at for each batch, which on a GPU waits for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..core.model import Model, from_callable
from ..core.validation import is_number, shown
from ..errors import InputError, ModelFault

EXPECTED = "a score in [0,1] for each image"


@dataclass(frozen=True)
class Threshold:
    """Labels from scores; a class, so that it can be sent to another process."""

    scores: Callable[[Tensor], Any]
    at: float

    def __call__(self, images: Tensor) -> Tensor:
        """1 where the score is at least `at`, else 0."""
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
        within = (scores >= 0) & (scores <= 1)  # NaN is neither
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
    """A model of two classes from a function of a batch of images in [0,1] that gives a score in
    [0,1] for each: 1 is flagged, a score of `at` or more; 0 is not."""
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
