"""Our presets beside the authors' own code: the same network, images and starts.

    git clone https://github.com/mahdisalmani/Asymmetric-Attacks ../authors-code    # b898fce
    python -m venv ../authors-env
    ../authors-env/bin/pip install torch==2.13.0 scipy pandas pillow safetensors
    python benchmarks/authors.py --code ../authors-code --python ../authors-env/bin/python \\
        --net resnet20 --images 12 --out out.json

Nothing of their code is here: `authors_side.py` imports it from `--code`, in the environment of
`--python`. Their attacks run first, in their own way, and ours begin from the starts they found.

Printed for each preset and price, ours and theirs, means over images (iteration 0 is the first
search; starts are left out): queries, flagged, the share of low-cost answers in the estimate, and
the distance. Then for each: the share in the first estimate, and in all of them; the difference,
ours less theirs, with two standard errors (paired, over images; of one image, binomial); and the
cost of the first search, ours over theirs, with two standard errors. A share agrees within 0.05 or
two standard errors, a cost within 3 %. The JSON has every image.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import common
import merged
import nets
import numpy as np
import torch

import tollbox as tb
from tollbox.core.ask import at_once
from tollbox.core.by_side import at_side

HERE = Path(__file__).resolve().parent
MAX_QUERIES = 200_000
"""Of one run of ours; a run of theirs has the same limit."""
ROWS = {"vanilla": "", "as": "+as", "agrest": "+agrest", "both": "a-"}
"""By what `--rows` calls them, what is put before or behind an attack's name."""


@dataclass(frozen=True)
class Iteration:
    """What one iteration asked and reached; iteration 0 is the first search, without the start."""

    queries: int
    flagged: int
    search_cost: float
    estimate: int
    """Queries of the estimate."""
    low: int
    """Those that were answered at the low cost."""
    distance: float


Run = list[Iteration]
"""Iterations 0, 1, ... of one image."""


def cells(
    attacks: list[str], prices: list[float], rows: Sequence[str] = tuple(ROWS)
) -> list[dict[str, Any]]:
    """Rows of the paper's Table 1 for these attacks, at each price; all that an attack has."""
    found = []
    for price in prices:
        for attack in attacks:
            for name in (name for name in ROWS if name in rows):
                row = ROWS[name]
                if attack == "surfree" and row not in ("", "a-"):
                    continue
                preset = row + attack if row == "a-" else attack + row
                agrest = row in ("+agrest", "a-") and attack != "surfree"
                cell = {"preset": preset, "attack": attack, "price": price}
                found.append({**cell, "as": row in ("+as", "a-"), "agrest": agrest})
    return found


# -- theirs ---------------------------------------------------------------------------------------


def run_theirs(
    args: argparse.Namespace, loaded: common.Loaded, wanted: list[dict[str, Any]]
) -> tuple[list[dict[str, Any]], torch.Tensor]:
    """Their runs, and the start of each image."""
    with tempfile.TemporaryDirectory(prefix="authors-") as folder:
        place = Path(folder)
        kept = ("net", "device", "seed", "iterations", "tf32")
        job = {name: getattr(args, name) for name in kept} | {"labels": loaded.labels}
        (place / "job.json").write_text(json.dumps({**job, "cells": wanted}))
        np.save(place / "images.npy", torch.stack(loaded.images).numpy())
        command = [str(args.python), str(HERE / "authors_side.py"), "--code", str(args.code)]
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        environment["TOLLBOX_DATA"] = str(nets.DATA.resolve())
        if subprocess.run([*command, "--job", folder], env=environment).returncode:
            sys.exit("The authors' side failed; what it said is above.")
        entries = json.loads((place / "theirs.json").read_text())
        return entries, torch.from_numpy(np.load(place / "starts.npy"))


def their_run(told: dict[str, Any], price: float) -> Run | None:
    """One run of theirs by iterations; None if it failed."""
    if "failed" in told:
        return None
    found = []
    for t, distance in enumerate(told["distances"]):
        rows = [row[1:] for row in told["counts"] if row[0] == t and row[1] != "start"]
        by_phase = {phase: (queries, flagged) for phase, queries, flagged in rows}
        searched, searched_flagged = by_phase.get("search", (0, 0))
        asked, flagged = by_phase.get("estimate", (0, 0))
        found.append(
            Iteration(
                sum(row[1] for row in rows),
                sum(row[2] for row in rows),
                searched + searched_flagged * (price - 1),
                asked,
                asked - flagged,
                distance,
            )
        )
    return found


# -- ours -----------------------------------------------------------------------------------------


class Account(NamedTuple):
    """What had been asked when an iteration ended, and what it says of itself."""

    flagged: int
    other: int
    search_cost: float
    distance: float
    notes: dict[str, Any]


@dataclass(frozen=True)
class FirstOnly:
    """A search that is made once for each image: SurFree's last one, after its last iteration, is
    no part of an iteration."""

    search: Any

    def __call__(self, problem: tb.attack.Problem, path: Any, scale: float = 1.0) -> Any:
        """The last adversarial point; later on, where the path begins."""
        if getattr(problem, "has_searched", False):
            return at_once(path.start)
        problem.has_searched = True  # type: ignore[attr-defined]
        return self.search(problem, path, scale)


