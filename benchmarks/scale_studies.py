"""The small studies that `scale.py` runs, and their networks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nets
import numpy as np
import torch

import tollbox as tb

STUDY = """
budget = {budget}
prices = [1, 10]
batch_size = {batch}
workers = {workers}
device = "cpu"
[images]
path = "images.npz"
[[models]]
name = "net"
source = "{model}"
[[attacks]]
preset = "surfree"
[[attacks]]
preset = "a-hsja"
"""
KNOWN = """
import time
import torch
from torch import nn

NORMAL = torch.randn(192, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
SECONDS = {seconds}

class HalfSpace(nn.Module):
    def __init__(self):
        super().__init__()
        self.normal = nn.Parameter(NORMAL / NORMAL.norm())

    def forward(self, images):
        time.sleep(SECONDS * len(images))
        side = (images.flatten(1) - 0.5) @ self.normal - 0.3
        return torch.stack([-side, side], 1)

net = HalfSpace().eval()
"""
CONVOLUTIONS = """
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(
    nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(),
    nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(512, 10),
).double().eval()
"""
RESNET20 = f"""
import sys

import torch
from torch import nn

sys.path.append({str(Path(__file__).parent)!r})
import nets

class Normalised(nn.Module):
    def __init__(self):
        super().__init__()
        mean, std = torch.tensor(nets.NORMALISATION["resnet20"])[..., None, None]
        self.register_buffer("mean", mean)
        self.register_buffer("std", std)
        self.net = nets.network("resnet20", folded=True)

    def forward(self, images):
        return self.net((images - self.mean) / self.std)

net = Normalised().eval()
"""


def write_study(folder: Path, model: str, images: int, **values: Any) -> tb.Study:
    """A study's files."""
    (folder / f"scaled_{folder.name}.py").write_text(model)
    if model == RESNET20:
        pixels = (255 * nets.images("resnet20", images)[0]).round().byte().numpy()
    else:
        pixels = np.random.default_rng(0).integers(0, 256, (images, 3, 8, 8), np.uint8)
    scope: dict[str, Any] = {"__name__": "scaled"}
    exec(model, scope)
    dtype = next(scope["net"].parameters()).dtype
    with torch.no_grad():
        labels = scope["net"](torch.from_numpy(pixels).to(dtype) / 255).argmax(1).numpy()
    np.savez(folder / "images.npz", images=pixels, labels=labels)
    values = {"workers": 1, "model": f"scaled_{folder.name}:net", **values}
    (folder / "study.toml").write_text(STUDY.format(**values))
    return tb.Study.from_toml(folder / "study.toml")
