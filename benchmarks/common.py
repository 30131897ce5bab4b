"""What the experiments share: options, a network with images it classifies correctly, a network as
a model, a sampling radius for any attack, a line about progress, and JSON that is written whole or
not at all.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import shlex
import sys
import time
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import nets
import torch
from torch import Tensor

import tollbox as tb
from tollbox.core.noise import content_hash
from tollbox.parts.estimates import RelativeRadius

EVERY = 10.0
"""Seconds between two lines about progress."""


def options() -> argparse.ArgumentParser:
    """The options that all experiments have, as a parent of their parsers."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--net", choices=list(CLASSES), default="resnet20")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--images", type=int, default=30, help="how many, correctly classified")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--batch-size", type=int, default=None)
    parser.add_argument("--live", type=int, default=None, help="the most cells under way at a time")
    parser.add_argument("--compile", action="store_true", help="run the network through inductor")
    parser.add_argument("--one-shape", action="store_true", help="all batches of the whole size")
    parser.add_argument("--out", type=Path, default=None, help="write the JSON here")
    return parser


def hash_option(parser: argparse.ArgumentParser) -> None:
    which = ["all", "even", "odd"]
    parser.add_argument("--hash", choices=which, default="all", help="images by content hash")


def precision_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--delta", type=float, default=None, help="sampling radius of estimates")
    parser.add_argument("--tf32", action="store_true")


LAYOUTS = ("contiguous", "channels_last")
DTYPES = ("float32", "bfloat16", "float16")


def model_options(parser: argparse.ArgumentParser) -> None:
    """The options of `model_of`."""
    parser.add_argument("--dtype", choices=DTYPES, default=None, help="what the network runs in")
    parser.add_argument("--tf32", action="store_true")
    parser.add_argument("--compile", action="store_true", help="torch.compile the network")
    parser.add_argument("--graphs", action="store_true", help="replay CUDA graphs")
    parser.add_argument("--layout", choices=[*LAYOUTS, "faster"], default="faster")


def model_of(
    net: str,
    device: str,
    layout: str,
    dtype: str | None = None,
    tf32: bool = False,
    compile: bool = False,
    graphs: bool = False,
) -> tb.models.Model:
    """A network as a model; `from_torch` is told what was chosen, and else has its own way.

    TF32 is the model's alone: what attacks compute stays in fp32.
    """
    use_tf32(False)
    mean, std = nets.NORMALISATION[net]
    chosen: dict[str, Any] = {
        "dtype": getattr(torch, dtype) if dtype else None,
        "tf32": tf32,
        "compile": compile,
        "cuda_graphs": graphs,
    }
    return tb.models.from_torch(
        nets.network(net),
        mean=mean,
        std=std,
        device=device,
        channels_last=layout == "channels_last",
        **{name: value for name, value in chosen.items() if value},
    )


def enough(net: str, count: int) -> tuple[Tensor, Tensor]:
    """`count` images and their labels: those there are, then mirrored copies."""
    pictures, labels = nets.images(net, count)
    while len(pictures) < count:
        pictures = torch.cat([pictures, pictures.flip(-1) * (1 - 1e-3)])
        labels = labels.repeat(2)
    return pictures[:count], labels[:count]


def priced(text: str) -> tuple[float, float | None]:
    """`2:5000` is c* = 2 with a budget of 5000; `2` has none."""
    price, _, budget = text.partition(":")
    return float(price), float(budget) if budget else None


def use_tf32(on: bool) -> None:
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = on


@dataclass(frozen=True)
class Loaded:
    """A model and the first images that it classifies correctly."""

    model: tb.models.Model
    images: list[Tensor]
    labels: list[int]

    @property
    def hashes(self) -> list[str]:
        """Short content hashes of the images."""
        return [content_hash(image)[:10] for image in self.images]

    def cells(
        self,
        attack: Any,
        budget: float = math.inf,
        max_queries: float = math.inf,
        **settings: Any,
    ) -> list[tb.attack.Cell]:
        """A cell for each image. The clean image, known to be classified correctly, is free."""
        settings |= {"limits": tb.Limits(budget, max_queries), "charge_clean": False}
        return [
            tb.attack.Cell(attack, image, label, **settings)
            for image, label in zip(self.images, self.labels, strict=True)
        ]