def run_ours(
    args: argparse.Namespace,
    loaded: common.Loaded,
    starts: torch.Tensor,
    preset: str,
    price: float,
) -> list[Run | None]:
    """Our runs of one preset from these starts, None for one that did not end as planned."""
    attack: Any = at_side(tb.preset(preset), math.inf)  # as at 224 x 224: their settings are fixed
    lengths: Sequence[int] = [args.iterations]
    if not hasattr(attack, "estimate"):
        # SurFree accepts only what moved: where an iteration ended is seen from shorter runs.
        lengths = range(1, args.iterations + 1)
        attack = replace(attack, search=FirstOnly(attack.search))
    by_length = []
    for length in lengths:
        settings = {"prices": tb.Prices(price, 1), "max_queries": MAX_QUERIES, "seed": args.seed}
        planned = loaded.cells(replace(attack, iterations=length), **settings)
        begun = [replace(cell, start=start) for cell, start in zip(planned, starts, strict=True)]
        by_length.append(tb.attack.run_cells(begun, loaded.model))
    return [our_run(list(results)) for results in zip(*by_length, strict=True)]


def our_run(results: Sequence[tb.Result]) -> Run | None:
    """One image's run by iterations; of several runs, from the ends of each."""
    if any(result.stop is not tb.Stop.ITERATIONS for result in results):
        return None
    accounts = [
        Account(s.source, s.other, s.by_phase.get("search", 0.0), s.distance, s.notes)
        for s in results[0].trace
    ]
    if len(results) > 1:
        ledgers = [result.ledger for result in results]
        accounts[1:] = [
            Account(
                book.flagged, book.other, book.by_phase["search"], result.trace[-1].distance, {}
            )
            for book, result in zip(ledgers, results, strict=True)
        ]
    before, found = Account(0, 1, 0.0, math.inf, {}), []  # the start, which is adversarial
    for now in accounts:
        flagged, other = now.flagged - before.flagged, now.other - before.other
        asked = now.notes.get("estimate_queries", 0)
        low = round(now.notes.get("share", 0.0) * asked)
        cost = now.search_cost - before.search_cost
        found.append(Iteration(flagged + other, flagged, cost, asked, low, now.distance))
        before = now
    return found


# -- together -------------------------------------------------------------------------------------


class Difference(NamedTuple):
    """Shares of low-cost answers: means over images, their difference, and two standard errors."""

    ours: float
    theirs: float
    difference: float
    two_errors: float

    @property
    def agrees(self) -> bool:
        """Within 0.05, or two standard errors."""
        return abs(self.difference) <= max(0.05, self.two_errors)


def share_of(iterations: Run) -> tuple[float, int]:
    """The share of low-cost answers in estimates, and of how many."""
    asked = sum(each.estimate for each in iterations)
    return sum(each.low for each in iterations) / asked, asked


def compare_shares(ours: list[Run], theirs: list[Run], last: int) -> Difference:
    """In the estimates of iterations 1 to `last`."""
    pairs = [
        [share_of(run[1 : last + 1]) for run in pair] for pair in zip(ours, theirs, strict=True)
    ]
    shares = np.array([[share for share, _ in pair] for pair in pairs])
    apart = shares[:, 0] - shares[:, 1]
    if len(apart) > 1:
        error = float(apart.std(ddof=1)) / math.sqrt(len(apart))
    else:
        error = math.sqrt(sum(share * (1 - share) / n for share, n in pairs[0]))
    mine, other = shares.mean(0).tolist()
    return Difference(mine, other, mine - other, 2 * error)


def search_ratio(ours: list[Run], theirs: list[Run]) -> tuple[float, float]:
    """The cost of the first search over all images, ours over theirs, and two standard errors."""
    costs = np.array([[run[0].search_cost for run in runs] for runs in (ours, theirs)])
    ratio = costs[0].sum() / costs[1].sum()
    rest = costs[0] - ratio * costs[1]
    error = rest.std(ddof=1) / math.sqrt(len(rest)) / costs[1].mean() if len(rest) > 1 else 0.0
    return float(ratio), float(2 * error)


def means(runs: list[Run], t: int) -> list[str]:
    """Queries, flagged, share and distance of iteration t, for a table."""
    rows = [run[t] for run in runs]
    shares = [row.low / row.estimate for row in rows if row.estimate]
    return [
        f"{np.mean([row.queries for row in rows]):.1f}",
        f"{np.mean([row.flagged for row in rows]):.1f}",
        f"{np.mean(shares):.3f}" if shares else "",
        f"{np.mean([row.distance for row in rows]):.3f}",
    ]


def by_iteration(ours: list[Run], theirs: list[Run]) -> str:
    """A table: a line an iteration, ours beside theirs."""
    words = ("queries", "flagged", "share", "distance")
    head = ["t", *(f"{word}, {whose}" for word in words for whose in ("ours", "theirs"))]
    body = []
    for t in range(len(theirs[0])):
        pairs = zip(means(ours, t), means(theirs, t), strict=True)
        body.append([str(t), *(value for pair in pairs for value in pair)])
    return merged.grid(head, body)


