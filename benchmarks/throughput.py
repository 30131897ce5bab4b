"""The engine's share of the raw model's throughput, from one run on one machine.

    python benchmarks/throughput.py                                      # ResNet-20, CPU, 64 images
    python benchmarks/throughput.py --net resnet50 --device cuda --images 256 --tf32 --sync-check

raw    images/s of the network in its faster memory layout, warmed up, in inference mode, at the
       engine's batch shape
engine charged queries/s of a whole run, start to end
share  engine / raw

`--sync-check` makes any synchronisation of the GPU other than one per model batch an error.
`--memory` runs a few and many images as a stream, and prints the peak of device memory and the growth
of host memory, which must not grow with the number of images. Prints one JSON object at the end.
"""

from __future__ import annotations

import argparse
import gc
import json
import platform
import resource
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nets
import torch
from torch import Tensor, nn

import tollbox as tb


def raw_speed(net: nn.Module, batch: Tensor, seconds: float) -> dict[str, float]:
    """Images/s of a network by memory layout."""
    speeds = {}
    for name, layout in (
        ("contiguous", torch.contiguous_format),
        ("channels_last", torch.channels_last),
    ):
        net = net.to(memory_format=layout)  # type: ignore[call-overload]
        images = batch.contiguous(memory_format=layout)
        with torch.inference_mode():
            for _ in range(3):
                net(images)
            _wait(batch.device)
            began, rounds = time.perf_counter(), 0
            while time.perf_counter() - began < seconds:
                net(images).argmax(1)
                rounds += 1
                if rounds % 8 == 0:
                    _wait(batch.device)
            _wait(batch.device)
        speeds[name] = rounds * len(batch) / (time.perf_counter() - began)
    return speeds


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def engine_speed(
    model: tb.models.Model, pictures: Tensor, labels: Tensor, args: argparse.Namespace, attack: str
) -> dict[str, Any]:
    """Charged queries/s of one run."""
    last: list[tb.Progress] = []

    def progress(now: tb.Progress) -> None:
        last[:] = [now]

    if args.sync_check:
        torch.cuda.set_sync_debug_mode("error")
    _wait(model.device)
    began = time.perf_counter()
    results = tb.run(
        tb.preset(attack),
        model,
        pictures,
        labels,
        prices=tb.Prices(args.price, 1),
        budget=args.budget,
        batch_size=args.batch_size,
        progress=progress,
    )
    _wait(model.device)
    seconds = time.perf_counter() - began
    if args.sync_check:
        torch.cuda.set_sync_debug_mode("default")
    queries = sum(result.ledger.queries for result in results)
    return {
        "attack": attack,
        "queries": queries,
        "seconds": round(seconds, 2),
        "queries_per_second": round(queries / seconds, 1),
        "rows_per_query": round(last[0].rows / queries, 4),
        "median_l2": round(results.median_at(args.budget), 4),
        "stops": sorted({str(result.stop) for result in results}),
    }


def memory(
    model: tb.models.Model, pictures: Tensor, labels: Tensor, args: argparse.Namespace
) -> list[dict[str, Any]]:
    """Peak device memory and host memory of streams of growing length."""
    rows = []
    for rounds in (1, 2, 4):

        def many(stack: Tensor = pictures, times: int = rounds) -> Iterator[Tensor]:
            for number in range(times):
                for image in stack:
                    yield (image * (1 - 0.001 * number)).clone()

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
        rows.append(
            {
                "images": done,
                "device_peak_mib": round(peak / 2**20, 1),
                "host_peak_mib": round(
                    resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1
                ),
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--net", choices=["resnet20", "resnet50"], default="resnet20")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--images", type=int, default=64)
    parser.add_argument("--attacks", nargs="+", default=["hsja", "a-hsja"])
    parser.add_argument("--price", type=float, default=10.0)
    parser.add_argument("--budget", type=float, default=5000.0)
    parser.add_argument("--batch-size", type=int, default=None)
    parser.add_argument("--seconds", type=float, default=5.0, help="for the raw measurement")
    parser.add_argument("--tf32", action="store_true")
    parser.add_argument("--sync-check", action="store_true")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--out", type=Path, default=None, help="also write the JSON here")
    args = parser.parse_args()

    device = torch.device(args.device)
    if args.tf32:
        torch.backends.cuda.matmul.allow_tf32 = True
        torch.backends.cudnn.allow_tf32 = True
    if args.batch_size is None:
        args.batch_size = 256 if device.type == "cuda" else 64
    mean, std = nets.NORMALISATION[args.net]
    pictures, labels = nets.images(args.net, args.images)
    net = nets.network(args.net).to(device)
    batch = pictures[torch.arange(args.batch_size) % len(pictures)].to(device)
    report: dict[str, Any] = {
        "command": "python benchmarks/throughput.py "
        + " ".join(f"--{k.replace('_', '-')} {v}" for k, v in vars(args).items() if k != "out"),
        "device": torch.cuda.get_device_name() if device.type == "cuda" else platform.machine(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
    }
    speeds = raw_speed(net, batch, args.seconds)
    print("raw images/s:", {k: round(v, 1) for k, v in speeds.items()}, flush=True)
    layout = max(speeds, key=lambda name: speeds[name])
    model = tb.models.from_torch(
        net, mean=mean, std=std, device=device, channels_last=layout == "channels_last"
    )
    report["raw"] = {"layout": layout, "images_per_second": round(speeds[layout], 1)}
    report["engine"] = []
    for attack in args.attacks:
        row = engine_speed(model, pictures, labels, args, attack)
        again = raw_speed(net, batch, args.seconds)[layout]
        net.to(
            memory_format=getattr(
                torch, layout if layout == "channels_last" else "contiguous_format"
            )
        )  # type: ignore[call-overload]
        raw = (speeds[layout] + again) / 2
        row["raw_images_per_second"] = round(raw, 1)
        row["share"] = round(row["queries_per_second"] / raw, 3)
        report["engine"].append(row)
        print(json.dumps(row), flush=True)
        speeds[layout] = again
    if args.memory:
        report["memory"] = memory(model, pictures, labels, args)
        print(json.dumps(report["memory"]), flush=True)
    text = json.dumps(report, indent=1)
    print(text)
    if args.out is not None:
        args.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
