"""Whole space or low frequencies, on images of 32 x 32: attacks without settings for small images.

    python benchmarks/small_images.py run --net resnet20 --out part.json
    python benchmarks/small_images.py show part.json ...

`run` attacks images of even content hash at c* = 1 and 100 with the settings of each preset for
large images, which draw low frequencies, and with the same in the whole space. `show` prints the
geometric mean over images of the ratio of the two distances (whole space / low frequencies), with a
95 % interval, at each cost. Images without an adversarial point at that cost are left out. Below 1
the whole space is better. For small images, `by_side` in attacks/preset_settings.py has the better.
"""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import common
import merged
import numpy as np
import paired

import tollbox as tb
from tollbox.core.by_side import at_side
from tollbox.parts.directions import SingleWaves, TernarySpectrum
from tollbox.parts.subspaces import Dct, Full

CHOSEN: tuple[str, ...] = (
    "cgba",
    "cgba-original",
    "cgba-h",
    "cgba+calibrated",
    "geoda",
    "geoda-original",
)
CHOSEN += ("geoda+calibrated", "stealthy-geoda", "surfree", "tria")
"""The presets for which authors have no settings; their asymmetric forms follow them."""
MARKS = {1: (500, 1000, 2000), 100: (6000, 15_000, 30_000)}
SETTINGS = ("small", "large")
"""The whole space, and low frequencies."""
DELTAS = {"cgba-original": 0.0025, "geoda-original": 0.0025, "stealthy-geoda": 0.0111}
"""Sampling radii that authors give for each coordinate, in the whole space of 3 x 32 x 32."""


def in_whole_space(part: Any) -> Any:
    """A part, and all parts in it, with the whole space for a subspace."""
    if not is_dataclass(part) or isinstance(part, type):
        return part
    values = {each.name: in_whole_space(getattr(part, each.name)) for each in fields(part)}
    if "subspace" in values:
        waves = isinstance(part, SingleWaves | TernarySpectrum)
        values["subspace"] = Dct(1) if waves else Full()
    return replace(part, **values)


def large(name: str) -> Any:
    return at_side(tb.preset(name), math.inf)


def small(name: str) -> Any:
    """A preset in the whole space."""
    attack = in_whole_space(large(name))
    if name in DELTAS:
        attack = replace(attack, estimate=replace(attack.estimate, delta=DELTAS[name]))
    return replace(attack, epsilon=1.125) if name == "geoda-original" else attack


def run(args: argparse.Namespace) -> None:
    loaded = common.load(args.net, args.device, args.images, which="even")
    hashes = loaded.hashes
    report: dict[str, Any] = {
        **common.provenance(args.device),
        "settings": {"net": args.net, "seed": args.seed, "images": hashes},
        "entries": [],
    }
    for name in args.presets:
        for price in args.prices:
            marks = [mark for mark in MARKS[price] if mark <= args.up_to]
            for settings in SETTINGS:
                attack = small(name) if settings == "small" else large(name)
                prices = tb.Prices(price, 1)
                cells = loaded.cells(attack, budget=marks[-1], prices=prices, seed=args.seed)
                what = f"{name}, c* = {price}, {settings}"
                results = common.run_cells(what, cells, loaded.model, args)
                at = {
                    str(mark): [common.short(result.distance_at(mark)) for result in results]
                    for mark in marks
                }
                entry = {"preset": name, "price": price, "settings": settings}
                report["entries"].append({**entry, "attack": repr(attack), "at": at})
            common.write(args.out, report)


def show(paths: list[Path]) -> str:
    """A table with a row for each network and preset."""
    rows = []
    for path in paths:
        report = json.loads(path.read_text())
        by_key = {(e["preset"], e["price"], e["settings"]): e["at"] for e in report["entries"]}
        count = len(report["settings"]["images"])
        for name in dict.fromkeys(entry["preset"] for entry in report["entries"]):
            row = [report["settings"]["net"], f"{count}", f"`{name}`"]
            for price, marks in MARKS.items():
                both = [by_key.get((name, price, each), {}) for each in SETTINGS]
                for mark in map(str, marks):
                    values = (np.array(each.get(mark, []), float) for each in both)
                    row.append(str(paired.each(*values)))
            rows.append(row)
    head = [f"c*={price}: {mark:,}" for price, marks in MARKS.items() for mark in marks]
    return merged.grid(["network", "images", "preset", *head], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    running = commands.add_parser("run", parents=[common.options()], help="attack; write a part")
    running.add_argument("--presets", nargs="+", default=list(CHOSEN))
    running.add_argument("--prices", nargs="+", type=int, choices=list(MARKS), default=list(MARKS))
    running.add_argument("--up-to", type=float, default=math.inf, help="the last cost")
    showing = commands.add_parser("show", help="print the table of parts")
    showing.add_argument("parts", nargs="+", type=Path)
    args = parser.parse_args()
    if args.command == "show":
        print(show(args.parts))
    else:
        run(args)


if __name__ == "__main__":
    main()
