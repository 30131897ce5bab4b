"""The tables of a study file, each turned into what it describes.

1. With `files`, whatever the file names must be there, and a list of images be readable; so that a
   study does not end at its second model after a night. Without, for a study that is only looked
   at, only a CSV of prices and a file of flagged classes are read.
2. Names of attacks, models and prices are unique each among themselves: results go by them.
"""

from __future__ import annotations

import difflib
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...attacks import described
from ...core.dtypes import DTYPE_NAMES, DTYPES
from ...errors import FileError, InputError
from ...files.class_names import EXPECTED as CLASS_NAMES
from ...files.classes import flagged_classes
from ...files.masks import EXPECTED as MASK
from ...files.pictures import SUFFIXES
from ...files.resizing import LARGEST_SIDE, Resizing, Side
from ...files.tables import kind_of
from ...models.pytorch import RUNNING
from ...models.registry import file_of, is_model_name, located, misspelt
from .file import Item, shown, spelled, table_name
from .key_lines import Key
from .overrides import overridden
from .selection import DIGITS, is_hash, read_list
from .specs import AttackSpec, GoalSpec, ImagesSpec, ModelSpec, SurrogateSpec

IMAGES = "a folder of images, an .npz file, or module:function"
MODEL = "a model file, a name such as hf:microsoft/resnet-50, or module:function"
SIZES = ("resize", "crop", "interpolation")
"""Keys of [images] that say how large pictures become."""
FLAGS = tuple(name for name in RUNNING if name != "dtype")
"""Keys of [[models]] that are true or false."""
IMAGES_KEYS = ("path", "labels", "limit", "list", "digest", "correct_only", *SIZES, "names")
MODELS_KEYS = ("name", "source", "mean", "std", "quantize", *RUNNING)
ATTACKS_KEYS = ("preset", "name", "surrogate")
"""Those that are no fields of the attack."""
SURROGATE_KEYS = ("source", "mean", "std")


def images_of(item: Item, folder: Path, files: bool) -> ImagesSpec:
    """[images]."""
    items = item.table(IMAGES_KEYS)
    if "path" not in items:
        raise item.error(f'[images] has no path: expected {IMAGES}, as path = "images".')
    source = items["path"].text(f"{IMAGES}, as a path in quotes")
    _kind(items["path"], folder / source)
    labels = _path(items.get("labels"), folder, "a CSV file with the columns file and label")
    listed = _path(items.get("list"), folder, "a text file with a content hash on each line")
    names = _path(items.get("names"), folder, CLASS_NAMES)
    digest = None
    if "digest" in items:
        expected = f"{DIGITS} hexadecimal digits, as the digest of the images is written"
        digest = items["digest"].text(expected).lower()
        if not is_hash(digest):
            raise items["digest"].wrong(expected)
    spec = ImagesSpec.of(
        source,
        folder=folder,
        labels=labels,
        limit=items["limit"].whole(1) if "limit" in items else None,
        listed=listed,
        digest=digest,
        correct_only="correct_only" in items and items["correct_only"].flag(),
        resizing=_resizing(items),
        names=names,
    )
    if files:
        _check_images(items, spec.path, labels, spec.function)
        if listed is not None:
            check_there(items["list"], listed, "a text file with a content hash on each line")
            read_list(listed)
        if names is not None:
            check_there(items["names"], names, CLASS_NAMES)
    return spec


def _resizing(items: dict[str, Item]) -> Resizing | None:
    """What the table says of sizes."""
    resize, crop = (_side(items[key]) if key in items else None for key in ("resize", "crop"))
    interpolation = items["interpolation"].text() if "interpolation" in items else None
    try:
        return Resizing.of(resize, crop, interpolation)
    except InputError as error:
        keys = {name: ("images", name) for name in SIZES}
        raise items["path"].source.about(error, keys) from None


def _side(item: Item) -> Side:
    """A length, or a list of height and width."""
    expected = f"a whole number from 1 to {LARGEST_SIDE}, or a list of height and width"
    if not isinstance(item.value, list):
        return item.whole(1, LARGEST_SIDE, expected)
    if len(item.value) != 2:
        raise item.wrong(expected)
    height, width = (one.whole(1, LARGEST_SIDE) for one in item.entries("[224, 224]"))
    return height, width


