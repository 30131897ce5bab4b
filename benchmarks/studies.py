"""How fast a large study is read, and what the store costs a run; from one run on one machine.

    python benchmarks/studies.py large                # 10 000 finished cells of 100 steps each
    python benchmarks/studies.py overhead             # ResNet-20, CPU, 64 images, three attacks
    python benchmarks/studies.py large overhead --out benchmarks/results/studies.json

large     makes a study's folder and runs `tollbox status`, `export` and `report` on it, and
          `tollbox --version`, which imports as much and does nothing. `seconds`: the command as one
          types it, start to end, and `cpu_seconds` those of the processor; `import` and `work`:
          the two parts of it, from inside; the least of several rounds, the commands in turn.
          `peak_mib`: of the process, the most. Aims: `status` works less than 1 s; `export` takes
          less than 30 s and 1 GB, and so does `report`, whose page is less than 15 MB.
overhead  runs the same cells with a store, as a shard of a study does, and without, in turn.
          `inside`: seconds in `Store.record` and `Store.save`, over those of the whole run;
          `paired`: seconds with over seconds without, less 1, which has all the machine's noise.
          Aim: less than 3 %.

The models of the large study do not exist: nothing that is read needs them.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import common
import numpy as np
import torch

import tollbox as tb
from tollbox.engine.journal import Answered, History
from tollbox.studies.create import describe
from tollbox.studies.fingerprint import current_environment
from tollbox.studies.grid import Grid
from tollbox.studies.store.codec import pack_answers
from tollbox.studies.store.record import ModelRecord, StudyRecord
from tollbox.studies.store.store import Store, shard_path

SHARDS = 2
STUDY = f"""\
name = "large"
workers = {SHARDS}
prices = [1, 10, 100, 1000]
budget = 100000

[images]
path = "images.npz"

[[models]]
source = "network.pt2"

[[attacks]]
preset = "hsja"

[[attacks]]
preset = "a-hsja"

[[attacks]]
preset = "cgba"

[[attacks]]
preset = "a-cgba"

