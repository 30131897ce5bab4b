"""What a surrogate brings `frugal`, and what a useless one costs.

    python benchmarks/guided.py --net vit --surrogates resnet20 robust noisy:0.4 random \\
        --images 30 --prices 1:1000 2:1000 100:3000 --at 250 500 --out out.json

Surrogates are networks of `nets.py` (one for images of another size is given resized ones, and has
other classes), `random`, a ResNet-20 or ResNet-50 whose weights were never trained, and `noisy:S`,
the attacked network itself with noise of S standard deviations added to each of its weights: a
cousin: the smaller S, the more similar.

For each price and surrogate, over the images: the geometric mean of the distance beside that of
`frugal` alone at every mark, with a 95 % interval (images are drawn, paired; no adversarial point
counts as half of the range in every pixel); the share of turns that followed it; and the seconds
that it took. Several networks in one surrogate are joined by a plus: `vit+robust`. Later surrogates
are also compared with the first one ("first"). `--presets` names other attacks that use surrogates.
They take the first one, and `frugal+surrogate` is also compared with them ("ours").
"""

from __future__ import annotations

import argparse
import math
from typing import Any

import common
import numpy as np
import paired

import tollbox as tb
from tollbox.attacks.surrogates import Surrogate

OURS, ALONE = "frugal+surrogate", "none"
FOLLOWED = 4.0
"""The number of a surrogate's turns in notes."""


def compared(ours: Any, theirs: Any) -> list[paired.Ratio]:
    """Geometric means of paired ratios, mark by mark."""
    gains = ours / theirs
    return [paired.ratio(gain, np.ones(len(gain)), paired.geometric_mean) for gain in gains]


def listed(ratios: list[paired.Ratio]) -> list[list[float | None]]:
    """The ratios with their intervals, for JSON."""
    return [[common.short(value) for value in ratio] for ratio in ratios]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").splitlines()[0], parents=[common.options()]
    )
    common.hash_option(parser)
    parser.add_argument("--surrogates", nargs="+", default=["random"])
    rivals = [name for name in tb.attacks.WITH_SURROGATE if name != OURS]
    parser.add_argument("--presets", nargs="+", default=[], choices=rivals)
    parser.add_argument("--prices", nargs="+", type=common.priced, required=True)
    parser.add_argument("--at", nargs="+", type=float, default=[])
    args = parser.parse_args()
    if unlimited := [price for price, budget in args.prices if budget is None]:
        parser.error(f"--prices: c* = {unlimited[0]:g} needs a budget, as {unlimited[0]:g}:1000")
    common.use_tf32(False)
    loaded = common.load(args.net, args.device, args.images, which=args.hash)
    guides = {name: common.surrogate(name, args.net) for name in args.surrogates}
    runs: list[tuple[str, str, Surrogate | None]] = [("frugal", ALONE, None)]
    runs += [(OURS, *guide) for guide in guides.items()]
    runs += [(preset, *next(iter(guides.items()))) for preset in args.presets]
    report: dict[str, Any] = {
        **common.provenance(args.device),
        "settings": {"net": args.net, "seed": args.seed, "images": loaded.hashes},
        "rows": [],
    }
    farthest = 0.5 * math.sqrt(loaded.images[0].numel())
    for price, budget in args.prices:
        marks = [mark for mark in args.at if mark < budget] + [budget]
        alone: Any = None
        ours: dict[str, Any] = {}
        for preset, name, guide in runs:
            attack = tb.preset(preset, surrogate=guide)
            before = 0.0 if guide is None else guide.seconds
            cells = loaded.cells(attack, prices=tb.Prices(price, 1), budget=budget, seed=args.seed)
            what = f"c* = {price:g}, {preset}, {name}"
            results = common.run_cells(what, cells, loaded.model, args)
            distances = np.array([[r.distance_at(mark) for r in results] for mark in marks])
            distances = np.minimum(distances, farthest)
            alone = distances if alone is None else alone
            ratios = compared(distances, alone)
            if preset == OURS:
                ours[name] = distances
            turns = [step.notes.get("prior") for result in results for step in result.trace[1:]]
            row: dict[str, Any] = {
                "price": price,
                "preset": preset,
                "surrogate": name,
                "medians": [common.short(float(np.median(each))) for each in distances],
                "ratios": listed(ratios),
                "marks": marks,
                "followed": common.short(turns.count(FOLLOWED) / max(len(turns), 1)),
            }
            if preset == OURS and len(ours) > 1:
                row["first"] = listed(compared(distances, next(iter(ours.values()))))
            if preset in args.presets:
                row["ours"] = listed(compared(ours[name], distances))
            if guide is not None:
                row["seconds"] = common.short(guide.seconds - before, 3)
            report["rows"].append(row)
            text = ", ".join(
                f"{mark:g}: {ratio}" for mark, ratio in zip(marks, ratios, strict=True)
            )
            print(f"{what}: {text}; {row}", flush=True)
            common.write(args.out, report)


if __name__ == "__main__":
    main()
