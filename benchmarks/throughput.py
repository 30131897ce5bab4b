"""The engine's share of the raw model's throughput, from one run on one machine.

    python benchmarks/throughput.py                                   # ResNet-20, CPU, 64 images
    python benchmarks/throughput.py --net resnet50 --device cuda --images 256 --tf32 --delta 0.5
    python benchmarks/throughput.py --attacks frugal --host --studies
    python benchmarks/throughput.py --attacks all --budget 5000 surfree=1500 a-surfree=1500

raw     images/s of the very model that the engine asks (its precision, layout, compilation and
        graphs), warmed up, on one batch of the engine's shape that lies on the device; measured
        again and again during the run, between two batches, so that whatever else the machine does
        meets both alike
engine  charged queries/s of the whole run, start to end, less the time of those measurements; a
        small run, and the model in every batch shape, come before the clock starts
share   engine / raw

`--layout faster` tries both memory layouts, and takes the one in which the model is faster.

With `--workers` the engine's rows are shared by so many processes, which have begun and have run a
few queries before the clock starts; the raw model (in one process, with all threads) is measured
before and after the run.

`--host` prints where the host's time goes (`host_time.py`); its timers are in the engine's seconds.
`--studies` has the same work done by `tollbox run` after the engine (`study_speed.py`): its
queries/s, start to end, as a share of the engine's, and those of its run alone. `--sync-check`
makes any synchronisation of the GPU other than one per model batch an error. `--memory` streams
ever more images, and prints the peak of device memory and of host memory, which must not grow with
their number. If there are fewer images than asked for, mirrored copies of them make up the rest.
Prints one JSON object at the end.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import resource
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import common
import host_time
import study_speed
import torch
from torch import Tensor

import tollbox as tb
from tollbox.engine.engine import Engine
from tollbox.engine.sizes import batch_size_on


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


class Raw:
    """The model alone, on one batch as the engine sends it."""

    def __init__(self, model: tb.models.Model, batch: Tensor) -> None:
        self.model = model
        self.batch = model.sent(batch.to(model.device, model.dtype))
        self._rounds = 4 if model.device.type == "cuda" else 2

    @torch.inference_mode()
    def seconds(self) -> float:
        """Seconds of one batch: several, one after another, and then one wait."""
        wait(self.model.device)
        began = time.perf_counter()
        for _ in range(self._rounds):
            self.model(self.batch)
        wait(self.model.device)
        return (time.perf_counter() - began) / self._rounds


def fastest(layouts: Sequence[str], batch: Tensor, args: argparse.Namespace) -> tuple[str, Raw]:
    """The model in the layout in which it is fastest; if there is only one, in that."""
    names = ("dtype", "tf32", "compile", "graphs")
    options = {name: getattr(args, name) for name in names}
    raws = {
        layout: Raw(common.model_of(args.net, args.device, layout, **options), batch)
        for layout in layouts
    }
    best = dict.fromkeys(raws, float("inf"))
    for _ in range(6):  # in turn, so that a busy moment meets all
        for layout, raw in raws.items():
            raw.seconds()
            best[layout] = min(best[layout], raw.seconds())
    speeds = {layout: round(len(batch) / seconds, 1) for layout, seconds in best.items()}
    print("raw images/s by layout:", speeds, flush=True)
    chosen = min(best, key=lambda layout: best[layout])
    return chosen, raws[chosen]


def measured(
    attack: str,
    budget: float,
    pictures: Tensor,
    labels: Tensor,
    raw: Raw,
    args: argparse.Namespace,
    workers: tb.workers.Workers | None,
) -> dict[str, Any]:
    """One run, with the raw model measured in between."""
    model, watch = raw.model, host_time.watch() if args.host else None
    mode = "error" if args.sync_check else "default"
    batches, rows, paused = 0, 0, 0.0
    raw_seconds = [] if workers is None else [raw.seconds() for _ in range(args.every)]

    def progress(now: tb.attack.Progress) -> None:
        nonlocal batches, rows, paused
        batches += 1
        rows = now.rows
        if workers is None and batches % args.every == 0:
            set_mode(model.device, "default")
            wait(model.device)
            began = time.perf_counter()
            before = watch.enter(host_time.PAUSE) if watch else ""
            raw_seconds.append(raw.seconds())
            if watch:
                watch.enter(before)
            paused += time.perf_counter() - began
            set_mode(model.device, mode)

    given = common.with_delta(tb.preset(attack), args.delta)
    prices = tb.Prices(args.price, 1)
    warm_up(raw, args.batch_size)
    few = tb.Execution(batch_size=args.batch_size)
    some = pictures[:8], labels[:8]
    tb.run(given, model, *some, prices=prices, budget=40 * args.price, execution=few)
    set_mode(model.device, mode)
    if watch:
        watch.start()
    began = time.perf_counter()
    results = tb.run(
        given,
        model,
        pictures,
        labels,
        prices=prices,
        budget=budget,
        execution=tb.Execution(
            batch_size=args.batch_size, workers=1 if workers is None else workers
        ),
        progress=progress,
    )
    seconds = time.perf_counter() - began - paused
    if workers is not None:
        raw_seconds += [raw.seconds() for _ in range(args.every)]
    set_mode(model.device, "default")
    queries = sum(result.ledger.queries for result in results)
    if watch:
        watch.unwrap()
    raw_speed = args.batch_size * len(raw_seconds) / sum(raw_seconds)
    return {
        "attack": attack,
        "budget": budget,
        "share": round(queries / seconds / raw_speed, 3),
        "queries_per_second": round(queries / seconds, 1),
        "raw_images_per_second": round(raw_speed, 1),
        "queries": queries,
        "seconds": round(seconds, 2),
        "rows_per_query": round(rows / queries, 4),
        "median_l2": round(results.median_at(budget), 4),
        "stops": sorted({str(result.stop) for result in results}),
        **({"host": host_time.table(watch, queries)} if watch else {}),
    }


def warm_up(raw: Raw, batch_size: int) -> None:
    """Each batch shape of a run once: it is compiled, planned and recorded before the clock starts,
    as the raw model's is."""
    for shape in Engine(raw.model, execution=tb.Execution(batch_size=batch_size)).sender.shapes:
        raw.model(raw.batch[:shape])
    wait(raw.model.device)


