"""A study: which models are attacked how, on which images, at which prices; read from TOML.

1. All that can be checked without loading an image or a model is checked when the file is read.
2. Relative paths are from the folder of the study file, wherever one stands; a module of
   `module:function` may be there too.
3. A study is a value: the same text in the same folder is the same study.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from ..core.detector import Detection, RecordedAlarms
from ..core.execution import LARGEST_BATCH
from ..core.metric import Metric, check_made_for, norm_of
from ..core.validation import check_whole
from ..data.tables import LARGEST, path_of
from ..errors import InputError
from ..models.pytorch import RUNNING
from .dump import study_text
from .schema import (
    AttackSpec,
    GoalSpec,
    ImagesSpec,
    ModelSpec,
    Tariff,
    WatchSpec,
    attacks_of,
    goal_of,
    images_of,
    models_of,
    tariffs_of,
    watch_of,
)
from .toml import Item, Key, Source, parsed, read_text

__all__ = ["AttackSpec", "GoalSpec", "ImagesSpec", "ModelSpec", "Study", "Tariff"]

REQUIRED = {
    "images": '[images] with path = "images"',
    "models": '[[models]] with source = "model.pt2"',
    "attacks": '[[attacks]] with preset = "a-hsja"',
    "prices": "prices = [1, 100]",
}
FLAGS = ("check", "metered", "one_shape", "exact", "charge_clean", "keep_images")
COUNTS = {"batch_size": LARGEST_BATCH, "workers": LARGEST}
"""Whole numbers from 1 to this."""
OTHERS = (
    "name",
    "budget",
    "max_queries",
    "max_flagged",
    "seeds",
    "goal",
    "norm",
    "device",
    "watch",
)
TOP = frozenset((*REQUIRED, *FLAGS, *COUNTS, *OTHERS))
TABLES = frozenset({"images", "models", "attacks", "goal", "watch"})
KEYS: Mapping[str, Key] = {
    **{name: (name,) for name in TOP},
    "path": ("images", "path"),
    "images": ("images", "path"),
    "labels": ("images", "labels"),
    "limit": ("images", "limit"),
    "correct_only": ("images", "correct_only"),
    **{name: ("images", name) for name in ("resize", "crop", "interpolation", "names")},
    "target": ("goal", "target"),
    "start": ("goal", "start"),
    "flagged": ("goal", "flagged"),
    "mask": ("goal", "mask"),
    "watch": ("watch", "source"),
    "alarm_price": ("watch", "alarm_price"),
    "max_alarms": ("watch", "max_alarms"),
}
"""By the name of an argument, the key that it comes from."""
MODEL_KEYS: Mapping[str, Key] = {
    "model": ("source",),
    **{key: (key,) for key in ("mean", "std", "quantize", *RUNNING)},
}
"""Likewise, in a table of [[models]]."""
ATTACK_KEYS: Mapping[str, Key] = {
    "surrogate": ("surrogate",),
    "surrogate_mean": ("surrogate", "mean"),
    "surrogate_std": ("surrogate", "std"),
}
"""Likewise, in a table of [[attacks]]."""


@dataclass(frozen=True)
class Study:
    """A study file, checked."""

    text: str
    """The file's text."""
    where: str
    """What messages call it: the path as the user typed it."""
    folder: Path
    """Relative paths are from here."""
    name: str
    images: ImagesSpec
    models: tuple[ModelSpec, ...]
    attacks: tuple[AttackSpec, ...]
    tariffs: tuple[Tariff, ...]
    seeds: tuple[int, ...] = (0,)
    goal: GoalSpec = field(default_factory=GoalSpec)
    norm: Metric = Metric.L2
    """What distances are measured in."""
    device: str | None = None
    batch_size: int | None = None
    workers: int = 1
    """Processes."""
    check: bool = False
    """Test first, uncharged, whether the models are fit to be measured."""
    metered: bool = False
    one_shape: bool = False
    exact: bool = False
    """Take one batch shape and layout in which a row of the network depends on nothing else."""
    charge_clean: bool = True
    keep_images: bool = False
    """Keep the adversarial images that were reached."""
    watch: WatchSpec | None = None
    """A detector that is shown the queries of all cells."""
    in_memory: bool = field(default=False, compare=False)
    """Made by `of`: nobody wrote the text, and messages do not speak of its lines and keys."""

    def __post_init__(self) -> None:
        for name, most in COUNTS.items():
            value = getattr(self, name)
            if value is not None:
                check_whole(name, value, 1, most)
        object.__setattr__(self, "norm", norm_of(self.norm))
        terms = None
        if self.watch is not None:
            watch = self.watch
            terms = Detection(RecordedAlarms(), watch.alarm_price, watch.max_alarms)
        for tariff in self.tariffs if terms is not None else ():
            try:
                tariff.limits.check(tariff.prices, terms)
            except InputError as error:
                placed = error.placed(f"the price {tariff.name!r}")
                raise self.about(placed, ("watch", "alarm_price")) from None
        for spec in self.attacks:
            try:
                check_made_for(spec.attack, self.norm)
            except InputError as error:
                raise self.about(error, spec=spec) from None

    @classmethod
    def of(
        cls,
        *,
        name: str,
        images: ImagesSpec,
        models: Sequence[ModelSpec],
        attacks: Sequence[AttackSpec],
        tariffs: Sequence[Tariff],
        seeds: Sequence[int] = (0,),
        goal: GoalSpec = GoalSpec(),  # noqa: B008
        folder: Path = Path(),
        where: str = "a study made in memory",
        **settings: Any,
    ) -> Study:
        """A study made in memory; `settings` are the other fields. Its text is written for it, so
        that a store can keep it."""
        tables: dict[str, Any] = {
            "folder": folder,
            "name": name,
            "seeds": tuple(seeds),
            "images": images,
            "models": tuple(models),
            "attacks": tuple(attacks),
            "tariffs": tuple(tariffs),
            "goal": goal,
            **settings,
        }
        return cls(text=study_text(**tables), where=where, in_memory=True, **tables)

    @classmethod
    def from_toml(cls, path: str | Path, *, files: bool = True) -> Study:
        """The study of a file; with `files`, what it names must be there."""
        file = path_of(path, "path")
        return cls.from_text(read_text(file), file.parent, str(path), files=files)

    @classmethod
    def from_text(cls, text: str, folder: Path, where: str, *, files: bool = True) -> Study:
        """The study of a file's text; `where` names the file in messages."""
        text = text.removeprefix("\ufeff")  # a byte order mark
        source = Source(where, text, TOP - TABLES)
        top = Item(source, (), parsed(text, where)).table(TOP)
        for name, example in REQUIRED.items():
            if name not in top:
                raise source.error((), f"there is no {name}: expected {example}; add it.")
        return cls(
            text=text,
            where=where,
            folder=folder,
            name=top["name"].name() if "name" in top else Path(where).stem or "study",
            images=images_of(top["images"], folder, files),
            models=models_of(top["models"], folder, files),
            attacks=attacks_of(top["attacks"], folder, files),
            tariffs=tariffs_of(top, folder),
            seeds=_seeds(top["seeds"]) if "seeds" in top else (0,),
            goal=goal_of(top.get("goal"), folder, files),
            watch=watch_of(top.get("watch")),
            **_settings(top),
        )

    @property
    def source(self) -> Source:
        """The text, to say where in it something is wrong."""
        return Source(self.where, self.text)

    def about(
        self, error: InputError, otherwise: Key = (), spec: ModelSpec | AttackSpec | None = None
    ) -> InputError:
        """What was said of an argument, said of the key of this study that it comes from.

        The place is that of the key `otherwise` if it comes from none. `spec`: the model or attack
        that was concerned.
        """
        if self.in_memory:
            return error
        if spec is None:
            return self.source.about(error, KEYS, otherwise)
        kind, specs, own, first = (
            ("model", self.models, MODEL_KEYS, "source")
            if isinstance(spec, ModelSpec)
            else ("attack", self.attacks, ATTACK_KEYS, "surrogate")
        )
        table = (f"{kind}s", specs.index(spec))
        keys = {**KEYS, **{name: (*table, *key) for name, key in own.items()}}
        named = error.placed(f"the {kind} {spec.name!r}")
        return self.source.about(named, keys, (*table, first), table)