def summary(entry: dict[str, Any], ours: list[Run], theirs: list[Run]) -> dict[str, Any]:
    """What is pooled over the images that both ended."""
    ratio, errors = search_ratio(ours, theirs)
    found: dict[str, Any] = {"preset": entry["preset"], "price": entry["price"]}
    found |= {"images": len(ours), "search": common.short(ratio), "search_agrees": within(ratio)}
    found["search_two_errors"] = common.short(errors)
    if entry["attack"] != "surfree":
        for name, last in (("first", 1), ("all", len(theirs[0]) - 1)):
            shares = compare_shares(ours, theirs, last)
            told = {key: round(value, 4) for key, value in shares._asdict().items()}
            found[name] = {**told, "agrees": shares.agrees}
    return found


def within(ratio: float) -> bool:
    """Costs agree within 3 %."""
    return abs(ratio - 1) <= 0.03


def shown(told: dict[str, Any]) -> list[str]:
    """A line of the last table."""
    cells = [told["preset"], f"{told['price']:g}", str(told["images"])]
    for name in ("first", "all"):
        share = told.get(name)
        if share is None:
            cells += [""] * 4
            continue
        mark = "" if share["agrees"] else " !"
        cells += [f"{share['ours']:.3f}", f"{share['theirs']:.3f}"]
        cells += [f"{share['difference']:+.3f}{mark}", f"{share['two_errors']:.3f}"]
    mark = "" if told["search_agrees"] else " !"
    return [*cells, f"{told['search']:.3f}{mark}", f"{told['search_two_errors']:.3f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--code", type=Path, required=True, help="the authors' checkout")
    parser.add_argument(
        "--python", type=Path, default=Path(sys.executable), help="of the environment for it"
    )
    parser.add_argument("--net", choices=["resnet20", "resnet50"], default="resnet20")
    parser.add_argument("--device", default="cpu", help="for both")
    parser.add_argument("--images", type=int, default=12, help="how many, correctly classified")
    names = ["hsja", "geoda", "cgba", "surfree"]
    parser.add_argument("--attacks", nargs="+", choices=names, default=names)
    parser.add_argument("--prices", nargs="+", type=float, default=[2.0, 100.0])
    parser.add_argument("--rows", nargs="+", choices=list(ROWS), default=list(ROWS))
    parser.add_argument("--iterations", type=int, default=3)
    parser.add_argument(
        "--tf32", action="store_true", help="on their side, as PyTorch's default is"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=None, help="write the JSON here")
    args = parser.parse_args()
    common.use_tf32(False)
    loaded = common.load(args.net, args.device, args.images)
    wanted = cells(args.attacks, args.prices, args.rows)
    entries, starts = run_theirs(args, loaded, wanted)
    pooled, kept = [], []
    for entry in entries:
        theirs = [their_run(told, entry["price"]) for told in entry["runs"]]
        ours = run_ours(args, loaded, starts, entry["preset"], entry["price"])
        pairs = [(a, b) for a, b in zip(ours, theirs, strict=True) if a and b]
        print(f"\n{entry['preset']}, c* = {entry['price']:g}, {len(pairs)} images")
        for number, (run, told) in enumerate(zip(ours, entry["runs"], strict=True)):
            if "failed" in told:
                print(f"theirs failed on image {number}: {told['failed']}")
            if run is None:
                print(f"ours did not come to its last iteration on image {number}")
        kept.append(
            {
                "preset": entry["preset"],
                "price": entry["price"],
                "ours": [columns(run) for run in ours],
                "theirs": [columns(run) for run in theirs],
            }
        )
        if pairs:
            both = [a for a, _ in pairs], [b for _, b in pairs]
            print(by_iteration(*both), flush=True)
            pooled.append(summary(entry, *both))
    head = ["preset", "c*", "images", "first share, ours", "theirs", "difference", "2 s.e."]
    head += ["all, ours", "theirs", "difference", "2 s.e.", "first search", "2 s.e."]
    print(f"\n{merged.grid(head, [shown(told) for told in pooled])}")
    report = {
        **common.provenance(args.device),
        "code": {"ours": revision(HERE), "theirs": revision(args.code)},
        "settings": {
            "net": args.net,
            "iterations": args.iterations,
            "their_tf32": args.tf32,
            "images": loaded.hashes,
        },
        "pooled": pooled,
        "entries": kept,
    }
    common.write(args.out, report)


def columns(run: Run | None) -> dict[str, list[Any]] | None:
    """A run for JSON: each field by iteration."""
    if run is None:
        return None
    rows = [asdict(iteration) for iteration in run]
    return {name: [common.short(row[name], 6) for row in rows] for name in rows[0]}


def revision(checkout: Path) -> str:
    """The commit of a checkout, with a plus if something was changed since."""
    command = ["git", "-C", str(checkout), "describe", "--always", "--dirty=+", "--exclude=*"]
    told = subprocess.run(command, capture_output=True, text=True)
    return told.stdout.strip() or "unknown"


if __name__ == "__main__":
    main()
