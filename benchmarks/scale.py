"""The load that the coordinator of a study can take, in answers per second and in memory.

    python benchmarks/scale.py writer        answers/s, each batch committed before it is told
    python benchmarks/scale.py memory        of the process that owns the store, by number of cells
    python benchmarks/scale.py simulation    workers that die, behind a slow network
    python benchmarks/scale.py ray           two workers by Ray beside two local processes

writer      batches of 256 answers, of 64 cells each: by the coordinator alone, with batches that
            were packed before; and through pipes, from two processes that pack and send as fast as
            they can. With a write-ahead log, and with the rollback journal of network file systems.
            Labels are random, of 1000 classes, which should compress worse than those of a run.
memory      what a coordinator adds to a process at most: all cells left, or nine tenths finished.
simulation  workers with a model whose boundary is known, and that takes as long as an H200 with
            ResNet-50; each waits for the network at every question, and dies at random. The results
            must be those of one engine that nothing happens to.
ray         needs Ray, and runs in a network namespace of its own (`scale_ray.py`); `--net resnet20`
            for a network that takes longer than two convolutions.

Each prints one JSON object. The machine's cores are shared by all that runs on it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scale_ray import NETS, ray_speed
from scale_studies import KNOWN, STUDY, write_study

import tollbox as tb
from tollbox.engine.journal import Answered
from tollbox.studies.coordinator import Coordinator, pack
from tollbox.studies.create import create, describe
from tollbox.studies.events import CellEnded, Event, Options, WorkerLost
from tollbox.studies.grid import Grid
from tollbox.studies.inputs import load
from tollbox.studies.job import Loader, WorkerJob
from tollbox.studies.run import run_jobs
from tollbox.studies.store.codec import checksum
from tollbox.studies.store.connection import ROLLBACK, VARIABLE, WAL
from tollbox.studies.store.record import Environment, ModelRecord, StudyRecord
from tollbox.studies.store.store import Store, shard_path, study_key
from tollbox.workers.executors import Link, Stopper
from tollbox.workers.process import ProcessPool

ROWS, CELLS = 256, 64
"""Of a batch."""
H200_TF32, H200_BF16 = 5_000, 13_000
"""Queries/s of ResNet-50, rounded (docs/speed.md)."""


def record_of(cells: int) -> StudyRecord:
    """The record of a study of which only the number of cells matters."""
    study = tb.Study.from_text(
        STUDY.format(budget=100, batch=64, workers=1, model="x:y"), Path(), "s.toml", files=False
    )
    grid = Grid(study, cells // 4)
    models = {"net": ModelRecord("float32", None)}
    return describe(study, grid, Environment("", "", "", "", ""), models, "python")


def batch(ask: int, cells: list[int], rng: np.random.Generator) -> list[Answered]:
    """A batch of answers, a few of each cell."""
    each = ROWS // len(cells)
    labels = rng.integers(0, 1000, ROWS)
    return [
        Answered(cell, ask, 0, 0, labels[each * n : each * (n + 1)], float(n))
        for n, cell in enumerate(cells)
    ]


# -- writer ---------------------------------------------------------------------------------------


def taken(take: Callable[[], Any]) -> list[int]:
    """As many cells as a batch has."""
    cells: list[int] = []
    while len(cells) < CELLS:
        cells += [cell for cell, _ in take()]
    return cells[:CELLS]


@dataclass(frozen=True)
class Flood:
    """A job that sends batches as fast as it can."""

    record: StudyRecord
    seconds: float

    def __call__(self, shared: object, link: Link) -> int:  # noqa: ARG002
        epoch, _, _ = link.ask(("start", 0))
        cells = taken(lambda: link.ask(("take", epoch, 0)))
        rng, sent, end = np.random.default_rng(0), 0, time.monotonic() + self.seconds
        while time.monotonic() < end:
            link.ask(("record", epoch, pack(batch(sent, cells, rng), self.record.shards)))
            sent += 1
        return sent


def coordinator_of(store: Store, workers: int) -> Coordinator:
    return Coordinator([store], Options(), workers, list[Event]().append, Stopper())


def writer(seconds: float) -> dict[str, Any]:
    """Answers/s, by journal and by way."""
    report: dict[str, Any] = {"rows_of_a_batch": ROWS, "seconds": seconds}
    record = record_of(4096)
    for journal in (WAL, ROLLBACK):
        os.environ[VARIABLE] = journal
        with tempfile.TemporaryDirectory() as name:
            path = shard_path(Path(name), 0)
            Store.create(path, record, [])
            with Store(path, write=True) as store:
                coordinator = coordinator_of(store, 1)
                epoch, _, _ = coordinator.answer(0, ("start", 0))
                cells = taken(partial(coordinator.answer, 0, ("take", epoch, 0)))
                rng = np.random.default_rng(0)
                packed = [pack(batch(ask, cells, rng), record.shards) for ask in range(200)]
                took, sent, began = list[float](), 0, time.monotonic()
                while time.monotonic() < began + seconds:
                    at = time.perf_counter()
                    if coordinator.answer(0, ("record", epoch, packed[sent % 200])) is not True:
                        raise RuntimeError("not committed")
                    took.append(time.perf_counter() - at)
                    sent += 1
                alone = sent * ROWS / (time.monotonic() - began)
            path.unlink()
            Store.create(path, record, [])
            with Store(path, write=True) as store, ProcessPool(2) as pool:
                coordinator = coordinator_of(store, 2)
                ends = pool.run(
                    [Flood(record, seconds)] * 2,
                    report=coordinator.hear,
                    answer=coordinator.answer,
                    stopper=Stopper(),
                )
                sent = sum(end.value for end in ends if end is not None)
            with closing(sqlite3.connect(path)) as written:
                (kept,) = written.execute("SELECT COUNT(*) FROM batches").fetchone()
            if kept != sent:
                raise RuntimeError(f"{kept} of {sent} batches are in the store")
            pipes, size = sent * ROWS / seconds, path.stat().st_size / (sent * ROWS)
        report[journal] = {
            "coordinator_alone_answers_per_s": round(alone),
            "commit_ms_median": round(1e3 * statistics.median(took), 3),
            "commit_ms_p99": round(1e3 * float(np.quantile(took, 0.99)), 3),
            "two_processes_answers_per_s": round(pipes),
            "bytes_an_answer": round(size, 2),
            "h200s_fed_tf32": round(pipes / H200_TF32, 1),
            "h200s_fed_bfloat16": round(pipes / H200_BF16, 1),
        }
    del os.environ[VARIABLE]
    return report


# -- memory ---------------------------------------------------------------------------------------


def peak() -> float:
    """MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def memory_of(cells: int, finished: float) -> dict[str, float]:
    """What a coordinator adds, in this process."""
    record = record_of(cells)
    with tempfile.TemporaryDirectory() as name:
        path = shard_path(Path(name), 0)
        Store.create(path, record, [])
        done = range(int(finished * cells))
        with closing(sqlite3.connect(path)) as written, written:
            rest = 0, "budget", "", "[]", 1.0, 100.0, 100, 10, 0, None, None, 0, 0
            key, marks = study_key(record), ", ".join("?" * (len(rest) + 5))
            rows = ((cell, *rest, checksum(key, "results", cell, *rest)) for cell in done)
            filled = ((*row, b"", b"", None) for row in rows)
            written.executemany(f"INSERT INTO results VALUES ({marks})", filled)
        before, began = peak(), time.monotonic()
        with Store(path, write=True) as store:
            coordinator = coordinator_of(store, 1)
            epoch, _, _ = coordinator.answer(0, ("start", 0))
            taken(partial(coordinator.answer, 0, ("take", epoch, 0)))
        opened, seconds = peak(), time.monotonic() - began
        return {
            "base_mib": round(before),
            "coordinator_mib": round(opened - before),
            "seconds_to_open": round(seconds, 2),
        }


