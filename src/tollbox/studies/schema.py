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
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ..core.execution import LARGEST_BATCH, MOST_RETRIES, MOST_WORKERS
from ..core.metric import Metric
from ..core.validation import DTYPES
from ..data.classes import EXPECTED as CLASS_NAMES
from ..data.resizing import INTERPOLATIONS, Side
from . import kinds
from .kinds import FLAG, MEAN, STD, Kind, called, cap, choice, file_path, side, text, whole
from .toml import Item, table_name

REQUIRED = dataclasses.MISSING


class Key(NamedTuple):
    """A key of a table."""

    kind: Kind
    help: str
    name: str
    """Its name in the file, and in messages."""
    field: str
    """Its name in Python."""
    default: Any = REQUIRED


def key(kind: Kind, help: str, default: Any = None, name: str = "") -> Any:
    """Declare a key as a field of a dataclass."""
    return dataclasses.field(default=default, metadata={"key": (kind, help, name)})


def keys(table: type) -> tuple[Key, ...]:
    found = []
    for field in dataclasses.fields(table):
        if "key" in field.metadata:
            kind, help, name = field.metadata["key"]
            found.append(Key(kind, help, name or field.name, field.name, field.default))
    return tuple(found)


def find(table: type, name: str) -> Key:
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
    for each in known:
        if each.default is REQUIRED and each.name not in items:
            near = difflib.get_close_matches(each.name, items, n=1)
            hint = f" ({near[0]!r} is not known: is {each.name} meant?)" if near else ""
            raise item.error(
                f"{table_name(item.key)} has no {each.name}{hint}: expected {each.kind.expected}, "
                f"as {each.name} = {each.kind.example}."
            )
    return read_given(table, items), items


def read_given(table: type, items: Mapping[str, Item]) -> dict[str, Any]:
    """Return the values of those keys of a table that are among the items, by field."""
    found = {}
    for each in keys(table):
        if (item := items.get(each.name)) is not None:
            found[each.field] = each.kind.read(item)
            with item.reporting({each.name: item.key}):
                each.kind.check(each.name, found[each.field])
    return found


def placed(
    table: type, item: Item, **others: tuple[str | int, ...]
) -> AbstractContextManager[None]:
    """Return a context that reports an InputError about a field at its key in this table."""
    return item.reporting({each.name: (*item.key, each.name) for each in keys(table)} | others)


EACH = "One for all networks, or one for each. Default: its own configuration, if it has one."
OWN = "Default: the model's own configuration, if it has one."
MASK = "an image that is white where pixels may change, or a folder with one for each image"
DEVICE = "cpu, cuda, cuda:1 or another device that torch knows"


@dataclass(frozen=True)
class ImagesTable(Table):
    """[images]: the images to attack."""

    path: Path = key(
        kinds.IMAGES,
        "Folder with a subfolder for each class, or with a CSV of labels; .npz with images and "
        "labels; or module:function that returns a data set, or images and labels.",
        REQUIRED,
    )
    labels: Path | None = key(
        file_path("labels.csv", "a CSV file with the columns file and label"),
        "CSV of the labels, with the columns file and label.",
    )
    limit: int | None = key(whole("10", 1), "Use only the first N images.")
    correct_only: bool = key(
        FLAG, "Use for each model only images that it classifies correctly.", False
    )
    resize: Side | None = key(
        side("256"),
        f"Length in pixels of the shorter side, or height and width, after resizing. {OWN}",
    )
    crop: Side | None = key(side("224"), f"Side, or height and width, of the centre crop. {OWN}")
    interpolation: str | None = key(
        choice("bicubic", INTERPOLATIONS),
        f"Filter for resizing: {', '.join(INTERPOLATIONS)}. Default: bilinear.",
    )
    names: Path | None = key(
        file_path("classes.txt", CLASS_NAMES),
        "Text file with the name of a class on each line, and a prompt for clip: after a tab. "
        "Default: the names that the model's configuration has, or those of the folders.",
    )
    listed: Path | None = key(
        file_path("images.txt", "a text file with a content hash on each line"),
        "Use only the images of this list, in its order; `tollbox export` writes one.",
        name="list",
    )
    digest: str | None = key(kinds.DIGEST, "Refuse images without this digest.")


