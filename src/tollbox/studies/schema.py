"""The schema of study files: every table and every key, defined once.

The reader, the writer, the template of `tollbox init`, the reference page and the options that
`attack`, `audit` and `init` share come from these classes. To add a key, add a field with `key` to
one of them.

1. This module imports neither torch nor numpy, since `--help` reads it.
2. A field that is not made by `key` is neither read nor written.
3. `help` is one sentence that makes sense in a study file and on the command line. `otherwise` says
   what applies by default where the default itself does not.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core.execution import LARGEST_BATCH, MOST_WORKERS
from ..core.metric import Metric
from ..core.validation import DTYPES
from ..data.classes import EXPECTED as CLASS_NAMES
from ..data.resizing import INTERPOLATIONS, Side
from ..errors import InputError
from .kinds import (
    Cap,
    Choice,
    Classes,
    Digest,
    Flag,
    ImagesPath,
    Kind,
    Name,
    Norm,
    Number,
    PathTo,
    PerChannel,
    PriceList,
    Quoted,
    Ratio,
    Seeds,
    Sides,
    Sources,
    Surrogates,
    Whole,
)
from .toml import Item, table_name


@dataclass(frozen=True)
class Key:
    """A key of a table."""

    kind: Kind
    help: str
    example: str
    """A value as TOML writes it."""
    otherwise: str = ""
    """The default in words."""
    name: str = ""
    """Its name in the file, and in messages."""
    field: str = ""
    """Its name in Python."""
    default: Any = ...
    """`...` if the key is required."""

    @property
    def required(self) -> bool:
        return self.default is ...

    @property
    def sentence(self) -> str:
        """The help, with the default in words."""
        return f"{self.help} Default: {self.otherwise}." if self.otherwise else self.help


def key(
    kind: Kind,
    help: str,
    example: str,
    default: Any = dataclasses.MISSING,
    *,
    otherwise: str = "",
    name: str = "",
) -> Any:
    """Declare a key as a field of a dataclass."""
    declared = Key(kind, help, example, otherwise, name)
    return dataclasses.field(default=default, metadata={"key": declared})


def keys(table: type) -> tuple[Key, ...]:
    """Return the keys of a table, in order."""
    found = []
    for field in dataclasses.fields(table):
        if "key" in field.metadata:
            declared: Key = field.metadata["key"]
            default = ... if field.default is dataclasses.MISSING else field.default
            name = declared.name or field.name
            found.append(
                dataclasses.replace(declared, name=name, field=field.name, default=default)
            )
    return tuple(found)


@dataclass(frozen=True)
class Table:
    """A table of a study file: its keys are the fields that `key` declares."""

    def __post_init__(self) -> None:
        for each in keys(type(self)):
            value = getattr(self, each.field)
            if value is not None:
                each.kind.check(each.name, value)

    def values(self) -> dict[str, Any]:
        """Return the values of its keys as a study file writes them."""
        return written(type(self), vars(self))


def written(table: type, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a table's keys, from its fields, without those that are the default."""
    return {
        each.name: each.kind.write(fields[each.field])
        for each in keys(table)
        if fields.get(each.field, each.default) not in (None, each.default)
    }


def read(table: type, item: Item, others: bool = False) -> tuple[dict[str, Any], dict[str, Item]]:
    """Return the values that a table of the file gives, by field, and all its items, by key.

    With `others`, keys that the table does not declare are among the items.
    """
    known = keys(table)
    items = item.table(None if others else [each.name for each in known])
    values = {}
    for each in known:
        if each.name in items:
            values[each.field] = each.kind.read(items[each.name])
        elif each.required:
            near = difflib.get_close_matches(each.name, items, n=1)
            hint = f" ({near[0]!r} is not known: is {each.name} meant?)" if near else ""
            raise item.error(
                f"{table_name(item.key)} has no {each.name}{hint}: expected {each.kind.expected}, "
                f"as {each.name} = {each.example}."
            )
    return values, items


