"""A study: models, attacks, prices and images, read from a TOML file or made in memory.

1. Everything that can be checked without an image or a model is checked when the file is read.
2. Relative paths start from the folder of the study file. The module of `module:function` may be
   there as well.
3. A study is a value: the same text in the same folder is the same study.
4. A study made in memory gets a text from which an equal study can be read. Every price, model and
   attack is a table, keys with their default values are left out, and paths below the study's
   folder are relative to it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any

import torch

from ..core.execution import Execution
from ..core.metric import Metric, check_made_for, norm_of
from ..data.tables import path_of
from ..errors import InputError, mention
from .schema import ARRAYS, LIMITS, TABLES, ModelTable, StudyTable, find, keys, read_given, written
from .specs import AttackSpec, DetectorSpec, GoalSpec, ImagesSpec, ModelSpec, Tariff, read_each
from .toml import Item, Key, Source, parsed, read_text


def study_text(study: Study) -> str:
    tables = [
        ("", written(StudyTable, {**vars(study.execution), **vars(study)})),
        ("[images]", study.images.values()),
        ("[goal]", study.goal.values()),
        ("[detector]", {} if study.detector is None else study.detector.values()),
        *(("[[prices]]", tariff.values()) for tariff in study.tariffs),
        *(("[[models]]", model.values()) for model in study.models),
        *(("[[attacks]]", attack.values()) for attack in study.attacks),
    ]
    blocks = (
        "\n".join([*([header] if header else []), *table_lines(values, study.folder)])
        for header, values in tables
        if values
    )
    return "\n\n".join(blocks) + "\n"


def table_lines(values: Mapping[str, Any], folder: Path, prefix: str = "") -> Iterator[str]:
    """Yield the lines of a table; tables inside it get dotted keys."""
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from table_lines(value, folder, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key} = {toml_value(value, folder)}"


def toml_value(value: Any, folder: Path) -> str:
    """Return a value in TOML syntax; a path below `folder` is written relative to it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple | frozenset):
        parts = sorted(value) if isinstance(value, frozenset) else value
        return f"[{', '.join(toml_value(part, folder) for part in parts)}]"
    if isinstance(value, Path) and value.is_relative_to(folder):
        value = value.relative_to(folder)
    text = str(value).encode("utf-8", "backslashreplace").decode()  # a name that is not UTF-8
    if any(ord(c) < 32 or 127 <= ord(c) < 160 for c in text):
        raise InputError(f"{text!r} has control characters", expected="a name without them")
    return json.dumps(text, ensure_ascii=False)


__all__ = ["AttackSpec", "GoalSpec", "ImagesSpec", "ModelSpec", "Study", "Tariff"]

REQUIRED = {
    "images": '[images] with path = "images"',
    "models": '[[models]] with source = "model.pt2"',
    "attacks": '[[attacks]] with preset = "a-hsja"',
    "prices": "prices = [1, 100]",
}
TOP = frozenset(each.name for each in keys(StudyTable))
KEYS: Mapping[str, Key] = {
    **{name: (name,) for name in (*TOP, *ARRAYS)},
    **{each.name: (name, each.name) for name, table in TABLES.items() for each in keys(table)},
    "images": ("images", "path"),
    "detector": ("detector", "source"),
}
"""Key that an argument comes from, by the argument's name."""
MODEL_KEYS = {"model": ("source",), **{each.name: (each.name,) for each in keys(ModelTable)}}
"""The same within a table of [[models]]."""
SURROGATE_INPUTS = {
    **dict.fromkeys(("model", "network"), "surrogate"),
    **{name: f"surrogate_{name}" for name in ("mean", "std", "size", "labels")},
}
"""Names in messages for the loader's arguments when it loads a surrogate."""
ATTACK_KEYS = {
    "surrogate": ("surrogate",),
    **{f"surrogate_{name}": ("surrogate", name) for name in ("mean", "std", "size", "labels")},
}
"""Keys of these arguments within a table of [[attacks]]."""


