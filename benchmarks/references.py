"""Our presets beside the published reference implementations: same network, images and queries.

    python benchmarks/references.py --code DIR --out benchmarks/results/references-resnet20.json
    python benchmarks/references.py --code DIR --net resnet50 --device cuda --only ttba cgba

DIR holds your checkouts of the references, one folder each, with the repository's name (RayS,
attackbox, QEBA, qFool, TA, TangentAttack, TtBA, CGBA, SurFree, SeRI, SAR, ADBA, DPAttack,
realistic-adv-examples). Nothing of them is in this repository. A reference that is absent is
skipped. `references_side.py` has the settings.

1. c* = 1, and each side starts as its authors do. Every query counts, except the clean image.
2. A distance is that of the best adversarial image in [0,1] that was sent by the mark, whatever the
   reference reports: l2, or l-infinity for RayS. The stealthy attacks have flagged answers as
   marks.
3. Printed: the geometric mean of the paired ratios, ours over theirs, with a 95 % bootstrap
   interval over images, for the images on which both have found a point by then; how many these
   are; and the median of the ratios, which a few runs at another local minimum hardly move.
4. If the file of `--out` exists, the entries of other presets stay, provided that it has the same
   settings. So several commands with `--only` can share a file, also at the same time. With
   `--again ours`, the distances of the references stay as well: only ours run.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import authors
import common
import merged
import numpy as np
import paired
from references_side import REFERENCES, Outcome, run_reference

import tollbox as tb
from tollbox.core.result import By

QUERIES = (200, 500, 1000, 2000)
FLAGGED = (20, 50, 100, 200)
MOST = 500
"""Queries per flagged answer, at most, of our stealthy runs."""


def theirs(preset: str, loaded: common.Loaded, args: argparse.Namespace) -> Outcome:
    """Run the reference in a process of its own."""
    job = (preset, args, loaded.images, loaded.labels, marks_of(preset, args))
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(run_reference, *job).result()


def ours(preset: str, loaded: common.Loaded, args: argparse.Namespace) -> Outcome:
    """Run the preset on all images at once."""
    marks, reference = marks_of(preset, args), REFERENCES[preset]
    last = marks[-1]
    by: By = "source" if reference.by_flagged else "cost"
    limits = tb.Limits(math.inf, last * MOST, last) if by == "source" else tb.Limits(last)
    cells = loaded.cells(tb.preset(preset), last, seed=args.seed, norm=reference.norm)
    began = time.monotonic()
    limited = [replace(cell, limits=limits) for cell in cells]
    results = common.run_cells(preset, limited, loaded.model, args)
    at = {mark: [reached(result, mark, by) for result in results] for mark in marks}
    failed = [result.failure for result in results if result.stop.failed]
    return Outcome(at, time.monotonic() - began, failed)


def reached(result: tb.Result, mark: int, by: By) -> float:
    """Return the distance at a mark; a run that failed counts with what it had found."""
    return result.distance_at(min(mark, result.known_up_to(by)), by)


def marks_of(preset: str, args: argparse.Namespace) -> tuple[int, ...]:
    return tuple(args.flagged if REFERENCES[preset].by_flagged else args.queries)


def entry_of(preset: str, one: Outcome, other: Outcome, commit: str) -> dict[str, Any]:
    """Return the comparison of ours with theirs, for JSON."""
    reference = REFERENCES[preset]
    found: dict[str, Any] = {"preset": preset, "reference": reference.repository, "commit": commit}
    found["marks"] = "flagged" if reference.by_flagged else "queries"
    found |= {"ratio": {}, "median_ratio": {}, "medians": {}, "pairs": {}}
    for mark, distances in one.at.items():
        values, base = np.array(distances), np.array(other.at[mark])
        both = np.isfinite(values) & np.isfinite(base)
        middle = paired.median(values[both] / base[both])
        found["ratio"][mark] = [common.short(v, 4) for v in paired.each(values, base)]
        found["median_ratio"][mark] = common.short(middle, 4)
        found["medians"][mark] = [common.short(paired.median(v), 4) for v in (values, base)]
        found["pairs"][mark] = int(both.sum())
    for side, outcome in (("ours", one), ("theirs", other)):
        at = {mark: [common.short(d, 6) for d in outcome.at[mark]] for mark in outcome.at}
        found[side] = {**outcome._asdict(), "at": at, "seconds": round(outcome.seconds)}
    return found


def stored(entry: dict[str, Any]) -> Outcome:
    """Return what the reference reached in an earlier run."""
    at = {
        int(mark): [math.inf if d is None else d for d in distances]
        for mark, distances in entry["theirs"]["at"].items()
    }
    return Outcome(at, entry["theirs"]["seconds"], entry["theirs"]["failed"])


def earlier(out: Path | None, settings: dict[str, Any]) -> dict[str, Any]:
    """Return what the file of `--out` has now, with its entries by preset."""
    if out is None or not out.exists():
        return {"entries": {}, "runs": []}
    found = json.loads(out.read_text())
    if found["settings"] != settings:
        sys.exit(f"--out {out} has other settings or images: give another file.")
    return {**found, "entries": {entry["preset"]: entry for entry in found["entries"]}}


def shown(entry: dict[str, Any]) -> list[str]:
    """Return the line of a table."""
    ratios = [
        str(paired.Ratio(*(math.nan if v is None else v for v in ratio)))
        for ratio in entry["ratio"].values()
    ]
    marks = f"{'/'.join(str(mark) for mark in entry['ratio'])} {entry['marks']}"
    pairs, middle = (
        "/".join(str(v) for v in entry[key].values()) for key in ("pairs", "median_ratio")
    )
    return [entry["preset"], entry["reference"], marks, *ratios, pairs, middle]


def table(entries: list[dict[str, Any]]) -> str:
    """Return all lines, with a column for each mark; entries may differ in their number."""
    count = max((len(entry["ratio"]) for entry in entries), default=0)
    head = ["preset", "reference", "marks", *["ratio"] * count, "pairs", "median"]
    rows = [shown(entry) for entry in entries]
    filled = [[*row[:-2], *[""] * (len(head) - len(row)), *row[-2:]] for row in rows]
    return merged.grid(head, filled)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").splitlines()[0], parents=[common.options()]
    )
    parser.add_argument("--code", type=Path, required=True, help="the folder of the checkouts")
    parser.add_argument("--only", nargs="+", choices=list(REFERENCES), default=list(REFERENCES))
    parser.add_argument("--queries", nargs="+", type=int, default=QUERIES, help="marks")
    parser.add_argument("--flagged", nargs="+", type=int, default=FLAGGED, help="their marks")
    parser.add_argument("--commits", type=Path, help="lines of a folder and its commit")
    parser.add_argument("--again", choices=["both", "ours"], default="both", help="what to run")
    parser.set_defaults(images=20)
    args = parser.parse_args()
    if common.SIZES[args.net] % 3:
        parser.error(f"--net {args.net}: the references need images of three colours")
    if args.device == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # they take a GPU that is there
    common.use_tf32(False)
    loaded = common.load(args.net, args.device, args.images, args.compile)
    settings = {"net": args.net, "seed": args.seed, "images": loaded.hashes}
    entries = earlier(args.out, settings)["entries"]
    commits = dict(line.split() for line in args.commits.open()) if args.commits else {}
    this = common.provenance(args.device)
    for preset in args.only:
        reference = REFERENCES[preset]
        folder, before = args.code / reference.folder, entries.get(preset)
        again = args.again == "both" or before is None
        if again or tuple(stored(before).at) != marks_of(preset, args):
            if not folder.is_dir():
                print(f"{preset} is skipped: clone {reference.repository} to {folder}.")
                continue
            known = authors.revision(folder) if (folder / ".git").exists() else "unknown"
            other, commit = theirs(preset, loaded, args), commits.get(folder.name, known)
        else:
            other, commit = stored(before), before["commit"]
        print(f"{reference.repository}: {other.seconds:.0f} s", *other.failed[:1], flush=True)
        entries[preset] = entry_of(preset, ours(preset, loaded, args), other, commit)
        print(merged.line(shown(entries[preset])), flush=True)
        now = earlier(args.out, settings)
        kept = now["entries"] | {preset: entries[preset]}
        runs = [run for run in now["runs"] if run != this] + [this]
        listed = [kept[name] for name in REFERENCES if name in kept]
        common.write(args.out, {"settings": settings, "runs": runs, "entries": listed})
    print(table([entries[name] for name in args.only if name in entries]))


if __name__ == "__main__":
    main()