def _check_images(
    items: dict[str, Item], path: Path, labels: Path | None, function: str | None
) -> None:
    """The images are there, and labels come with a folder alone."""
    if function is not None:
        if labels is not None:
            raise items["labels"].error(
                f"images.labels is given, but images.path is {shown(function)}, a function: it "
                "gives the labels with the images; leave images.labels out."
            )
        return
    kind = _kind(items["path"], path)
    if kind in ("nothing", "other"):
        check_there(items["path"], path, IMAGES)
    if kind == "folder" and labels is not None:
        check_there(items["labels"], labels, "a CSV file with the columns file and label")
    if kind == "file" and path.suffix.lower() in SUFFIXES:
        raise items["path"].error(
            f"images.path is {shown(items['path'].value)}, a single picture: expected {IMAGES}; "
            "put it into a folder, with a CSV of labels beside it."
        )
    if kind == "file" and labels is not None:
        raise items["labels"].error(
            f"images.labels is given, but images.path is {shown(items['path'].value)}, which is "
            "not a folder: an .npz file has its labels inside; leave images.labels out."
        )


def check_there(item: Item, path: Path, expected: str) -> None:
    """Raise unless there is a file."""
    kind = _kind(item, path)
    if kind != "file":
        what = {"nothing": "does not exist", "folder": "is a folder"}.get(kind, "is not a file")
        raise item.error(
            f"{spelled(item.key)} is {shown(item.value)}: {path} {what}: expected {expected}; "
            "relative paths are from the folder of the study file."
        )


def _kind(item: Item, path: Path) -> str:
    """What is at a path that the file gives."""
    try:
        return kind_of(path, "it")
    except FileError as error:
        raise item.error(f"{spelled(item.key)} is {shown(item.value)}: {error}") from None


def _path(item: Item | None, folder: Path, expected: str) -> Path | None:
    return None if item is None else item.path(folder, expected)


GOAL_KEYS = ("target", "start", "flagged", "mask")


def goal_of(item: Item | None, folder: Path, files: bool) -> GoalSpec:
    """[goal]."""
    items = {} if item is None else item.table(GOAL_KEYS)
    target = items["target"].whole(0) if "target" in items else None
    expected = "an image file, or an .npz with one for each image"
    start = _path(items.get("start"), folder, expected)
    if start is not None and files:
        check_there(items["start"], start, expected)
    mask = _path(items.get("mask"), folder, MASK)
    if mask is not None and files and _kind(items["mask"], mask) != "folder":
        check_there(items["mask"], mask, MASK)
    try:
        flagged, file = _flagged(items.get("flagged"), folder)
        return GoalSpec(target, start, flagged, file, mask)
    except InputError as error:
        if error.where or item is None:  # it is placed already
            raise
        keys: dict[str, Key] = {key: ("goal", key) for key in GOAL_KEYS}
        raise item.source.about(error, keys) from None


def _flagged(item: Item | None, folder: Path) -> tuple[frozenset[int] | None, Path | None]:
    """The flagged classes, from a list or a file, and the file."""
    if item is None:
        return None, None
    if isinstance(item.value, list):
        return frozenset(one.whole(0) for one in item.entries("flagged = [151, 152]")), None
    file = item.path(folder, "a list of classes, or a file with one in each line")
    return flagged_classes(file), file


def models_of(item: Item, folder: Path, files: bool) -> tuple[ModelSpec, ...]:
    """[[models]]."""
    each = item.entries('[[models]] and below it source = "model.pt2"')
    models = [_model(one, folder, files) for one in each]
    check_unique("models", each, [model.name for model in models])
    return tuple(models)


def _model(item: Item, folder: Path, files: bool) -> ModelSpec:
    items = item.table(MODELS_KEYS)
    if "source" not in items:
        raise item.error(
            f'{table_name(item.key)} has no source: expected {MODEL}, as source = "model.pt2".'
        )
    return ModelSpec.of(
        _source(items["source"], folder, files),
        folder=folder,
        name=items["name"].name() if "name" in items else "",
        mean=_per_channel(items.get("mean"), False),
        std=_per_channel(items.get("std"), True),
        quantize=items["quantize"].whole(1, 16) if "quantize" in items else None,
        **_running(items),
    )


