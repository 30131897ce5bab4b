"""The vision transformer for CIFAR-10 (patches of 4, width 192, 9 layers, 3 heads).

Weights are those of a Hugging Face folder (`ViTForImageClassification`), under shorter names.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

PATCH, WIDTH, LAYERS, HEADS, HIDDEN, SIDE, CLASSES = 4, 192, 9, 3, 576, 32, 10
EPS = 1e-12
NAMES = (
    ("vit.embeddings.patch_embeddings.projection", "patches"),
    ("vit.embeddings.cls_token", "token"),
    ("vit.embeddings.position_embeddings", "places"),
    ("vit.encoder.layer.", "layers."),
    ("attention.attention.", ""),
    ("attention.output.dense", "out"),
    ("intermediate.dense", "up"),
    ("output.dense", "down"),
    ("layernorm_before", "before"),
    ("layernorm_after", "after"),
    ("vit.layernorm", "norm"),
)
"""What is in the file, and here; in this order."""


class Layer(nn.Module):
    """Attention and two dense layers, each on what is normalised, and added to what was there."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.after = (nn.LayerNorm(WIDTH, EPS) for _ in range(2))
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.up, self.down = nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        y = self.before(x)
        heads = [
            part(y).unflatten(2, (HEADS, -1)).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        ]
        x = x + self.out(functional.scaled_dot_product_attention(*heads).transpose(1, 2).flatten(2))
        dense: Tensor = self.down(functional.gelu(self.up(self.after(x))))
        return x + dense


class ViT(nn.Module):
    """A token for each patch and one for the class."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, PATCH, PATCH)
        self.token = nn.Parameter(torch.zeros(1, 1, WIDTH))
        self.places = nn.Parameter(torch.zeros(1, (SIDE // PATCH) ** 2 + 1, WIDTH))
        self.layers = nn.Sequential(*(Layer() for _ in range(LAYERS)))
        self.norm = nn.LayerNorm(WIDTH, EPS)
        self.classifier = nn.Linear(WIDTH, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.places
        logits: Tensor = self.classifier(self.norm(self.layers(x))[:, 0])
        return logits


def renamed(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """A file's weights under the names here."""
    found = {}
    for key, value in weights.items():
        for theirs, ours in NAMES:
            key = key.replace(theirs, ours)
        found[key] = value
    return found