@contextmanager
def placed(table: type, item: Item, **other_keys: tuple[str | int, ...]) -> Iterator[None]:
    """While entered, report an InputError about a field at its key in this table of the file."""
    try:
        yield
    except InputError as error:
        if error.where:
            raise
        found = {each.name: (*item.key, each.name) for each in keys(table)} | other_keys
        raise item.source.about(error, found, item.key) from None


IMAGES = "a folder of images, an .npz file, or module:function"
MODEL = "a model file, a name such as hf:microsoft/resnet-50, or module:function"


@dataclass(frozen=True)
class ImagesTable(Table):
    """[images]: the images to attack."""

    path: Path = key(
        ImagesPath(IMAGES),
        "A folder with a subfolder for each class, or with a CSV of labels; an .npz with images "
        "and labels; or module:function that returns a data set, or images and labels.",
        '"images"',
    )
    labels: Path | None = key(
        PathTo("a CSV file with the columns file and label"),
        "CSV with the columns file and label, for a folder without a subfolder for each class.",
        '"labels.csv"',
        None,
    )
    limit: int | None = key(Whole(least=1), "Use only the first N images.", "10", None)
    correct_only: bool = key(
        Flag(), "Use for each model only images that it classifies correctly.", "true", False
    )
    resize: Side | None = key(
        Sides(),
        "Length of the shorter side after resizing, in pixels; or the height and width to which "
        "each image is stretched.",
        "256",
        None,
        otherwise="the model's own configuration, if it has one",
    )
    crop: Side | None = key(
        Sides(),
        "Centre crop after resizing: a side in pixels, or height and width.",
        "224",
        None,
        otherwise="the model's own configuration, if it has one",
    )
    interpolation: str | None = key(
        Choice(options=INTERPOLATIONS),
        f"Filter for resizing: {', '.join(INTERPOLATIONS)}; antialiased.",
        '"bicubic"',
        None,
        otherwise="bilinear",
    )
    names: Path | None = key(
        PathTo(CLASS_NAMES),
        "Text file with the name of a class on each line, in the order of the labels, and with a "
        "prompt for clip: after a tab.",
        '"classes.txt"',
        None,
        otherwise="names from the model's own configuration, or from the folders",
    )
    listed: Path | None = key(
        PathTo("a text file with a content hash on each line"),
        "Use only the images of this list of content hashes, in its order; `tollbox export` "
        "writes one.",
        '"images.txt"',
        None,
        name="list",
    )
    digest: str | None = key(
        Digest(),
        "Refuse to start with other images than those of this digest.",
        '"0123456789abcdef0123456789abcdef"',
        None,
    )


@dataclass(frozen=True)
class GoalTable(Table):
    """[goal]: which answers are flagged, and which are adversarial."""

    target: int | None = key(
        Whole(least=0),
        "The class to reach, for all images; needs a start.",
        "5",
        None,
        otherwise="any class that is not flagged",
    )
    start: Path | None = key(
        PathTo("an image file, or an .npz with one for each image"),
        "Image to start from, of the images' size and, with a target, of that class; or an .npz "
        "with one for each image.",
        '"five.png"',
        None,
        otherwise="the attack finds one",
    )
    flagged: frozenset[int] | None = key(
        Classes(),
        "Text file with the flagged classes, a class or a range (151-268) on each line; any other "
        "class is adversarial.",
        "[3, 5]",
        None,
        otherwise="the image's own class",
    )
    mask: Path | None = key(
        PathTo(
            "an image that is white where pixels may change, or a folder with one for each image",
            ("file", "folder"),
        ),
        "Image of the images' size that is white where pixels may change; or a folder with one "
        "for each image, of the same name.",
        '"mask.png"',
        None,
        otherwise="every pixel may change",
    )


