"""`tollbox attack`: a user's own model, images and prices.

It is a study of one attack: all that is answered is recorded in the output folder first.

1. All input is checked before the first query; a mistake is reported in one sentence, and nothing
   is written.
2. Ctrl-C ends the run with what was reached, which is saved like any other result; exit code 130
   (SIGTERM: 143).
3. If all runs that were begun failed, that is reported with the first reason; exit code 1.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from ..attacks.surrogates import Surrogate
from ..core.metric import norm_of
from ..core.watch import check_watch
from ..engine.sizes import LARGEST_BATCH
from ..errors import InputError, mention
from ..files.classes import flagged_classes
from ..files.output import check_free
from ..files.resizing import INTERPOLATIONS, Resizing
from ..models.precision import DTYPE_NAMES, DTYPES
from ..studies.beginning import begin
from ..studies.events import Options
from ..studies.identity import current_environment
from ..studies.loaded import Loaded
from ..studies.loading import load
from ..studies.spec.specs import (
    AttackSpec,
    GoalSpec,
    ImagesSpec,
    ModelSpec,
    SurrogateSpec,
    Tariff,
)
from ..studies.spec.study import Study
from ..studies.spec.watch import WatchSpec
from . import choices
from .attack_files import finish
from .completed import DtypeName, FileOrText, InterpolationName, NormName, PresetName
from .study_run import CHECK_HELP, FORCE_HELP, keeping, run_left, say_findings

LARGEST_SEED = 2**63 - 1


def _option(text: str, hyphen: bool = False, metavar: str | None = None) -> Parameter:
    return Parameter(help=text, allow_leading_hyphen=hyphen, metavar=metavar, show_choices=False)


def _whole(text: str) -> Parameter:
    return Parameter(help=text, converter=choices.whole)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class AttackOptions:
    """The options of `tollbox attack`."""

    model: Annotated[
        FileOrText,
        _option(
            "A torch.export file (.pt2), a TorchScript file, hf:NAME, timm:NAME, torchvision:NAME, "
            "clip:NAME, onnx:FILE, or module:function, a function or network that gives logits or "
            "labels for images (n, c, h, w) in [0,1].",
            metavar="MODEL",
        ),
    ]
    images: Annotated[
        Path,
        _option(
            "A folder with a folder for each class, or with --labels; an .npz with images and "
            "labels; or module:function, which gives a data set, or images and labels."
        ),
    ]
    out: Annotated[Path, _option("Folder for the results: a new one, or an empty one.")]
    labels: Annotated[Path | None, _option("CSV with the columns file and label.")] = None
    limit: Annotated[int | None, _whole("Use only the first so many images.")] = None
    resize: Annotated[
        str | None,
        _option(
            "Length in pixels to which the shorter side of each picture is brought; or "
            "height,width to which it is stretched. Default: as the model's own configuration "
            "says of both this and --crop, if it has one."
        ),
    ] = None
    crop: Annotated[
        str | None, _option("Then cut out the middle: a side in pixels, or height,width.")
    ] = None
    interpolation: Annotated[
        InterpolationName | None,
        _option(
            f"How to resize: {', '.join(INTERPOLATIONS)}; antialiased. Default: bilinear.",
            metavar="FILTER",
        ),
    ] = None
    names: Annotated[
        Path | None,
        _option(
            "Text file with the name of a class on each line, in the order of the labels: they are "
            "shown, folders go by them, and clip: is asked with them, or with a prompt after a "
            "tab. Default: as the model's own configuration says, if it has one."
        ),
    ] = None
    mean: Annotated[
        str | None,
        _option(
            "Subtracted from images in [0,1]; a number or one per channel. Default: as the "
            "model's own configuration says, if it has one.",
            True,
        ),
    ] = None
    std: Annotated[str | None, _option("Divides after the mean; likewise.", True)] = None
    quantize: Annotated[int | None, _whole("Bits per channel that the model takes.")] = None
    dtype: Annotated[
        DtypeName | None,
        _option(
            f"What the network computes in: {DTYPE_NAMES}. Default: as its weights are, float32 "
            "for half precision.",
            metavar="DTYPE",
        ),
    ] = None
    compile: Annotated[
        bool, Parameter(help="Run the network through torch.compile.", negative="")
    ] = False
    cuda_graphs: Annotated[
        bool, Parameter(help="Record the network's launches as CUDA graphs.", negative="")
    ] = False
    tf32: Annotated[
        bool | None, _option("Allow TF32 in the network, or forbid it. Default: torch's setting.")
    ] = None
    attack: Annotated[
        PresetName, _option("A preset; `tollbox presets` lists them.", metavar="PRESET")
    ] = "a-hsja"
    surrogate: Annotated[
        tuple[FileOrText, ...],
        Parameter(
            metavar="NETWORK",
            help="For frugal+surrogate: a network of your own with the classes of the model, as a "
            "file or module:function; it is differentiated, and costs nothing. May be repeated.",
            negative="",
            show_default=False,
        ),
    ] = ()
    surrogate_mean: Annotated[str | None, _option("As --mean, for the surrogate.", True)] = None
    surrogate_std: Annotated[str | None, _option("As --std, for the surrogate.", True)] = None
    target: Annotated[
        int | None, _whole("The class to reach, for all images; needs --start. Default: any other.")
    ] = None
    start: Annotated[
        Path | None,
        _option(
            "An image to begin from (with --target: of that class), of the images' size; or an "
            ".npz with one for each image. Default: the attack finds one."
        ),
    ] = None
    flagged: Annotated[
        Path | None,
        _option(
            "A text file with the flagged classes, one or a range (151-268) in each line: any "
            "other class is adversarial. Default: the image's own class."
        ),
    ] = None
    mask: Annotated[
        Path | None,
        _option(
            "A picture of the images' size, white where pixels may change; or a folder with one "
            "for each image, of its name. Default: all may change."
        ),
    ] = None
    price: Annotated[
        FileOrText,
        _option(
            "c*: what a flagged answer costs, others cost 1. A number, inf, or a CSV with the "
            "columns class and price, or flagged and price for one that grows from a flagged "
            "answer on (class, or flagged, may be `default`, which is 1 if absent).",
            True,
            metavar="PRICE",
        ),
    ] = "1"
    norm: Annotated[
        NormName,
        _option(
            "What distances are measured in: l2, or linf for an attack made for that.",
            metavar="NORM",
        ),
    ] = "l2"
    budget: Annotated[float | None, _option("What the queries for one image may cost.")] = None
    max_queries: Annotated[int | None, _whole("How many queries an image may take.")] = None
    max_flagged: Annotated[
        int | None,
        _whole("How many of its answers may be flagged; nothing is asked after the last of them."),
    ] = None
    watch: Annotated[
        str | None,
        _option(
            "module:function, a detector of your own or a function that gives one: it is shown the "
            "queries of each image, and its alarms are counted; no attack is told of them."
        ),
    ] = None
    alarm_price: Annotated[
        float | None, _option("What an alarm costs, beside the answer. Default: nothing.")
    ] = None
    max_alarms: Annotated[
        int | None,
        _whole("How many alarms an image may raise; nothing is asked after the last of them."),
    ] = None
    time_limit: Annotated[float | None, _option("Seconds after which the run ends.")] = None
    seed: Annotated[int, _whole("Seed of the random numbers.")] = 0
    device: Annotated[str | None, _option("Default: cuda if there is one, else cpu.")] = None
    batch_size: Annotated[
        int | None, _whole("Rows of a model batch. Default: 256 on a GPU, else 64.")
    ] = None
    workers: Annotated[
        int, _whole("Processes that share the images; no more than cores are used.")
    ] = 1
    force_workers: Annotated[bool, Parameter(help=FORCE_HELP, negative="")] = False
    metered: Annotated[
        bool,
        Parameter(
            help="The model bills every row it computes: send only rows that are certain to be "
            "charged; nothing else is asked, but for a try of one image when it is loaded.",
            negative="",
        ),
    ] = False
    check: Annotated[bool, Parameter(help=CHECK_HELP, negative="")] = False
    exact: Annotated[
        bool,
        Parameter(
            help="Take one batch shape and layout in which a row of the network depends on nothing "
            "else, bit for bit; refuse if there is none.",
            negative="",
        ),
    ] = False


def attack(options: AttackOptions) -> int:
    """Attack your own model on your own images, under a price for flagged answers.

    Writes adversarial.npz, PNGs of the adversarial images, results.csv and ledger.json into --out.
    Ctrl-C ends the run and saves what was reached; `tollbox resume` continues after a stop of any
    kind.
    """
    limit = choices.seconds(options.time_limit)
    check_free(options.out)
    loaded = load(study_of(options))
    settings, force = _settings(options, loaded), options.force_workers
    say_findings(begin(loaded, options.out, "attack", settings=settings, force_workers=force))
    how = Options(time_limit=limit, force_workers=force)
    with keeping(options.out):
        outcome, interruption = run_left(options.out, how, loaded)
        return finish(options.out, outcome, interruption, loaded)


def study_of(options: AttackOptions) -> Study:
    """The study of one attack that the options mean."""
    choices.within("seed", options.seed, -LARGEST_SEED, LARGEST_SEED)
    choices.within("limit", options.limit, 1)
    choices.within("quantize", options.quantize, 1, 16)
    choices.within("batch_size", options.batch_size, 1, LARGEST_BATCH)
    choices.within("workers", options.workers, 1)
    if options.dtype is not None and options.dtype not in DTYPES:
        raise InputError(f"is {options.dtype!r}", expected=DTYPE_NAMES, input="dtype")
    return Study.of(
        name="attack",
        where="tollbox attack",
        images=ImagesSpec.of(
            str(options.images),
            labels=options.labels,
            limit=options.limit,
            resizing=Resizing.of(
                choices.side("resize", options.resize),
                choices.side("crop", options.crop),
                options.interpolation,
            ),
            names=options.names,
        ),
        models=[
            ModelSpec.of(
                options.model,
                name="model",
                mean=choices.numbers("mean", options.mean),
                std=choices.numbers("std", options.std),
                quantize=options.quantize,
                dtype=options.dtype,
                compile=options.compile,
                cuda_graphs=options.cuda_graphs,
                tf32=options.tf32,
            )
        ],
        attacks=[AttackSpec.of(options.attack, _surrogate(options))],
        tariffs=[
            Tariff.of(
                choices.price(options.price),
                budget=math.inf if options.budget is None else options.budget,
                max_queries=math.inf if options.max_queries is None else options.max_queries,
                max_flagged=math.inf if options.max_flagged is None else options.max_flagged,
            )
        ],
        seeds=[options.seed],
        goal=GoalSpec(
            options.target,
            options.start,
            None if options.flagged is None else flagged_classes(options.flagged),
            mask=options.mask,
        ),
        norm=norm_of(options.norm),
        watch=_watch(options),
        device=options.device,
        batch_size=options.batch_size,
        workers=options.workers,
        metered=options.metered,
        check=options.check,
        exact=options.exact,
        keep_images=True,
    )


def _watch(options: AttackOptions) -> WatchSpec | None:
    """What the options say of a detector."""
    price = 0.0 if options.alarm_price is None else options.alarm_price
    most = math.inf if options.max_alarms is None else options.max_alarms
    if options.watch is not None:
        return WatchSpec(options.watch, price, most)
    check_watch(None, price, most)
    return None


def _surrogate(options: AttackOptions) -> SurrogateSpec | None:
    """What the options say of a surrogate."""
    mean = choices.numbers("surrogate_mean", options.surrogate_mean)
    std = choices.numbers("surrogate_std", options.surrogate_std)
    if options.surrogate:
        return SurrogateSpec.of(*options.surrogate, mean=mean, std=std)
    if mean is not None or std is not None:
        raise InputError(
            f"is given, and {mention('surrogate')} is not",
            expected="both, or neither",
            input="surrogate_std" if mean is None else "surrogate_mean",
        )
    return None


def _settings(options: AttackOptions, loaded: Loaded) -> dict[str, Any]:
    """What it takes to run the attack again, for ledger.json."""
    study, [model], [tariff] = loaded.study, loaded.study.models, loaded.study.tariffs
    prices, environment = tariff.prices, current_environment(loaded.device)
    resizing = loaded.images.resizing
    classes = None if prices.classes is None else {str(k): v for k, v in prices.classes.items()}
    return {
        "attack": study.attacks[0].name,
        "attack_parts": repr(loaded.attack(study.attacks[0])),
        "surrogate": _surrogate_settings(options, loaded.surrogate(study.attacks[0])),
        "target": options.target,
        "flagged": None if options.flagged is None else str(options.flagged),
        "start": None if options.start is None else str(options.start),
        "mask": None if options.mask is None else str(options.mask),
        "mask_digest": loaded.masks_digest,
        "price": options.price,
        "prices": {
            "source": prices.source,
            "other": prices.other,
            "classes": classes,
            "escalation": None if prices.escalation is None else asdict(prices.escalation),
        },
        "norm": str(study.norm),
        "budget": tariff.budget,
        "max_queries": tariff.max_queries,
        "max_flagged": tariff.max_flagged,
        "watch": options.watch,
        "alarm_price": options.alarm_price,
        "max_alarms": options.max_alarms,
        "time_limit": options.time_limit,
        "seed": options.seed,
        "model": options.model,
        "model_sha256": loaded.fingerprint(model).file,
        "names": None if options.names is None else str(options.names),
        "mean": options.mean,
        "std": options.std,
        "quantize": options.quantize,
        "running": dict(loaded.fingerprint(model).running or {}),
        "classes": loaded.model(model).classes,
        "images": str(options.images),
        "labels": None if options.labels is None else str(options.labels),
        "limit": options.limit,
        "resizing": None if resizing is None else asdict(resizing),
        "device": str(loaded.device),
        "batch_size": options.batch_size,
        "workers": options.workers,
        "metered": options.metered,
        "exact": options.exact,
        "versions": {
            name: getattr(environment, name) for name in ("tollbox", "torch", "numpy", "python")
        },
    }


def _surrogate_settings(
    options: AttackOptions, surrogate: Surrogate | None
) -> dict[str, Any] | None:
    """Which surrogate there is."""
    if surrogate is None:
        return None
    return {
        "source": list(options.surrogate),
        "mean": options.surrogate_mean,
        "std": options.surrogate_std,
        "digest": surrogate.digest,
    }
