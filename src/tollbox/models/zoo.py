"""The paper's models, as networks that normalise images themselves.

Each takes images of 224 x 224 in [0,1] and has the 1,000 ImageNet classes in the usual order. The
paper names neither the weights nor the fine-tuned CLIP. Here they are torchvision's first weights
of each network, OpenAI's CLIP with a ViT-B/32, and timm's version of it that is fine-tuned on
ImageNet.
"""

from __future__ import annotations

from torch import nn

from .loading import load_network

NAMES = {
    "resnet50": "torchvision:resnet50.IMAGENET1K_V1",
    "vit_b_32": "torchvision:vit_b_32.IMAGENET1K_V1",
    "vit_b_16": "torchvision:vit_b_16.IMAGENET1K_V1",
    "clip_zero_shot": "clip:openai/clip-vit-base-patch32",
    "clip_fine_tuned": "timm:vit_base_patch32_clip_224.openai_ft_in1k",
}


def resnet50() -> nn.Module:
    return load_network(NAMES["resnet50"])


def vit_b_32() -> nn.Module:
    return load_network(NAMES["vit_b_32"])


def vit_b_16() -> nn.Module:
    return load_network(NAMES["vit_b_16"])


def clip_zero_shot() -> nn.Module:
    return load_network(NAMES["clip_zero_shot"])


def clip_fine_tuned() -> nn.Module:
    return load_network(NAMES["clip_fine_tuned"])
