"""Where the GPU's time goes while the engine runs: the network, what attacks compute, or nothing.

    python benchmarks/device_time.py --attacks hsja frugal --images 256 --tf32 --graphs \\
        --layout channels_last --batch-size 128 --delta 0.5 --budget 1500

For each attack, of the whole run and of each second of it: microseconds a query in which a kernel
of the network runs, in which another kernel or a copy does, and in which none does; then the other
kernels that take longest. Which kernels are the network's is seen by running it alone. The
profiler slows the host down: shares of the host's time are `throughput.py --host`'s to tell.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from typing import Any

import common
import torch
from torch.profiler import ProfilerActivity, profile

import tollbox as tb

SHOWN = 12
SECOND = 1e6
KINDS = ("network", "other", "idle")
Times = dict[str, float]


def kernels(run: Any) -> list[tuple[str, float, float]]:
    """Name, start and end in microseconds of all that ran on the device, in order."""
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        run()
        torch.cuda.synchronize()
    found = [
        (event.name, event.time_range.start, event.time_range.end)
        for event in profiler.events()
        if event.device_type.name == "CUDA"
    ]
    return sorted(found, key=lambda kernel: kernel[1])


def divided(found: list[tuple[str, float, float]], network: set[str]) -> list[Times]:
    """By second: how long the network's kernels, others and none ran, in microseconds."""
    begin = reached = found[0][1]
    seconds: list[Times] = []
    for name, start, end in found:
        while len(seconds) <= (end - begin) // SECOND:
            seconds.append(dict.fromkeys(KINDS, 0.0))
        now = seconds[int((end - begin) // SECOND)]
        now["idle"] += max(0.0, start - reached)
        now["network" if name in network else "other"] += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--net", choices=list(common.CLASSES), default="resnet50")
    parser.add_argument("--attacks", nargs="+", default=["hsja", "frugal"])
    parser.add_argument("--images", type=int, default=256)
    parser.add_argument("--price", type=float, default=10)
    parser.add_argument("--budget", type=float, default=1500)
    parser.add_argument("--delta", type=float, default=None)
    parser.add_argument("--batch-size", type=int, default=128)
    common.model_options(parser)
    parser.set_defaults(layout="channels_last")
    args = parser.parse_args()
    if args.layout == "faster":
        parser.error("--layout faster is for throughput.py, which tries both: name one")
    if not torch.cuda.is_available():
        sys.exit("There is no CUDA device: what a CPU does is what `throughput.py --host` tells.")
    model = common.model_of(
        args.net, "cuda", args.layout, args.dtype, args.tf32, args.compile, args.graphs
    )
    images, labels = common.enough(args.net, args.images)
    batch = images[: args.batch_size].cuda()
    shapes = [batch[: args.batch_size * part // 4] for part in (1, 2, 3, 4)]
    for part in shapes:
        model(part)
    network = {name for part in shapes for name, *_ in kernels(lambda part=part: model(part))}
    for name in args.attacks:
        attack = common.with_delta(tb.preset(name), args.delta)
        execution = tb.Execution(batch_size=args.batch_size)
        settings: Any = {"prices": tb.Prices(args.price, 1), "execution": execution}
        tb.run(attack, model, images, labels.tolist(), budget=300, **settings)
        kept: list[tb.Results] = []
        found = kernels(
            lambda attack=attack, settings=settings, kept=kept: kept.append(
                tb.run(attack, model, images, labels.tolist(), budget=args.budget, **settings)
            )
        )
        queries = sum(result.ledger.queries for result in kept[0])
        seconds = divided(found, network)
        total = {kind: sum(now[kind] for now in seconds) for kind in KINDS}
        print(f"{name}: {queries} queries, us/query: " + told(total, queries), flush=True)
        for number, now in enumerate(seconds):
            print(f"  second {number}: " + told(now, SECOND / 100) + " %")
        others: defaultdict[str, float] = defaultdict(float)
        for kernel, start, end in found:
            if kernel not in network:
                others[kernel] += end - start
        for kernel, spent in sorted(others.items(), key=lambda item: -item[1])[:SHOWN]:
            print(f"  {spent / queries:7.2f} us/query  {kernel[:90]}", flush=True)


def told(times: Times, unit: float) -> str:
    return ", ".join(f"{kind} {times[kind] / unit:.1f}" for kind in KINDS)


if __name__ == "__main__":
    main()
