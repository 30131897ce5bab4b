"""Every preset beside every other, and every asymmetric form beside its vanilla one.

    python benchmarks/everywhere.py run --net vit --presets opt a-opt ... --prices 1 2 100 \\
        --images 50 --out attacks-vit.json
    python benchmarks/all_presets.py attacks-vit.json everywhere-vit.json [--markdown table.md]
    python benchmarks/all_presets.py pairs-resnet20.json --marks 7500 15000 30000
    python benchmarks/all_presets.py everywhere-resnet20.json --first

The parts are of one network, made by everywhere.py; the images that all of them have are read.
Printed is one table of all presets: at each price the median distances at the plan's three marks,
and G, the distance over all costs beside `cgba` (`merged.Table.ranking`). Then a table of ratios at
c* = 100: what asymmetric search, with AGREST where there is an estimate, brings to each family.
With `--marks`, that table alone, at these costs, of which the last is the budget. With `--first`,
only the medians at the first marks of everywhere.py, and the share of images within its distance.

At c* = 1 asymmetric search is binary search, query for query, so such a row may have been run under
one of its two names; it stands in the table under both.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import everywhere
import joining
import merged
import paired

from tollbox.attacks import PRESETS

PRICES = (1, 2, 100)
DEAR = 100
REFERENCE = "cgba"


def searched(preset: str) -> str:
    """The preset that has binary search where this one has asymmetric search."""
    family = preset.removeprefix("a-").removesuffix("+as")
    if preset.startswith("a-") and f"{family}+agrest" in PRESETS:
        return f"{family}+agrest"
    return family


def twin(preset: str, known: set[str]) -> str | None:
    """The name under which a preset was run at c* = 1."""
    if preset in known:
        return preset
    same = [name for name in known if searched(name) == searched(preset)]
    return same[0] if same else None


def joined(paths: list[Path], prices: Sequence[float] = PRICES) -> dict[str, Any]:
    """The parts as one report, of the images that all of them have."""
    reports = [(path.name, json.loads(path.read_text())) for path in paths]
    count = min(len(report["settings"]["images"]) for _, report in reports)
    report = joining.join([(name, joining.first(part, count)) for name, part in reports])
    at_one = {e["preset"]: e for e in report["entries"] if e["price"] == 1}
    missing = {e["preset"] for e in report["entries"] if e["price"] in prices} - set(at_one)
    for preset in sorted(missing):
        same = twin(preset, set(at_one))
        if same is not None:
            report["entries"].append({**at_one[same], "preset": preset})
    wanted = [e for e in report["entries"] if e["price"] in prices]
    return {**report, "entries": wanted}


def medians(net: str, table: merged.Table) -> str:
    """All presets: medians at the marks of each price, and G."""
    gains = table.rankings(REFERENCE)
    head, body = ["preset"], []
    for price in PRICES:
        marks = everywhere.PLANS[net].marks[price]
        head += [f"c\\*={price}: {' / '.join(map(merged.thousands, marks))}", "G"]
    for row in table.rows:
        cells = [f"`{row.preset}`"]
        for price in PRICES:
            marks = everywhere.PLANS[net].marks[price]
            values = [
                table.values(row.preset, merged.Column(price, marks[-1], mark)) for mark in marks
            ]
            found = [paired.told(paired.median(each)) for each in values if each is not None]
            gain = gains.get((row.preset, price), "–")
            cells += [" / ".join(found) or "–", gain.partition(" ")[0]]
        body.append(cells)
    return merged.grid(head, body)


def first(net: str, table: merged.Table) -> str:
    """All presets at the first marks: medians, and shares of images within a distance at the last
    mark of a price."""
    limit = everywhere.limit(net)
    head, body = ["preset"], []
    for price, marks in everywhere.FIRST.items():
        head += [f"c\\*={price}: {' / '.join(map(merged.thousands, marks))}", f"within {limit:g}"]
    for row in table.rows:
        cells = [f"`{row.preset}`"]
        for price, marks in everywhere.FIRST.items():
            columns = [merged.Column(price, marks[-1], mark) for mark in marks]
            values = [table.values(row.preset, column) for column in columns]
            found = [each for each in values if each is not None]
            medians = [paired.told(paired.median(each)) for each in found]
            share = f"{100 * (found[-1] <= limit).mean():.0f} %" if found else "–"
            cells += [" / ".join(medians) or "–", share]
        if any(cell != "–" for cell in cells[1:]):
            body.append(cells)
    return merged.grid(head, body)


def asymmetric(table: merged.Table, marks: Sequence[int]) -> str:
    """Each asymmetric form over its vanilla one at a high price; the last mark is the budget."""
    known, body = {row.preset for row in table.rows}, []
    for name in (row.preset for row in table.rows if row.preset.startswith("a-")):
        base = name.removeprefix("a-")
        if base not in known:
            continue
        cells = [f"`{name}` / `{base}`"]
        for mark in marks:
            column = merged.Column(DEAR, marks[-1], mark)
            ours, theirs = table.values(name, column), table.values(base, column)
            if ours is None or theirs is None:
                cells.append("–")
                continue
            shares = [f"{100 * paired.success(each):.0f} %" for each in (ours, theirs)]
            ratio = str(paired.ratio(ours, theirs))
            cells.append(f"{ratio} ({', '.join(shares)})" if shares != ["100 %"] * 2 else ratio)
        body.append([*cells, table.rankings(base).get((name, DEAR), "–")])
    head = [f"c\\*={DEAR}", *(merged.thousands(mark) for mark in marks), "G"]
    return merged.grid(head, body)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("parts", nargs="+", type=Path)
    parser.add_argument("--marks", nargs="+", type=int, default=None, help="of the second table")
    parser.add_argument("--first", action="store_true", help="the first marks alone")
    parser.add_argument("--markdown", type=Path, default=None)
    args = parser.parse_args()
    try:
        report = joined(args.parts, list(everywhere.FIRST) if args.first else PRICES)
    except joining.Disagreement as error:
        sys.exit(str(error))
    net, table = report["settings"]["net"], merged.Table(report)
    blocks = [f"{net}, {len(report['settings']['images'])} images."]
    if args.first:
        blocks.append(first(net, table))
    else:
        blocks += [] if args.marks else [medians(net, table)]
        blocks += [
            "Ratio of medians with a 95 % interval, paired; in brackets the shares of images with "
            "an adversarial point, where not all have one.",
            asymmetric(table, args.marks or everywhere.PLANS[net].marks[DEAR]),
        ]
    text = "\n\n".join(blocks)
    print(text)
    if args.markdown is not None:
        args.markdown.write_text(text + "\n")


if __name__ == "__main__":
    main()
