"""A study: which models are attacked how, on which images, at which prices; read from TOML.

1. All that can be checked without loading an image or a model is checked when the file is read.
2. Relative paths are from the folder of the study file, wherever one stands; a module of
   `module:function` may be there too.
3. A study is a value: the same text in the same folder is the same study.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ...core.model import Model
from ...errors import FileError, InputError
from ...files.functions import importable
from ...files.image_functions import images_from
from ...files.images import ImageSet, load_images
from ...models.loading import load_model
from .file import Item, Source, parsed, read_text
from .sections import attacks_of, goal_of, images_of, models_of
from .selection import chosen, images_digest, taken
from .specs import AttackSpec, Goal, ImagesSpec, ModelSpec, Tariff
from .tariffs import tariffs_of

__all__ = [
    "AttackSpec",
    "Goal",
    "ImagesSpec",
    "ModelSpec",
    "Study",
    "Tariff",
    "images_digest",
]

REQUIRED = {
    "images": '[images] with path = "images"',
    "models": '[[models]] with source = "model.pt2"',
    "attacks": '[[attacks]] with preset = "a-hsja"',
    "prices": "prices = [1, 100]",
}
FLAGS = ("metered", "one_shape", "charge_clean", "keep_images")
COUNTS = ("batch_size", "workers")
OTHERS = ("name", "budget", "max_queries", "seeds", "goal", "device")
TOP = frozenset((*REQUIRED, *FLAGS, *COUNTS, *OTHERS))
TABLES = frozenset({"images", "models", "attacks", "goal"})


@dataclass(frozen=True)
class Study:
    """A study file, checked."""

    text: str
    """The file's text."""
    where: str
    """How messages call it: the path as it was given."""
    folder: Path
    """Relative paths are from here."""
    name: str
    images: ImagesSpec
    models: tuple[ModelSpec, ...]
    attacks: tuple[AttackSpec, ...]
    tariffs: tuple[Tariff, ...]
    seeds: tuple[int, ...] = (0,)
    goal: Goal = field(default_factory=Goal)
    device: str | None = None
    batch_size: int | None = None
    workers: int = 1
    """Processes."""
    metered: bool = False
    one_shape: bool = False
    charge_clean: bool = True
    keep_images: bool = False
    """Keep the adversarial images that were reached."""

    @classmethod
    def from_toml(cls, path: str | Path, *, files: bool = True) -> Study:
        """The study of a file; with `files`, what it names must be there."""
        return cls.from_text(read_text(path), Path(path).parent, str(path), files=files)

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
            name=top["name"].text("a name in quotes")
            if "name" in top
            else Path(where).stem or "study",
            images=images_of(top["images"], folder, files),
            models=models_of(top["models"], folder, files),
            attacks=attacks_of(top["attacks"]),
            tariffs=tariffs_of(top, folder),
            seeds=_seeds(top["seeds"]) if "seeds" in top else (0,),
            goal=goal_of(top.get("goal"), folder, files),
            **_settings(top),
        )

    def load_images(self) -> ImageSet:
        """The images: of the list if there is one, the first `limit`, proved by the digest."""
        spec = self.images
        if spec.function is None and spec.listed is None:
            images = load_images(spec.path, spec.labels, spec.limit)
        else:
            images = (
                load_images(spec.path, spec.labels)
                if spec.function is None
                else self._called(spec.function)
            )
            if spec.listed is not None:
                images = chosen(images, spec.listed, spec.path)
            images = taken(images, list(range(len(images)))[: spec.limit])
        if spec.digest is not None and (found := images_digest(images)) != spec.digest:
            raise Source(self.where, self.text).error(
                ("images", "digest"),
                f"images.digest is '{spec.digest}', and the {len(images)} images of {spec.path} "
                f"have '{found}': expected the same images and labels in the same order; bring "
                f'them back, or write digest = "{found}" if these are right.',
            )
        return images

    def _called(self, function: str) -> ImageSet:
        """The images that a function gives."""
        importable(str(self.folder.resolve()))
        try:
            return images_from(function)
        except InputError as error:
            text = error.sentence(lambda name: "images.path" if name == "images" else name)
            raise Source(self.where, self.text).error(("images", "path"), text) from None

    def load_model(self, spec: ModelSpec, example: Tensor, device: str | torch.device) -> Model:
        """One of the models, tried on `example` (c, h, w)."""
        if ":" in spec.resolved:
            importable(str(self.folder.resolve()))
        try:
            return load_model(
                spec.resolved,
                example,
                mean=spec.mean,
                std=spec.std,
                device=device,
                quantize=spec.quantize,
                batch_size=self.batch_size,
            )
        except InputError as error:
            kind = FileError if isinstance(error, FileError) else InputError
            raise kind(f"{self.where}, the model {spec.name!r}: {as_keys(error)}") from None


def as_keys(error: InputError) -> str:
    """A message about options of the command line, as one about keys of the file."""
    return re.sub(r"--([a-z]+(-[a-z]+)*)", lambda m: m[1].replace("-", "_"), str(error))


def _seeds(item: Item) -> tuple[int, ...]:
    each = item.entries("seeds = [0, 1, 2]")
    seeds = [one.whole() for one in each]
    for place, seed in enumerate(seeds):
        if seed in seeds[:place]:
            raise each[place].error(f"seeds has {seed} twice: expected each once; leave one out.")
    return tuple(seeds)


def _settings(top: dict[str, Item]) -> dict[str, Any]:
    """What is one number, word or flag; only what is given."""
    found: dict[str, Any] = {}
    for name in COUNTS:
        if name in top:
            found[name] = top[name].whole(1)
    for name in FLAGS:
        if name in top:
            found[name] = top[name].flag()
    if "device" in top:
        found["device"] = _device(top["device"])
    return found


def _device(item: Item) -> str:
    """The name of a kind of device; whether there is one here is found out when it is used."""
    wanted = "cpu, cuda, cuda:1 or another device that torch knows, in quotes"
    name = item.text(wanted)
    try:
        kind = torch.device(name).type
    except RuntimeError:
        raise item.wrong(wanted) from None
    if kind == "meta":
        raise item.wrong(f"a device that holds numbers: {wanted}")
    return name
