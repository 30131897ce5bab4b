"""Classifiers of torchvision: `torchvision:resnet50`, or with a name of its weights after a dot.

Without one, the weights are those that torchvision holds for the best: `DEFAULT`.
"""

from __future__ import annotations

from typing import Any

from ..core.preprocessing import Preprocessing
from ..data.user_code import optional
from .adapter import Network, Source
from .named import adapter, fetched, name_in, unknown
from .pytorch import RUNNING


def load(source: Source) -> Network:
    """The network with its weights."""
    models = optional(
        "torchvision.models", "torchvision: models are loaded with it", extra="torchvision"
    )
    name, _, version = name_in(source).partition(".")
    known = models.list_models(module=models)
    if name not in known:
        raise unknown(source, name, known)
    versions = models.get_model_weights(name)
    if version and version not in versions.__members__:
        raise unknown(source, version, versions.__members__)
    weights = versions[version] if version else versions.DEFAULT
    network = fetched(source, lambda: models.get_model(name, weights=weights))
    return Network(
        network.eval(),
        shape=(3, None, None),
        kind="a network",
        options=frozenset(RUNNING),
        preprocessing=_preprocessing(weights.transforms()),
        names=tuple(weights.meta["categories"]),
    )


def _preprocessing(transform: Any) -> Preprocessing:
    """What torchvision's own transform does."""
    [resize], [crop] = transform.resize_size, transform.crop_size
    return Preprocessing.of(
        resize,
        (crop, crop),
        interpolation=transform.interpolation.value,
        mean=tuple(transform.mean),
        std=tuple(transform.std),
    )


ADAPTER = adapter("torchvision", "torchvision:NAME", load, ("torchvision",))