def load(
    net: str,
    device: str,
    count: int,
    compiled: bool = False,
    which: str = "all",
    quantize: int | None = None,
    shape: int = 64,
    **ways: Any,
) -> Loaded:
    """The network, batch norm folded, and the first `count` images it classifies correctly, of
    those whose content hash is even or odd, or of all.

    Which these are is judged by one uncharged pass, in batches of one shape. `ways` are further
    options of `from_torch`, such as `tf32`.
    """
    mean, std = nets.NORMALISATION[net]
    model = tb.models.from_torch(
        nets.network(net, folded=True),
        mean=mean,
        std=std,
        device=device,
        classes=CLASSES[net],
        quantize=quantize,
        compile=compiled,
        **ways,
    )
    asked = count
    while True:
        asked += max(8, count // 2)
        pictures, labels = nets.images(net, asked)
        all_there = len(pictures) == asked
        if which != "all":
            kept = [int(content_hash(picture), 16) % 2 == (which == "odd") for picture in pictures]
            pictures, labels = pictures[kept], labels[kept]
        rows = len(pictures)
        padded = torch.cat([pictures, pictures[:1].expand(-rows % shape, -1, -1, -1)])
        answers = torch.cat([model(part.to(model.device)).cpu() for part in padded.split(shape)])
        answers = answers[:rows]
        right = (answers == labels).nonzero().flatten()[:count]
        if len(right) == count:
            return Loaded(model, list(pictures[right]), labels[right].tolist())
        if not all_there:
            sys.exit(f"--images {count}: {net} classifies only {len(right)} correctly.")


CLASSES = {
    **dict.fromkeys(nets.OF_IMAGENET, 1000),
    **dict.fromkeys((*nets.OF_CIFAR, *nets.SHIPPED), 10),
}
SIZES = {
    **dict.fromkeys(nets.OF_IMAGENET, 3 * 224 * 224),
    **dict.fromkeys(nets.OF_CIFAR, 3 * 32 * 32),
    **dict.fromkeys(nets.SHIPPED, 28 * 28),
}
"""How many values an image has."""


def with_delta(attack: Any, delta: float | None) -> Any:
    """The attack with another sampling radius: the paper's is below the resolution of TF32.

    An attack without an estimate that has one stays as it is, and so does one whose radius is a
    share of the distance.
    """
    estimate: Any = getattr(attack, "estimate", None)
    names = [field.name for field in fields(estimate)] if is_dataclass(estimate) else []
    if delta is None or "delta" not in names or isinstance(estimate, RelativeRadius):
        return attack
    return replace(attack, estimate=replace(estimate, delta=delta))


class Ticker:
    """Prints a line about progress every ten seconds or so."""

    def __init__(self, what: str, cells: int) -> None:
        self._what, self._cells = what, cells
        self._last, self._queries = time.monotonic(), 0

    def __call__(self, now: tb.attack.Progress) -> None:
        passed = time.monotonic() - self._last
        if passed < EVERY:
            return
        speed = (now.queries - self._queries) / passed
        self._last, self._queries = time.monotonic(), now.queries
        print(
            f"{self._what}: {now.seconds:.0f} s, {now.done}/{self._cells} cells, "
            f"{now.queries} queries, {speed:.0f} queries/s, {now.rows / max(1, now.queries):.2f} "
            "rows/query",
            flush=True,
        )


def run_cells(
    what: str,
    cells: list[tb.attack.Cell],
    model: tb.models.Model,
    args: argparse.Namespace,
    time_limit: float = math.inf,
) -> tb.Results:
    """All cells in one go, with lines about progress, and one at the end."""
    began = time.monotonic()
    results = tb.attack.run_cells(
        cells,
        model,
        execution=tb.Execution(
            batch_size=args.batch_size,
            live=args.live,
            one_shape=args.one_shape,
            time_limit=time_limit,
        ),
        progress=Ticker(what, len(cells)),
    )
    seconds = time.monotonic() - began
    queries = sum(result.ledger.queries for result in results)
    print(
        f"{what}: {len(cells)} cells, {queries} queries in {seconds:.1f} s, "
        f"{queries / seconds:.0f} queries/s",
        flush=True,
    )
    for result in results:
        if result.stop in (tb.Stop.MODEL_ERROR, tb.Stop.ATTACK_ERROR):
            print(f"{what}: cell {result.index} ended with {result.stop}: {result.reason}")
            break  # one tells enough; all are in the JSON
    return results


def short(value: float, digits: int = 5) -> float | None:
    """A number of few digits for JSON; None for infinity and for what is not a number."""
    if not math.isfinite(value):
        return None
    rounded = float(f"{value:.{digits}g}")
    return int(rounded) if rounded.is_integer() else rounded


def provenance(device: str) -> dict[str, Any]:
    """Where and how this process runs, without the path of `--out`."""
    words, kept = sys.argv[1:], []
    while words:
        word = words.pop(0)
        if word == "--out":
            words = words[1:]
        elif not word.startswith("--out="):
            kept.append(word)
    name = Path(sys.argv[0]).name
    return {
        "command": shlex.join(["python", f"benchmarks/{name}", *kept]),
        "device": torch.cuda.get_device_name() if device != "cpu" else platform.machine(),
        "torch": torch.__version__,
    }


def write(path: Path | None, report: dict[str, Any]) -> None:
    """Write JSON, an entry of a list a line; a reader finds the old file or the whole new one."""
    if path is None:
        return
    parts = []
    for key, value in report.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            lines = ",\n  ".join(json.dumps(entry, separators=(",", ":")) for entry in value)
            parts.append(f" {json.dumps(key)}: [\n  {lines}\n ]")
        else:
            parts.append(f" {json.dumps(key)}: {json.dumps(value)}")
    path.parent.mkdir(parents=True, exist_ok=True)
    passing = path.with_name(path.name + ".part")
    passing.write_text("{\n" + ",\n".join(parts) + "\n}\n")
    os.replace(passing, path)


def guide(name: str, net: str) -> tuple[torch.nn.Module, str]:
    """The network of a surrogate, and the name of its normalisation."""
    torch.manual_seed(0)
    if name == "random":
        untrained = nets.ResNet50() if CLASSES[net] == 1000 else nets.ResNet20()
        return untrained.eval(), net
    kind, _, noise = name.partition(":")
    if kind != "noisy":
        return nets.network(name, folded=True), name
    cousin = nets.network(net)
    for weights in cousin.parameters():
        if weights.ndim > 1:
            weights.data += float(noise) * weights.data.std() * torch.randn_like(weights)
    return cousin, net


def surrogate(names: str, net: str) -> tb.Surrogate:
    """Networks joined by a plus, for attacks on `net` (guided.py says which there are)."""
    found = [guide(name, net) for name in names.split("+")]
    mean, std = zip(*(nets.NORMALISATION[normalised] for _, normalised in found), strict=True)
    size = [None if side(name) == side(net) else (side(name),) * 2 for _, name in found]
    networks = [each.eval().requires_grad_(False) for each, _ in found]
    return tb.Surrogate(networks, mean=mean, std=std, size=size)


def side(net: str) -> int:
    return 224 if net in nets.OF_IMAGENET else 32
