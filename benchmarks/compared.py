"""Two reports of table.py side by side: the same presets before and after, or in two precisions.

For every preset and price of both, at the marks of both, over the images of both (by content): the
medians, and the ratio of the first report's to the second's with a 95 % interval, paired by image.
Budgets may differ: a distance at a mark does not depend on what comes after it. Images that are cut
short before a mark, or misclassified from the start, in either report are left out of it.
"""

from __future__ import annotations

import math
from typing import Any

import merged
import numpy as np
import paired

HEAD = ["preset", "c*", "at", "images", "first", "second", "ratio"]


def by_mark(report: dict[str, Any]) -> dict[tuple[str, float, float], dict[str, float]]:
    """Distances by image, for each preset, price and mark."""
    found: dict[tuple[str, float, float], dict[str, float]] = {}
    images = report["settings"]["images"]
    for entry in report["entries"]:
        for mark, values in entry["at"].items():
            key = (entry["preset"], float(entry["price"]), float(mark))
            kept = found.setdefault(key, {})
            for number, (image, value) in enumerate(zip(images, values, strict=True)):
                cut = entry["cut"].get(str(number))
                known = cut is None or (cut[1] or 0) >= float(mark)
                if known and entry["stop"][number] != merged.MISCLASSIFIED:
                    kept[image] = math.inf if value is None else value
    return found


def beside(first: dict[str, Any], second: dict[str, Any]) -> str:
    """The table of all that both have, and the geometric mean of its ratios by preset and price."""
    ours, theirs = by_mark(first), by_mark(second)
    body = []
    ratios: dict[tuple[str, float], list[float]] = {}
    for preset, price, mark in sorted(set(ours) & set(theirs)):
        one, other = ours[preset, price, mark], theirs[preset, price, mark]
        images = [image for image in one if image in other]
        if not images:
            continue
        values, base = (np.array([kept[image] for image in images]) for kept in (one, other))
        ratio = paired.ratio(values, base)
        if math.isfinite(ratio.value):
            ratios.setdefault((preset, price), []).append(ratio.value)
        cells = [preset, f"{price:g}", merged.thousands(mark), str(len(images))]
        medians = [paired.told(paired.median(of)) for of in (values, base)]
        body.append([*cells, *medians, str(ratio)])
    if not body:
        return "The two have no preset, price, mark and image in common."
    means = [
        [preset, f"{price:g}", str(len(found)), f"{paired.geometric_mean(np.array(found)):.3f}"]
        for (preset, price), found in ratios.items()
    ]
    means_head = ["preset", "c*", "marks", "geometric mean of ratios"]
    return merged.grid(HEAD, body) + "\n\n" + merged.grid(means_head, means)