@dataclass(frozen=True)
class GoalTable(Table):
    """[goal]: which answers are flagged, and which are adversarial."""

    target: int | None = key(
        whole("5", 0), "Class to reach; needs a start. Default: any class not flagged."
    )
    start: Path | None = key(
        file_path("five.png", "an image file, or an .npz with one for each image"),
        "Image to start from, with a target of that class, or an .npz with one for each image. "
        "Default: the attack finds one.",
    )
    flagged: frozenset[int] | None = key(
        kinds.CLASSES,
        "Text file with a flagged class, or a range (151-268), on each line. Default: the image's "
        "own class.",
    )
    mask: Path | None = key(
        file_path("mask.png", MASK, "file", "folder"),
        "Image that is white where pixels may change, or a folder with one for each image, of the "
        "same name. Default: every pixel may change.",
    )


@dataclass(frozen=True)
class DetectorTable(Table):
    """[detector]: your own detector, which sees every query and whose alarms are counted."""

    source: str = key(
        text("guard:detector", "module:function, which is a detector or gives one"),
        "module:function: your own detector, or a function that returns one. It sees the queries "
        "for each image, and its alarms are counted; attacks do not learn of them.",
        REQUIRED,
    )
    alarm_price: float = key(kinds.number("50"), "Cost of an alarm, on top of the answer.", 0.0)
    max_alarms: float = key(
        cap("3"), "Maximum number of alarms for one image; the last one ends its run.", math.inf
    )


@dataclass(frozen=True, kw_only=True)
class ModelTable(Table):
    """[[models]]: a model under test."""

    source: str = key(
        text("model.pt2", kinds.MODEL),
        "A name (hf:, timm:, torchvision:, clip:), an ONNX file, module:function (a function "
        "or network that returns logits or labels for images (n, c, h, w) in [0,1]), or a "
        "torch.export (.pt2) or TorchScript file, which needs --trust-model.",
        REQUIRED,
    )
    name: str = key(called("first"), "Name in tables. Default: that of the file or function.", "")
    mean: tuple[float, ...] | None = key(MEAN, f"Subtracted from images in [0,1]. {OWN}")
    std: tuple[float, ...] | None = key(STD, f"Divides images after the mean is subtracted. {OWN}")
    quantize: int | None = key(whole("8", 1, 16), "Bits per channel of the model's images.")
    dtype: str | None = key(
        choice("bfloat16", DTYPES),
        f"Number type of the network: {', '.join(DTYPES)}. Default: that of its weights, float32 "
        "for half precision.",
    )
    channels_last: bool | None = key(FLAG, "Memory layout. Default: true with convolutions.")
    compile: bool = key(FLAG, "Run the network through torch.compile.", False)
    cuda_graphs: bool = key(FLAG, "Record the network as CUDA graphs.", False)
    tf32: bool = key(
        FLAG, "Allow TF32: faster, but it rounds away the steps that many attacks sample.", False
    )


@dataclass(frozen=True, kw_only=True)
class SurrogateTable(Table):
    """`surrogate` of an attack: networks whose gradients the attack may use."""

    sources: tuple[str, ...] = key(
        kinds.SOURCES, "A network, named like a model, or several.", REQUIRED, "source"
    )
    mean: Any = key(kinds.for_each(MEAN), f"Mean of the surrogate, as for a model. {EACH}")
    std: Any = key(kinds.for_each(STD), f"Std of the surrogate, as for a model. {EACH}")
    size: Any = key(kinds.for_each(side("224")), f"Size to which images are resized for it. {EACH}")
    labels: str | None = key(
        text("own", "own"),
        "Set to own if the classes are not those of the model: the network is then attacked on "
        "its own prediction. Default: own if it has another number of classes.",
    )


@dataclass(frozen=True, kw_only=True)
class AttackTable(Table):
    """[[attacks]]: a preset; any other key is a field of the attack or of one of its parts."""

    preset: str = key(
        text("a-hsja", "the name of a preset, which `tollbox presets` lists"),
        "Name of a preset; `tollbox presets` lists them.",
        REQUIRED,
    )
    name: str = key(called("a-hsja, wide"), "Name in tables. Default: that of the preset.", "")
    surrogate: Any = key(
        kinds.SURROGATE,
        "For presets that need one: any network that you have, such as timm:resnet18, named like a "
        "model; it is differentiated, and costs nothing. There may be several.",
    )