def set_mode(device: torch.device, mode: str) -> None:
    if device.type == "cuda":
        torch.cuda.set_sync_debug_mode(mode)


def memory(
    model: tb.models.Model, pictures: Tensor, labels: Tensor, args: argparse.Namespace
) -> list[dict[str, Any]]:
    """Peak of device memory and of host memory for streams of growing length."""
    rows = []
    for rounds in (1, 2, 4):

        def many(times: int = rounds) -> Iterator[Tensor]:
            for number in range(times):
                for image in pictures:
                    yield image * (1 - 0.001 * number)

        gc.collect()
        if model.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()
        done = 0
        for _ in tb.stream(
            tb.preset("hsja"),
            model,
            many(),
            labels.tolist() * rounds,
            prices=tb.Prices(args.price, 1),
            budget=args.budget[""] / 8,
            execution=tb.Execution(batch_size=args.batch_size, live=min(64, len(pictures))),
        ):
            done += 1
        peak = torch.cuda.max_memory_allocated() if model.device.type == "cuda" else 0
        host = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        rows.append(
            {"images": done, "device_mib": round(peak / 2**20, 1), "host_mib": round(host, 1)}
        )
    return rows


class Budgets(argparse.Action):
    """`5000 surfree=1000`: a budget for all attacks, and others for some."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option: Any = None) -> None:
        budgets = {"": 5000.0}
        for value in values:
            attack, _, number = value.rpartition("=")
            if attack and attack not in tb.presets():
                parser.error(f"{option} {value}: {attack} is not a preset")
            try:
                budgets[attack] = float(number)
            except ValueError:
                parser.error(f"{option} {value}: expected a number, or attack=number")
        setattr(namespace, self.dest, budgets)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--net", choices=["resnet20", "resnet50"], default="resnet20")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--images", type=int, default=64)
    parser.add_argument("--attacks", nargs="+", default=["hsja", "a-hsja"], help="or: all")
    parser.add_argument("--price", type=float, default=10.0)
    budget_help = "for all, or attack=budget for one"
    parser.add_argument(
        "--budget", nargs="+", action=Budgets, default={"": 5000.0}, help=budget_help
    )
    parser.add_argument("--delta", type=float, default=None, help="sampling radius of estimates")
    parser.add_argument("--batch-size", type=int, default=None)
    parser.add_argument("--every", type=int, default=20, help="batches between raw measurements")
    common.model_options(parser)
    parser.add_argument("--workers", type=int, default=1, help="processes that share the work")
    parser.add_argument("--host", action="store_true", help="where the host's time goes")
    parser.add_argument("--studies", action="store_true", help="the same work by `tollbox run`")
    parser.add_argument("--sync-check", action="store_true")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--out", type=Path, default=None, help="also write the JSON here")
    args = parser.parse_args()
    if args.host and args.workers > 1:
        parser.error("--host looks at this process only: leave --workers out")

    args.batch_size = args.batch_size or batch_size_on(torch.device(args.device))
    pictures, labels = common.enough(args.net, args.images)
    batch = pictures[torch.arange(args.batch_size) % len(pictures)]
    layouts = common.LAYOUTS if args.layout == "faster" else (args.layout,)
    layout, raw = fastest(layouts, batch, args)
    report: dict[str, Any] = {
        **common.provenance(args.device),
        "threads": torch.get_num_threads(),
        "layout": layout,
        "batch_size": args.batch_size,
        "workers": args.workers,
        "engine": [],
    }
    if args.studies:
        report["studies"] = []
    with contextlib.ExitStack() as stack:
        workers = None
        if args.workers > 1:
            workers = stack.enter_context(tb.workers.Workers(raw.model, args.workers))
            few = tb.Execution(batch_size=args.batch_size, workers=workers)
            given = {"prices": tb.Prices(args.price), "budget": 3 * args.price}
            tb.run("hsja", raw.model, pictures, labels, execution=few, **given)
        for attack in tb.presets("l2") if args.attacks == ["all"] else args.attacks:
            budget = args.budget.get(attack, args.budget[""])
            row = measured(attack, budget, pictures, labels, raw, args, workers)
            report["engine"].append(row)
            print(json.dumps(row), flush=True)
            if args.studies:
                study = study_speed.measured(attack, budget, args, layout)
                for name in ("", "_running"):
                    speed = study["queries_per_second" + name]
                    study["share_of_engine" + name] = round(speed / row["queries_per_second"], 3)
                report["studies"].append(study)
                print(json.dumps(study), flush=True)
            common.write(args.out, report)
    if args.memory:
        report["memory"] = memory(raw.model, pictures, labels, args)
    print(json.dumps(report, indent=1))
    common.write(args.out, report)


if __name__ == "__main__":
    main()
