"""The names of ImageNet's 1000 classes, in the usual order; short ones, which suit a prompt."""

from __future__ import annotations

import functools
from importlib import resources

from ..data.classes import ClassNames

CLASSES = 1000


@functools.cache
def imagenet() -> ClassNames:
    """The names that come with tollbox."""
    text = (resources.files("tollbox.models") / "imagenet.txt").read_text(encoding="utf-8")
    return ClassNames.of(text.splitlines())
