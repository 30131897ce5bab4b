"""`tollbox attack`: its options, and its help."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from ..core.validation import DTYPE_NAMES
from ..data.resizing import INTERPOLATIONS
from . import parsing as choices
from .later import work_of
from .options import (
    CHECK_HELP,
    FORCE_HELP,
    DtypeName,
    FileOrText,
    InterpolationName,
    NormName,
    PresetName,
)


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
    return work_of(attack)(options)
