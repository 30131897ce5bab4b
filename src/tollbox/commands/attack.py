"""`tollbox attack`: a user's own model, images and prices.

1. All input is checked, and the output folder staged, before the first query; a mistake is told in
   one sentence, and nothing is written.
2. Ctrl-C ends the run with what was reached, which is saved like any other result; exit code 130.
"""

from __future__ import annotations

import hashlib
import math
import platform
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from cyclopts import Parameter
from rich.console import Console
from rich.table import Table

from .. import __version__
from ..attacks import preset
from ..cells import Cell
from ..engine import Engine
from ..errors import InputError, Stop
from ..images import load_images
from ..models.files import load_model
from ..models.model import Model
from ..prices import Prices
from ..results import Result, Results
from . import choices
from .folder import check_free, staged, told
from .interrupt import Interrupt
from .save import rounded, write_all
from .watch import Watch

INTERRUPTED = 130


def _option(text: str, hyphen: bool = False) -> Parameter:
    return Parameter(help=text, allow_leading_hyphen=hyphen)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class AttackOptions:
    """The options of `tollbox attack`."""

    model: Annotated[
        str,
        _option(
            "A torch.export file (.pt2), a TorchScript file, or module:function, a function or "
            "network that gives logits or labels for images (n, c, h, w) in [0,1]."
        ),
    ]
    images: Annotated[Path, _option("A folder (with --labels), or an .npz: images and labels.")]
    out: Annotated[Path, _option("Folder for the results: a new one, or an empty one.")]
    labels: Annotated[Path | None, _option("CSV with the columns file and label.")] = None
    limit: Annotated[int | None, _option("Take the first so many images.")] = None
    mean: Annotated[
        str | None, _option("Subtracted from images in [0,1]; a number or one per channel.", True)
    ] = None
    std: Annotated[str | None, _option("Divides after that; likewise.", True)] = None
    quantize: Annotated[int | None, _option("Bits of a pixel that the model takes.")] = None
    attack: Annotated[str, _option("A preset; see `tollbox presets`.")] = "a-hsja"
    price: Annotated[
        str,
        _option(
            "c*: what a source-class answer costs, others cost 1. A number, inf, or a CSV with the "
            "columns class and price (class may be `default`, which is 1 if not given).",
            True,
        ),
    ] = "1"
    budget: Annotated[float | None, _option("What the queries for one image may cost.")] = None
    max_queries: Annotated[int | None, _option("How many queries an image may take.")] = None
    time_limit: Annotated[float | None, _option("Seconds after which the run ends.")] = None
    seed: Annotated[int, _option("Of the random numbers.")] = 0
    device: Annotated[str | None, _option("Default: cuda if there is one, else cpu.")] = None
    batch_size: Annotated[
        int | None, _option("Rows of a model batch. Default: 256 on a GPU, else 64.")
    ] = None


def attack(options: AttackOptions) -> int:
    """Attack your own model on your own images, under a price for flagged answers.

    Writes adversarial.npz, PNGs of the adversarial images, results.csv and ledger.json into --out.
    Ctrl-C ends the run and saves what was reached.
    """
    check_free(options.out)
    cells, model = _prepared(options)
    console = Console(stderr=True, highlight=False)
    with Watch(console, len(cells)) as watch:
        engine = Engine(
            model,
            batch_size=options.batch_size,
            time_limit=math.inf if options.time_limit is None else options.time_limit,
            progress=watch.update,
        )
        with staged(options.out) as (folder, commit), Interrupt(engine.stop) as interrupt:
            done = sorted(engine.run(cells), key=lambda result: result.index)
            eight_bits = rounded(model, done, engine.sender.batch_size)
            with told(options.out):
                write_all(folder, cells, done, eight_bits, _settings(options, cells, model, done))
            commit()
    lost = sum(r.label == cells[i].label for i, r in eight_bits.items())
    _summary(options, Results(done), lost)
    if interrupt.came:
        finished = sum(r.stop is not Stop.INTERRUPTED for r in done)
        console.print(
            f"Interrupted: {finished} of {len(done)} images were finished; what the others had "
            f"reached is saved as well, in {options.out}.",
            soft_wrap=True,
        )
        return INTERRUPTED
    return 0