@dataclass(frozen=True)
class DetectorTable(Table):
    """[detector]: your own detector, which sees every query and is judged."""

    source: str = key(
        Quoted("module:function, which is a detector or gives one"),
        "module:function: your own detector, or a function that returns one. It sees the queries "
        "for each image, and its alarms are counted; attacks do not learn of them.",
        '"guard:detector"',
    )
    alarm_price: float = key(
        Number(), "Cost of an alarm, in addition to the answer.", "50", 0.0, otherwise="0"
    )
    max_alarms: float = key(
        Cap(),
        "Maximum number of alarms for one image; no query is sent after the last one.",
        "3",
        math.inf,
        otherwise="no limit",
    )


@dataclass(frozen=True, kw_only=True)
class ModelTable(Table):
    """[[models]]: a model under test."""

    source: str = key(
        Quoted(MODEL),
        "A torch.export file (.pt2), a TorchScript file, hf:NAME, timm:NAME, torchvision:NAME, "
        "clip:NAME, onnx:FILE, or module:function, a function or network that returns logits or "
        "labels for images (n, c, h, w) in [0,1].",
        '"model.pt2"',
    )
    name: str = key(
        Name(), "Name in tables.", '"first"', "", otherwise="the name of the file or function"
    )
    mean: tuple[float, ...] | None = key(
        PerChannel(),
        "Subtracted from images in [0,1]; a number, or one for each channel.",
        "[0.485, 0.456, 0.406]",
        None,
        otherwise="the model's own configuration, if it has one",
    )
    std: tuple[float, ...] | None = key(
        PerChannel(positive=True),
        "Divides images after the mean is subtracted; a number, or one for each channel.",
        "[0.229, 0.224, 0.225]",
        None,
        otherwise="the model's own configuration, if it has one",
    )
    quantize: int | None = key(
        Whole(least=1, most=16), "Bits per channel of the images that the model takes.", "8", None
    )
    dtype: str | None = key(
        Choice(options=DTYPES),
        f"Number type that the network computes in: {', '.join(DTYPES)}.",
        '"bfloat16"',
        None,
        otherwise="that of its weights, float32 for half precision",
    )
    channels_last: bool | None = key(
        Flag(),
        "Memory layout of the network.",
        "true",
        None,
        otherwise="true if the network has convolutions",
    )
    compile: bool = key(Flag(), "Run the network through torch.compile.", "true", False)
    cuda_graphs: bool = key(Flag(), "Record the network's launches as CUDA graphs.", "true", False)
    tf32: bool | None = key(
        Flag(),
        "Allow TF32 in the network, or forbid it.",
        "true",
        None,
        otherwise="torch's setting",
    )


@dataclass(frozen=True, kw_only=True)
class SurrogateTable(Table):
    """`surrogate` of an attack: networks whose gradients the attack may use."""

    sources: tuple[str, ...] = key(
        Sources(MODEL),
        "Your own network with the classes of the model, as a file or module:function; it is "
        "differentiated, and costs nothing. There may be several.",
        '"net.pt2"',
        name="source",
    )
    mean: tuple[float, ...] | None = key(
        PerChannel(), "As for a model, for the surrogate.", "[0.485, 0.456, 0.406]", None
    )
    std: tuple[float, ...] | None = key(
        PerChannel(positive=True),
        "As for a model, for the surrogate.",
        "[0.229, 0.224, 0.225]",
        None,
    )


@dataclass(frozen=True, kw_only=True)
class AttackTable(Table):
    """[[attacks]]: a preset; any other key is a field of the attack or of one of its parts."""

    preset: str = key(
        Quoted("the name of a preset, which `tollbox presets` lists"),
        "Name of a preset; `tollbox presets` lists them.",
        '"a-hsja"',
    )
    name: str = key(
        Name(), "Name in tables.", '"a-hsja, wide"', "", otherwise="the name of the preset"
    )
    surrogate: Any = key(
        Surrogates(),
        "For frugal+surrogate: your own network with the classes of the model, or several.",
        '"net.pt2"',
        None,
    )


BUDGET = "a number, what the queries for one image may cost"
LIMITS = {
    "budget": "Maximum cost of the queries for one image; never exceeded.",
    "max_queries": "Maximum number of queries for one image.",
    "max_flagged": "Maximum number of flagged answers for one image; no query is sent after the "
    "last one.",
}


