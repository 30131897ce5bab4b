"""Where labels go beside their points, so that they meet neither each other nor a line.

Each label tries places around its point, the nearest first, and takes the first that is free of
earlier labels, of all points and of the line's dots, and within the frame; if none is, the one that
meets least. All is in pixels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Place = NDArray[np.float64] | Sequence[float]

MARKER = 6.0
"""Half of the side of a point's marker."""
GAPS = (4.0, 12.0, 22.0, 34.0, 48.0, 64.0)
"""From the marker to the label."""
BESIDE = MARKER + GAPS[0] + 1.0
"""From the point to the edge of a label that needs no leader line."""
ANGLES = (0, 180, 90, 270, 45, 315, 135, 225, 20, 340, 160, 200)
"""Degrees, to the right first."""


class Box(NamedTuple):
    """A rectangle."""

    left: float
    bottom: float
    right: float
    top: float

    def meets(self, other: Box) -> bool:
        """Whether the two share a place."""
        across = self.left < other.right and other.left < self.right
        return across and self.bottom < other.top and other.bottom < self.top

    def holds(self, points: Any) -> int:
        """How many of the points (n, 2) are inside."""
        inside = (points >= [self.left, self.bottom]) & (points <= [self.right, self.top])
        return int(inside.all(axis=1).sum())


def place_labels(
    points: Sequence[Place], sizes: Sequence[tuple[float, float]], dots: Any, frame: Box
) -> list[tuple[float, float]]:
    """How far the middle of each label, of this width and height, is from its point."""
    markers = [
        Box(x - MARKER, y - MARKER, x + MARKER, y + MARKER)
        for x, y in (map(float, p) for p in points)
    ]
    placed: list[Box] = []
    shifts = []
    for (x, y), size in zip(points, sizes, strict=True):
        best = math.inf
        for shift in _candidates(*size):
            box = _around(float(x) + shift[0], float(y) + shift[1], *size)
            cost = 4 * sum(box.meets(other) for other in (*placed, *markers)) + min(
                3, box.holds(dots)
            )
            within = frame.left <= box.left and box.right <= frame.right
            cost += 0 if within and frame.bottom <= box.bottom and box.top <= frame.top else 2
            if cost < best:
                best, chosen, chosen_box = cost, shift, box
            if cost == 0:
                break
        placed.append(chosen_box)
        shifts.append(chosen)
    return shifts


def _around(x: float, y: float, width: float, height: float) -> Box:
    return Box(x - width / 2 - 1, y - height / 2 - 1, x + width / 2 + 1, y + height / 2 + 1)


def _candidates(width: float, height: float) -> list[tuple[float, float]]:
    """Middles of a label around its point, so that the gap to the marker is the same all round."""
    return [
        (
            math.cos(math.radians(angle)) * (MARKER + gap + width / 2),
            math.sin(math.radians(angle)) * (MARKER + gap + height / 2),
        )
        for gap in GAPS
        for angle in ANGLES
    ]