def memory() -> dict[str, Any]:
    """By number of cells, each in a process of its own."""
    report = {}
    for cells in (10**5, 10**6):
        for finished in (0.0, 0.9):
            command = [sys.executable, __file__, "memory-of", str(cells), str(finished)]
            told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            report[f"{cells:,} cells, {finished:.0%} finished"] = json.loads(told)
    return report


# -- simulation -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Dying:
    """A worker's job on a node that dies after some time, on average `life` seconds."""

    job: WorkerJob
    latency: float
    life: float

    def __call__(self, shared: Loader, link: Link) -> None:
        lived = random.Random(f"{os.getpid()}").expovariate(1 / self.life)
        dies_at = time.monotonic() + lived

        def ask(request: Any) -> Any:
            """Ask behind a slow network, in a process that may die at any word."""
            time.sleep(self.latency)
            if time.monotonic() > dies_at:
                os.kill(os.getpid(), signal.SIGKILL)
            return link.ask(request)

        self.job(shared, replace(link, ask=ask))


def found(folder: Path) -> dict[int, Any]:
    """What is compared of each cell."""
    with tb.studies.StudyResults(folder) as results:
        return {
            r.index: (r.stop, r.ledger.counts, r.ledger.cost, r.improvements, r.trace)
            for r in results.results()
        }


