"""The paper's models, from public weights: thin functions, for `source` in a study.

1. Each gives a network that takes images of 224 x 224 in [0,1], normalises them itself, and gives
   logits of the 1000 ImageNet classes, in the usual order.
2. A package is imported inside the function that needs it. If it is not there, or the weights can
   neither be found in its cache nor fetched, one sentence says what is missing and how to get it.

The paper names neither the weights nor the fine-tuned CLIP. Here they are torchvision's first
weights of each network, OpenAI's CLIP with a ViT-B/32, and timm's fine-tuning of that on ImageNet.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..errors import InputError
from ..files.functions import with_kind
from ..files.packages import optional
from .normalise import Normalised

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
CLIP_STD = (0.26862954, 0.26130258, 0.27577711)
CLIP = "openai/clip-vit-base-patch32"
CLIP_FINE_TUNED = "vit_base_patch32_clip_224.openai_ft_in1k"
PACKAGES = {
    "resnet50": ("torchvision",),
    "vit_b_32": ("torchvision",),
    "vit_b_16": ("torchvision",),
    "clip_zero_shot": ("transformers", "torchvision"),
    "clip_fine_tuned": ("timm",),
}
"""What each function needs."""
PROMPT = "a photo of a {}"
PROMPTS_AT_ONCE = 100


class ZeroShot(nn.Module):
    """CLIP: logits are the cosines between an image's features and those of a text per class."""

    def __init__(self, clip: Any, texts: Tensor) -> None:
        super().__init__()
        self.vision, self.projection = clip.vision_model, clip.visual_projection
        self.register_buffer("texts", functional.normalize(texts, dim=1))

    def forward(self, images: Tensor) -> Tensor:
        """(n, classes)."""
        features = self.projection(self.vision(pixel_values=images).pooler_output)
        return functional.normalize(features, dim=1) @ self.get_buffer("texts").T


def resnet50() -> nn.Module:
    """ResNet-50."""
    return _torchvision("resnet50")


def vit_b_32() -> nn.Module:
    """ViT-B/32."""
    return _torchvision("vit_b_32")


def vit_b_16() -> nn.Module:
    """ViT-B/16."""
    return _torchvision("vit_b_16")


def clip_zero_shot() -> nn.Module:
    """CLIP with a ViT-B/32, asked with a prompt for each class."""
    transformers = optional("transformers", "CLIP, zero-shot, comes from it")
    clip = _weights(CLIP, lambda: transformers.CLIPModel.from_pretrained(CLIP))
    tokenise = _weights(CLIP, lambda: transformers.CLIPTokenizer.from_pretrained(CLIP))
    clip.eval()
    prompts = [PROMPT.format(name) for name in _classes()]
    texts = []
    with torch.inference_mode():
        for first in range(0, len(prompts), PROMPTS_AT_ONCE):
            tokens = tokenise(
                prompts[first : first + PROMPTS_AT_ONCE], padding=True, return_tensors="pt"
            )
            texts.append(clip.text_projection(clip.text_model(**tokens).pooler_output))
    return Normalised(ZeroShot(clip, torch.cat(texts).clone()), CLIP_MEAN, CLIP_STD).eval()


def clip_fine_tuned() -> nn.Module:
    """CLIP's ViT-B/32, fine-tuned on ImageNet."""
    timm = optional("timm", "CLIP, fine-tuned, comes from it")
    network = _weights(CLIP_FINE_TUNED, lambda: timm.create_model(CLIP_FINE_TUNED, pretrained=True))
    return Normalised(network, CLIP_MEAN, CLIP_STD).eval()


def _torchvision(name: str) -> nn.Module:
    models = optional("torchvision.models", f"{name} comes from it")
    network = _weights(name, lambda: models.get_model(name, weights="IMAGENET1K_V1"))
    return Normalised(network, MEAN, STD).eval()


def _classes() -> list[str]:
    """The names of the classes, in order."""
    models = optional("torchvision.models", "the names of the ImageNet classes come from it")
    return list(models.get_model_weights("resnet50").IMAGENET1K_V1.meta["categories"])


def _weights(name: str, load: Callable[[], Any]) -> Any:
    try:
        return load()
    except Exception as error:  # no connection, no room, a broken cache: many kinds
        raise InputError(
            f"the weights of {name} cannot be loaded: {with_kind(error)}; they are fetched once, "
            "and then taken from the package's cache",
            remedy="load them where there is a connection, or copy that cache here",
        ) from None
