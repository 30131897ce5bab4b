"""`frugal` against the best of the others, on every network at every price: one table.

    python benchmarks/everywhere.py run --net vit --presets others --out part.json
    python benchmarks/everywhere.py run --net vit --presets frugal --out ours.json
    python benchmarks/everywhere.py run --net vit --first --presets others frugal --out first.json
    python benchmarks/everywhere.py show part.json ours.json ... --markdown table.md

`run` is `table.py run` with the network's plan: so many images of odd content hash (settings were
chosen on even ones), prices 1, 2, 100 and 1000, three marks each, and costs between them for the
ranking. With `--first` it is the first queries alone: up to 250 at c* = 1, 500 at c* = 100 and 2.5K
at c* = 1000. `others` are all presets that are not ours. Further options are table.py's (--device,
--batch-size, --graphs, ...); `--prices 2 100` runs some of the prices. Parts of a network are
joined as table.py joins them, so what others do is run once and kept; images or settings that do
not fit what is kept are told before anything is run.

`show` prints, for each network, price and mark: the other with the smallest median there, its
median and that of `frugal`, and the ratio of the two with a 95 % interval, paired by image, and the
share of images that each brings within an l2 distance of 1, or of 5 for images of 224 pixels. Where
the best other has no adversarial point for half of the images the cell is listed, and not counted.
`--each` adds the geometric mean of the ratios of each image, over those for which both attacks have
an adversarial point: its interval is narrower than that of the ratio of medians.
Then what is asked of all cells: intervals that lie wholly above 1, also beside the others that are
not the best, the geometric mean of each network's cells, the median of all; and G, a ranking over
all costs (`merged.Table.ranking`).
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import joining
import merged
import numpy as np
import paired
import table

import tollbox as tb

OURS = "frugal"
REFERENCE = "a-cgba"
LARGE: dict[int, tuple[int, ...]] = {1: (1000, 4000, 10_000), 2: (1000, 4000, 10_000)}
LARGE |= {100: (5000, 10_000, 20_000), 1000: (15_000, 30_000, 60_000)}
SMALL: dict[int, tuple[int, ...]] = {1: (500, 1000, 2000), 2: (500, 1000, 2000)}
SMALL |= {100: (1500, 3000, 6000), 1000: (5000, 15_000, 30_000)}
FIRST: dict[int, tuple[int, ...]] = {1: (50, 100, 250), 100: (500,), 1000: (2500,)}
"""The first marks, run apart."""
WITHIN = {"large": 5.0, "small": 1.0}
"""The l2 distances of which success rates are given, as is usual for large and small images."""
BETWEEN = 9
"""Costs of the ranking, equal ratios apart, from half of the first mark to the last."""


class Plan(NamedTuple):
    """What is run on a network."""

    images: int
    marks: dict[int, tuple[int, ...]]


PLANS = {
    "resnet50": Plan(30, LARGE),
    "efficientnet-lite0": Plan(20, LARGE),
    "mobilenetv2": Plan(30, LARGE),
    "resnet20": Plan(100, SMALL),
    "vit": Plan(100, SMALL),
    "robust": Plan(100, SMALL),
    "embedded": Plan(50, SMALL),
    "vit_4": Plan(50, SMALL),
    "vit_7": Plan(50, SMALL),
}


def limit(net: str) -> float:
    """The l2 distance of which success rates are given."""
    return WITHIN["large" if PLANS[net].marks is LARGE else "small"]


def is_ours(preset: str) -> bool:
    """Whether it is not in the paper, nor the attack of anybody else."""
    return preset.startswith(OURS) or preset.endswith("+calibrated")


def costs(marks: tuple[int, ...]) -> list[int]:
    """Where distances are read: the marks, and the costs of the ranking."""
    between = np.geomspace(marks[0] / 2, marks[-1], BETWEEN)
    return sorted({*marks, *(round(float(f"{cost:.3g}")) for cost in between)})


def run(args: argparse.Namespace, rest: list[str]) -> None:
    """Hand the network's plan to table.py."""
    plan = PLANS[args.net]
    marks = FIRST if args.first else plan.marks
    prices = args.prices or list(marks)
    if unknown := [price for price in prices if price not in marks]:
        sys.exit(f"--prices: {unknown[0]} is not of {', '.join(map(str, marks))}.")
    presets = []
    for name in args.presets:
        presets += [p for p in tb.presets("l2") if not is_ours(p)] if name == "others" else [name]
    words = ["run", "--net", args.net, "--hash", "odd", "--images", str(plan.images)]
    words += ["--presets", *presets]
    read = marks if args.first else {price: costs(marks[price]) for price in prices}
    words += ["--prices", *(f"{price}:{marks[price][-1]}" for price in prices), "--at"]
    words += [f"{price}:{','.join(map(str, read[price]))}" for price in prices]
    kept = Path(__file__).parent / "results" / f"everywhere-{args.net}.json"
    if kept.exists() and not args.alone:
        words += ["--joins", str(kept)]
    table.main([*words, *rest])


class Cell(NamedTuple):
    """`frugal` and another at one mark of one price on one network."""

    net: str
    column: merged.Column
    other: str
    theirs: float
    ours: float
    ratio: paired.Ratio
    each: paired.Ratio
    within: tuple[float, float]
    """Shares of images within the distance of `WITHIN`: theirs, ours."""
    early: bool
    """Whether it is one of the first marks: below 500 at c* = 1, the first two of 100 and 1000."""

    @property
    def counts(self) -> bool:
        """Whether both have an adversarial point for more than half of the images."""
        return math.isfinite(self.theirs) and math.isfinite(self.ours)


