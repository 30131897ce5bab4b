"""The specifications of a study: images, models, attacks, prices, goal and detector, not loaded.

Each class is a table of `schema.py` with values derived from it. `read` makes it from the file,
`of` from what a user writes in Python.

1. If the files of a study must exist, reading checks that they do, and that a list of images can be
   read, so that a study does not fail at its second model hours later. Otherwise only a CSV of
   prices and a file of flagged classes are read.
2. Names of models, attacks and prices are unique, since results are looked up by name.
3. A price is c* (a number that is 0 or more, or inf) or a CSV of prices (data/price_tables.py). An
   entry of `prices` is the price itself with the limits at the top of the file, or a table with
   `ratio` and its own limits. `inf` removes a limit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from ..attacks import Preset, described
from ..attacks.surrogates import has_surrogate
from ..core.detector import Detection, RecordedAlarms
from ..core.goal import Goal, check_start
from ..core.limits import Limits
from ..core.prices import Prices
from ..core.problem import Attack
from ..data.image_files import SUFFIXES
from ..data.price_tables import prices_from
from ..data.resizing import Resizing
from ..data.tables import kind_of
from ..data.user_code import is_function, named_by_file
from ..errors import FileError, InputError
from ..models.registry import file_of, is_model_name, located, misspelt, prefixed, short_name
from . import kinds, schema
from .images import read_list
from .overrides import overridden
from .schema import LIMITS, find, keys, placed, written
from .toml import Item, shown


@dataclass(frozen=True)
class ImagesSpec(schema.ImagesTable):
    """The images of a study: all or some of the images of a source, in a given order."""

    function: str | None = None
    """module:function that returns the images, if they come from one; `path` has the same text."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.resizing  # noqa: B018  raises if resize, crop and interpolation do not fit

    @property
    def resizing(self) -> Resizing | None:
        """The resizing that gives images the size that the models take, if there is any."""
        return Resizing.of(self.resize, self.crop, self.interpolation)

    @classmethod
    def of(cls, source: str, *, folder: Path = Path(), **settings: Any) -> ImagesSpec:
        """Make one from a path, relative to `folder`, or module:function, and the other fields."""
        path = folder / source
        if is_function(source) and kind_of(path, source, input="images") == "nothing":
            return cls(Path(source), function=source, **settings)
        return cls(path, **settings)

    @classmethod
    def read(cls, item: Item) -> ImagesSpec:
        table = item.table()
        source = table["path"].value if "path" in table else ""
        if "labels" in table and isinstance(source, str) and cls.of(source).function is not None:
            raise _no_labels(table, "a function: it returns the labels with the images")
        values, items = schema.read(cls, item)
        with placed(cls, item):
            spec = cls.of(values.pop("path"), folder=item.source.folder, **values)
        if not item.source.files:
            return spec
        is_file = items["path"].kind_at(spec.path) == "file"
        if is_file and spec.path.suffix.lower() in SUFFIXES:
            raise items["path"].error(
                f"images.path is {shown(source)}, a single image: expected "
                f"{kinds.IMAGES.expected}; put it into a folder, with a CSV of labels next to it."
            )
        if is_file and spec.labels is not None:
            raise _no_labels(items, "which is not a folder: an .npz file has its labels inside")
        if spec.listed is not None:
            read_list(spec.listed)
        return spec


def _no_labels(items: Mapping[str, Item], why: str) -> FileError:
    path = shown(items["path"].value)
    return items["labels"].error(
        f"images.labels is given, but images.path is {path}, {why}; leave images.labels out."
    )


@dataclass(frozen=True, kw_only=True)
class ModelSpec(schema.ModelTable):
    """A model of a study, with the settings to run it."""

    resolved: str = ""
    """The source, resolved from the current folder."""

    @classmethod
    def of(cls, source: str, *, folder: Path = Path(), **settings: Any) -> ModelSpec:
        """Make one from a file, relative to `folder`, or a model's name, and the other fields."""
        resolved, file = _resolved(source, folder, "model")
        name = settings.pop("name", "") or (short_name(source) if file is None else file.stem)
        return cls(source=source, name=name, resolved=resolved, **settings)

    @classmethod
    def read(cls, item: Item) -> ModelSpec:
        values, items = schema.read(cls, item)
        _check_source(items["source"])
        return cls.of(values.pop("source"), folder=item.source.folder, **values)