def simulation(workers: int, images: int, latency: float, life: float) -> dict[str, Any]:
    """Engines that die, behind a slow network, and one to which nothing happens."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        still = write_study(folder, KNOWN.format(seconds=0), images, budget=40, batch=ROWS)
        tb.run_study(still, folder / "one").close()
        study = write_study(
            folder, KNOWN.format(seconds=1 / H200_TF32), images, budget=40, batch=ROWS
        )
        out = folder / "many"
        create(load(study), out, "python")
        path, stopper, events = shard_path(out, 0), Stopper(), list[Event]()
        with Store(path, write=False) as store:
            record = store.study
        options = Options(share=1 / workers, own_process=True)
        with (
            Store(path, write=True) as writable,
            ProcessPool(workers, Loader()) as pool,
        ):
            coordinator = Coordinator(
                [writable], options, workers, events.append, stopper, cluster=True
            )
            jobs = [
                _Dying(WorkerJob(n, record, out, options), latency, life) for n in range(workers)
            ]
            began = time.monotonic()
            outcome = run_jobs(pool, jobs, coordinator, stopper)
            seconds = time.monotonic() - began
        one, many = found(folder / "one"), found(out)
        queries = sum(event.queries for event in events if isinstance(event, CellEnded))
        deaths = [event for event in events if isinstance(event, WorkerLost)]
        return {
            "cells": len(many),
            "workers": workers,
            "latency_ms": 1e3 * latency,
            "mean_life_s": life,
            "deaths": len(deaths),
            "queries": queries,
            "seconds": round(seconds, 1),
            "queries_per_s": round(queries / seconds),
            "left": len(outcome.unfinished),
            "cells_that_differ": sum(many.get(cell) != value for cell, value in one.items()),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("writer", "memory", "memory-of", "simulation", "ray"))
    parser.add_argument("numbers", nargs="*", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--images", type=int, default=None)
    parser.add_argument("--latency", type=float, default=0.02)
    parser.add_argument("--life", type=float, default=40.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--net", choices=NETS, default="small")
    given = parser.parse_args()
    if given.what == "writer":
        report = writer(given.seconds)
    elif given.what == "memory":
        report = memory()
    elif given.what == "memory-of":
        report = memory_of(int(given.numbers[0]), given.numbers[1])
    elif given.what == "simulation":
        report = simulation(given.workers, given.images or 500, given.latency, given.life)
    else:
        report = ray_speed(given.rounds, given.images or 16, given.net)
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
