"""`tollbox attack`: a user's own model, images and prices.

It is a study of one attack: all that is answered is recorded in the output folder first.

1. All input is checked before the first query; a mistake is told in one sentence, and nothing is
   written.
2. Ctrl-C ends the run with what was reached, which is saved like any other result; exit code 130.
3. If all runs that were begun failed, that is told as well, with the first reason; exit code 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from torch import Tensor

from ..attacks import preset
from ..core.cell import Cell, check_label
from ..core.model import Model
from ..core.noise import content_hash
from ..core.prices import Prices
from ..errors import InputError
from ..files.images import ImageSet, load_images
from ..files.output import check_free
from ..files.starts import check_goal, check_target, load_starts
from ..files.tables import LARGEST
from ..models.loading import load_model
from ..studies.beginning import begin
from ..studies.loading import Loaded
from ..studies.shard import Options
from ..studies.spec.study import Study
from . import choices
from .attack_files import NAME, finish, study_text
from .codes import INTERRUPTED
from .settings import settings_of
from .streams import say
from .study_run import run_left

LARGEST_SEED = 2**63 - 1


def _option(text: str, hyphen: bool = False) -> Parameter:
    return Parameter(help=text, allow_leading_hyphen=hyphen)


def _whole(text: str) -> Parameter:
    return Parameter(help=text, converter=choices.whole)


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
    limit: Annotated[int | None, _whole("Take the first so many images.")] = None
    mean: Annotated[
        str | None, _option("Subtracted from images in [0,1]; a number or one per channel.", True)
    ] = None
    std: Annotated[str | None, _option("Divides after that; likewise.", True)] = None
    quantize: Annotated[int | None, _whole("Bits of a pixel that the model takes.")] = None
    attack: Annotated[str, _option("A preset; see `tollbox presets`.")] = "a-hsja"
    target: Annotated[
        int | None, _whole("The class to reach, for all images; needs --start. Default: any other.")
    ] = None
    start: Annotated[
        Path | None,
        _option(
            "An image to begin from (with --target: of that class), of the images' size; or an "
            ".npz with one for each image. Default: what the attack finds."
        ),
    ] = None
    price: Annotated[
        str,
        _option(
            "c*: what a source-class answer costs, others cost 1. A number, inf, or a CSV with the "
            "columns class and price (class may be `default`, which is 1 if not given).",
            True,
        ),
    ] = "1"
    budget: Annotated[float | None, _option("What the queries for one image may cost.")] = None
    max_queries: Annotated[int | None, _whole("How many queries an image may take.")] = None
    time_limit: Annotated[float | None, _option("Seconds after which the run ends.")] = None
    seed: Annotated[int, _whole("Of the random numbers.")] = 0
    device: Annotated[str | None, _option("Default: cuda if there is one, else cpu.")] = None
    batch_size: Annotated[
        int | None, _whole("Rows of a model batch. Default: 256 on a GPU, else 64.")
    ] = None


def attack(options: AttackOptions) -> int:
    """Attack your own model on your own images, under a price for flagged answers.

    Writes adversarial.npz, PNGs of the adversarial images, results.csv and ledger.json into --out.
    Ctrl-C ends the run and saves what was reached; `tollbox resume` goes on after a stop of any
    kind.
    """
    check_free(options.out)
    given, starts, model = _prepared(options)
    study = Study.from_text(study_text(options), Path(), "tollbox attack", files=False)
    hashes = tuple(content_hash(image) for image in given.images)
    loaded = Loaded(study, given, hashes, starts, model.device, {NAME: model})
    cell = loaded.cell(loaded.grid.place(0))
    begin(loaded, options.out, "attack", settings=settings_of(options, cell, model))
    try:
        how = Options(time_limit=choices.seconds(options.time_limit))
        outcome, interrupted = run_left(options.out, how, loaded)
        return finish(options.out, outcome, interrupted, loaded)
    except KeyboardInterrupt:
        say(f"interrupted; all that was answered is kept: `tollbox resume {options.out}` goes on.")
        return INTERRUPTED


def _prepared(options: AttackOptions) -> tuple[ImageSet, list[Tensor | None], Model]:
    """The images, what to begin from, and the model, all checked."""
    chosen = preset(options.attack.lower())
    choices.at_least("--seed", options.seed, -LARGEST_SEED, LARGEST_SEED)
    check_goal(options.target, options.start)
    prices = choices.prices(options.price)
    budget, max_queries = choices.limits(prices, options.budget, options.max_queries)
    choices.seconds(options.time_limit)
    choices.at_least("--limit", options.limit, 1)
    choices.at_least("--quantize", options.quantize, 1, 16)
    choices.at_least("--batch-size", options.batch_size, 1)
    mean, std = choices.numbers("--mean", options.mean), choices.numbers("--std", options.std)
    place = choices.device(options.device)
    given = load_images(options.images, options.labels, options.limit)
    starts = load_starts(options.start, given, options.limit)
    model = load_model(
        options.model,
        given.images[0],
        mean=mean,
        std=std,
        device=place,
        quantize=options.quantize,
        batch_size=options.batch_size,
    )
    _check_classes(prices, model)
    for label, name, origin in zip(given.labels, given.names, given.origins, strict=True):
        classes = model.classes or (LARGEST if label > LARGEST else None)
        check_label(label, classes, f"{origin}: the label of image {name}")
    check_target(options.target, given, model.classes)
    each = zip(given.images, given.labels, given.names, starts, strict=True)
    for image, label, name, start in each:
        Cell(
            chosen,
            image,
            label,
            prices,
            budget,
            max_queries,
            options.target,
            options.seed,
            name,
            start=start,
        ).check(model, f"image {name}")
    return given, starts, model


def _check_classes(prices: Prices, model: Model) -> None:
    beyond = [c for c in prices.classes or {} if model.classes is not None and c >= model.classes]
    if beyond:
        raise InputError(
            f"--price has a price for class {beyond[0]}, but the model has {model.classes} "
            f"classes: expected 0 to {(model.classes or 0) - 1}."
        )
