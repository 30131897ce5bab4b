"""What a study is made of, each as its file has it, checked; nothing is loaded yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...core.prices import Prices
from ...core.problem import Attack


@dataclass(frozen=True)
class ImagesSpec:
    """Which images: all of a folder, an `.npz` or a function, or some of them, in an order."""

    path: Path
    """For a function, its name."""
    labels: Path | None = None
    limit: int | None = None
    """The first so many, of the list if there is one."""
    listed: Path | None = None
    """A file of content hashes: just these images, in this order."""
    digest: str | None = None
    """What `images_digest` gives for the images that are meant."""
    function: str | None = None
    """module:function, which gives them."""


@dataclass(frozen=True)
class ModelSpec:
    """One model."""

    name: str
    source: str
    """As the file has it."""
    resolved: str
    """A path that is good from the current folder, or module:function."""
    mean: tuple[float, ...] | None = None
    """One number, or one per channel."""
    std: tuple[float, ...] | None = None
    quantize: int | None = None


@dataclass(frozen=True)
class AttackSpec:
    """One attack: a preset, with some of its fields changed."""

    name: str
    preset: str
    attack: Attack
    overrides: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """The changed fields, as the file has them."""


@dataclass(frozen=True)
class Tariff:
    """One price, with what an image may cost and take under it; infinite where not limited."""

    name: str
    prices: Prices
    budget: float
    max_queries: float


@dataclass(frozen=True)
class Goal:
    """The class to reach (None: any but the source), and the image, or images, to begin from."""

    target: int | None = None
    start: Path | None = None
