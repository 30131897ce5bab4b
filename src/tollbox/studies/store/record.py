"""The record of a study in its stores: all that is needed to read it and to resume it.

1. The table `about` has one JSON value for each field.
2. The fingerprint has digests and settings of everything that must not change (`fingerprint.py`).
   `difference` compares two of them, wherever a study is resumed, merged or replayed.
3. A folder has all shards of a study, or a part of them: part k of n has those whose number is k
   modulo n, so that the files of all parts together are the study's.
"""

from __future__ import annotations

import functools
import itertools
import types
from collections.abc import Container, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from ...core.detector import BenignStats
from ...core.exactness import Exactness, Seen
from ...core.metric import Metric
from ...data.resizing import Resizing
from ...data.tables import shortened

Fingerprint = Mapping[str, Mapping[str, str]]
"""Properties by the object that has them, both named as in messages, such as
{"the attack 'a-cgba'": {"search.tau": "0.001"}, "the model 'net' (net.pt)": {"the file": "#7f…"}}.
"""
DIGEST = "#"
"""First character of a value that is a digest and not a setting."""


def difference(then: Fingerprint, now: Fingerprint) -> str | None:
    """Return a description of the first property in `now` that changed; None if none did.

    A digest is compared if both sides have it, and settings if both sides have any: a model that is
    given in Python has no file, and a plain function has no settings.
    """
    for thing, new in now.items():
        old = then.get(thing, {})
        known = all(any(value[:1] != DIGEST for value in each.values()) for each in (old, new))
        for name in {**old, **new}:
            before, after = old.get(name), new.get(name)
            digest = (before or after or "").startswith(DIGEST)
            if before == after or (digest and None in (before, after)):
                continue
            if digest:
                return f"{name} of {thing} changed"
            if known:
                values = f"from {before or 'not set'} to {after or 'not set'}"
                return f"{name} of {thing} changed {values}"
    return None


@dataclass(frozen=True)
class Environment:
    """The versions of software, and the device."""

    tollbox: str
    torch: str
    numpy: str
    python: str
    device: str

    def changes(self, now: Environment, ignore: Container[str] = ()) -> str:
        """Return what is different now, in words; "" if nothing is."""
        return "; ".join(
            f"{key} was {old}, is {getattr(now, key)}"
            for key, old in vars(self).items()
            if old != getattr(now, key) and key not in ignore
        )


@dataclass(frozen=True)
class ModelRecord:
    """The settings with which a model is run."""

    dtype: str
    quantize: int | None
    running: Mapping[str, str] = field(default_factory=dict)
    """Settings of its network; empty for a plain function."""
    classes: int | None = None
    """Number of its classes, if it is known."""


@dataclass(frozen=True)
class DetectorRecord:
    """The detector of a study, the terms of its alarms, and its answers to benign queries."""

    source: str
    alarm_price: float
    max_alarms: int | None
    """Maximum number of alarms; None for no limit."""
    benign: Mapping[str, BenignStats]
    """Answers to benign queries, by model."""

    @property
    def sentences(self) -> list[str]:
        price = f"costs {self.alarm_price:g}" if self.alarm_price else "costs nothing"
        end = "" if self.max_alarms is None else f", and a run ends with alarm {self.max_alarms}"
        rates = {name: stats.sentence for name, stats in self.benign.items()}
        terms = f"The detector {self.source} sees all queries: an alarm {price}{end}."
        return [terms, *per_model(rates)]


def per_model(sentences: Mapping[str, str]) -> list[str]:
    """Return the sentence about each model, or the only one if they are all the same."""
    if len(set(sentences.values())) == 1:
        return [*sentences.values()][:1]
    return [f"The model {name!r}: {sentence}" for name, sentence in sentences.items()]


@dataclass(frozen=True)
class Kept:
    """The images of a study with `correct_only`: for each model, the first images that it
    classifies correctly; all models have the same number."""

    places: tuple[int, ...]
    """Positions of the study's images among all images; each belongs to at least one model."""
    of_model: Mapping[str, tuple[int, ...]]
    """Positions of a model's images among the study's images, by model."""
    looked_at: Mapping[str, int]
    """Number of images, counted from the first, that were classified to find them, by model."""

    @classmethod
    def of(cls, correct: Mapping[str, Sequence[int]], images: int, limit: int | None) -> Kept:
        """Choose from `correct`, the positions of each model's correctly classified images."""
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

    @property
    def sentences(self) -> list[str]:
        return [
            f"The model {name!r} classifies {len(places)} of the first {self.looked_at[name]} "
            "images correctly: these are attacked."
            for name, places in self.of_model.items()
        ]


