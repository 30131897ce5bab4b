"""Table 1 of the paper on one network: median l2 by attack, method and price, under hard budgets.

    python benchmarks/table.py run --net resnet50 --device cuda --tf32 --delta 0.5 --images 30 \\
        --presets table --prices 2:5000 5:10000 100:20000 1000:60000 \\
        --at 2:1000,2000,4000 100:2000,5000,10000 --out part.json
    python benchmarks/table.py run --by source --presets stealthy-hsja a-hsja --prices 1e5 \\
        --max-queries 50000 --at 50 100 200 --out part.json
    python benchmarks/table.py merge part.json ... --out table.json --markdown table.md \\
        --curves cgba a-cgba

`run` attacks the first images that the network classifies correctly (judged by an uncharged pass;
the clean query is free, as in the paper), all presets of a price in one go, prints a line about
progress every ten seconds, and writes the part file after each price. `--presets table` is the 14
rows of Table 1, `all` every preset that is made for the metric (`--norm`), `ablation` those of
`variants.py`. Distances are kept at a quarter, a half and the whole of the budget, and at `--at`
(for all prices, or PRICE:A,B,...). `--hash odd` takes images of odd content hash only. With `--by
source` prices have no budget: a run ends after the last of `--at` flagged queries, or at `--max-
queries`, and distances are those after so many flagged queries, or of the run's end if that came
first.

A part has, for each preset and price, lists over the images: why the run ended, queries, flagged
queries, the final distance, that of the first adversarial point, distances at the marks (null: no
adversarial point yet), with `--by source` the queries that each of these took (null: so many were
not flagged); and the cost of all by phase. `cut` holds runs that an error or the clock
cut short, and up to where they are known.

`merge` checks that parts agree, writes them as one (which may be merged again), and prints the
tables: medians, paired ratios, `--curves` at all marks with intervals, with `--against` the ratio
of every row to one of them at all marks, with `--ranking` that over all marks (G), with `--paper`
the paper's own numbers beside those at its budgets, with `--reached` the mark from which each row's
median is at most the last one of a preset, and ends other than the usual one; with
`--first`, of the first images alone; with
`--sets N`, how much a median over N images depends on which they are.
Two reports that differ in a setting or in code are set side by side by `beside.py`.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from pathlib import Path
from typing import Any

import common
import joining
import merged
import variants

import tollbox as tb
from tollbox.core.result import By

TABLE = [
    *("surfree", "a-surfree"),
    *("hsja", "hsja+as", "hsja+agrest", "a-hsja"),
    *("geoda", "geoda+as", "geoda+agrest", "a-geoda"),
    *("cgba", "cgba+as", "cgba+agrest", "a-cgba"),
]


def chosen(names: list[str], norm: str, guide: tb.Surrogate | None = None) -> list[str]:
    """Presets by name; `table` and `all` stand for many."""
    known, found = tb.presets(norm), []
    for name in names:
        if name == "table" and (absent := [row for row in TABLE if row not in known]):
            print(f"of Table 1 there are no presets {', '.join(absent)}", flush=True)
        many = {
            "table": [row for row in TABLE if row in known],
            "all": known,
            "ablation": list(variants.VARIANTS),
        }
        found += many.get(name, [name])
    for name in found:
        attack_of(name, guide)  # an unknown one is refused now
    return list(dict.fromkeys(found))


def attack_of(name: str, guide: tb.Surrogate | None = None) -> Any:
    """A preset, with surrogates if it needs some, or a variant of the ablation."""
    if name in variants.VARIANTS:
        return variants.VARIANTS[name]
    needed = name in tb.attacks.WITH_SURROGATE
    return tb.preset(name, surrogate=guide if needed else None)


def marks_of(price: float, budget: float | None, at: list[str]) -> list[float]:
    """Where distances are read under a price, rising."""
    marks = [] if budget is None else [budget / 4, budget / 2, budget]
    for text in at:
        which, _, values = text.rpartition(":")
        if which and float(which) != price:
            continue
        wanted = [float(value) for value in values.split(",")]
        if budget is not None and which and max(wanted) > budget:
            sys.exit(f"--at {text}: above the budget of {budget:g}.")
        marks += [value for value in wanted if budget is None or value <= budget]
    return sorted(set(marks))


def entry(
    name: str, attack: Any, price: float, marks: list[float], results: list[tb.Result], by: By
) -> dict[str, Any]:
    """What is kept of a preset at a price: lists over the images."""

    def at(result: tb.Result, mark: float) -> float | None:
        return (
            common.short(result.distance_at(mark, by)) if mark <= result.known_up_to(by) else None
        )

    def asked(result: tb.Result, mark: float) -> int | None:
        """Queries when the nearest point within `mark` flagged answers was found; None if the run
        did not come to so many."""
        known = result.ledger.flagged >= mark and result.stop is not tb.Stop.NO_START
        within = [row.queries for row in result.improvements if row.source < mark]
        return within[-1] if known and within else None

    phases = sorted({phase for result in results for phase in result.ledger.by_phase})
    cut = {
        str(number): [str(result.reason), common.short(result.known_up_to(by), 8)]
        for number, result in enumerate(results)
        if result.stop.cut_short
    }
    return {
        "preset": name,
        "price": common.short(price, 12),
        "budget": common.short(results[0].limits.budget, 12),
        "attack": repr(attack),
        "stop": [str(result.stop) for result in results],
        "queries": [result.ledger.queries for result in results],
        "flagged": [result.ledger.flagged for result in results],
        "distance": [common.short(result.distance) for result in results],
        "first": [
            common.short(result.improvements[0].distance if result.improvements else math.inf)
            for result in results
        ],
        "at": {str(common.short(m, 12)): [at(result, m) for result in results] for m in marks},
        **(
            {"asked": {f"{m:g}": [asked(result, m) for result in results] for m in marks}}
            if by == "source"
            else {}
        ),
        "phases": {
            phase: common.short(sum(r.ledger.by_phase.get(phase, 0.0) for r in results), 8)
            for phase in phases
        },
        "cut": cut,
    }


def run(args: argparse.Namespace) -> None:
    """Run all presets at each price, and write the part after each."""
    began = time.monotonic()
    guide = None if args.surrogates is None else common.surrogate(args.surrogates, args.net)
    names = chosen(args.presets, args.norm, guide)
    plan = [(price, budget, marks_of(price, budget, args.at)) for price, budget in args.prices]
    for price, budget, marks in plan:
        if (args.by == "source") != (budget is None):
            sys.exit(f"--prices: c* = {price:g} needs {'a' if budget is None else 'no'} budget.")
        if budget is None and (math.isinf(args.max_queries) or not marks):
            sys.exit("--by source needs --at and --max-queries.")
    loaded = common.load(
        args.net,
        args.device,
        args.images,
        args.compile,
        args.hash,
        args.quantize,
        args.batch_size or 64,
        tf32=args.tf32 and args.device != "cpu",
        cuda_graphs=args.graphs,
        channels_last=args.layout == "channels_last",
    )
    attacks = {name: common.with_delta(attack_of(name, guide), args.delta) for name in names}
    part: dict[str, Any] = {
        "settings": {
            "net": args.net,
            "folded": True,
            "delta": args.delta,
            "tf32": args.tf32,
            "seed": args.seed,
            "by": args.by,
            "max_queries": common.short(args.max_queries, 12),
            "charge_clean": False,
            "quantize": args.quantize,
            **({} if args.norm == "l2" else {"norm": args.norm}),
            "images": loaded.hashes,
        },
        "parts": [{**common.provenance(args.device), "seconds": {}}],
        "entries": [],
    }
    for path in args.joins:
        try:
            joining.join([(path.name, json.loads(path.read_text())), ("this run", part)])
        except joining.Disagreement as error:
            sys.exit(f"--joins: {error}.")
    for price, budget, marks in plan:
        left = args.time_limit - (time.monotonic() - began)
        if left <= 0:
            print(f"c* = {price:g} is left out: the time is up", flush=True)
            break
        limit = max(marks) * price + args.max_queries if budget is None else budget
        settings = {"budget": limit, "max_queries": args.max_queries, "seed": args.seed}
        settings["norm"] = args.norm
        cells = [
            cell
            for attack in attacks.values()
            for cell in loaded.cells(attack, prices=tb.Prices(price, 1), **settings)
        ]
        started = time.monotonic()
        results = common.run_cells(f"c* = {price:g}", cells, loaded.model, args, left)
        count = len(loaded.images)
        for number, (name, attack) in enumerate(attacks.items()):
            rows = list(results[number * count : (number + 1) * count])
            part["entries"].append(entry(name, attack, price, marks, rows, args.by))
        part["parts"][0]["seconds"][f"{price:g}:{limit:g}"] = round(time.monotonic() - started, 1)
        common.write(args.out, part)
        print(merged.Table(part).medians(), flush=True)


def merge(args: argparse.Namespace) -> None:
    """Write parts as one, and print the tables."""
    report = joining.join([(path.name, json.loads(path.read_text())) for path in args.parts])
    if args.first is not None:
        report = joining.first(report, args.first)
    common.write(args.out, report)
    text = merged.Table(report).markdown(args.curves, args.against, args.paper, args.ranking)
    if args.reached is not None:
        text += f"\n\nCost to reach the last median of `{args.reached}`:\n\n"
        text += merged.Table(report).reached(args.reached)
    if args.sets is not None:
        text += "\n\nMedians over sets of images:\n\n" + merged.of_sets(report, args.sets)
    print(text)
    if args.markdown is not None:
        args.markdown.write_text(text + "\n")


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(required=True)
    running = commands.add_parser("run", parents=[common.options()], help="attack; write a part")
    common.precision_options(running)
    common.hash_option(running)
    running.add_argument("--graphs", action="store_true", help="replay CUDA graphs")
    running.add_argument("--layout", choices=common.LAYOUTS, default="contiguous")
    running.add_argument("--quantize", type=int, default=None, help="bits a pixel of the model")
    running.add_argument("--presets", nargs="+", default=["table"])
    running.add_argument("--surrogates", default=None, help="for presets that need them: NET+NET")
    running.add_argument("--prices", nargs="+", type=common.priced, required=True)
    running.add_argument("--at", nargs="+", default=[], metavar="[PRICE:]MARK,...")
    running.add_argument("--norm", choices=["l2", "linf"], default="l2")
    running.add_argument("--by", choices=["cost", "source"], default="cost")
    running.add_argument("--max-queries", type=float, default=math.inf)
    running.add_argument("--joins", nargs="*", type=Path, default=[], help="parts it must fit")
    running.add_argument("--time-limit", type=float, default=math.inf, help="seconds, of all")
    running.set_defaults(do=run)
    merging = commands.add_parser("merge", help="merge parts; print the tables")
    merging.add_argument("parts", nargs="+", type=Path)
    merging.add_argument("--out", type=Path, default=None)
    merging.add_argument("--markdown", type=Path, default=None)
    merging.add_argument("--curves", nargs="+", default=[], metavar="PRESET")
    merging.add_argument("--against", default=None, metavar="PRESET", help="ratios to this one")
    merging.add_argument("--paper", action="store_true", help="beside the paper's Table 1")
    merging.add_argument("--reached", default=None, metavar="PRESET", help="cost to reach its end")
    merging.add_argument("--ranking", default=None, metavar="PRESET", help="G beside this one")
    merging.add_argument("--first", type=int, default=None, help="of the first images alone")
    merging.add_argument("--sets", type=int, default=None, help="range of medians over so many")
    merging.set_defaults(do=merge)
    args = parser.parse_args(words)
    try:
        args.do(args)
    except (tb.errors.InputError, joining.Disagreement) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
