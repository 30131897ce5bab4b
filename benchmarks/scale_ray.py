"""Two engines by Ray beside two processes of this machine (`python benchmarks/scale.py ray`).

1. Queries/s while both engines are at work, up to nine tenths of a run, of the two ways in turn.
   The ratio is that of the medians. It says little if others use the machine.
2. The processor time that a query takes, of this process and all that come from it, Ray's own
   included: what the cores could do at best. It says something under load, too, but not how long
   one waits for the other.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from scale_studies import CONVOLUTIONS, RESNET20, write_study

import tollbox as tb
from tollbox.studies.events import EngineProgress, Event

NETS = {"small": (CONVOLUTIONS, 3000), "resnet20": (RESNET20, 400)}
"""Networks, and budgets with which a run takes some 15 s."""
SAMPLE_SECONDS = 0.5
INSIDE = "TOLLBOX_SCALE_INSIDE"


class Sample(NamedTuple):
    """Where a run stands."""

    queries: int
    seconds: float
    processor: float
    """Seconds."""


def processor_seconds() -> dict[int, float]:
    """By id, of this process, and of all that come from it and are there."""
    parents, seconds = dict[int, int](), dict[int, float]()
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                words = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            pid = int(folder.name)
            parents[pid] = int(words[1])
            seconds[pid] = (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
    ours = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return {pid: seconds[pid] for pid in ours}


def speed(
    study: tb.Study, out: Path, executor: tb.studies.RayEngines | None
) -> tuple[float, float]:
    """Queries/s while both engines are at work, and microseconds of the processor for each."""
    done: dict[int, int] = {}
    samples: list[Sample] = []
    spent: dict[int, float] = {}  # also by those that have ended since

    def tell(event: Event) -> None:
        if isinstance(event, EngineProgress):
            done[event.engine] = sum(event.queries.values())
            now = time.monotonic()
            if len(done) == 2 and (not samples or now > samples[-1].seconds + SAMPLE_SECONDS):
                spent.update(processor_seconds())
                samples.append(Sample(sum(done.values()), now, sum(spent.values())))

    shutil.rmtree(out, ignore_errors=True)
    tb.run_study(study, out, executor=executor, tell=tell).close()
    first, most = samples[0], samples[-1].queries
    last = [sample for sample in samples if sample.queries <= 0.9 * most][-1]
    queries = last.queries - first.queries
    return (
        queries / (last.seconds - first.seconds),
        1e6 * (last.processor - first.processor) / queries,
    )


def ray_speed(rounds: int, images: int, net: str) -> dict[str, Any]:
    """Ray beside processes, in a network namespace."""
    if os.environ.get(INSIDE) is None:
        words = 'ip link set lo up && exec "$@"'
        command = ["unshare", "--map-root-user", "--net", "sh", "-c", words, "sh", sys.executable]
        environment = {**os.environ, INSIDE: "1"}
        sys.exit(subprocess.run([*command, *sys.argv], env=environment).returncode)
    model, budget = NETS[net]
    measured: dict[str, list[tuple[float, float]]] = {"processes": [], "ray": []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        study = write_study(folder, model, images, budget=budget, batch=64, workers=2)
        for _ in range(rounds):
            measured["processes"].append(speed(study, folder / "out", None))
            measured["ray"].append(speed(study, folder / "out", tb.studies.RayEngines(engines=2)))
    speeds, processor = (
        {kind: [values[n] for values in runs] for kind, runs in measured.items()} for n in (0, 1)
    )
    middle = [
        {kind: statistics.median(values) for kind, values in which.items()}
        for which in (speeds, processor)
    ]
    return {
        "net": net,
        "queries_per_s": {kind: [round(v) for v in values] for kind, values in speeds.items()},
        "ray_to_processes": round(middle[0]["ray"] / middle[0]["processes"], 3),
        "processor_us_per_query": {
            kind: [round(v) for v in values] for kind, values in processor.items()
        },
        "ray_to_processes_by_processor": round(middle[1]["processes"] / middle[1]["ray"], 3),
    }
