"""Detectors to test with, and the alarms of a detector on harmless queries."""

from ..core.detector import BenignStats, Detection, Detector, Sessions
from .benign import benign_panel
from .reference import NearDuplicates, check_detector

__all__ = [
    "BenignStats",
    "Detection",
    "Detector",
    "NearDuplicates",
    "Sessions",
    "benign_panel",
    "check_detector",
]
