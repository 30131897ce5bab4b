"""Image classifiers of Hugging Face: `hf:microsoft/resnet-50`, or `hf:` and a folder.

1. The weights, the names of the classes and how images go in are all from the model's own files.
   No code of the hub is run.
2. A checkpoint without a trained classifier, whose last layer would be random, is refused.
3. A model without a configuration for its images is run only if mean and std are given.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from ..errors import InputError
from ..files.packages import optional
from .image_processor import Settings, preprocessing_of, swaps_colours
from .named import adapter, check_folder, fetched, name_in, quiet
from .pytorch import RUNNING
from .source import Network, Source

NO_SETTINGS = "has no preprocessor_config.json"


class ColoursSwapped(nn.Module):
    """A network that takes blue, green, red."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Any:
        """What the network gives."""
        return self.network(images.flip(1))


def load(source: Source) -> Network:
    """The classifier, and what its files say of images and classes."""
    transformers = optional("transformers", "hf: models are loaded with it", extra="hf")
    local, name = check_folder(source, "config.json"), name_in(source)
    classifier = transformers.AutoModelForImageClassification
    network, about = fetched(
        source, lambda: classifier.from_pretrained(name, output_loading_info=True), local
    )
    if about["missing_keys"]:
        raise InputError(
            f"is {source.text!r}, which has no weights for {min(about['missing_keys'])}",
            expected="a classifier that was trained",
            remedy="for CLIP, zero-shot, write clip: instead of hf:",
            input="model",
        )
    config, settings = network.config, image_settings(transformers, name)
    preprocessing = None if settings is None else preprocessing_of(settings)
    if settings is not None and swaps_colours(settings):
        network = ColoursSwapped(network)
    return Network(
        network.eval(),
        shape=(channels_of(config), None, None),
        kind="a network",
        options=frozenset(RUNNING),
        preprocessing=preprocessing,
        names=_names(config),
        lacking=NO_SETTINGS if preprocessing is None or preprocessing.mean is None else "",
    )


def image_settings(transformers: Any, name: str) -> Settings | None:
    """What a model's files say of its images; None if they say nothing."""
    try:
        with quiet():
            settings, _ = transformers.ImageProcessingMixin.get_image_processor_dict(name)
    except (OSError, ValueError):  # not there, or no JSON
        return None
    return dict(settings)


def channels_of(config: Any) -> int | None:
    """How many channels its images have, if the configuration says it."""
    count = getattr(config, "num_channels", None)
    return count if isinstance(count, int) else None


def _names(config: Any) -> tuple[str, ...] | None:
    """The names of the classes; None if they are made up from numbers, or are not of all."""
    names = dict(getattr(config, "id2label", None) or {})
    if set(names) != set(range(len(names))):
        return None
    made_up = all(names[number] == f"LABEL_{number}" for number in names)
    return None if made_up else tuple(str(names[number]) for number in range(len(names)))


ADAPTER = adapter("hf", "hf:NAME", load, ("transformers",), "folder")