def _resolved(source: str, folder: Path, input: str) -> tuple[str, Path | None]:
    """Return a source, resolved from the current folder, and its file; None if it is a name."""
    path = folder / source
    if is_model_name(source) and kind_of(path, source, input=input) == "nothing":
        return located(source, folder), None
    return (prefixed(str(path)) if source.strip() else source), path


def _check_source(item: Item) -> str:
    """Return the source of a model; raise FileError unless its file, if it has one, exists."""
    source, folder = item.text(f"{kinds.MODEL}, in quotes"), item.source.folder
    path: Path | None = folder / source
    if item.kind_at(folder / source) == "nothing":
        if is_model_name(source):
            path = file_of(located(source, folder))
        elif (error := misspelt(source)) is not None:
            raise item.source.about(error, {"model": item.key})
    if item.source.files and path is not None and item.kind_at(path) != "file":
        raise item.missing(path, kinds.MODEL)
    return source


@dataclass(frozen=True, kw_only=True)
class SurrogateSpec(schema.SurrogateTable):
    """Your own networks, whose gradients an attack may use."""

    resolved: tuple[str, ...] = ()
    """The sources, resolved from the current folder."""

    @classmethod
    def of(cls, *sources: str, folder: Path = Path(), **settings: Any) -> SurrogateSpec:
        """Make one from files, relative to `folder`, or names of models, and the other fields."""
        resolved = (_resolved(one, folder, "surrogate")[0] for one in sources)
        return cls(sources=sources, resolved=tuple(resolved), **settings)

    @classmethod
    def read(cls, item: Item) -> SurrogateSpec:
        """Read a source, a list of sources, or a table with either."""
        is_table = isinstance(item.value, dict)
        values = schema.read(cls, item)[0] if is_table else {"sources": kinds.SOURCES.read(item)}
        sources = [_check_source(one) for one in values.pop("sources")]
        return cls.of(*sources, folder=item.source.folder, **values)


@dataclass(frozen=True, kw_only=True)
class AttackSpec(schema.AttackTable):
    """An attack of a study: a preset, possibly with changed fields."""

    surrogate: SurrogateSpec | None = None
    attack: Attack
    """The attack without its surrogate, which is not loaded."""
    overrides: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """The changed fields, as written in the file."""

    @classmethod
    def of(cls, name: str, surrogate: SurrogateSpec | None = None) -> AttackSpec:
        """Make one from an unchanged preset."""
        found = described(name.lower(), surrogate is not None)
        return cls(preset=found.name, name=found.name, surrogate=surrogate, attack=found.attack)

    @classmethod
    def read(cls, item: Item) -> AttackSpec:
        values, items = schema.read(schema.AttackTable, item, others=True)
        preset, surrogate = values["preset"].lower(), items.get("surrogate")
        with items["preset"].reporting({"surrogate": (*item.key, "surrogate")}):
            transfers = _has_part(item.value, "Transfer")
            if transfers and surrogate is None:
                given = "is missing, and the start Transfer needs one"
                raise InputError(given, expected="a network, or several", input="surrogate")
            attack = described(preset, None if transfers else surrogate is not None).attack
        own = {each.name for each in keys(schema.AttackTable)}
        return cls(
            preset=preset,
            name=values.get("name", preset),
            surrogate=None if surrogate is None else SurrogateSpec.read(surrogate),
            attack=overridden(attack, item, own),
            overrides={k: v for k, v in item.value.items() if k not in own},
        )

    def values(self) -> dict[str, Any]:
        if has_surrogate(self.attack):
            raise InputError(
                f"the attack {self.name!r} has a surrogate that is loaded already",
                expected="the source of one, as surrogate=SurrogateSpec.of('module:function')",
            )
        given = {"preset": self.preset, "name": self.name, **self.overrides}
        return given | ({} if self.surrogate is None else {"surrogate": self.surrogate.values()})

    @property
    def described(self) -> Preset:
        """The description of its preset."""
        return described(self.preset, None)


