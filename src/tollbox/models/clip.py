"""CLIP, zero-shot: `clip:openai/clip-vit-base-patch32`, or `clip:` and a folder.

An image's class is the text that is nearest to it: one for each of the names that are given, or of
ImageNet's 1000 classes. The texts are embedded once, and are weights of the network from then on.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..data.user_code import optional
from .adapter import Network, Source
from .hugging_face import NO_SETTINGS, channels_of, image_settings, preprocessing_of
from .imagenet import imagenet
from .named import adapter, check_folder, fetched, name_in
from .pytorch import RUNNING

PROMPTS_AT_ONCE = 100


class ZeroShot(nn.Module):
    """Logits are the cosines between an image's features and those of a text per class."""

    def __init__(self, clip: Any, texts: Tensor) -> None:
        super().__init__()
        self.vision, self.projection = clip.vision_model, clip.visual_projection
        self.register_buffer("texts", functional.normalize(texts, dim=1))

    def forward(self, images: Tensor) -> Tensor:
        """(n, classes)."""
        features = self.projection(self.vision(pixel_values=images).pooler_output)
        return functional.normalize(features, dim=1) @ self.get_buffer("texts").T


def load(source: Source) -> Network:
    """CLIP with a prompt for each class."""
    transformers = optional("transformers", "clip: models are loaded with it", extra="hf")
    local, name = check_folder(source, "config.json"), name_in(source)
    clip = fetched(source, lambda: transformers.CLIPModel.from_pretrained(name), local)
    tokenise = fetched(source, lambda: transformers.CLIPTokenizer.from_pretrained(name), local)
    classes, settings = source.names or imagenet(), image_settings(transformers, name)
    network = ZeroShot(clip.eval(), _embedded(clip, tokenise, classes.prompts)).eval()
    preprocessing = None if settings is None else preprocessing_of(settings)
    return Network(
        network,
        shape=(channels_of(getattr(clip.config, "vision_config", None)), None, None),
        kind="a network",
        options=frozenset(RUNNING),
        preprocessing=preprocessing,
        names=classes.names,
        lacking=NO_SETTINGS if preprocessing is None or preprocessing.mean is None else "",
    )


def _embedded(clip: Any, tokenise: Any, prompts: tuple[str, ...]) -> Tensor:
    """What the network makes of texts, (n, features), in the dtype of its weights."""
    texts = []
    with torch.inference_mode():
        for first in range(0, len(prompts), PROMPTS_AT_ONCE):
            some = list(prompts[first : first + PROMPTS_AT_ONCE])
            tokens = tokenise(some, padding=True, truncation=True, return_tensors="pt")
            texts.append(clip.text_projection(clip.text_model(**tokens).pooler_output))
    return torch.cat(texts).clone()


ADAPTER = adapter("clip", "clip:NAME", load, ("transformers",), "folder")
