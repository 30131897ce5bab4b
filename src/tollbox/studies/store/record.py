"""What a store says about the detector of its study, and how it says that something has changed.

What a store says about its study: all that is needed to read it and to resume it.

1. It is one JSON value for each key, in the table `about`, and read back as it was written.
2. A study is resumed by the attacks and the random numbers that it was begun with: the record has
   the parts of each attack, field by field, and the version of the noise. (A store of version 0.1.0
   has neither: its attacks are not compared, and its noise is version 1.)
3. A folder has all shards of a study, or a part of them: part k of n has those whose number is k
   modulo n, so that the files of all parts together are the study's.
4. A model is the same if its file, its weights, its answers to a few images and how it is run are,
   as far as both sides know them.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from ...core.detector import BenignStats
from ...core.exactness import Exactness, Seen
from ...core.metric import Metric
from ...data.resizing import Resizing


@dataclass(frozen=True)
class WatchRecord:
    """The detector of a study, what its alarms do, and what it says of harmless queries."""

    source: str
    parts: Mapping[str, str]
    """What it is, field by field."""
    alarm_price: float
    max_alarms: int | None
    """None: any number."""
    benign: Mapping[str, BenignStats]
    """By model, as queries are sent to it."""

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> WatchRecord:
        """What was written."""
        panels = {name: BenignStats.from_json(panel) for name, panel in values["benign"].items()}
        return cls(**{**values, "benign": panels})

    @property
    def sentences(self) -> list[str]:
        """What its alarms do, and what it says of harmless queries."""
        price = f"costs {self.alarm_price:g}" if self.alarm_price else "costs nothing"
        end = "" if self.max_alarms is None else f", and a run ends with alarm {self.max_alarms}"
        found = {name: panel.sentence for name, panel in self.benign.items()}
        if len(set(found.values())) == 1:
            panels = [*found.values()][:1]
        else:
            panels = [f"The model {name!r}: {sentence}" for name, sentence in found.items()]
        return [f"Queries are watched by {self.source}: an alarm {price}{end}.", *panels]

    def change(self, now: Mapping[str, str]) -> str | None:
        """How a detector differs from this one, in words; None if it is the same."""
        return difference(self.parts, now)


def difference(begun: Mapping[str, str], now: Mapping[str, str]) -> str | None:
    """The first of some settings that is not what it was, in words; None if all are."""
    for key in [*begun, *(key for key in now if key not in begun)]:
        if key not in begun:
            return f"without {key}, and has {key} = {now[key]} now"
        if begun[key] != now.get(key):
            today = f"is {now[key]} now" if key in now else "has no such field now"
            return f"with {key} = {begun[key]}, and {today}"
    return None


FIRST_NOISE = 1
"""The noise of a store that does not say which it has."""
COMPARED = {"file": "its file", "network": "its weights", "answers": "its answers to some images"}
"""What of a model must not change, and how it is called."""

AttackParts = Mapping[str, str]
"""The fields of an attack by their dotted names, as text: {"search.tau": "0.001"}."""


@dataclass(frozen=True)
class Environment:
    """Versions, and the device."""

    tollbox: str
    torch: str
    numpy: str
    python: str
    device: str

    def changes(self, now: Environment, but: Container[str] = ()) -> str:
        """What is different now, in words; without the fields that `but` names."""
        pairs = zip(vars(self).items(), vars(now).values(), strict=True)
        return "; ".join(
            f"{key} was {old}, is {new}"
            for (key, old), new in pairs
            if old != new and key not in but
        )


@dataclass(frozen=True)
class ModelFingerprint:
    """What tells a model from another; None where that is not known."""

    dtype: str
    quantize: int | None
    file: str | None = None
    """A hash of its file."""
    network: str | None = None
    """A hash of its weights."""
    answers: tuple[int, ...] | None = None
    """Its labels for the first images of the study."""
    running: Mapping[str, str] | None = None
    """How its network is run."""

    def change(self, now: ModelFingerprint) -> str | None:
        """What of the model has changed, in words; None if it is the same."""
        for name, words in COMPARED.items():
            old, new = getattr(self, name), getattr(now, name)
            if None not in (old, new) and old != new:
                return words
        if self.running is None or now.running is None:
            return None
        for name in [*self.running, *now.running]:
            begun, today = (each.get(name, "not given") for each in (self.running, now.running))
            if begun != today:
                return f"{name}, which was {begun} and is {today},"
        return None


@dataclass(frozen=True)
class Kept:
    """The images of a study that has only those that each model classifies correctly: the first so
    many of them, for every model the same number."""

    places: tuple[int, ...]
    """Of those that some model has, among all that there were; these are the study's images."""
    of_model: Mapping[str, tuple[int, ...]]
    """By model, which of the study's images it has."""
    looked_at: Mapping[str, int]
    """By model, among how many, from the first on, these are the ones that it gets right."""

    @classmethod
    def of(cls, correct: Mapping[str, Sequence[int]], images: int, limit: int | None) -> Kept:
        """Of the places that each model gets right among so many images, in order."""
        count = min(len(places) for places in correct.values())
        first = {name: tuple(places[:count]) for name, places in correct.items()}
        union = sorted({place for places in first.values() for place in places})
        number = {place: at for at, place in enumerate(union)}
        return cls(
            tuple(union),
            {name: tuple(number[place] for place in places) for name, places in first.items()},
            {
                name: images if len(all_places) == count != limit else first[name][-1] + 1
                for name, all_places in correct.items()
            },
        )

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Kept:
        """What was written."""
        of_model = {name: tuple(places) for name, places in values["of_model"].items()}
        return cls(tuple(values["places"]), of_model, values["looked_at"])

    @property
    def sentences(self) -> list[str]:
        """What each model has."""
        return [
            f"Of the first {self.looked_at[name]} images the model {name!r} classifies "
            f"{len(places)} correctly: these are attacked."
            for name, places in self.of_model.items()
        ]


