"""`tollbox attack`: a user's own model, images and prices.

1. All input is checked, and the output folder staged, before the first query; a mistake is told in
   one sentence, and nothing is written.
2. Ctrl-C ends the run with what was reached, which is saved like any other result; exit code 130.
3. If all runs that were begun failed, that is told as well, with the first reason; exit code 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from ..attacks import preset
from ..cells import Cell, check_label
from ..engine import Engine
from ..errors import InputError, Stop
from ..images import load_images
from ..models.files import load_model
from ..models.model import Model
from ..prices import Prices
from ..results import Results
from ..tables import LARGEST
from . import choices, summary
from .folder import check_free, staged
from .goal import check_goal, check_target, load_starts
from .interrupt import Interrupt
from .save import kept, rounded, write_all
from .settings import settings_of
from .streams import console, say
from .watch import Watch

FAILED = 1
INTERRUPTED = 130


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
    Ctrl-C ends the run and saves what was reached.
    """
    check_free(options.out)
    cells, model = _prepared(options)
    settings = settings_of(options, cells[0], model)
    watch = Watch(console(stderr=True), len(cells))
    engine = Engine(
        model,
        batch_size=options.batch_size,
        time_limit=choices.seconds(options.time_limit),
        progress=watch.update,
    )
    with staged(options.out) as stage:
        try:
            with watch, Interrupt(engine.stop) as interrupt:
                done = Results(sorted(engine.run(cells), key=lambda result: result.index))
                settings["warnings"] = sorted({text for r in done for text in r.warnings})
                with stage.writing():
                    eight_bits = rounded(model, done, engine.sender.batch_size)
                    write_all(stage.folder, cells, done, eight_bits, settings)
                stage.commit()
            lost = sum(kept(cells[i], r) is False for i, r in eight_bits.items())
            goal = "" if options.target is None else f", target {options.target}"
            title = f"{settings['attack']}, price {options.price}{goal}"
            end = f"Saved in {options.out}: adversarial.npz, PNGs, results.csv, ledger.json."
            summary.show(title, done, lost, end, options.target, options.start is not None)
            return _code(options.out, done, interrupt.came)
        except KeyboardInterrupt:
            if not stage.committed:
                raise
            say(f"interrupted; all results are saved in {options.out}.")
            return INTERRUPTED


def _code(out: Path, results: Results, interrupted: bool) -> int:
    """The exit code; what is not 0 is told."""
    if interrupted:
        finished = sum(r.stop is not Stop.INTERRUPTED for r in results)
        say(
            f"Interrupted: {finished} of {len(results)} images were finished; what the others had "
            f"reached is saved as well, in {out}."
        )
        return INTERRUPTED
    if summary.all_failed(results):
        say(f"no run succeeded: {summary.failures(results)}")
        return FAILED
    return 0


def _prepared(options: AttackOptions) -> tuple[list[Cell], Model]:
    """The cells and the model, all checked."""
    chosen = preset(options.attack.lower())
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
    cells = [
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
        )
        for image, label, name, start in each
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