@dataclass(frozen=True)
class StudyRecord:
    """The record of a study in the store of one shard."""

    text: str
    """Text of the study file."""
    where: str
    """Path of the study file, as it was given."""
    folder: Path
    """Folder that relative paths of the study start from."""
    name: str
    series: tuple[str, ...]
    """Names of the series, in the order of the grid."""
    width: int
    """Number of cells of a series."""
    shards: int
    environment: Environment
    models: Mapping[str, ModelRecord]
    attacks: tuple[str, ...]
    made_by: str
    """Command that started the study: run, python, attack, audit, paper or demo."""
    fingerprint: Fingerprint
    shard: int = 0
    parts: int = 1
    """Number of parts that the study is run in, each in its own folder; it divides `shards`."""
    part: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Options of `tollbox attack`, or the settings of an audit."""
    findings: tuple[str, ...] = ()
    """Findings of the model check before the run."""
    exactness: Mapping[str, Exactness] = field(default_factory=dict)
    """Exactness by model, with the shape and layout that an exact study has chosen."""
    experiment: str | None = None
    """Experiment of the paper, if the study is one; `scale` is its size."""
    scale: str | None = None
    kept: Kept | None = None
    """Images of each model, in a study with `correct_only`."""
    norm: Metric = Metric.L2
    class_names: tuple[str, ...] = ()
    """Names of the classes, if they are known."""
    own_names: bool = False
    """Whether these names are from the configuration of a model."""
    resizing: Resizing | None = None
    """How image files were resized, by the study or by the configuration of a model."""
    shape: tuple[int, ...] | None = None
    """Shape of an image: channels, height and width."""
    detector: DetectorRecord | None = None

    @property
    def fault(self) -> str | None:
        """Description of the first impossible value; None if all are possible."""
        if not 0 <= self.part < self.parts <= self.shards or self.shards % self.parts:
            return f"it is part {self.part} of {self.parts}, and has {self.shards} shards"
        if self.made_by == "attack" and not {"attack", "price", "target"} <= self.settings.keys():
            return "it has no settings of an attack"
        if self.shard not in self.folder_shards:
            return f"its shard is {self.shard}"
        if not (1 <= self.width < 2**40 and self.models) or len(self.series) % len(self.models):
            return f"it has {len(self.series)} series of {self.width} cells"
        if not all(1 <= length < 2**31 for length in self.shape or ()):
            return f"its images have the shape {self.shape}"
        return None

    @property
    def folder_shards(self) -> range:
        """Numbers of the shards in this folder."""
        return range(self.part, self.shards, self.parts)

    @property
    def cells(self) -> int:
        return self.cells_of(0, len(self.series))

    def cells_of(self, first: int, last: int) -> int:
        """Return the number of cells in this folder of series `first` to `last` - 1."""
        below = [-(-(number * self.width - self.part) // self.parts) for number in (first, last)]
        return below[1] - below[0]

    @property
    def shard_cells(self) -> range:
        """Cells of shard k of n: those with number k modulo n, so that shards take equally long."""
        return range(self.shard, len(self.series) * self.width, self.shards)

    @property
    def of_study(self) -> StudyRecord:
        """The fields that are equal in all shards of a study, wherever each was run."""
        versions = replace(self.environment, python="", device="")
        detector = self.detector and replace(self.detector, benign={})
        plain = replace(self, shard=0, where="", folder=Path(), findings=(), exactness={})
        return replace(plain, environment=versions, detector=detector)

    @property
    def part_name(self) -> str:
        """The part as `--shard` takes it, such as 3/16."""
        return f"{self.part + 1}/{self.parts}"

    def exactness_of(self, model: str) -> Exactness:
        return self.exactness.get(model, Exactness(Seen.NOT_KNOWN))

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "folder": str(self.folder)}


IN_JSON: dict[Any, Any] = {tuple: list, Mapping: dict, float: (float, int)}
IN_JSON |= dict.fromkeys((Path, Metric, Seen), str)
"""Types of values in JSON, where they differ."""


def from_json(kind: Any, value: Any) -> Any:
    """Return a value of JSON as the type that an annotation names: a dataclass, a tuple, a mapping,
    an enumeration, a path, a plain value, or one of these or None. Raise KeyError if a field is
    missing, and TypeError if a value has another type."""
    if isinstance(kind, types.UnionType):
        if value is None and types.NoneType in kind.__args__:
            return None
        lists = isinstance(value, list)
        fitting = (each for each in kind.__args__ if (get_origin(each) is tuple) == lists)
        kind = next(fitting, kind.__args__[0])
    origin = get_origin(kind) or kind
    wanted = dict if hasattr(kind, "__dataclass_fields__") else IN_JSON.get(origin, origin)
    if kind is not Any and (
        not isinstance(value, wanted) or (isinstance(value, bool) and kind is not bool)
    ):
        raise TypeError(f"{shortened(repr(value))} is not a {origin.__name__}")
    if wanted is dict and origin is not Mapping:
        return kind(**{name: from_json(each, value[name]) for name, each in _hints(kind).items()})
    if origin is tuple:
        return tuple(from_json(get_args(kind)[0], each) for each in value)
    if origin is Mapping:
        return {name: from_json(get_args(kind)[1], each) for name, each in value.items()}
    return kind(value) if kind in (Path, Metric, Seen) else value


_hints = functools.cache(get_type_hints)


def first_difference(before: str, now: str) -> int | None:
    """Return the first line in which two texts differ, counted from 1; None if they are equal."""
    pairs = itertools.zip_longest(before.splitlines(), now.splitlines())
    return next((number for number, (old, new) in enumerate(pairs, 1) if old != new), None)