def _prepared(options: AttackOptions) -> tuple[list[Cell], Model]:
    """The cells and the model, all checked."""
    chosen = preset(options.attack)
    prices = choices.prices(options.price)
    budget, max_queries = choices.limits(prices, options.budget, options.max_queries)
    mean, std = choices.numbers("--mean", options.mean), choices.numbers("--std", options.std)
    place = choices.device(options.device)
    given = load_images(options.images, options.labels, options.limit)
    model = load_model(
        options.model,
        given.images[0],
        mean=mean,
        std=std,
        device=place,
        quantize=options.quantize,
    )
    _check_classes(prices, model)
    cells = [
        Cell(chosen, image, label, prices, budget, max_queries, seed=options.seed, name=name)
        for image, label, name in zip(given.images, given.labels, given.names, strict=True)
    ]
    for cell in cells:
        cell.check(model, f"image {cell.name}")
    return cells, model


def _check_classes(prices: Prices, model: Model) -> None:
    beyond = [c for c in prices.classes or {} if model.classes is not None and c >= model.classes]
    if beyond:
        raise InputError(
            f"--price has a price for class {beyond[0]}, but the model has {model.classes} "
            f"classes: expected 0 to {(model.classes or 0) - 1}."
        )


def _settings(
    options: AttackOptions, cells: Sequence[Cell], model: Model, results: Sequence[Result]
) -> dict[str, Any]:
    """What it takes to run this again."""
    prices = cells[0].prices
    file = Path(options.model)
    digest = None
    if file.is_file():
        with open(file, "rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
    classes = None if prices.classes is None else {str(k): v for k, v in prices.classes.items()}
    return {
        "attack": options.attack,
        "attack_parts": repr(cells[0].attack),
        "prices": {"source": prices.source, "other": prices.other, "classes": classes},
        "budget": _finite(cells[0].budget),
        "max_queries": _finite(cells[0].max_queries),
        "time_limit": options.time_limit,
        "seed": options.seed,
        "model": options.model,
        "model_sha256": digest,
        "mean": options.mean,
        "std": options.std,
        "quantize": options.quantize,
        "classes": model.classes,
        "images": str(options.images),
        "labels": None if options.labels is None else str(options.labels),
        "limit": options.limit,
        "device": str(model.device),
        "batch_size": options.batch_size,
        "warnings": sorted({warning for r in results for warning in r.warnings}),
        "versions": {
            "tollbox": __version__,
            "torch": torch.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _summary(options: AttackOptions, results: Results, lost: int) -> None:
    """The table at the end, on stdout."""
    console = Console(highlight=False)
    begun = [r for r in results.counted if r.ledger.queries > 0]
    stops = Counter(r.stop for r in results)
    queries = sum(r.ledger.queries for r in results)
    flagged = sum(r.ledger.source for r in results)
    median = f"{np.median([r.distance for r in begun]):.4g}" if begun else "-"
    table = Table(title=f"{options.attack}, price {options.price}", show_header=False)
    table.add_column()
    table.add_column(justify="right")
    table.add_row("images", f"{len(results)}")
    table.add_row("misclassified anyway", f"{results.misclassified}")
    table.add_row("no adversarial point", f"{sum(math.isinf(r.distance) for r in begun)}")
    table.add_row("failed", f"{results.failed}")
    ended = stops[Stop.INTERRUPTED] + stops[Stop.TIME_LIMIT]
    if ended:
        table.add_row("ended early", f"{ended}")
    table.add_row(f"median l2 ({len(begun)} images)", median)
    table.add_row("no longer adversarial at 8 bits", f"{lost}")
    table.add_row("queries", f"{queries:,}")
    table.add_row("flagged share", f"{flagged / queries:.1%}" if queries else "-")
    console.print(table)
    for warning in sorted({warning for r in results for warning in r.warnings}):
        console.print(f"Note: {warning}.", soft_wrap=True, markup=False)
    if results.failed:
        first = next(r for r in results if r.stop in (Stop.MODEL_ERROR, Stop.ATTACK_ERROR))
        console.print(
            f"{results.failed} runs failed; the first, image {first.name}: {first.reason}",
            soft_wrap=True,
            markup=False,
        )
    console.print(
        f"Saved in {options.out}: adversarial.npz, PNGs, results.csv, ledger.json.",
        soft_wrap=True,
        markup=False,
    )