BUDGET = key(
    kinds.number("5000", "a number, what the queries for one image may cost"),
    "Maximum cost of the queries for one image.",
    math.inf,
)
MAX_QUERIES = key(cap("20000"), "Maximum number of queries for one image.", math.inf)
MAX_FLAGGED = key(
    cap("100"), "Maximum number of flagged answers for one image; the last ends its run.", math.inf
)
LIMITS = ("budget", "max_queries", "max_flagged")


@dataclass(frozen=True)
class PriceTable(Table):
    """[[prices]]: a price with its own limits, which default to those at the top of the file."""

    ratio: float | str = key(
        kinds.RATIO,
        "c*, the price of a flagged answer, where any other answer costs 1: a number, inf (only "
        "flagged answers cost), or a CSV with the columns class and price, or flagged and price "
        "for a price that grows with each flagged answer (a row `default` is for all others).",
        REQUIRED,
    )
    name: str = key(called("high"), "Name in tables. Default: the number, or the file's name.", "")
    budget: float = BUDGET
    max_queries: float = MAX_QUERIES
    max_flagged: float = MAX_FLAGGED


@dataclass(frozen=True)
class StudyTable(Table):
    """The top-level keys of a study file."""

    prices: Any = key(
        kinds.PRICES,
        "Prices of a flagged answer (c*), where any other answer costs 1: numbers, inf (only "
        "flagged answers cost; this needs max_queries), or CSV files with the columns class and "
        "price, or flagged and price.",
        REQUIRED,
    )
    name: str = key(called("my study"), "Name of the study. Default: that of the file.", "")
    budget: float = BUDGET
    max_queries: float = MAX_QUERIES
    max_flagged: float = MAX_FLAGGED
    seeds: tuple[int, ...] = key(
        kinds.SEEDS, "Seeds of the random numbers; everything runs with each.", (0,)
    )
    norm: Metric = key(
        choice("linf", [*Metric]), "Norm of distances: l2, or linf if attacks allow it.", Metric.L2
    )
    device: str | None = key(
        text("cuda", DEVICE), "Device of models. Default: cuda if there is one, else cpu."
    )
    batch_size: int | None = key(
        whole("128", 1, LARGEST_BATCH), "Rows of a batch. Default: 256 on a GPU, else 64."
    )
    workers: int = key(
        whole("2", 1, MOST_WORKERS), "Processes that share the work, at most one per core.", 1
    )
    check: bool = key(
        FLAG, "Test first, uncharged, whether images get the same labels in any batch.", False
    )
    exact: bool = key(
        FLAG,
        "Choose a batch shape and layout in which results can be repeated bit for bit; refuse to "
        "run if there is none.",
        False,
    )
    metered: bool = key(
        FLAG,
        "The model bills every row: send only rows that are certain to be charged, except one "
        "image each time that a process loads the model.",
        False,
    )
    retries: int = key(
        whole("3", 0, MOST_RETRIES),
        "Maximum number of times to repeat a failed call of the model, after 1, 2, 4, ... s; a "
        "service may bill failed calls.",
        0,
    )
    one_shape: bool = key(FLAG, "Use one batch shape instead of a few.", False)
    charge_clean: bool = key(
        dataclasses.replace(FLAG, example="false"), "Charge the query of the clean image.", True
    )
    keep_images: bool = key(FLAG, "Keep the final adversarial images.", False)


Tables = Mapping[str, type[Table]]
TABLES: Tables = {"images": ImagesTable, "goal": GoalTable, "detector": DetectorTable}
"""Tables of a study file by name."""
ARRAYS: Tables = {"models": ModelTable, "attacks": AttackTable}
"""Tables of which a study file may have several, by name."""
OTHERS: Tables = {"study": StudyTable, "surrogate": SurrogateTable, "prices": PriceTable}
ALL: Tables = {**TABLES, **ARRAYS, **OTHERS}