def _seeds(item: Item) -> tuple[int, ...]:
    each = item.entries("seeds = [0, 1, 2]")
    seeds = [one.whole() for one in each]
    for place, seed in enumerate(seeds):
        if seed in seeds[:place]:
            raise each[place].error(f"seeds has {seed} twice: expected each once; leave one out.")
    return tuple(seeds)


def _settings(top: dict[str, Item]) -> dict[str, Any]:
    """The keys that are one number, word or flag, as far as the file has them."""
    values: dict[str, Any] = {}
    for name, most in COUNTS.items():
        if name in top:
            values[name] = top[name].whole(1, most)
    for name in FLAGS:
        if name in top:
            values[name] = top[name].flag()
    if "norm" in top:
        try:
            values["norm"] = norm_of(top["norm"].value)
        except InputError as error:
            raise top["norm"].wrong(error.expected) from None
    if "device" in top:
        values["device"] = _device(top["device"])
    return values


def _device(item: Item) -> str:
    """The name of a kind of device; whether there is one here shows when it is used."""
    expected = "cpu, cuda, cuda:1 or another device that torch knows, in quotes"
    name = item.text(expected)
    try:
        kind = torch.device(name).type
    except RuntimeError:
        raise item.wrong(expected) from None
    if kind == "meta":
        raise item.wrong(f"a device that holds numbers: {expected}")
    return name
