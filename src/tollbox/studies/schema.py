"""What a study is made of, each as its file has it, checked; nothing is loaded yet.

`of` makes each from what a user writes, with what is left out filled in.

[watch]: a detector of the user's own, by module:function, and what its alarms do.

The tables of a study file, each turned into what it describes.

1. With `files`, whatever the file names must be there, and a list of images be readable; so that a
   study does not end at its second model after a night. Without, for a study that is only looked
   at, only a CSV of prices and a file of flagged classes are read.
2. Names of attacks, models and prices are unique each among themselves: results go by them.

The prices of a study, each with its limits.

1. A price is c* (a number that is 0 or more, or inf) or a CSV of prices (data/price_tables.py).
2. An entry of the list is the price itself, under the limits at the top of the file; or a table
   with `ratio`, and with limits of its own where it gives them. `inf` lifts a limit.
3. Every price has a limit that ends a run, and a budget that admits a query.
"""

from __future__ import annotations

import difflib
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..attacks import Preset, described
from ..core.detector import check_alarms
from ..core.goal import Goal
from ..core.limits import Limits
from ..core.prices import Prices
from ..core.problem import Attack
from ..core.validation import DTYPE_NAMES, DTYPES
from ..data.classes import EXPECTED as CLASS_NAMES
from ..data.classes import flagged_classes
from ..data.image_files import SUFFIXES
from ..data.masks import EXPECTED as MASK
from ..data.price_tables import COLUMNS, prices_from
from ..data.resizing import LARGEST_SIDE, Resizing, Side
from ..data.starts import check_goal
from ..data.tables import kind_of
from ..data.user_code import is_function, named_by_file
from ..errors import FileError, InputError
from ..models.pytorch import RUNNING
from ..models.registry import file_of, is_model_name, located, misspelt, short_name
from .overrides import overridden
from .selection import DIGITS, is_hash, read_list
from .toml import Item, Key, shown, spelled, table_name


@dataclass(frozen=True)
class ImagesSpec:
    """Which images: all of a folder, an `.npz` or a function, or some of them, in an order."""

    path: Path
    """For a function, its name."""
    labels: Path | None = None
    limit: int | None = None
    """The first so many, of the list if there is one."""
    listed: Path | None = None
    """A file of content hashes: just these images, in this order."""
    digest: str | None = None
    """What `images_digest` gives for the images that are meant."""
    function: str | None = None
    """module:function, which gives them."""
    correct_only: bool = False
    """For each model those that it classifies correctly; the limit is then the first so many of
    these."""
    resizing: Resizing | None = None
    """How pictures get the size that the models take."""
    names: Path | None = None
    """A file with the names of the classes, and prompts for CLIP."""

    @classmethod
    def of(cls, source: str, *, folder: Path = Path(), **settings: Any) -> ImagesSpec:
        """A folder or file, relative to `folder`, or module:function; `settings` are the other
        fields."""
        path = folder / source
        if is_function(source) and kind_of(path, source, input="images") == "nothing":
            return cls(Path(source), function=source, **settings)
        return cls(path, **settings)


@dataclass(frozen=True)
class ModelSpec:
    """One model."""

    name: str
    source: str
    """As the file has it."""
    resolved: str
    """A path that is good from the current folder, or a name; likewise a path in that."""
    mean: tuple[float, ...] | None = None
    """One number, or one per channel."""
    std: tuple[float, ...] | None = None
    quantize: int | None = None
    dtype: str | None = None
    """What the network computes in; None: as its weights are."""
    channels_last: bool | None = None
    """None: whichever is faster."""
    compile: bool = False
    cuda_graphs: bool = False
    tf32: bool | None = None
    """None: torch's own setting."""

    @classmethod
    def of(
        cls, source: str, *, folder: Path = Path(), name: str = "", **settings: Any
    ) -> ModelSpec:
        """A file, relative to `folder`, or a name; called like it unless given a name of its own.

        `settings` are the other fields.
        """
        file = _file(source, folder, "model")
        usual = short_name(source) if file is None else file.stem
        return cls(name or usual, source, _resolved(source, file, folder), **settings)


