"""What tells one detector from another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from tollbox.studies.fingerprint import settings_of


@dataclass
class Guard:
    radius: float
    bank: torch.Tensor
    owner: Any = None


def test_settings_tell_detectors_apart_and_so_does_content() -> None:
    first = settings_of("detector", Guard(0.5, torch.zeros(2)))
    assert first == settings_of("detector", Guard(0.5, torch.zeros(2)))
    assert first != settings_of("detector", Guard(0.6, torch.zeros(2)))
    assert first != settings_of("detector", Guard(0.5, torch.ones(2)))


def test_a_detector_that_holds_itself_has_an_end() -> None:
    """Found one way or another, and twice beside itself is not within itself."""
    guard = Guard(0.5, torch.zeros(2))
    guard.owner = {"of": [guard], "radii": [(1, 2), (1, 2)]}
    parts = settings_of("detector", guard)
    assert parts["owner.of.0"] == "an object that contains it"
    assert parts["owner.radii.0"] == parts["owner.radii.1"] == "(1, 2)"