def cells(net: str, read: merged.Table) -> list[list[Cell]]:
    """For every mark for which `frugal` and others were run on a network, all of these, the one
    with the smallest median first."""
    found, within = [], limit(net)
    for price, marks in PLANS[net].marks.items():
        first = FIRST.get(price, ())
        columns = [merged.Column(price, first[-1], mark) for mark in first if mark not in marks]
        columns += [merged.Column(price, marks[-1], mark) for mark in marks]
        for place, column in enumerate(columns):
            values = {row.preset: read.values(row.preset, column) for row in read.rows}
            ours = values.pop(OURS, None)
            if ours is None:
                continue
            middle = paired.median(ours)
            others = [
                Cell(
                    net,
                    column,
                    name,
                    paired.median(v),
                    middle,
                    paired.ratio(ours, v),
                    paired.each(ours, v),
                    (float(np.mean(v <= within)), float(np.mean(ours <= within))),
                    bool(first) and place < max(2, len(first)),
                )
                for name, v in values.items()
                if v is not None and not is_ours(name)
            ]
            if others:
                found.append(sorted(others, key=lambda cell: cell.theirs))
    return found


def show(reports: list[dict[str, Any]], each: bool = False) -> str:
    """The table, with the mean over images if `each`, and what is asked of all its cells."""
    tables = {report["settings"]["net"]: merged.Table(report) for report in reports}
    beside = [at_mark for net in PLANS if net in tables for at_mark in cells(net, tables[net])]
    every = [best for best, *_ in beside]
    body = [
        [
            cell.net,
            f"{cell.column.price:g}",
            merged.thousands(cell.column.mark),
            f"`{cell.other}`" if math.isfinite(cell.theirs) else "none",
            paired.told(cell.theirs),
            paired.told(cell.ours),
            str(cell.ratio) if cell.counts else "not counted",
            "{:.0%}, {:.0%}".format(*cell.within),
            *([str(cell.each)] if each else []),
        ]
        for cell in every
    ]
    head = ["network", "c*", "cost", "best other", "its median", "`frugal`", "ratio", "within"]
    head += ["mean over images"] if each else []
    counted = [cell for cell in every if cell.counts]
    above = [cell for cell in counted if cell.ratio.low > 1]
    told = [f"- {len(every)} cells, {len(counted)} counted."]
    told += [f"- Intervals that lie wholly above 1: {len(above)}."]
    all_others = [cell for at_mark in beside for cell in at_mark]
    behind = sum(cell.ratio.low > 1 for cell in all_others)
    told += [f"- Beside each of the others, not the best alone: {behind} of {len(all_others)}."]
    for net in dict.fromkeys(cell.net for cell in counted):
        ratios = [(cell.ratio.value, cell.early) for cell in counted if cell.net == net]
        logs, early = np.log([r for r, _ in ratios]), [math.log(r) for r, e in ratios if e]
        mean = f"geometric mean of {len(logs)} cells {math.exp(np.mean(logs)):.2f}"
        if early:
            mean += f", of the {len(early)} first ones {math.exp(np.mean(early)):.2f}"
        others = [sum(not is_ours(p) for p in tables[net].ran(price)) for price in PLANS[net].marks]
        told.append(f"- {net}: {mean}; others that were run: {', '.join(map(str, others))}.")
    if counted:
        middle = np.median([cell.ratio.value for cell in counted])
        told.append(f"- Median over all cells {middle:.2f}.")
    blocks = [merged.grid(head, body), "\n".join(told)]
    for net, read in tables.items():
        ranking = read.ranking(REFERENCE)
        if ranking:
            blocks += [f"{net}: G, the distance over all costs beside `{REFERENCE}`.", ranking]
    return "\n\n".join(blocks)


def joined(paths: list[Path]) -> list[dict[str, Any]]:
    """The parts of each network as one report."""
    by_net: dict[str, list[tuple[str, dict[str, Any]]]] = defaultdict(list)
    for path in paths:
        report = json.loads(path.read_text())
        by_net[report["settings"]["net"]].append((path.name, report))
    return [joining.join(parts) for parts in by_net.values()]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    running = commands.add_parser("run", help="attack; write a part")
    running.add_argument("--net", choices=list(PLANS), required=True)
    running.add_argument("--presets", nargs="+", default=["others", OURS])
    running.add_argument("--prices", nargs="+", type=int, default=None)
    running.add_argument("--first", action="store_true", help="the first marks alone")
    running.add_argument("--alone", action="store_true", help="not to be joined with what is kept")
    showing = commands.add_parser("show", help="print the table of parts")
    showing.add_argument("parts", nargs="+", type=Path)
    showing.add_argument("--each", action="store_true", help="add the mean of each image's ratio")
    showing.add_argument("--markdown", type=Path, default=None)
    args, rest = parser.parse_known_args()
    if args.command == "run":
        run(args, rest)
        return
    if rest:
        parser.error(f"unknown: {' '.join(rest)}")
    try:
        text = show(joined(args.parts), args.each)
    except joining.Disagreement as error:
        sys.exit(str(error))
    print(text)
    if args.markdown is not None:
        args.markdown.write_text(text + "\n")


if __name__ == "__main__":
    main()