def _file(source: str, folder: Path, input: str) -> Path | None:
    """The file that a source means; None if it is a name. `input` is what gives it."""
    path = folder / source
    named = is_model_name(source) and kind_of(path, source, input=input) == "nothing"
    return None if named else path


def _resolved(source: str, file: Path | None, folder: Path) -> str:
    """A source that is good from the current folder."""
    if file is None:
        return located(source, folder)
    return str(file) if source.strip() else source


@dataclass(frozen=True)
class SurrogateSpec:
    """Networks of the user's own, to whose gradients an attack may turn."""

    sources: tuple[str, ...]
    """As the file has them."""
    resolved: tuple[str, ...]
    """Each as that of a model."""
    mean: tuple[float, ...] | None = None
    """One number, or one per channel; for all of them."""
    std: tuple[float, ...] | None = None

    @classmethod
    def of(
        cls,
        *sources: str,
        folder: Path = Path(),
        mean: tuple[float, ...] | None = None,
        std: tuple[float, ...] | None = None,
    ) -> SurrogateSpec:
        """Files, relative to `folder`, or names."""
        resolved = (_resolved(one, _file(one, folder, "surrogate"), folder) for one in sources)
        return cls(sources, tuple(resolved), mean, std)


@dataclass(frozen=True)
class AttackSpec:
    """One attack: a preset, with some of its fields changed."""

    name: str
    preset: str
    attack: Attack
    """Without its surrogate, which is not loaded yet."""
    overrides: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """The changed fields, as the file has them."""
    surrogate: SurrogateSpec | None = None

    @classmethod
    def of(cls, name: str, surrogate: SurrogateSpec | None = None) -> AttackSpec:
        """A preset as it is."""
        preset = described(name.lower(), surrogate is not None)
        return cls(preset.name, preset.name, preset.attack, surrogate=surrogate)

    @property
    def described(self) -> Preset:
        """What is known of its preset."""
        return described(self.preset, self.surrogate is not None)


PRICE = f"a number that is 0 or more, inf, or the path of a CSV {COLUMNS}"


@dataclass(frozen=True)
class Tariff:
    """One price, with what an image may cost and take under it; infinite where not limited."""

    name: str
    prices: Prices
    budget: float
    max_queries: float
    file: Path | None = None
    """The CSV with the prices, if they are from one."""
    max_flagged: float = math.inf

    def __post_init__(self) -> None:
        self.limits.check(self.prices)

    @property
    def limits(self) -> Limits:
        """What a run under it may cost and take."""
        return Limits(self.budget, self.max_queries, self.max_flagged)

    @classmethod
    def of(
        cls,
        price: float | str,
        *,
        budget: float = math.inf,
        max_queries: float = math.inf,
        max_flagged: float = math.inf,
        name: str = "",
        folder: Path = Path(),
    ) -> Tariff:
        """c*, or a CSV of prices relative to `folder`; called like it unless given a name."""
        if isinstance(price, str):
            file = folder / price
            text = str(file) if price.strip() else price
            prices = prices_from(text)
            return cls(name or file.stem, prices, budget, max_queries, file, max_flagged)
        if not price >= 0:
            raise InputError(f"is {price:g}", expected=PRICE, input="price")
        prices = Prices.flagged_only() if math.isinf(price) else Prices(source=price)
        return cls(name or f"{price:g}", prices, budget, max_queries, None, max_flagged)


@dataclass(frozen=True)
class GoalSpec:
    """The class to reach (None: any that is not flagged), the image, or images, to begin from, the
    classes that are flagged (None: the source class), and the pixels that may change."""

    target: int | None = None
    start: Path | None = None
    flagged: frozenset[int] | None = None
    flagged_file: Path | None = None
    """Where those are from, if they are from a file."""
    mask: Path | None = None
    """A picture, or a folder with one for each image: white may change."""

    def __post_init__(self) -> None:
        check_goal(self.target, self.start)
        self.goal  # noqa: B018  refuses what is wrong with it

    @property
    def goal(self) -> Goal:
        """What is flagged, and what adversarial."""
        return Goal(self.flagged, self.target)

    def for_label(self, label: int) -> Goal:
        """The goal for an image of that class."""
        return self.goal.for_label(label)


