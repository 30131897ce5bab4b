"""What `preprocessor_config.json` of a Hugging Face model says, as a `Preprocessing`.

It is read as data, without the class that it names, which may need packages of its own.

1. `size` is {height, width}; or {shortest_edge}, which is the shorter side; or, in older files, a
   number, which is either by the kind of processor. With `crop_pct` the shorter side is resized to
   so much more, and its middle is cut out, unless it is 384 or longer.
2. Values are multiplied by `rescale_factor` (and 1 is subtracted where `rescale_offset` is set)
   before mean and std. Here images are in [0,1], so both go into mean and std.

Image classifiers of Hugging Face: `hf:microsoft/resnet-50`, or `hf:` and a folder.

1. The weights, the names of the classes and how images go in are all from the model's own files.
   No code of the hub is run.
2. A checkpoint without a trained classifier, whose last layer would be random, is refused.
3. A model without a configuration for its images is run only if mean and std are given.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from ..core.preprocessing import Preprocessing
from ..data.user_code import optional
from ..errors import InputError
from .adapter import Network, Source
from .named import adapter, check_folder, fetched, name_in, quiet
from .pytorch import RUNNING

Settings = Mapping[str, Any]
INTERPOLATIONS = ("nearest", "lanczos", "bilinear", "bicubic", "box", "hamming")
"""By the number that Pillow has for each."""
SQUARE = ("ViT", "DeiT", "Beit")
"""Kinds of processor for which a single number is height and width."""
LARGE = 384
"""A side from which on `crop_pct` is not applied."""


def preprocessing_of(settings: Settings) -> Preprocessing:
    """The same in our words."""
    resize = _resize(settings) if settings.get("do_resize", True) else None
    crop = _sides(settings.get("crop_size")) if settings.get("do_center_crop") else None
    share = settings.get("crop_pct")
    if share and isinstance(resize, int):
        side = resize
        resize, crop = ((side, side), None) if side >= LARGE else (int(side / share), (side, side))
    mean, std = _normalisation(settings)
    number = settings.get("resample")
    known = isinstance(number, int) and 0 <= number < len(INTERPOLATIONS)
    return Preprocessing.of(
        resize,
        crop,
        interpolation=INTERPOLATIONS[int(number or 0)] if known else "bilinear",
        mean=mean,
        std=std,
    )


def swaps_colours(settings: Settings) -> bool:
    """Whether the network takes blue, green, red."""
    return bool(settings.get("do_flip_channel_order"))


def _resize(settings: Settings) -> int | tuple[int, int] | None:
    """The shorter side, or both."""
    size = settings.get("size")
    if isinstance(size, Mapping) and isinstance(size.get("shortest_edge"), int):
        return int(size["shortest_edge"])
    kind = settings.get("image_processor_type") or settings.get("feature_extractor_type") or ""
    if isinstance(size, int) and not str(kind).startswith(SQUARE):
        return size
    return _sides(size)


def _sides(size: Any) -> tuple[int, int] | None:
    """(height, width)."""
    if isinstance(size, int):
        return (size, size)
    if isinstance(size, Mapping) and {"height", "width"} <= set(size):
        return (int(size["height"]), int(size["width"]))
    if isinstance(size, list | tuple) and len(size) == 2:
        return (int(size[0]), int(size[1]))
    return None


def _normalisation(
    settings: Settings,
) -> tuple[tuple[float, ...] | None, tuple[float, ...] | None]:
    """Mean and std for values in [0,1]; None if the file does not have them."""
    scale = (
        255 * settings.get("rescale_factor", 1 / 255) if settings.get("do_rescale", True) else 255
    )
    if abs(scale - 1) < 1e-6:  # 1/255, as it was written
        scale = 1
    offset = 1.0 if settings.get("rescale_offset") else 0.0
    mean, std = settings.get("image_mean"), settings.get("image_std")
    if not settings.get("do_normalize", True):
        mean, std = [0.0], [1.0]
    if not isinstance(mean, list) or not isinstance(std, list):
        return None, None
    return (
        tuple((float(value) + offset) / scale for value in mean),
        tuple(float(value) / scale for value in std),
    )


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