def _source(item: Item, folder: Path, files: bool) -> str:
    """A model file, which is there, or a name; a file in that is there, too."""
    source = item.text(f"{MODEL}, in quotes")
    path: Path | None = folder / source
    if is_model_name(source) and _kind(item, folder / source) == "nothing":
        path = file_of(located(source, folder))
    elif _kind(item, folder / source) == "nothing" and (error := misspelt(source)) is not None:
        raise item.source.about(error, {"model": item.key})
    if files and path is not None:
        check_there(item, path, MODEL)
    return source


def _running(items: dict[str, Item]) -> dict[str, Any]:
    """How a network is run, as far as the table has it."""
    values: dict[str, Any] = {name: items[name].flag() for name in FLAGS if name in items}
    if "dtype" in items:
        expected = f"{DTYPE_NAMES}, in quotes"
        values["dtype"] = items["dtype"].text(expected)
        if values["dtype"] not in DTYPES:
            raise items["dtype"].wrong(expected)
    return values


def _per_channel(item: Item | None, positive: bool) -> tuple[float, ...] | None:
    """A number, or a list of numbers."""
    if item is None:
        return None
    expected = "a finite number above 0" if positive else "a finite number"
    single = not isinstance(item.value, list)
    each = [item] if single else item.entries("[0.5, 0.5, 0.5], or a number")
    if single:
        expected += ", or a list of one per channel"
    for one in each:
        value = one.number(expected)
        if not math.isfinite(value) or (positive and value <= 0):
            raise one.wrong(expected)
    return tuple(one.number() for one in each)


def attacks_of(item: Item, folder: Path, files: bool) -> tuple[AttackSpec, ...]:
    """[[attacks]]."""
    each = item.entries('[[attacks]] and below it preset = "a-hsja"')
    attacks = [_attack(one, folder, files) for one in each]
    check_unique("attacks", each, [attack.name for attack in attacks])
    return tuple(attacks)


def _attack(item: Item, folder: Path, files: bool) -> AttackSpec:
    items = item.table()
    if "preset" not in items:
        nearest = difflib.get_close_matches("preset", items, n=1)
        hint = f" ({nearest[0]!r} is not known: is preset meant?)" if nearest else ""
        raise item.error(
            f"{table_name(item.key)} has no preset{hint}: expected the name of one, as "
            'preset = "a-hsja"; `tollbox presets` lists them.'
        )
    preset_name = items["preset"].text("the name of a preset, in quotes").lower()
    surrogate = items.get("surrogate")
    try:
        attack = described(preset_name, surrogate is not None).attack
    except InputError as error:
        keys = {"surrogate": (*item.key, "surrogate")}
        raise item.source.about(error, keys, items["preset"].key, item.key) from None
    name = items["name"].name() if "name" in items else preset_name
    beside = frozenset(ATTACKS_KEYS)
    changes = {k: v for k, v in item.value.items() if k not in beside}
    return AttackSpec(
        name,
        preset_name,
        overridden(attack, item, beside),
        changes,
        None if surrogate is None else _surrogate(surrogate, folder, files),
    )


def _surrogate(item: Item, folder: Path, files: bool) -> SurrogateSpec:
    """A source, a list of them, or a table with either and how images are normalised."""
    table = isinstance(item.value, dict)
    items = item.table(SURROGATE_KEYS) if table else {"source": item}
    if "source" not in items:
        raise item.error(
            f'{spelled(item.key)} has no source: expected {MODEL}, as surrogate.source = "net.pt2".'
        )
    source = items["source"]
    several = isinstance(source.value, list)
    each = source.entries('["net.pt2", "other.pt2"]') if several else [source]
    return SurrogateSpec.of(
        *(_source(one, folder, files) for one in each),
        folder=folder,
        mean=_per_channel(items.get("mean"), False),
        std=_per_channel(items.get("std"), True),
    )


def check_unique(what: str, each: Sequence[Item], names: Sequence[str]) -> None:
    """Raise if two of [[what]] have one name."""
    for place, name in enumerate(names):
        if Counter(names[: place + 1])[name] > 1:
            first = names.index(name) + 1
            raise each[place].error(
                f"number {first} and number {place + 1} of {what} are both called {name!r}: "
                f"expected names that differ; give one of them its own, as name = "
                f'"{name}-2" in [[{what}]], or leave one out.'
            )