@dataclass(frozen=True)
class Tariff:
    """One price with its limits."""

    name: str
    prices: Prices
    limits: Limits
    file: Path | None = None
    """The CSV with the prices, if they come from one."""

    def __post_init__(self) -> None:
        self.limits.check(self.prices)

    @classmethod
    def of(
        cls, price: float | str, *, name: str = "", folder: Path = Path(), **limits: float
    ) -> Tariff:
        """Make one from c*, or a CSV of prices relative to `folder`, and the fields of `Limits`."""
        if isinstance(price, str):
            file = folder / price
            prices = prices_from(str(file) if price.strip() else price)
            return cls(name or file.stem, prices, Limits(**limits), file)
        if not price >= 0:
            raise InputError(f"is {price:g}", expected=kinds.PRICE, input="price")
        prices = Prices.flagged_only() if math.isinf(price) else Prices(source=price)
        return cls(name or f"{price:g}", prices, Limits(**limits))

    @classmethod
    def read(cls, item: Item, top: Mapping[str, Item]) -> Tariff:
        """Read an entry of `prices`; limits that it lacks come from the top of the file."""
        entry = {"ratio": item}
        if isinstance(item.value, dict):
            _, entry = schema.read(schema.PriceTable, item)
        items = {name: top[name] for name in LIMITS if name in top} | entry
        given = schema.read_given(schema.PriceTable, items)
        price = given.pop("ratio")
        name = given.pop("name", Path(price).stem if isinstance(price, str) else f"{price:g}")
        try:
            return cls.of(price, name=name, folder=item.source.folder, **given)
        except InputError as error:
            found = {"price": entry["ratio"].key, **{name: one.key for name, one in items.items()}}
            if error.input != "price":
                error = error.placed(f"the price {name!r}")
            raise item.source.about(error, found, item.key) from None

    def values(self) -> dict[str, Any]:
        ratio: float | Path = self.file or self.prices.source
        if self.file is None and self.prices == Prices.flagged_only():
            ratio = math.inf
        elif self.file is None and self.prices != Prices(source=self.prices.source):
            given = f"the price {self.name!r} is {self.prices!r}"
            raise InputError(given, expected="c*, or prices from a CSV file")
        return written(schema.PriceTable, {"ratio": ratio, "name": self.name, **vars(self.limits)})


@dataclass(frozen=True)
class GoalSpec(schema.GoalTable):
    """The class to reach, the images to start from, the flagged classes, and the mask."""

    flagged_file: Path | None = None
    """The file that lists the flagged classes, if they come from one."""

    def __post_init__(self) -> None:
        check_start(self.target, self.start)
        self.goal  # noqa: B018  raises if it cannot be reached

    @property
    def goal(self) -> Goal:
        return Goal(self.flagged, self.target)

    def for_label(self, label: int) -> Goal:
        return self.goal.for_label(label)

    @classmethod
    def read(cls, item: Item) -> GoalSpec:
        with placed(cls, item):
            values, _ = schema.read(cls, item)
            flagged, file = values.pop("flagged", (None, None))
            return cls(**values, flagged=flagged, flagged_file=file)

    def values(self) -> dict[str, Any]:
        given = super().values()
        return given | ({} if self.flagged_file is None else {"flagged": self.flagged_file})


@dataclass(frozen=True)
class DetectorSpec(schema.DetectorTable):
    """The detector of a study, not loaded."""

    def __post_init__(self) -> None:
        if not is_function(self.source):
            expected = find(DetectorSpec, "source").kind.expected
            unknown = InputError(f"is {self.source!r}", expected=expected, input="detector")
            raise named_by_file(self.source, "detector") or unknown
        self.terms  # noqa: B018  raises if the price or the limit is wrong

    @cached_property
    def terms(self) -> Detection:
        """The price of an alarm and the limit on alarms, without the detector."""
        return Detection(RecordedAlarms(), self.alarm_price, self.max_alarms)

    @classmethod
    def read(cls, item: Item) -> DetectorSpec:
        with placed(cls, item, detector=(*item.key, "source")):
            return cls(**schema.read(cls, item)[0])


def _has_part(table: Mapping[str, Any], name: str) -> bool:
    """Return whether a table, or a table in it, names a part."""
    inside = [value for value in table.values() if isinstance(value, dict)]
    return table.get("part") == name or any(_has_part(each, name) for each in inside)


def read_each(read_one: Callable[[Item], Any], item: Item, example: str) -> tuple[Any, ...]:
    """Read a list of tables; raise FileError if two of them have the same name."""
    specs: list[Any] = []
    for one in item.entries(example):
        name = (spec := read_one(one)).name
        for first, other in enumerate(specs, 1):
            if other.name == name:
                raise one.error(
                    f"number {first} and number {len(specs) + 1} of {item.key[0]} are both called "
                    f"{name!r}: expected names that differ; give one of them its own, as name = "
                    f'"{name}-2" in [[{item.key[0]}]], or leave one out.'
                )
        specs.append(spec)
    return tuple(specs)
