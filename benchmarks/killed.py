"""A study on a real network that is killed at random moments, held to an unbroken one bit for bit.

1. The study is run once in one go by one process, and then again with each number of processes,
   killed (SIGKILL of the whole process group) so many times, and resumed after each. If it is
   finished before all kills were made it is begun anew.
2. What is compared is all that a study has found out: stops, reasons, warnings, counts, costs,
   improvements with their distances, and traces with theirs.
3. With `exact` all cells must be the same. Without, those that are not are counted, and if there is
   one the report must say that repeated runs may differ.

Kills and comparisons are those of `tests/support/torture.py`. A start costs what it takes to load
the images and the model; torch has been imported before.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nets
import study_files

HERE = Path(__file__).resolve().parents[1]
REPEATED = "repeated runs may"
"""How a report begins to say that a study is not known to be exact."""
Record = Callable[[str, bool], None]


def options(parser: argparse.ArgumentParser) -> None:
    """The options of `check`."""
    parser.add_argument(
        "--net", choices=["resnet20", "resnet50"], default=None, help="kill a study"
    )
    parser.add_argument("--attacks", nargs="+", default=["frugal", "a-cgba", "surfree"])
    parser.add_argument("--surrogate", default=None, help="a network, for attacks that need one")
    parser.add_argument("--images", type=int, default=12)
    parser.add_argument("--prices", nargs="+", type=float, default=[2, 100])
    parser.add_argument("--budget", type=float, default=1500)
    parser.add_argument("--delta", type=float, default=None, help="sampling radius of estimates")
    parser.add_argument("--batch-size", type=int, default=None)
    parser.add_argument("--kills", type=int, default=10, help="for each number of processes")
    parser.add_argument("--workers", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--precisions", nargs="+", choices=["fp32", "tf32"], default=None)
    parser.add_argument(
        "--modes", nargs="+", choices=["exact", "plain"], default=["exact", "plain"]
    )
    parser.add_argument("--seed", type=int, default=0, help="of the moments")


def check(args: argparse.Namespace, record: Record) -> list[dict[str, Any]]:
    """All precisions and modes; gives a row for each number of processes."""
    on_gpu = args.device != "cpu"
    paths = [HERE / "src", HERE / "benchmarks", HERE / "tests" / "support"]
    sys.path.insert(0, str(paths[-1]))
    before = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    os.environ["PYTHONPATH"] = os.pathsep.join([*map(str, paths), *filter(None, before)])
    os.environ["TOLLBOX_DATA"] = str(nets.DATA.resolve())
    torture = importlib.import_module("torture")
    rows = []
    for precision in args.precisions or (["fp32", "tf32"] if on_gpu else ["fp32"]):
        for mode in args.modes:
            with (
                tempfile.TemporaryDirectory(prefix="killed-") as folder,
                torture.Nursery() as nursery,
            ):
                rows += _one(args, precision, mode, Path(folder), torture, nursery, record)
    return rows


def _one(
    args: argparse.Namespace,
    precision: str,
    mode: str,
    folder: Path,
    torture: Any,
    nursery: Any,
    record: Record,
) -> list[dict[str, Any]]:
    source, what = folder / "study", f"{args.net}, {precision}, {mode}"
    for workers in {1, *args.workers}:
        _write(args, precision, mode, workers, source)
    try:
        expected, seconds = torture.unbroken(nursery, source, folder / "unbroken")
    except SystemExit as refusal:
        record(f"{what}: the unbroken study: {refusal}", False)
        return [{"precision": precision, "mode": mode, "refused": str(refusal)}]
    print(f"{what}: unbroken, {len(expected)} cells in {seconds:.1f} s", flush=True)
    rows = []
    for workers in args.workers:
        out, began = folder / f"workers-{workers}", time.monotonic()
        moments = _moments(f"{args.seed} {workers}", seconds / 2 / max(1, args.kills), torture)
        one = torture.Torture(source, out, workers, args.kills, moments, expected, _say)
        one.run(nursery)
        row = {
            "precision": precision,
            "mode": mode,
            "workers": workers,
            "cells": len(expected),
            "different": len(one.different),
            "kills": one.made.total(),
            "starts": one.made.total() + one.missed + 1,
            "finished": one.finished,
            "unbroken_seconds": round(seconds, 1),
            "seconds": round(time.monotonic() - began, 1),
            "wrong": one.wrong,
        }
        rows.append(row)
        print(json.dumps(row), flush=True)
        how = f"{what}, killed {row['kills']} times, {workers} processes"
        record(f"{how}: every resume went well", not one.wrong)
        if mode == "exact":
            record(f"{how}: {len(one.different)} cells differ", not one.different)
        elif one.different:
            said = _report_says(out)
            record(f"{how}: {len(one.different)} cells differ, and the report says so", said)
    return rows


def _write(args: argparse.Namespace, precision: str, mode: str, workers: int, to: Path) -> None:
    mean, std = nets.NORMALISATION[args.net]
    study_files.write(
        to,
        f"study-{workers}",
        images=f"nets.images({args.net!r}, {args.images})",
        model=f"nets.network({args.net!r})",
        attacks=args.attacks,
        delta=args.delta,
        settings={
            "budget": args.budget,
            "prices": args.prices,
            "device": args.device,
            "batch_size": args.batch_size,
            "workers": workers,
            "exact": True if mode == "exact" else None,
        },
        model_settings={
            "mean": mean,
            "std": std,
            "tf32": args.device != "cpu" and precision == "tf32",
        },
        surrogate=args.surrogate,
    )


def _moments(seed: str, mean: float, torture: Any) -> Iterator[Any]:
    """Kills of the whole group without end: most after a batch, some while answers are replayed."""
    rng = random.Random(seed)
    for number in itertools.count():
        yield torture.Kill("replay" if number % 4 == 3 else "batch", rng.uniform(0, 2 * mean))


def _report_says(out: Path) -> bool:
    """Does the report of a study say that repeated runs may differ?"""
    command = [sys.executable, "-m", "tollbox", "report", str(out)]
    subprocess.run(command, check=True, capture_output=True)
    page = (out / "report.html").read_text().lower()
    for sentence in re.findall(r"[^.<>]*(?:repeated runs|exact[,: ])[^.<>]*", page):
        print(f"report: {sentence.strip()}", flush=True)
    return REPEATED in page


def _say(text: str) -> None:
    print(text, flush=True)
