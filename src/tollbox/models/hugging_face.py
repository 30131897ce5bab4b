"""Image classifiers from Hugging Face, with their mean and std, and CLIP as a zero-shot classifier.

1. `hf:microsoft/resnet-50`, or `hf:` and a folder. Code from the hub is never run. A checkpoint
   without a trained last layer is refused.
2. `clip:openai/clip-vit-base-patch32`, or `clip:` and a folder. An image's class is the one whose
   prompt has the most similar embedding. The classes are the given names, or ImageNet's 1,000. The
   prompts are embedded once; the embeddings are weights from then on.
3. `preprocessor_config.json` is read as data, without the class that it names. `size` has a height
   and a width, or a `shortest_edge`; in older files it is a number, whose meaning depends on the
   kind of processor. With `crop_pct`, the shorter side is resized to `size / crop_pct` and the
   centre is cropped, unless `size` is 384 or more.
4. Hugging Face multiplies 8-bit values by `rescale_factor`, and subtracts 1 with `rescale_offset`,
   before it normalises. Images here are in [0,1], so mean and std include both.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..core.preprocessing import Preprocessing
from ..core.validation import is_number, shown
from ..data.resizing import Resizing
from ..data.tables import in_a_line
from ..data.user_code import optional, with_kind
from .hub import fetched, imagenet, is_folder, quiet
from .network import Network, Source, file_error

Settings = Mapping[str, Any]
SETTINGS = "preprocessor_config.json"
INTERPOLATIONS = ("nearest", "lanczos", "bilinear", "bicubic", "box", "hamming")
"""Pillow's interpolations by number."""
SQUARE = ("ViT", "DeiT", "Beit")
"""Processors for which a single number is both the height and the width."""
LARGE = 384
"""Side at and above which `crop_pct` is ignored."""
PROMPTS_AT_ONCE = 100


def load_classifier(source: Source) -> Network:
    transformers = optional("transformers", "hf: models are loaded with it", extra="hf")
    classifier = transformers.AutoModelForImageClassification
    remedy = "for zero-shot CLIP, write clip: instead of hf:"
    network, about = _trained(source, classifier, "a trained classifier", remedy)
    known_keys = {re.sub(r"\d+", "0", key) for key in network.state_dict()}
    further = [key for key in about["unexpected_keys"] if re.sub(r"\d+", "0", key) in known_keys]
    if further:
        given = f", whose weights have {min(further)}, which its config.json leaves out"
        raise source.error(given, "weights and a configuration with the same layers")
    config, settings = network.config, _settings(transformers, source)
    if settings is not None and settings.get("do_flip_channel_order"):
        network = ChannelsFlipped(network)
    names = dict(getattr(config, "id2label", None) or {})
    listed = [str(names.get(number)) for number in range(len(names))]
    complete = set(names) == set(range(len(names)))
    generated = all(name == f"LABEL_{number}" for number, name in enumerate(listed))
    known = tuple(listed) if complete and not generated else None
    return _network(source, network, settings, config, known)


def load_clip(source: Source) -> Network:
    transformers = optional("transformers", "clip: models are loaded with it", extra="hf")
    local, name = is_folder(source), source.name
    clip = _trained(source, transformers.CLIPModel, "a trained CLIP model")[0].eval()
    tokenise = fetched(source, lambda: transformers.CLIPTokenizer.from_pretrained(name), local)
    classes, texts = source.names or imagenet(), []
    with torch.inference_mode():
        for first in range(0, len(classes.prompts), PROMPTS_AT_ONCE):
            prompts = list(classes.prompts[first : first + PROMPTS_AT_ONCE])
            tokens = tokenise(prompts, padding=True, truncation=True, return_tensors="pt")
            texts.append(clip.text_projection(clip.text_model(**tokens).pooler_output))
    network = ZeroShot(clip, torch.cat(texts).clone())
    config = getattr(clip.config, "vision_config", None)
    return _network(source, network, _settings(transformers, source), config, classes.names)


def _trained(source: Source, kind: Any, expected: str, remedy: str = "") -> tuple[Any, Any]:
    """Return a network and what transformers says of its weights; refuse it if some are missing."""
    options = {"output_loading_info": True, "trust_remote_code": False}  # no prompt to run code
    load = partial(kind.from_pretrained, source.name, **options)
    network, about = fetched(source, load, is_folder(source))
    if about["missing_keys"]:
        given = f", which has no weights for {min(about['missing_keys'])}"
        raise source.error(given, expected, remedy)
    return network, about


