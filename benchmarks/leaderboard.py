"""`frugal` beside the stealthy leaderboard: how near after so many flagged queries?

    python benchmarks/table.py run --net resnet50 --device cuda --tf32 --graphs --delta 0.5 \\
        --layout channels_last --batch-size 128 --one-shape --images 20 --presets frugal \\
        --by source --prices 1000 --max-queries 50000 --at 5 10 20 50 100 200 500 1000 \\
        --out part.json
    python benchmarks/leaderboard.py part.json

A line for each preset of the parts: the median distance after so many flagged queries, and in
brackets the median of the queries that it took. A mark that half of the images or more did not come
to, since their queries ended before, stays empty. Below them what the leaderboard of Debenedetti et
al. has for ImageNet: of another ResNet-50, of other images, and with no limit on queries, so that
only the order of magnitude compares.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import merged
import numpy as np
import paired

PUBLISHED: dict[str, dict[int, float]] = {
    "Stealthy HSJA": {100: 26.6, 200: 19.4, 500: 11.5, 1000: 6.7},
    "Stealthy GeoDA": {100: 15.7, 200: 7.3, 500: 2.7, 1000: 1.5},
}
"""Median l2 after so many flagged queries."""


def line(entry: dict[str, Any], marks: list[int]) -> list[str]:
    """One preset: distance and queries at each mark."""
    cells = [f"`{entry['preset']}`, planned for c\\* = {entry['price']:g}"]
    for mark in marks:
        asked = entry["asked"].get(f"{mark:g}", [])
        known = [number for number, queries in enumerate(asked) if queries is not None]
        if 2 * len(known) <= len(asked):
            cells.append("")
            continue
        distances = np.array([entry["at"][f"{mark:g}"][number] for number in known], dtype=float)
        queries = float(f"{np.median([asked[number] for number in known]):.2g}")
        left = f", {len(known)} images" if len(known) < len(asked) else ""
        cells.append(f"{paired.median(distances):.2f} ({merged.thousands(queries)}{left})")
    return cells


def table(reports: list[dict[str, Any]]) -> str:
    """All presets of the parts, and what is published."""
    entries = [entry for report in reports for entry in report["entries"] if "asked" in entry]
    found = {int(float(mark)) for entry in entries for mark in entry["asked"]}
    marks = sorted(found | {mark for row in PUBLISHED.values() for mark in row})
    body = [line(entry, marks) for entry in entries]
    for name, values in PUBLISHED.items():
        told = [f"{values[mark]:g}" if mark in values else "" for mark in marks]
        body.append([f"{name}, published", *told])
    return merged.grid(["after so many flagged", *map(str, marks)], body)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("parts", nargs="+", type=Path)
    args = parser.parse_args()
    print(table([json.loads(path.read_text()) for path in args.parts]))


if __name__ == "__main__":
    main()
