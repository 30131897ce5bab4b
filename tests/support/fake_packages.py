"""Stand-ins for torchvision, timm and transformers, with as much as is asked of them."""

from __future__ import annotations

import enum
import types
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

NAMES = [f"class {number}" for number in range(1000)]
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
CLIP_STD = (0.26862954, 0.26130258, 0.27577711)
SETTINGS = {
    "size": {"shortest_edge": 8},
    "do_center_crop": True,
    "crop_size": {"height": 8, "width": 8},
    "resample": 3,
    "image_mean": list(CLIP_MEAN),
    "image_std": list(CLIP_STD),
}


class Weights(enum.Enum):
    """Of a torchvision network."""

    IMAGENET1K_V1 = 1
    IMAGENET1K_V2 = 2
    DEFAULT = 2

    @property
    def meta(self) -> dict[str, Any]:
        return {"categories": NAMES}

    def transforms(self) -> Any:
        return types.SimpleNamespace(
            resize_size=[9],
            crop_size=[8],
            mean=list(MEAN),
            std=list(STD),
            interpolation=types.SimpleNamespace(value="bilinear"),
        )


def torchvision(made: Callable[..., nn.Module]) -> dict[str, types.ModuleType]:
    """The modules, with a function that makes a network from a name and weights."""
    models = types.ModuleType("torchvision.models")
    vars(models).update(
        get_model=made,
        get_model_weights=lambda name: Weights,
        list_models=lambda module: ["resnet50", "vit_b_32", "vit_b_16"],
    )
    return {"torchvision": types.ModuleType("torchvision"), "torchvision.models": models}


def timm(made: Callable[..., nn.Module], *names: str) -> dict[str, types.ModuleType]:
    """Likewise, for networks of these names with their tags."""
    module = types.ModuleType("timm")
    about = {
        "input_size": (3, 8, 8),
        "crop_pct": 0.9,
        "crop_mode": "center",
        "interpolation": "bicubic",
        "mean": CLIP_MEAN,
        "std": CLIP_STD,
    }
    plain = [name.partition(".")[0] for name in names]
    vars(module).update(
        create_model=made,
        is_model=lambda name: name.partition(".")[0] in plain,
        list_models=lambda: plain,
        list_pretrained=lambda: list(names),
        data=types.SimpleNamespace(resolve_model_data_config=lambda network: about),
    )
    return {"timm": module}


class Mean(nn.Module):
    """Logits from the mean of each channel."""

    num_classes = 1000

    def __init__(self) -> None:
        super().__init__()
        self.pretrained_cfg: dict[str, Any] = {}

    def forward(self, images: Tensor) -> Tensor:
        return images.mean((2, 3)).repeat(1, 400)[:, :1000]


class Vision(nn.Module):
    def forward(self, pixel_values: Tensor) -> Any:
        return types.SimpleNamespace(pooler_output=pixel_values.mean((2, 3)))


class Text(nn.Module):
    def forward(self, input_ids: Tensor) -> Any:
        return types.SimpleNamespace(pooler_output=torch.eye(3)[input_ids % 3])


class Clip(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.vision_model, self.text_model = Vision(), Text()
        self.visual_projection, self.text_projection = nn.Identity(), nn.Identity()
        self.config = types.SimpleNamespace(vision_config=types.SimpleNamespace(num_channels=3))


def transformers(
    clip: Callable[[str], nn.Module], tokenise: Callable[..., Any]
) -> dict[str, types.ModuleType]:
    """The module, with CLIP alone."""
    module = types.ModuleType("transformers")
    vars(module).update(
        CLIPModel=types.SimpleNamespace(
            from_pretrained=lambda name, **_: (clip(name), {"missing_keys": []})
        ),
        CLIPTokenizer=types.SimpleNamespace(from_pretrained=lambda name: tokenise),
        ImageProcessingMixin=types.SimpleNamespace(
            get_image_processor_dict=lambda name: (SETTINGS, {})
        ),
    )
    return {"transformers": module}