[[attacks]]
preset = "surfree"
"""
CLASSES = 1000
ROWS, PIECES, LIVE = 32, 8, 128
"""Rows of a piece, pieces of a batch, cells under way at a time."""


# -- a large study --------------------------------------------------------------------------------


def made_up(cell: int, label: int, tariff: Any, steps: int, rng: np.random.Generator) -> tb.Result:
    """A run that ended, with so many steps and improvements."""
    each = rng.integers(1, 6, (steps, 4)).cumsum(0)
    distances = (30 * np.exp(-np.linspace(0, 3, steps)) * rng.uniform(1, 1.01)).tolist()
    shares = rng.random((steps, 3)).tolist()
    price = tariff.prices.source
    improvements, trace = [], []
    for number, (flagged, search, estimate, start) in enumerate(each.tolist()):
        source, other = flagged, search + estimate + start
        cost, distance = source * price + other, distances[number]
        improvements.append(tb.attack.Improvement(cost, source, source + other, distance, cost - 1))
        spent = {"start": float(start), "search": search * price, "estimate": float(estimate)}
        share, planned, overshoot = shares[number]
        notes = {
            "share": share,
            "estimate_queries": estimate,
            "planned_share": planned,
            "overshoot": overshoot,
        }
        trace.append(tb.attack.Step(number, cost, source, other, distance, spent, notes))
    flagged, search, estimate, start = each[-1].tolist()
    wrong = (label + 1) % CLASSES
    counts = {
        "start": Counter({label: flagged // 2, wrong: start}),
        "search": Counter({label: flagged - flagged // 2, wrong: search}),
        "estimate": Counter({wrong: estimate}),
    }
    return tb.Result(
        index=cell,
        stop=tb.Stop.BUDGET,
        ledger=tb.Ledger(tariff.prices.for_source(label), tb.Goal.leave({label}), counts),
        improvements=tuple(improvements),
        trace=tuple(trace),
        limits=tariff.limits,
    )


def make(folder: Path, images: int, steps: int) -> dict[str, Any]:
    """A study's folder with every cell finished; gives what is in it."""
    rng = np.random.default_rng(0)
    study = tb.Study.from_text(STUDY, folder, "large.toml", files=False)
    grid = Grid(study, images)
    labels = rng.integers(0, CLASSES, images).tolist()
    rows = [(i, rng.bytes(16).hex(), label, f"{i:05}.png") for i, label in enumerate(labels)]
    record = replace(described(study, grid), shards=SHARDS)
    queries = batches = 0
    for shard in range(SHARDS):
        path = shard_path(folder, shard)
        own = replace(record, shard=shard)
        Store.create(path, own, rows)
        cells = own.shard_cells
        with Store(path, write=True) as store:
            for first in range(0, len(cells), LIVE):
                live = cells[first : first + LIVE]
                done = []
                for cell in live:
                    series, _, image = grid.place(cell)
                    done.append(made_up(cell, labels[image], series.tariff, steps, rng))
                asks = -(-max(result.ledger.queries for result in done) // ROWS)
                for ask in range(asks):
                    for start in range(0, len(live), PIECES):
                        group = live[start : start + PIECES]
                        pieces = [piece(cell, ask, labels, grid, rng) for cell in group]
                        store.record(pack_answers(pieces))
                        batches += 1
                        queries += ROWS * len(group)
                for cell, result in zip(live, done, strict=True):
                    store.save(cell, replace(result, adversarial=None))
    sizes = {path.name: path.stat().st_size for path in sorted(folder.iterdir())}
    return {
        "cells": len(grid),
        "steps": len(grid) * steps,
        "queries": queries,
        "batches": batches,
        "bytes": sizes,
    }


def described(study: tb.Study, grid: Grid) -> StudyRecord:
    """The record of a study of which no model was loaded."""
    models = {spec.name: ModelRecord("float32", None) for spec in study.models}
    place = current_environment(torch.device("cpu"))
    return describe(study, grid, place, models, "benchmark")


def piece(cell: int, ask: int, labels: list[int], grid: Grid, rng: np.random.Generator) -> Answered:
    """Answers of both kinds."""
    label = labels[grid.place(cell).image]
    said = np.where(rng.random(ROWS) < 0.5, label, (label + 1) % CLASSES)
    return Answered(cell, ask, 0, 0, said, float(rng.random()))


MEASURE = """
import json, os, subprocess, sys, time
began = time.perf_counter()
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
_, status, usage = os.wait4(process.pid, 0)
cpu = usage.ru_utime + usage.ru_stime
print(json.dumps([time.perf_counter() - began, cpu, usage.ru_maxrss / 1024, status]))
"""
"""In a small process of its own: what a process begins with counts as its peak."""

INSIDE = """
import sys, time
began = time.perf_counter()
from tollbox import cli
imported = time.perf_counter()
try:
    cli.main()
finally:
    print("seconds", imported - began, time.perf_counter() - imported)
"""


def measured(words: Sequence[str]) -> tuple[float, float, float]:
    """Seconds, seconds of the processor and peak MiB of a command."""
    tollbox = str(Path(sys.executable).with_name("tollbox"))
    command = [sys.executable, "-c", MEASURE, tollbox, *words]
    told = subprocess.run(command, capture_output=True, text=True)
    seconds, cpu, peak, status = json.loads(told.stdout or "[0, 0, 0, 1]")
    if status:
        sys.exit(f"tollbox {' '.join(words)}: {told.stderr}")
    return seconds, cpu, peak


def parts(words: Sequence[str]) -> tuple[float, float]:
    """Seconds of a command's import and of its work."""
    command = [sys.executable, "-c", INSIDE, *words]
    told = subprocess.run(command, capture_output=True, text=True, check=True)
    _, imported, worked = told.stdout.splitlines()[-1].split()
    return float(imported), float(worked)


def large(args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Make the study, and run the commands on it in turn."""
    began = time.perf_counter()
    report: dict[str, Any] = {"study": make(folder, args.cells // 20, args.steps)}
    report["study"]["made_in_seconds"] = round(time.perf_counter() - began, 1)
    commands = {
        "version": ["--version"],
        "status": ["status", str(folder)],
        "export": ["export", str(folder)],
        "export --price 50": ["export", str(folder), "--price", "50"],
        "report": ["report", str(folder)],
    }
    whole: dict[str, list[tuple[float, float, float]]] = {name: [] for name in commands}
    inside: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for _ in range(args.repeats):
        for name, words in commands.items():
            whole[name].append(measured(words))
            inside[name].append(parts(words))
    report["commands"] = [
        {
            "command": name,
            "seconds": round(min(seconds for seconds, _, _ in whole[name]), 2),
            "seconds_median": round(median(seconds for seconds, _, _ in whole[name]), 2),
            "cpu_seconds": round(min(cpu for _, cpu, _ in whole[name]), 2),
            "import": round(min(imported for imported, _ in inside[name]), 2),
            "work": round(min(worked for _, worked in inside[name]), 2),
            "work_median": round(median(worked for _, worked in inside[name]), 2),
            "peak_mib": round(max(peak for _, _, peak in whole[name])),
        }
        for name in commands
    ]
    report["page_bytes"] = (folder / "report.html").stat().st_size
    exported = folder / "export"
    report["exported_bytes"] = {p.name: p.stat().st_size for p in sorted(exported.iterdir())}
    return report


# -- what the store costs a run -------------------------------------------------------------------


class Timed:
    """A journal in a store, and the seconds that are spent in it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.seconds, self.batches = 0.0, 0

    def record(self, answers: Sequence[Answered]) -> None:
        began = time.perf_counter()
        if answers:
            self._store.record(pack_answers(answers))
        self.seconds += time.perf_counter() - began
        self.batches += 1

    def history(self, cell: int) -> History | None:  # noqa: ARG002
        return None

    def diverged(self, cell: int, why: str) -> None:
        """Never, as there is no history."""


def plain(cells: list[tb.attack.Cell], model: tb.models.Model) -> tuple[float, list[tb.Result]]:
    """Seconds of a run without a store, and its results."""
    began = time.perf_counter()
    results = list(tb.attack.Engine(model).run(cells))
    return time.perf_counter() - began, results


def stored(
    cells: list[tb.attack.Cell], model: tb.models.Model, path: Path
) -> tuple[float, list[tb.Result], dict[str, Any]]:
    """Seconds of a run with a store, its results, and where the time went."""
    study = tb.Study.from_text(STUDY, path.parent, "large.toml", files=False)
    Store.create(path, described(study, Grid(study, 0)), [])
    with Store(path, write=True) as store:
        began = time.perf_counter()
        journal, saving, results = Timed(store), 0.0, []
        for result in tb.attack.Engine(model, journal=journal).run(cells):
            ended = time.perf_counter()
            store.save(result.index, replace(result, adversarial=None))
            saving += time.perf_counter() - ended
            results.append(result)
        seconds = time.perf_counter() - began
    found = {
        "record_seconds": round(journal.seconds, 3),
        "save_seconds": round(saving, 3),
        "record_us_per_batch": round(1e6 * journal.seconds / journal.batches),
        "save_us_per_cell": round(1e6 * saving / len(cells)),
        "inside": round((journal.seconds + saving) / seconds, 5),
        "batches": journal.batches,
        "bytes": path.stat().st_size,
    }
    return seconds, results, found


def ends(results: list[tb.Result]) -> list[tuple[int, float, float]]:
    return sorted((r.index, r.distance, r.ledger.cost) for r in results)


def overhead(args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """The same cells with a store and without, in turn."""
    loaded = common.load("resnet20", args.device, args.images)
    limits = {"prices": tb.Prices(args.price, 1), "budget": args.budget}
    attacks = [tb.preset(name) for name in args.attacks]
    cells = [cell for attack in attacks for cell in loaded.cells(attack, **limits)]
    plain(cells[: len(loaded.images)], loaded.model)  # warm
    rounds = []
    for number in range(args.rounds):
        path = folder / f"round-{number}.sqlite"
        if number % 2:
            without, expected = plain(cells, loaded.model)
            seconds, results, found = stored(cells, loaded.model, path)
        else:
            seconds, results, found = stored(cells, loaded.model, path)
            without, expected = plain(cells, loaded.model)
        if ends(results) != ends(expected):
            sys.exit("the store changed a result")
        rounds.append(
            {
                "with_seconds": round(seconds, 2),
                "without_seconds": round(without, 2),
                "paired": round(seconds / without - 1, 4),
                "queries": sum(result.ledger.queries for result in results),
                **found,
            }
        )
        print(json.dumps(rounds[-1]), flush=True)
    return {
        "overhead": {
            "threads": torch.get_num_threads(),
            "cells": len(cells),
            "inside_median": round(median(one["inside"] for one in rounds), 5),
            "inside_most": max(one["inside"] for one in rounds),
            "paired_median": round(median(one["paired"] for one in rounds), 4),
        },
        "rounds": rounds,
    }


PARTS = {"large": large, "overhead": overhead}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("parts", nargs="+", choices=list(PARTS))
    parser.add_argument("--folder", type=Path, default=None, help="for the stores: a disk to try")
    parser.add_argument("--cells", type=int, default=10_000, help="large: a multiple of 20")
    parser.add_argument("--steps", type=int, default=100, help="large: of each cell")
    parser.add_argument("--repeats", type=int, default=5, help="large: rounds of the commands")
    parser.add_argument("--device", default="cpu", help="overhead: of the network")
    parser.add_argument("--images", type=int, default=64, help="overhead")
    parser.add_argument("--attacks", nargs="+", default=["surfree", "cgba", "a-hsja"])
    parser.add_argument("--price", type=float, default=10.0, help="overhead: c*")
    parser.add_argument("--budget", type=float, default=1000.0, help="overhead")
    parser.add_argument("--rounds", type=int, default=4, help="overhead: with and without")
    parser.add_argument("--out", type=Path, default=None, help="write the JSON here")
    args = parser.parse_args()

    report = common.provenance(args.device)
    for name in dict.fromkeys(args.parts):
        with tempfile.TemporaryDirectory(dir=args.folder) as folder:
            report |= PARTS[name](args, Path(folder))
        common.write(args.out, report)
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
