"""Two reports of `table.py` on the images that both have: what a setting, or new code, changed.

    python benchmarks/beside.py benchmarks/results/frugal-8bit.json \\
        benchmarks/results/frugal-resnet50.json --presets frugal a-cgba

Prints, for every preset, price and mark of both, the medians over those images and their ratio, the
first report over the second, with a 95 % interval, paired; then the geometric mean of each preset's
ratios at a price. Reports may differ in any setting, and are shown with those they differ in; a
distance at a mark does not depend on the budget beyond it. Images that were cut short before a
mark, or misclassified from the start, in either report are left out of it.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

import merged
import numpy as np
import paired

Key = tuple[str, float, float]
"""Preset, price and mark."""
HEAD = ["preset", "c*", "at", "images", "first", "second", "ratio"]


def by_mark(report: dict[str, Any]) -> dict[Key, dict[str, float]]:
    """Distances by image."""
    found: dict[Key, dict[str, float]] = {}
    images = report["settings"]["images"]
    for entry in report["entries"]:
        for mark, values in entry["at"].items():
            kept = found.setdefault((entry["preset"], float(entry["price"]), float(mark)), {})
            for number, (image, value) in enumerate(zip(images, values, strict=True)):
                cut = entry["cut"].get(str(number))
                known = cut is None or (cut[1] or 0) >= float(mark)
                if known and entry["stop"][number] != merged.MISCLASSIFIED:
                    kept[image] = math.inf if value is None else value
    return found


def beside(first: dict[str, Any], second: dict[str, Any], presets: list[str] | None) -> str:
    """The table of all that both have, and the geometric means of its ratios."""
    ours, theirs = by_mark(first), by_mark(second)
    body: list[list[str]] = []
    ratios: dict[tuple[str, float], list[float]] = {}
    for key in sorted(set(ours) & set(theirs)):
        preset, price, mark = key
        images = [image for image in ours[key] if image in theirs[key]]
        if not images or (presets is not None and preset not in presets):
            continue
        one, other = (np.array([kept[key][i] for i in images]) for kept in (ours, theirs))
        ratio = paired.ratio(one, other)
        if math.isfinite(ratio.value):
            ratios.setdefault((preset, price), []).append(ratio.value)
        where = [preset, f"{price:g}", merged.thousands(mark), str(len(images))]
        body.append(
            [*where, *(paired.told(paired.median(each)) for each in (one, other)), str(ratio)]
        )
    if not body:
        return "The two have no preset, price, mark and image in common."
    means = [
        [preset, f"{price:g}", str(len(found)), f"{paired.geometric_mean(np.array(found)):.3f}"]
        for (preset, price), found in ratios.items()
    ]
    means_head = ["preset", "c*", "marks", "geometric mean of ratios"]
    return merged.grid(HEAD, body) + "\n\n" + merged.grid(means_head, means)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("reports", nargs=2, type=Path)
    parser.add_argument(
        "--presets", nargs="+", default=None, help="all that both have, if not given"
    )
    args = parser.parse_args()
    first, second = (json.loads(path.read_text()) for path in args.reports)
    for key in {**first["settings"], **second["settings"]}:
        ours, theirs = (report["settings"].get(key) for report in (first, second))
        if key != "images" and ours != theirs:
            print(f"{key}: {ours} and {theirs}")
    print(beside(first, second, args.presets))


if __name__ == "__main__":
    main()