SOURCE = "module:function, which is a detector or gives one"
KEYS = ("source", "alarm_price", "max_alarms")
ALARM_CAP = "a whole number of 1 or more, or inf for no cap"


@dataclass(frozen=True)
class WatchSpec:
    """A detector, not loaded yet."""

    source: str
    """module:function."""
    alarm_price: float = 0.0
    max_alarms: float = math.inf

    def __post_init__(self) -> None:
        if not is_function(self.source):
            unknown = InputError(f"is {self.source!r}", expected=SOURCE, input="watch")
            raise named_by_file(self.source, "watch") or unknown
        check_alarms(self.alarm_price, self.max_alarms)


def watch_of(item: Item | None) -> WatchSpec | None:
    """[watch]."""
    if item is None:
        return None
    items = item.table(KEYS)
    if "source" not in items:
        raise item.error(f'[watch] has no source: expected {SOURCE}, as source = "guard:detector".')
    most = items.get("max_alarms")
    capped = most is not None and most.value != math.inf
    try:
        return WatchSpec(
            items["source"].text(f"{SOURCE}, in quotes"),
            items["alarm_price"].number() if "alarm_price" in items else 0.0,
            most.whole(1, expected=ALARM_CAP) if most is not None and capped else math.inf,
        )
    except InputError as error:
        if error.where:
            raise
        keys = {"watch": items["source"].key, "alarm_price": ("watch", "alarm_price")}
        raise item.source.about(error, keys, item.key) from None


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


BUDGET = "a number, what the queries for one image may cost"
LIMITS: tuple[str, ...] = ("budget", "max_queries", "max_flagged")
PRICE_KEYS = ("ratio", "name", *LIMITS)
"""Keys of a price that is a table."""
CAP = "a whole number of 1 or more, or inf for no cap"


def tariffs_of(top: Mapping[str, Item], folder: Path) -> tuple[Tariff, ...]:
    """`prices`, with the limits at the top of the file as defaults."""
    for name in LIMITS:
        _limit(name, top)
    each = top["prices"].entries("prices = [1, 100]")
    tariffs = [_tariff(item, top, folder) for item in each]
    check_unique("prices", each, [tariff.name for tariff in tariffs])
    return tuple(tariffs)


def _tariff(item: Item, top: Mapping[str, Item], folder: Path) -> Tariff:
    entry = {"ratio": item}
    if isinstance(item.value, dict):
        entry = item.table(PRICE_KEYS)
        if "ratio" not in entry:
            raise item.error(
                f"number {int(item.key[-1]) + 1} of prices has no ratio: expected {PRICE}, as "
                "ratio = 100."
            )
    price = _price(entry["ratio"], folder)
    name = entry["name"].name() if "name" in entry else ""
    shown_name = name or (Path(price).stem if isinstance(price, str) else f"{price:g}")
    limits = {**top, **entry}
    values = {key: _limit(key, limits) for key in LIMITS}
    try:
        return Tariff.of(price, name=name, folder=folder, **values)
    except InputError as error:
        keys = {key: limits[key].key for key in LIMITS if key in limits}
        keys["price"] = entry["ratio"].key
        if error.input != "price":
            error = error.placed(f"the price {shown_name!r}")
        raise item.source.about(error, keys, item.key) from None


def _limit(name: str, items: Mapping[str, Item]) -> float:
    """The budget or a cap; infinite if it is not given."""
    item = items.get(name)
    if item is None or item.value == math.inf:
        return math.inf
    return item.number(BUDGET) if name == "budget" else item.whole(1, expected=CAP)


def _price(item: Item, folder: Path) -> float | str:
    """c*, or the path of a CSV, which is there."""
    if not isinstance(item.value, str):
        return item.number(PRICE)
    text = item.text(PRICE)
    try:
        float(text)
    except ValueError:
        check_there(item, folder / text, PRICE)
        return text
    raise item.wrong(f"{PRICE}; write a number without quotes")
