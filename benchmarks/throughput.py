"""The engine's share of the raw model's throughput, from one run on one machine.

    python benchmarks/throughput.py                                   # ResNet-20, CPU, 64 images
    python benchmarks/throughput.py --net resnet50 --device cuda --images 256 --tf32 --delta 0.5

raw     images/s of the network in its faster memory layout, warmed up, in inference mode, at the
        engine's batch shape; measured again and again during the run, between two batches, so that
        whatever else the machine does meets both alike
engine  charged queries/s of the whole run, start to end, less the time of those measurements
share   engine / raw

With `--workers` the engine's rows are shared by so many processes, which have begun and have run a
few queries before the clock starts; the raw network (in one process, with all threads) is measured
before and after the run.

`--sync-check` makes any synchronisation of the GPU other than one per model batch an error.
`--memory` streams ever more images, and prints the peak of device memory and of host memory, which
must not grow with their number. If there are fewer images than asked for, mirrored copies of them
make up the rest. Prints one JSON object at the end.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import platform
import resource
import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nets
import torch
from common import with_delta
from torch import Tensor, nn

import tollbox as tb
from tollbox.engine.engine import batch_size_on

LAYOUTS = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


class Raw:
    """The network alone, in its faster layout, on one batch."""

    def __init__(self, net: nn.Module, batch: Tensor, rounds: int) -> None:
        self.net, self.batch, self.rounds = net, batch, rounds
        speeds = dict.fromkeys(LAYOUTS, 0.0)
        for _ in range(6):  # in turn, so that a busy moment meets both
            for layout in LAYOUTS:
                self._use(layout)
                self.seconds()
                speeds[layout] = max(speeds[layout], len(batch) / self.seconds())
        self.layout = max(speeds, key=lambda name: speeds[name])
        self.speeds = {name: round(speed, 1) for name, speed in speeds.items()}
        self._use(self.layout)

    def _use(self, layout: str) -> None:
        self.net = self.net.to(memory_format=LAYOUTS[layout])  # type: ignore[call-overload]
        self.batch = self.batch.contiguous(memory_format=LAYOUTS[layout])

    @torch.inference_mode()
    def seconds(self) -> float:
        """Seconds of one batch: several, one after another, and then one wait."""
        wait(self.batch.device)
        began = time.perf_counter()
        for _ in range(self.rounds):
            self.net(self.batch).argmax(1)
        wait(self.batch.device)
        return (time.perf_counter() - began) / self.rounds


def measured(
    attack: str,
    model: tb.models.Model,
    pictures: Tensor,
    labels: Tensor,
    raw: Raw,
    args: argparse.Namespace,
    workers: tb.Workers | None,
) -> dict[str, Any]:
    """One run, with the raw network measured in between."""
    mode = "error" if args.sync_check else "default"
    batches, rows, paused = 0, 0, 0.0
    raw_seconds = [] if workers is None else [raw.seconds() for _ in range(args.every)]

    def progress(now: tb.Progress) -> None:
        nonlocal batches, rows, paused
        batches += 1
        rows = now.rows
        if workers is None and batches % args.every == 0:
            set_mode(model.device, "default")
            wait(model.device)
            began = time.perf_counter()
            raw_seconds.append(raw.seconds())
            paused += time.perf_counter() - began
            set_mode(model.device, mode)

    set_mode(model.device, mode)
    began = time.perf_counter()
    results = tb.run(
        with_delta(tb.preset(attack), args.delta),
        model,
        pictures,
        labels,
        prices=tb.Prices(args.price, 1),
        budget=args.budget,
        batch_size=args.batch_size,
        progress=progress,
        workers=1 if workers is None else workers,
    )
    seconds = time.perf_counter() - began - paused
    if workers is not None:
        raw_seconds += [raw.seconds() for _ in range(args.every)]
    set_mode(model.device, "default")
    queries = sum(result.ledger.queries for result in results)
    raw_speed = args.batch_size * len(raw_seconds) / sum(raw_seconds)
    return {
        "attack": attack,
        "share": round(queries / seconds / raw_speed, 3),
        "queries_per_second": round(queries / seconds, 1),
        "raw_images_per_second": round(raw_speed, 1),
        "queries": queries,
        "seconds": round(seconds, 2),
        "rows_per_query": round(rows / queries, 4),
        "median_l2": round(results.median_at(args.budget), 4),
        "stops": sorted({str(result.stop) for result in results}),
    }


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
            budget=args.budget / 8,
            batch_size=args.batch_size,
            live=min(64, len(pictures)),
        ):
            done += 1
        peak = torch.cuda.max_memory_allocated() if model.device.type == "cuda" else 0
        host = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        rows.append(
            {"images": done, "device_mib": round(peak / 2**20, 1), "host_mib": round(host, 1)}
        )
    return rows


def enough(pictures: Tensor, labels: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """`count` images: those there are, then mirrored copies."""
    while len(pictures) < count:
        pictures = torch.cat([pictures, pictures.flip(-1) * (1 - 1e-3)])
        labels = labels.repeat(2)
    return pictures[:count], labels[:count]


def write(out: Path | None, report: dict[str, Any]) -> None:
    if out is not None:
        out.write_text(json.dumps(report, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--net", choices=["resnet20", "resnet50"], default="resnet20")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--images", type=int, default=64)
    parser.add_argument("--attacks", nargs="+", default=["hsja", "a-hsja"], help="or: all")
    parser.add_argument("--price", type=float, default=10.0)
    parser.add_argument("--budget", type=float, default=5000.0)
    parser.add_argument("--delta", type=float, default=None, help="sampling radius of estimates")
    parser.add_argument("--batch-size", type=int, default=None)
    parser.add_argument("--every", type=int, default=20, help="batches between raw measurements")
    parser.add_argument("--tf32", action="store_true")
    parser.add_argument("--graphs", action="store_true", help="the engine replays CUDA graphs")
    parser.add_argument("--workers", type=int, default=1, help="processes that share the work")
    parser.add_argument("--sync-check", action="store_true")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--out", type=Path, default=None, help="also write the JSON here")
    args = parser.parse_args()

    device = torch.device(args.device)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = args.tf32
    args.batch_size = args.batch_size or batch_size_on(device)
    mean, std = nets.NORMALISATION[args.net]
    pictures, labels = enough(*nets.images(args.net, args.images), args.images)
    net = nets.network(args.net).to(device)
    batch = pictures[torch.arange(args.batch_size) % len(pictures)].to(device)
    raw = Raw(net, batch, rounds=4 if device.type == "cuda" else 2)
    print("raw images/s by layout:", raw.speeds, flush=True)
    model = tb.models.from_torch(
        raw.net,
        mean=mean,
        std=std,
        device=device,
        channels_last=raw.layout == "channels_last",
        cuda_graphs=args.graphs,
    )
    kept = [word for word in sys.argv[1:] if not word.startswith("--out") and word != str(args.out)]
    report: dict[str, Any] = {
        "command": shlex.join(["python", "benchmarks/throughput.py", *kept]),
        "device": torch.cuda.get_device_name() if device.type == "cuda" else platform.machine(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "layout": raw.layout,
        "batch_size": args.batch_size,
        "workers": args.workers,
        "engine": [],
    }
    with contextlib.ExitStack() as stack:
        workers = None
        if args.workers > 1:
            workers = stack.enter_context(tb.Workers(model, args.workers))
            few = {"budget": 3 * args.price, "batch_size": args.batch_size, "workers": workers}
            tb.run(tb.preset("hsja"), model, pictures, labels, prices=tb.Prices(args.price), **few)
        for attack in tb.presets() if args.attacks == ["all"] else args.attacks:
            row = measured(attack, model, pictures, labels, raw, args, workers)
            report["engine"].append(row)
            print(json.dumps(row), flush=True)
            write(args.out, report)
    if args.memory:
        report["memory"] = memory(model, pictures, labels, args)
    print(json.dumps(report, indent=1))
    write(args.out, report)


if __name__ == "__main__":
    main()
