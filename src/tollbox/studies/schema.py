"""The schema of study files: every table and every key, defined once.

The reader, the writer, the template of `tollbox init`, the reference page and the options that
`attack`, `audit` and `init` share come from these classes. To add a key, add a field with `key` to
one of them.

1. This module imports neither torch nor numpy, since `--help` reads it.
2. A field that is not made by `key` is neither read nor written.
3. The help of a key makes sense in a study file and on the command line. It ends with its default
   in words where the value of the default does not say enough.
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
from . import kinds
from .kinds import CAP, FLAG, MEAN, NAME, SIDE, STD, Kind, choice, file_path, number, text, whole
from .toml import Item, table_name


@dataclass(frozen=True)
class Key:
    """A key of a table."""

    kind: Kind
    example: str
    """A value as TOML writes it."""
    help: str
    name: str = ""
    """Its name in the file, and in messages."""
    field: str = ""
    """Its name in Python."""
    default: Any = ...
    """`...` if the key is required."""

    @property
    def required(self) -> bool:
        return self.default is ...


def key(
    kind: Kind, example: str, help: str, default: Any = dataclasses.MISSING, name: str = ""
) -> Any:
    """Declare a key as a field of a dataclass."""
    return dataclasses.field(default=default, metadata={"key": Key(kind, example, help, name)})


def keys(table: type) -> tuple[Key, ...]:
    """Return the keys of a table, in order."""
    found = []
    for field in dataclasses.fields(table):
        if (declared := field.metadata.get("key")) is not None:
            default = ... if field.default is dataclasses.MISSING else field.default
            names = {"name": declared.name or field.name, "field": field.name}
            found.append(dataclasses.replace(declared, **names, default=default))
    return tuple(found)


def find(table: type, name: str) -> Key:
    """Return the key of a table by its name."""
    return next(each for each in keys(table) if each.name == name)


@dataclass(frozen=True)
class Table:
    """A table of a study file: its keys are the fields that `key` declares."""

    def __post_init__(self) -> None:
        for each in keys(type(self)):
            if (value := getattr(self, each.field)) is not None:
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


OWN = "Default: the model's own configuration, if it has one."
IMAGES = "a folder of images, an .npz file, or module:function"
MODEL = "a model file, a name such as hf:microsoft/resnet-50, or module:function"
LABELS = "a CSV file with the columns file and label"
HASHES = "a text file with a content hash on each line"
START = "an image file, or an .npz with one for each image"
MASK = "an image that is white where pixels may change, or a folder with one for each image"
DETECTOR = "module:function, which is a detector or gives one"
DEVICE = "cpu, cuda, cuda:1 or another device that torch knows"
PRESET = "the name of a preset, which `tollbox presets` lists"


@dataclass(frozen=True)
class ImagesTable(Table):
    """[images]: the images to attack."""

    path: Path = key(
        kinds.images_path(IMAGES),
        '"images"',
        "Folder with a subfolder for each class, or with a CSV of labels; .npz with images and "
        "labels; or module:function that returns a data set, or images and labels.",
    )
    labels: Path | None = key(
        file_path(LABELS),
        '"labels.csv"',
        "CSV of the labels, with the columns file and label.",
        None,
    )
    limit: int | None = key(whole(1), "10", "Use only the first N images.", None)
    correct_only: bool = key(
        FLAG, "true", "Use for each model only images that it classifies correctly.", False
    )
    resize: Side | None = key(
        SIDE,
        "256",
        f"Length in pixels of the shorter side, or height and width, after resizing. {OWN}",
        None,
    )
    crop: Side | None = key(
        SIDE, "224", f"Side, or height and width, of the centre crop. {OWN}", None
    )
    interpolation: str | None = key(
        choice(INTERPOLATIONS),
        '"bicubic"',
        f"Filter for resizing: {', '.join(INTERPOLATIONS)}. Default: bilinear.",
        None,
    )
    names: Path | None = key(
        file_path(CLASS_NAMES),
        '"classes.txt"',
        "Text file with the name of a class on each line, and a prompt for clip: after a tab. "
        "Default: the names that the model's configuration has, or those of the folders.",
        None,
    )
    listed: Path | None = key(
        file_path(HASHES),
        '"images.txt"',
        "Use only the images of this list, in its order; `tollbox export` writes one.",
        None,
        "list",
    )
    digest: str | None = key(
        kinds.DIGEST, f'"{"0123456789abcdef" * 2}"', "Refuse images without this digest.", None
    )


@dataclass(frozen=True)
class GoalTable(Table):
    """[goal]: which answers are flagged, and which are adversarial."""

    target: int | None = key(
        whole(0), "5", "Class to reach; needs a start. Default: any class not flagged.", None
    )
    start: Path | None = key(
        file_path(START),
        '"five.png"',
        "Image to start from, with a target of that class, or an .npz with one for each image. "
        "Default: the attack finds one.",
        None,
    )
    flagged: frozenset[int] | None = key(
        kinds.CLASSES,
        "[3, 5]",
        "Text file with a flagged class, or a range (151-268), on each line. Default: the image's "
        "own class.",
        None,
    )
    mask: Path | None = key(
        file_path(MASK, "file", "folder"),
        '"mask.png"',
        "Image that is white where pixels may change, or a folder with one for each image, of the "
        "same name. Default: every pixel may change.",
        None,
    )


@dataclass(frozen=True)
class DetectorTable(Table):
    """[detector]: your own detector, which sees every query and is judged."""

    source: str = key(
        text(DETECTOR),
        '"guard:detector"',
        "module:function: your own detector, or a function that returns one. It sees the queries "
        "for each image, and its alarms are counted; attacks do not learn of them.",
    )
    alarm_price: float = key(number(), "50", "Cost of an alarm, on top of the answer.", 0.0)
    max_alarms: float = key(
        CAP, "3", "Maximum number of alarms for one image; the last one ends its run.", math.inf
    )


@dataclass(frozen=True, kw_only=True)
class ModelTable(Table):
    """[[models]]: a model under test."""

    source: str = key(
        text(MODEL),
        '"model.pt2"',
        "A torch.export file (.pt2), a TorchScript file, hf:NAME, timm:NAME, torchvision:NAME, "
        "clip:NAME, onnx:FILE, or module:function, a function or network that returns logits or "
        "labels for images (n, c, h, w) in [0,1].",
    )
    name: str = key(
        NAME, '"first"', "Name in tables. Default: the name of the file or function.", ""
    )
    mean: tuple[float, ...] | None = key(
        MEAN, "[0.485, 0.456, 0.406]", f"Subtracted from images in [0,1]. {OWN}", None
    )
    std: tuple[float, ...] | None = key(
        STD, "[0.229, 0.224, 0.225]", f"Divides images after the mean is subtracted. {OWN}", None
    )
    quantize: int | None = key(
        whole(1, 16), "8", "Bits per channel of the images that the model takes.", None
    )
    dtype: str | None = key(
        choice(DTYPES),
        '"bfloat16"',
        f"Number type of the network: {', '.join(DTYPES)}. Default: that of its weights, float32 "
        "for half precision.",
        None,
    )
    channels_last: bool | None = key(
        FLAG, "true", "Memory layout. Default: true if the network has convolutions.", None
    )
    compile: bool = key(FLAG, "true", "Run the network through torch.compile.", False)
    cuda_graphs: bool = key(FLAG, "true", "Record the network as CUDA graphs.", False)
    tf32: bool | None = key(FLAG, "true", "Allow or forbid TF32. Default: torch's setting.", None)


@dataclass(frozen=True, kw_only=True)
class SurrogateTable(Table):
    """`surrogate` of an attack: networks whose gradients the attack may use."""

    sources: tuple[str, ...] = key(
        kinds.sources(MODEL), '"net.pt2"', "A file or module:function, or several.", name="source"
    )
    mean: tuple[float, ...] | None = key(
        MEAN, "[0.485, 0.456, 0.406]", "Mean of the surrogate, as for a model.", None
    )
    std: tuple[float, ...] | None = key(
        STD, "[0.229, 0.224, 0.225]", "Std of the surrogate, as for a model.", None
    )


@dataclass(frozen=True, kw_only=True)
class AttackTable(Table):
    """[[attacks]]: a preset; any other key is a field of the attack or of one of its parts."""

    preset: str = key(text(PRESET), '"a-hsja"', "Name of a preset; `tollbox presets` lists them.")
    name: str = key(NAME, '"a-hsja, wide"', "Name in tables. Default: that of the preset.", "")
    surrogate: Any = key(
        kinds.SURROGATE,
        '"net.pt2"',
        "For frugal+surrogate: your own network with the classes of the model, as a file or "
        "module:function; it is differentiated, and costs nothing. There may be several.",
        None,
    )


BUDGET = key(
    number("a number, what the queries for one image may cost"),
    "5000",
    "Maximum cost of the queries for one image.",
    math.inf,
)
MAX_QUERIES = key(CAP, "20000", "Maximum number of queries for one image.", math.inf)
MAX_FLAGGED = key(
    CAP, "100", "Maximum number of flagged answers for one image; the last ends its run.", math.inf
)
LIMITS = ("budget", "max_queries", "max_flagged")


@dataclass(frozen=True)
class PriceTable(Table):
    """[[prices]]: a price with its own limits, which are those of the top by default."""

    ratio: float | str = key(
        kinds.RATIO,
        "100",
        "c*, the price of a flagged answer, where any other answer costs 1: a number, inf (only "
        "flagged answers cost), or a CSV with the columns class and price, or flagged and price "
        "for a price that grows with each flagged answer (a row `default` is for all others).",
    )
    name: str = key(NAME, '"high"', "Name in tables. Default: the number, or the file's name.", "")
    budget: float = BUDGET
    max_queries: float = MAX_QUERIES
    max_flagged: float = MAX_FLAGGED


@dataclass(frozen=True)
class StudyTable(Table):
    """The top of a study file."""

    prices: Any = key(
        kinds.PRICES,
        "[1, 100]",
        "Prices of a flagged answer (c*), where any other answer costs 1: numbers, inf (only "
        "flagged answers cost; this needs max_queries), or CSV files with the columns class and "
        "price, or flagged and price.",
    )
    name: str = key(NAME, '"my study"', "Name of the study. Default: that of the file.", "")
    budget: float = BUDGET
    max_queries: float = MAX_QUERIES
    max_flagged: float = MAX_FLAGGED
    seeds: tuple[int, ...] = key(
        kinds.SEEDS, "[0, 1, 2]", "Seeds of the random numbers; everything runs with each.", (0,)
    )
    norm: Metric = key(
        kinds.NORM, '"linf"', "Norm of distances: l2, or linf for attacks made for it.", Metric.L2
    )
    device: str | None = key(
        text(DEVICE), '"cuda"', "Device of models. Default: cuda if there is one, else cpu.", None
    )
    batch_size: int | None = key(
        whole(1, LARGEST_BATCH), "128", "Rows of a batch. Default: 256 on a GPU, else 64.", None
    )
    workers: int = key(
        whole(1, MOST_WORKERS), "2", "Processes that share the work, at most one per core.", 1
    )
    check: bool = key(
        FLAG,
        "true",
        "Test first, uncharged, whether images get the same labels in any batch.",
        False,
    )
    exact: bool = key(
        FLAG,
        "true",
        "Choose a batch shape and layout in which results can be repeated bit for bit; refuse to "
        "run if there is none.",
        False,
    )
    metered: bool = key(
        FLAG,
        "true",
        "The model bills every row: send only rows that are certain to be charged, except one "
        "image when the model is loaded.",
        False,
    )
    one_shape: bool = key(FLAG, "true", "Use one batch shape instead of a few.", False)
    charge_clean: bool = key(FLAG, "false", "Charge the query of the clean image.", True)
    keep_images: bool = key(FLAG, "true", "Keep the final adversarial images.", False)


TABLES: Mapping[str, type[Table]] = {
    "images": ImagesTable,
    "goal": GoalTable,
    "detector": DetectorTable,
}
"""Tables of a study file by name."""
ARRAYS: Mapping[str, type[Table]] = {"models": ModelTable, "attacks": AttackTable}
"""Tables of which a study file may have several, by name."""
ALL: Mapping[str, type[Table]] = {
    "study": StudyTable,
    **TABLES,
    **ARRAYS,
    "surrogate": SurrogateTable,
    "prices": PriceTable,
}
