"""Foolbox models and ART classifiers as models; `core/third_party_models.py` recognises them.

`tb.run` takes either as it is. What is here is for what they do not say themselves: that pixels are
rounded, in which dtype and on which device points are sent, and where an ART classifier that does
not tell has its channels. Images are in [0,1], as everywhere, whatever the bounds of the model.
"""

from __future__ import annotations

from typing import Any

import torch

from ..core.device import usable
from ..core.model import Model, from_third_party
from ..core.third_party_models import art_model, foolbox_model
from ..core.validation import check_flag


def from_foolbox(
    model: Any,
    *,
    device: str | torch.device | None = None,
    dtype: torch.dtype = torch.float32,
    quantize: int | None = None,
    batch: int | None = None,
    classes: int | None = None,
) -> Model:
    """A model from a Foolbox model whose inputs are PyTorch tensors or NumPy arrays.

    `device` is the model's own unless it is given. Bounds and preprocessing are the model's.
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
    """A model from an ART classifier that has `clip_values`.

    `channels_first` is for one that does not say where its channels are: by default they are last.
    """
    if channels_first is not None:
        check_flag("channels_first", channels_first)
    return from_third_party(art_model(classifier, channels_first), quantize=quantize, batch=batch)