@dataclass(frozen=True)
class PriceTable(Table):
    """[[prices]]: a price with its own limits."""

    ratio: float | str = key(
        Ratio(),
        "c*, the price of a flagged answer, where any other answer costs 1: a number, inf (only "
        "flagged answers cost), or a CSV with the columns class and price, or flagged and price "
        "for a price that grows with each flagged answer (a row `default` is for all others).",
        "100",
    )
    name: str = key(
        Name(), "Name in tables.", '"high"', "", otherwise="the number, or the name of the file"
    )
    budget: float = key(
        Number(BUDGET), LIMITS["budget"], "5000", math.inf, otherwise="that of all prices"
    )
    max_queries: float = key(
        Cap(), LIMITS["max_queries"], "20000", math.inf, otherwise="that of all prices"
    )
    max_flagged: float = key(
        Cap(), LIMITS["max_flagged"], "100", math.inf, otherwise="that of all prices"
    )


@dataclass(frozen=True)
class StudyTable(Table):
    """The top of a study file."""

    prices: Any = key(
        PriceList(),
        "Prices of a flagged answer (c*), where any other answer costs 1: numbers, inf (only "
        "flagged answers cost; this needs max_queries), or CSV files with the columns class and "
        "price, or flagged and price.",
        "[1, 100]",
    )
    name: str = key(Name(), "Name of the study.", '"my study"', "", otherwise="that of the file")
    budget: float = key(Number(BUDGET), LIMITS["budget"], "5000", math.inf, otherwise="no limit")
    max_queries: float = key(Cap(), LIMITS["max_queries"], "20000", math.inf, otherwise="no limit")
    max_flagged: float = key(Cap(), LIMITS["max_flagged"], "100", math.inf, otherwise="no limit")
    seeds: tuple[int, ...] = key(
        Seeds(), "Seeds of the random numbers; every cell runs with each.", "[0, 1, 2]", (0,)
    )
    norm: Metric = key(
        Norm(),
        "Norm that distances are measured in: l2, or linf for an attack made for it.",
        '"linf"',
        Metric.L2,
    )
    device: str | None = key(
        Kind("cpu, cuda, cuda:1 or another device that torch knows, in quotes"),
        "Device that models run on.",
        '"cuda"',
        None,
        otherwise="cuda if there is one, else cpu",
    )
    batch_size: int | None = key(
        Whole(least=1, most=LARGEST_BATCH),
        "Rows of a model batch.",
        "128",
        None,
        otherwise="256 on a GPU, else 64",
    )
    workers: int = key(
        Whole(least=1, most=MOST_WORKERS),
        "Number of processes that share the work, at most one for each core.",
        "2",
        1,
    )
    check: bool = key(
        Flag(),
        "Test first, uncharged, whether the same images get the same labels in any batch; the "
        "findings are printed and kept with the results.",
        "true",
        False,
    )
    exact: bool = key(
        Flag(),
        "Choose a batch shape and layout in which results can be repeated bit for bit; refuse to "
        "run if there is none.",
        "true",
        False,
    )
    metered: bool = key(
        Flag(),
        "The model bills every row: send only rows that are certain to be charged, except one "
        "image when the model is loaded.",
        "true",
        False,
    )
    one_shape: bool = key(Flag(), "Use one batch shape instead of a few.", "true", False)
    charge_clean: bool = key(Flag(), "Charge the query of the clean image.", "false", True)
    keep_images: bool = key(
        Flag(), "Keep the final adversarial images with the results.", "true", False
    )


TABLES: Mapping[str, type[Table]] = {
    "images": ImagesTable,
    "goal": GoalTable,
    "detector": DetectorTable,
}
"""Tables of a study file by name."""
ARRAYS: Mapping[str, type[Table]] = {"models": ModelTable, "attacks": AttackTable}
"""Tables of which a study file may have several, by name."""


def find(table: type, name: str) -> Key:
    """Return the key of a table by its name."""
    return next(each for each in keys(table) if each.name == name)
