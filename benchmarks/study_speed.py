"""A study beside the engine: `tollbox run` on the same work, start to end, and where it spends it.

start   until the command is imported
load    images and models
check   that models answer the same twice, fingerprints, the images; and making the study's folder
run     the engine, with all that attacks and the model do
store   committing answers and results
end     the table at the end, and leaving
rest    what is left

With several processes `run` is waiting for them, and has all that they do within it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import study_files
from stopwatch import REST, Stopwatch

PARTS = ("start", "load", "check", "run", "store", "end", REST)


def measured(attack: str, budget: float, args: argparse.Namespace, layout: str) -> dict[str, Any]:
    """The study of one attack, by a command of its own."""
    names = ("dtype", "tf32", "compile", "graphs")
    model = {"net": args.net, "device": args.device, "layout": layout}
    model |= {name: getattr(args, name) for name in names}
    with tempfile.TemporaryDirectory(prefix="study-speed-") as made:
        folder = Path(made)
        file = study_files.write(
            folder,
            "study",
            images=f"common.enough({args.net!r}, {args.images})",
            model=f"common.model_of(**{model!r})",
            attacks=[attack],
            delta=args.delta,
            settings={
                "budget": budget,
                "prices": [args.price],
                "device": args.device,
                "batch_size": args.batch_size,
                "workers": args.workers,
            },
            model_settings={},
        )
        out, told = folder / "out", folder / "seconds.json"
        began = time.monotonic()
        command = [sys.executable, __file__, str(told), "run", str(file), "--out", str(out)]
        log = subprocess.run(command, capture_output=True, text=True)
        seconds = time.monotonic() - began
        if log.returncode != 0:
            sys.exit(f"the study of {attack} ended with code {log.returncode}: {log.stderr}")
        inside = json.loads(told.read_text())
        queries = _queries(out)
    parts = {part: inside["seconds"].get(part, 0.0) for part in PARTS}
    parts["start"] += inside["began"] - began
    parts["end"] += began + seconds - inside["ended"]
    running = parts["run"] + parts["store"]
    return {
        "attack": attack,
        "queries": queries,
        "seconds": round(seconds, 2),
        "queries_per_second": round(queries / seconds, 1),
        "queries_per_second_running": round(queries / running, 1),
        "parts": {part: round(spent, 3) for part, spent in parts.items()},
    }


def _queries(out: Path) -> int:
    import tollbox as tb

    with tb.studies.StudyResults(out) as results:
        return sum(end.queries for end in results.finished())


# -- the command, with a stopwatch ----------------------------------------------------------------


def timed_command(told: Path, words: list[str]) -> None:
    """`tollbox` with these words, and the seconds of its parts in a file."""
    began = time.monotonic()
    watch = Stopwatch()
    watch.enter("start")
    import tollbox.cli.run
    import tollbox.cli.study_run
    from tollbox import cli
    from tollbox.studies import create as beginning
    from tollbox.studies import inputs as loading
    from tollbox.studies import run as running
    from tollbox.studies.inputs import StudyInputs
    from tollbox.studies.job import WorkerRun
    from tollbox.studies.store.store import Store

    watch.wrap(tollbox.cli.run, "run", REST)
    watch.wrap(loading, "load", "load")
    watch.wrap(StudyInputs, "model", "load")
    for name in ("examine", "model_fingerprint", "check_against"):
        watch.wrap(StudyInputs, name, "check")
    watch.wrap(beginning, "create", "check")
    watch.wrap(running, "run_folder", "run")
    watch.wrap(WorkerRun, "_run_cells", "run")
    watch.wrap(WorkerRun, "record", "store")
    watch.wrap(Store, "save", "store")
    watch.wrap(tollbox.cli.study_run, "say_end", "end")
    try:
        cli.main(words)
    finally:
        watch.enter(REST)
        report = {"began": began, "ended": time.monotonic(), "seconds": watch.seconds}
        told.write_text(json.dumps(report))


if __name__ == "__main__":
    timed_command(Path(sys.argv[1]), sys.argv[2:])