@dataclass(frozen=True, kw_only=True)
class Study:
    """A checked study: its models, attacks, prices and images, and how to run it."""

    name: str
    images: ImagesSpec
    models: Sequence[ModelSpec]
    attacks: Sequence[AttackSpec]
    tariffs: Sequence[Tariff]
    seeds: Sequence[int] = (0,)
    goal: GoalSpec = field(default_factory=GoalSpec)
    norm: Metric = Metric.L2
    device: str | None = None
    execution: Execution = field(default_factory=Execution)
    charge_clean: bool = True
    keep_images: bool = False
    detector: DetectorSpec | None = None
    folder: Path = Path()
    """Folder that relative paths start from."""
    where: str = "a study made in memory"
    """Name of the study in messages: the path as the user typed it."""
    text: str = ""
    """Text of the study file; `study_text` writes it for a study made in memory."""
    in_memory: bool = field(default=False, compare=False)
    """Whether `study_text` wrote the text, so that messages do not refer to its lines and keys."""

    def __post_init__(self) -> None:
        checked: dict[str, Any] = {"norm": norm_of(self.norm)}
        for name in ("models", "attacks", "tariffs", "seeds"):
            checked[name] = tuple(getattr(self, name))
        vars(self).update(checked, in_memory=self.in_memory or not self.text)
        find(StudyTable, "seeds").kind.check("seeds", self.seeds)
        with self.reporting():
            if self.execution.metered and self.images.correct_only:
                both = f"and {mention('metered')} are both set: the images are classified without "
                both += "charge, and a metered model bills every row"
                remedy = "leave one out, and list images that the model classifies correctly"
                raise InputError(both, remedy=remedy, input="correct_only")
        detection = None if self.detector is None else self.detector.terms
        for tariff in self.tariffs:
            with self.reporting(("detector", "alarm_price"), tariff):
                tariff.limits.check(tariff.prices, detection)
        for spec in self.attacks:
            with self.reporting(spec=spec):
                check_made_for(spec.attack, self.norm)
        vars(self).update(text=self.text or study_text(self))

    @classmethod
    def from_toml(cls, path: str | Path, *, files: bool = True) -> Study:
        """Read a study file; with `files`, the files that it names must exist."""
        file = path_of(path, "path")
        return cls.from_text(read_text(file), file.parent, str(path), files=files)

    @classmethod
    def from_text(cls, text: str, folder: Path, where: str, *, files: bool = True) -> Study:
        """Read the text of a study file; `where` names the file in messages."""
        text = text.removeprefix("\ufeff")  # a byte order mark
        source = Source(where, text, TOP, folder, files)
        top = Item(source, (), parsed(text, where)).table({*TOP, *TABLES, *ARRAYS})
        for name, example in REQUIRED.items():
            if name not in top:
                raise source.error((), f"there is no {name}: expected {example}; add it.")
        values = {"name": Path(where).stem or "study", **read_given(StudyTable, top)}
        for name in ("prices", *LIMITS):  # these belong to the tariffs
            values.pop(name, None)
        if "device" in top:
            _check_device(top["device"])
        options = {each.name for each in fields(Execution)} & set(values)
        with Item(source, ("metered",), None).reporting(KEYS):
            execution = Execution(**{name: values.pop(name) for name in options})
        return cls(
            text=text,
            where=where,
            folder=folder,
            images=ImagesSpec.read(top["images"]),
            models=read_each(ModelSpec.read, top["models"], REQUIRED["models"]),
            attacks=read_each(AttackSpec.read, top["attacks"], REQUIRED["attacks"]),
            tariffs=read_each(partial(Tariff.read, top=top), top["prices"], REQUIRED["prices"]),
            goal=GoalSpec.read(top["goal"]) if "goal" in top else GoalSpec(),
            detector=DetectorSpec.read(top["detector"]) if "detector" in top else None,
            execution=execution,
            **values,
        )

    @property
    def workers(self) -> int:
        workers = self.execution.workers
        return workers if isinstance(workers, int) else workers.count

    @property
    def source(self) -> Source:
        """The text, to locate errors in it."""
        return Source(self.where, self.text)

    @contextmanager
    def reporting(
        self, otherwise: Key = (), spec: ModelSpec | AttackSpec | Tariff | None = None
    ) -> Iterator[None]:
        """Return a context that reports an InputError about an argument at the argument's key.

        An argument without a key is reported at `otherwise`. `spec` is the model, attack or price
        that the error concerns.
        """
        table: Key = ()
        found, subject = dict(KEYS), ""
        try:
            yield
        except InputError as error:
            if isinstance(spec, Tariff):
                error = error.placed(f"the price {spec.name!r}")
            elif isinstance(spec, AttackSpec):
                error = error.renamed(SURROGATE_INPUTS)
                table, subject = ("attacks", self.attacks.index(spec)), f"the attack {spec.name!r}"
                otherwise = (*table, "surrogate")
                found |= {name: (*table, *key) for name, key in ATTACK_KEYS.items()}
            elif spec is not None:
                table, subject = ("models", self.models.index(spec)), f"the model {spec.name!r}"
                otherwise = (*table, "source")
                found |= {name: (*table, *key) for name, key in MODEL_KEYS.items()}
            if self.in_memory:
                raise error from None
            error = error.placed(subject) if subject else error
            raise self.source.about(error, found, otherwise, table) from None


def _check_device(item: Item) -> None:
    """Raise FileError unless torch knows the kind of device; the device need not be present."""
    try:
        kind = torch.device(item.value).type
    except RuntimeError:
        kind = ""
    if kind in ("", "meta"):
        expected = find(StudyTable, "device").kind.expected
        raise item.wrong(f"a device that holds numbers: {expected}" if kind else expected)
