"""One preset in two reports of `table.py`, on the images that both have: what a setting changed.

    python benchmarks/beside.py benchmarks/results/frugal-8bit.json \\
        benchmarks/results/frugal-resnet50.json --presets frugal a-cgba

Prints, for every price and mark of both, the medians over those images and their ratio, the first
report over the second, with a 95 % interval, paired. Reports may differ in any setting, and are
shown with those they differ in.
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


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("reports", nargs=2, type=Path)
    parser.add_argument("--presets", nargs="+", default=["frugal"])
    args = parser.parse_args()
    first, second = (json.loads(path.read_text()) for path in args.reports)
    settings = [report["settings"] for report in (first, second)]
    for key in {**settings[0], **settings[1]}:
        ours, theirs = (given.get(key) for given in settings)
        if key != "images" and ours != theirs:
            print(f"{key}: {ours} and {theirs}")
    both = [image for image in settings[0]["images"] if image in settings[1]["images"]]
    print(f"{len(both)} images")

    def values(report: dict[str, Any], listed: list[float | None]) -> paired.Values:
        found = [listed[report["settings"]["images"].index(image)] for image in both]
        return np.array([math.inf if value is None else value for value in found])

    body = []
    for preset in args.presets:
        for ours in (entry for entry in first["entries"] if entry["preset"] == preset):
            same = [
                e for e in second["entries"] if (e["preset"], e["price"]) == (preset, ours["price"])
            ]
            for theirs in same:
                for mark in (mark for mark in ours["at"] if mark in theirs["at"]):
                    pair = values(first, ours["at"][mark]), values(second, theirs["at"][mark])
                    told = [paired.told(paired.median(each)) for each in pair]
                    where = [f"{ours['price']:g}", merged.thousands(float(mark))]
                    body.append([preset, *where, *told, str(paired.ratio(*pair))])
    print(merged.grid(["preset", "c*", "at", "first", "second", "ratio"], body))


if __name__ == "__main__":
    main()