def _network(
    source: Source,
    network: nn.Module,
    settings: Settings | None,
    config: Any,
    names: tuple[str, ...] | None,
) -> Network:
    try:
        preprocessing = None if settings is None else preprocessing_of(settings)
        if preprocessing is not None:
            Resizing(preprocessing.resize)  # to check it
            Resizing(None, preprocessing.crop)
    except (TypeError, ValueError, OverflowError) as error:
        raise file_error(f"{source.name} has an unusable {SETTINGS}: {in_a_line(error)}") from None
    channels = getattr(config, "num_channels", None)
    channels = channels if isinstance(channels, int) else None
    loaded = Network.of_torch(source, network.eval(), channels, preprocessing, names)
    return replace(loaded, needs_normalisation=True)


class ChannelsFlipped(nn.Module):
    """An RGB wrapper for a network that takes blue, green, red."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Any:
        return self.network(images.flip(1))


class ZeroShot(nn.Module):
    """CLIP's image part; logits are the cosines between an image and the text of each class."""

    def __init__(self, clip: Any, texts: Tensor) -> None:
        super().__init__()
        self.vision, self.projection = clip.vision_model, clip.visual_projection
        self.register_buffer("texts", functional.normalize(texts, dim=1))

    def forward(self, images: Tensor) -> Tensor:
        features = self.projection(self.vision(pixel_values=images).pooler_output)
        return functional.normalize(features, dim=1) @ self.get_buffer("texts").T


def _settings(transformers: Any, source: Source) -> Settings | None:
    name = source.name
    try:
        with quiet():
            settings, _ = transformers.ImageProcessingMixin.get_image_processor_dict(name)
        return dict(**settings)  # raises TypeError unless it is a JSON object
    except Exception as error:  # transformers expects an object and may fail in any way
        if os.path.exists(os.path.join(name, SETTINGS)):
            given = f"{name} has an unusable {SETTINGS} ({with_kind(error)})"
            raise file_error(given, "a JSON object") from None
        return None


def preprocessing_of(settings: Settings) -> Preprocessing:
    resize = _resize(settings) if settings.get("do_resize", True) else None
    crop = _sides(settings.get("crop_size")) if settings.get("do_center_crop") else None
    share = settings.get("crop_pct")
    if share and isinstance(resize, int):
        side = resize
        resize, crop = ((side, side), None) if side >= LARGE else (int(side / share), (side, side))
    mean, std = _mean_and_std(settings)
    number = settings.get("resample")
    known = isinstance(number, int) and 0 <= number < len(INTERPOLATIONS)
    interpolation = INTERPOLATIONS[int(number or 0)] if known else "bilinear"
    return Preprocessing(resize, crop, interpolation=interpolation, mean=mean, std=std)


def _resize(settings: Settings) -> int | tuple[int, int] | None:
    size = settings.get("size")
    if isinstance(size, Mapping) and isinstance(size.get("shortest_edge"), int):
        return int(size["shortest_edge"])
    kind = settings.get("image_processor_type") or settings.get("feature_extractor_type") or ""
    if isinstance(size, int) and not str(kind).startswith(SQUARE):
        return size
    return _sides(size)


def _sides(size: Any) -> tuple[int, int] | None:
    if isinstance(size, int):
        return (size, size)
    if isinstance(size, Mapping) and {"height", "width"} <= set(size):
        return (int(size["height"]), int(size["width"]))
    if isinstance(size, list | tuple) and len(size) == 2:
        return (int(size[0]), int(size[1]))
    return None


def _mean_and_std(settings: Settings) -> tuple[tuple[float, ...] | None, tuple[float, ...] | None]:
    """Return the mean and the std for values in [0,1] (rule 4); None if the file has none."""
    [factor] = _numbers(settings, "rescale_factor", 1) or [1 / 255]
    scale = 255.0 * factor if settings.get("do_rescale", True) else 255.0
    if not scale > 0:
        raise ValueError(f"its rescale_factor is {factor:g}, expected a number above 0")
    if abs(scale - 1) < 1e-6:  # 1/255, as rounded in the file
        scale = 1.0
    offset = 1.0 if settings.get("rescale_offset") else 0.0
    mean, std = _numbers(settings, "image_mean"), _numbers(settings, "image_std")
    if not settings.get("do_normalize", True):
        mean, std = [0.0], [1.0]
    if mean is None or std is None:
        return None, None
    return (
        tuple((value + offset) / scale for value in mean),
        tuple(value / scale for value in std),
    )


def _numbers(settings: Settings, name: str, most: int = 1000) -> list[float] | None:
    """Return the numbers of a setting, at most one for each channel; None if it is absent."""
    value = settings.get(name)
    listed: list[Any] = value if isinstance(value, list) else [value]
    if value is not None and not (
        0 < len(listed) <= most and all(is_number(each) and math.isfinite(each) for each in listed)
    ):
        raise ValueError(f"its {name} is {shown(value)}, expected numbers")
    return None if value is None else [float(each) for each in listed]
