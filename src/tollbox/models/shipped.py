"""Weights that come with the package: safetensors files, which hold numbers and no code."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

from torch import Tensor

from ..files.packages import optional


def shipped_weights(name: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors of a shipped file, and what it says about itself."""
    safetensors = optional(
        "safetensors", "the models that come with tollbox are read with it", extra="cli"
    )
    path = resources.files("tollbox.models") / f"{name}.safetensors"
    with resources.as_file(path) as file, safetensors.safe_open(file, framework="pt") as stored:
        tensors = {key: stored.get_tensor(key) for key in stored.keys()}  # noqa: SIM118
        return tensors, json.loads(stored.metadata()["about"])
