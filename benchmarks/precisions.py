"""Ways to run one network: which of them keep the medians, and what each brings.

    python benchmarks/precisions.py --net resnet50 --device cuda --images 30 --delta 0.5
    python benchmarks/precisions.py --net vit --device cuda --images 20 --hash odd --price 1 \\
        --budget 4000 --ways "TF32 in convolutions" TF32 --attacks cgba ttba frugal

Precisions (fp32, TF32, bfloat16, float16), each in eager mode, with CUDA graphs, and compiled with
graphs; and a function with torch's own setting, which is TF32 in convolutions alone. For each:
images/s of the model alone on one batch; queries/s of all attacks together, after a warm-up; and
the median l2 of each attack at a quarter, half and all of the budget, with its ratio to fp32
(paired, same images and noise, bootstrap of images), and on how many images tollbox warned that the
model does not resolve what the attack samples. An attack is judged on the images that fp32
classifies correctly; one that is misclassified in another precision has distance 0 there, and is
counted.

    python benchmarks/precisions.py --agree benchmarks/results/tf32-h200.json \\
        benchmarks/results/resolution-h200.json

compares the ratios of one file, at the last cost, with the warnings of another: how many attacks
(published ones, which sample at a radius) with a ratio of at least 1.2, and below 1.05, had a
warning for the run, that is, on at least half of its images; and the exceptions.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from pathlib import Path
from typing import Any

import common
import nets
import numpy as np
import paired
import torch
from torch import Tensor

import tollbox as tb
from tollbox.core.noise import content_hash
from tollbox.engine.engine import Engine

CONVOLUTIONS = "TF32 in convolutions"
WAYS: dict[str, dict[str, Any]] = {
    "fp32": {},
    CONVOLUTIONS: {},
    "TF32": {"tf32": True},
    "TF32, graphs": {"tf32": True, "graphs": True},
    "TF32, compiled, graphs": {"tf32": True, "compile": True, "graphs": True},
    "bfloat16, graphs": {"dtype": "bfloat16", "graphs": True},
    "bfloat16, compiled, graphs": {"dtype": "bfloat16", "compile": True, "graphs": True},
    "float16, compiled, graphs": {"dtype": "float16", "compile": True, "graphs": True},
}


def model_of(way: str, args: argparse.Namespace) -> tb.models.Model:
    if way != CONVOLUTIONS:
        return common.model_of(args.net, args.device, args.layout, **WAYS[way])
    torch.backends.cudnn.allow_tf32 = True
    network: Any = nets.network(args.net).to(args.device)
    if args.layout == "channels_last":
        network = network.to(memory_format=torch.channels_last)
    mean, std = (torch.tensor(v, device=args.device) for v in nets.NORMALISATION[args.net])

    @torch.inference_mode()
    def predict(images: Tensor) -> Tensor:
        labels: Tensor = network((images - mean[:, None, None]) / std[:, None, None]).argmax(1)
        return labels

    return tb.models.from_callable(predict, device=args.device)


def right_ones(model: tb.models.Model, args: argparse.Namespace) -> tuple[Tensor, Tensor]:
    """The first images that the model classifies correctly."""
    pictures, labels = nets.images(args.net, 5 * args.images)
    answers = torch.cat([model(part.to(model.device)).cpu() for part in pictures.split(32)])
    hashes = torch.tensor([int(content_hash(picture), 16) % 2 for picture in pictures])
    wanted = torch.ones_like(hashes) if args.hash == "all" else hashes == (args.hash == "odd")
    right = ((answers == labels) & wanted).nonzero().flatten()[: args.images]
    return pictures[right], labels[right]


def raw_speed(model: tb.models.Model, batch: Tensor) -> float:
    """Images/s of the model alone."""
    for _ in range(3):
        model(batch)
    waited(model)
    began = time.perf_counter()
    for _ in range(10):
        model(batch)
    waited(model)
    return 10 * len(batch) / (time.perf_counter() - began)


def cells(
    pictures: Tensor, labels: Tensor, budget: float, args: argparse.Namespace
) -> list[tb.attack.Cell]:
    """Every attack on every image."""
    attacks = [common.with_delta(tb.preset(name), args.delta) for name in args.attacks]
    return [
        tb.attack.Cell(attack, picture, int(label), tb.Prices(args.price, 1), tb.Limits(budget))
        for attack in attacks
        for picture, label in zip(pictures, labels, strict=True)
    ]


def distance(result: tb.Result, cost: float) -> float:
    if result.stop is tb.Stop.ALREADY_MISCLASSIFIED:
        return 0.0
    return result.distance_at(cost)


def waited(model: tb.models.Model) -> None:
    if model.device.type == "cuda":
        torch.cuda.synchronize()


NO_RADIUS = ("frugal", "surfree")
HARMED, UNHARMED = 1.2, 1.05


def rows_of(file: Path) -> dict[tuple[str, str, str], dict[str, Any]]:
    """What a file of parts says, by network, way and attack."""
    return {
        (words[1], row["way"], name): entry
        for part in json.loads(file.read_text())["parts"]
        if (words := re.search(r"--net (\S+)", part["command"]))
        for row in part["rows"]
        for name, entry in row.items()
        if isinstance(entry, dict)
    }


def agree(ratios: Path, warnings: Path) -> None:
    warned, count = rows_of(warnings), 20
    groups: dict[str, list[bool]] = {f"at least {HARMED}": [], f"below {UNHARMED}": []}
    harmed, unharmed = groups.values()
    for key, entry in rows_of(ratios).items():
        costs = [cost for cost in entry if cost.isdigit()]
        if key[1] == "fp32" or key[2] in NO_RADIUS or key not in warned or not costs:
            continue
        ratio, low, high = entry[max(costs, key=int)]["ratio"]
        images = warned[key]["warned"]
        said = 2 * images >= count
        if ratio >= HARMED:
            harmed.append(said)
        elif ratio < UNHARMED:
            unharmed.append(said)
        if (ratio >= HARMED and not said) or (ratio < UNHARMED and said):
            print(f"{', '.join(key)}: {ratio:.2f} [{low:.2f}, {high:.2f}], {images} of {count}")
    for what, each in groups.items():
        print(f"ratio {what}: a warning in {sum(each)} of {len(each)} runs of {count} images")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--net", choices=list(common.CLASSES), default="resnet20")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--images", type=int, default=30, help="correctly classified in fp32")
    common.hash_option(parser)
    parser.add_argument("--attacks", nargs="+", default=["frugal", "a-cgba", "hsja"])
    parser.add_argument("--ways", nargs="+", choices=list(WAYS), default=list(WAYS))
    parser.add_argument("--price", type=float, default=10.0)
    parser.add_argument("--budget", type=float, default=2000.0)
    parser.add_argument("--delta", type=float, default=None, help="sampling radius of estimates")
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--layout", choices=common.LAYOUTS, default="channels_last")
    parser.add_argument("--out", type=Path, default=None, help="also write the JSON here")
    parser.add_argument("--agree", nargs=2, type=Path, metavar="FILE", help="ratios, warnings")
    args = parser.parse_args()
    if args.agree:
        agree(*args.agree)
        return
    report: dict[str, Any] = {**common.provenance(args.device), "rows": []}
    base: dict[tuple[str, float], paired.Values] = {}
    size = args.batch_size
    pictures = labels = torch.empty(0)
    for way in ["fp32", *(way for way in args.ways if way != "fp32")]:
        model = model_of(way, args)
        if not base:
            pictures, labels = right_ones(model, args)
        places = torch.arange(size) % len(pictures)
        for shape in Engine(model, execution=tb.Execution(batch_size=size)).sender.shapes:
            model(pictures[places][:shape].to(model.device))
        row: dict[str, Any] = {
            "way": way,
            "raw": round(raw_speed(model, pictures[places].to(model.device))),
        }

        tb.attack.run_cells(
            cells(pictures, labels, 5 * args.price, args),
            model,
            execution=tb.Execution(batch_size=size),
        )
        began = time.perf_counter()
        some = cells(pictures, labels, args.budget, args)
        results = list(tb.attack.run_cells(some, model, execution=tb.Execution(batch_size=size)))
        seconds = time.perf_counter() - began
        row["queries_per_second"] = round(sum(r.ledger.queries for r in results) / seconds)
        for number, name in enumerate(args.attacks):
            count = len(pictures)
            found = results[number * count : (number + 1) * count]
            unresolved = [one.resolution for one in found if one.resolution.warnings]
            row[name] = {"warned": len(unresolved)}
            if unresolved:
                middle = sorted(each.smallest / each.value for each in unresolved)
                row[name]["too_small_by"] = common.short(middle[len(middle) // 2])
            for cost in (args.budget / 4, args.budget / 2, args.budget):
                values = np.array([distance(result, cost) for result in found])
                ratio = paired.ratio(values, base.setdefault((name, cost), values))
                row[name][f"{cost:g}"] = {
                    "median": common.short(paired.median(values)),
                    "ratio": [common.short(value, 4) for value in ratio],
                }
            row[name]["misclassified"] = int((values == 0).sum())
            print(
                f"{way}, {name}: median {paired.told(paired.median(values))}, to fp32 {ratio}, "
                f"warned {row[name]['warned']}/{count} {row[name].get('too_small_by', '')}"
            )
        print(
            f"{way}: raw {row['raw']} images/s, {row['queries_per_second']} queries/s", flush=True
        )
        report["rows"].append(row)
        common.write(args.out, report)


if __name__ == "__main__":
    main()