@dataclass(frozen=True)
class StudyRecord:
    """What a shard's store says about the study."""

    text: str
    """The study file."""
    where: str
    """The path of the study file, as it was given."""
    folder: Path
    """Relative paths of the study are from here."""
    name: str
    series: tuple[str, ...]
    """The names of its series, in the order of the grid."""
    width: int
    """Cells of a series."""
    shards: int
    prices: tuple[str, ...]
    """The prices in words, to tell whether a file of prices has changed."""
    environment: Environment
    models: Mapping[str, ModelFingerprint]
    made_by: str
    """run, python, attack, audit, paper or demo."""
    shard: int = 0
    parts: int = 1
    """In how many parts the study is run, each in a folder of its own; `shards` is a multiple."""
    part: int = 0
    attacks: Mapping[str, AttackParts] | None = None
    noise: int = FIRST_NOISE
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The options of `tollbox attack`; what an audit is asked."""
    findings: tuple[str, ...] = ()
    """What the check of the models found before the run."""
    exactness: Mapping[str, Exactness] = field(default_factory=dict)
    """By model, whether a row depends on nothing else; with the shape and layout that an exact
    study has chosen. (Older stores have nothing.)"""
    experiment: str | None = None
    """The experiment of the paper, and its scale."""
    scale: str | None = None
    kept: Kept | None = None
    """Which images each model has, where it has only those that it classifies correctly."""
    surrogates: Mapping[str, str] = field(default_factory=dict)
    """By attack, the digest of its surrogate's weights, where it has one."""
    flagged: tuple[int, ...] | None = None
    """The classes that are flagged, to tell whether a file of them has changed; None: the source
    class."""
    masks: str | None = None
    """A digest of the masks, if there are any."""
    norm: Metric = Metric.L2
    """What distances are measured in. (Older stores do not say: ℓ2.)"""
    class_names: tuple[str, ...] = ()
    """The names of the classes, if they are known."""
    own_names: bool = False
    """Whether these are from a model's configuration."""
    resizing: Resizing | None = None
    """How pictures got their size, as the study or a model's configuration says."""
    shape: tuple[int, ...] | None = None
    """Channels, height and width of an image. (Older stores do not say.)"""
    watch: WatchRecord | None = None
    """The detector that is shown the queries, if there is one."""

    @property
    def folder_shards(self) -> range:
        """The shards that are in this folder."""
        return range(self.part, self.shards, self.parts)

    @property
    def cells(self) -> int:
        """How many cells this folder has, of all series."""
        return self.cells_of(0, len(self.series))

    def cells_of(self, first: int, last: int) -> int:
        """How many cells this folder has of the series from `first` up to `last`, without it."""
        below = [-(-(number * self.width - self.part) // self.parts) for number in (first, last)]
        return below[1] - below[0]

    @property
    def of_study(self) -> StudyRecord:
        """What all shards of a study say alike, wherever each was run."""
        environment = dataclasses.replace(self.environment, python="", device="")
        return dataclasses.replace(
            self,
            shard=0,
            where="",
            folder=Path(),
            environment=environment,
            findings=(),
            exactness={},
            watch=None if self.watch is None else dataclasses.replace(self.watch, benign={}),
        )

    @property
    def part_name(self) -> str:
        """Which part it is, as `--shard` has it."""
        return f"{self.part + 1}/{self.parts}"

    @property
    def shard_cells(self) -> range:
        """The cells of the shard, k of n: those whose number in the grid is k modulo n, so that all
        shards take about as long."""
        return range(self.shard, len(self.series) * self.width, self.shards)

    def to_json(self) -> dict[str, Any]:
        """What is written: a JSON value for each key; what is None is left out."""
        values = {
            key: value for key, value in dataclasses.asdict(self).items() if value is not None
        }
        values["folder"] = str(self.folder)
        values["lines"] = values.pop("series")  # the name it has in files
        return values

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> StudyRecord:
        """The record of what was written; keys of a later version are passed over."""
        known = {each.name for each in fields(cls)}
        models = {
            name: ModelFingerprint(**{**model, "answers": _tuple_or_none(model.get("answers"))})
            for name, model in values["models"].items()
        }
        return cls(
            **{key: value for key, value in values.items() if key in known}
            | {
                "folder": Path(values["folder"]),
                "series": tuple(values["lines"]),
                "prices": tuple(values["prices"]),
                "environment": Environment(**values["environment"]),
                "models": models,
                "findings": tuple(values.get("findings", ())),
                "exactness": {
                    name: Exactness.from_json(found)
                    for name, found in values.get("exactness", {}).items()
                },
                "flagged": _tuple_or_none(values.get("flagged")),
                "norm": Metric(values.get("norm", Metric.L2)),
                "class_names": tuple(values.get("class_names", ())),
                "resizing": _resizing(values.get("resizing")),
                "shape": _tuple_or_none(values.get("shape")),
                "watch": WatchRecord.from_json(values["watch"]) if "watch" in values else None,
                "kept": Kept.from_json(values["kept"]) if "kept" in values else None,
            }
        )

    def exactness_of(self, model: str) -> Exactness:
        """What was found of a model."""
        return self.exactness.get(model, Exactness(Seen.NOT_KNOWN))

    def resume_obstacle(self, attacks: Mapping[str, AttackParts], noise: int) -> str | None:
        """Why the study cannot be resumed by these attacks under this noise, in words."""
        if self.noise != noise:
            return f"noise was version {self.noise} and is {noise}"
        for name, begun in (self.attacks or {}).items():
            change = difference(begun, attacks.get(name, {}))
            if change is not None:
                return f"the attack {name} was begun {change}"
        return None


def first_difference(before: str, now: str) -> int | None:
    """The first line in which two texts differ, counted from 1; None if they are the same."""
    pairs = itertools.zip_longest(before.splitlines(), now.splitlines())
    return next((number for number, (old, new) in enumerate(pairs, 1) if old != new), None)


def _resizing(values: Mapping[str, Any] | None) -> Resizing | None:
    return None if values is None else Resizing.from_json(values)


def _tuple_or_none(values: list[int] | None) -> tuple[int, ...] | None:
    return None if values is None else tuple(values)


def parts_of(attack: Any) -> dict[str, str]:
    """An attack field by field: the kinds of its parts, and their values."""
    return dict(_flattened("", attack))


def _flattened(name: str, value: Any) -> Iterator[tuple[str, str]]:
    if not dataclasses.is_dataclass(value):
        yield name, _text(value)
        return
    yield name or "attack", type(value).__qualname__
    for each in fields(value):
        yield from _flattened(f"{name}.{each.name}".lstrip("."), getattr(value, each.name))


def _text(value: Any) -> str:
    """A plain value as text; anything else by its kind, since its text may have an address."""
    plain = value is None or isinstance(value, str | int | float | tuple | frozenset)
    return repr(value) if plain else getattr(value, "__qualname__", type(value).__qualname__)
