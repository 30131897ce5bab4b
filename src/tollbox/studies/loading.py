"""A study's images, starts and models, loaded and checked; and what tells whether they are the same
as before.

1. All is checked before anything is written: labels, targets and prices against the models'
   classes.
2. A model's fingerprint is the hash of its file, of its network's weights, and its answers to a few
   images (uncharged; not if it is metered). Where two have one of these, it must be the same.
"""

from __future__ import annotations

import contextlib
import hashlib
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..core.cell import Cell, check_label
from ..core.model import Model
from ..core.noise import content_hash
from ..errors import FileError, InputError
from ..files.images import ImageSet
from ..files.starts import check_target
from ..files.tables import LARGEST
from .grid import Grid, Place
from .sources import find_device, load_images, load_model, load_starts
from .spec.specs import ModelSpec
from .spec.study import Study

PROBED = 8
"""Images whose labels are part of a model's fingerprint."""


@dataclass(frozen=True)
class Loaded:
    """A study with its images."""

    study: Study
    images: ImageSet
    hashes: tuple[str, ...]
    starts: list[Tensor | None]
    device: torch.device
    given: Mapping[str, Model]
    """Models that were given instead of loaded, by name."""

    @cached_property
    def grid(self) -> Grid:
        """Its cells."""
        return Grid(self.study, len(self.images))

    def model(self, spec: ModelSpec) -> Model:
        """A model, checked against the labels, prices and target."""
        model = self.given.get(spec.name)
        if model is None:
            model = load_model(self.study, spec, self.images.images[0], self.device)
        _check(self.study, self.images, spec, model)
        return model

    def cell(self, place: Place) -> Cell:
        """A cell of the grid, ready to be run."""
        study, line, image = self.study, place.line, place.image
        return Cell(
            line.attack.attack,
            self.images.images[image],
            self.images.labels[image],
            line.tariff.prices,
            line.tariff.budget,
            line.tariff.max_queries,
            study.goal.target,
            place.seed,
            self.images.names[image],
            study.charge_clean,
            self.starts[image],
        )


def load(study: Study, given: Mapping[str, Model] | None = None) -> Loaded:
    """Load the images and starts of a study."""
    for name in given or {}:
        if name not in {spec.name for spec in study.models}:
            names = ", ".join(spec.name for spec in study.models)
            raise InputError(f"models has {name!r}: expected names of the study: {names}.")
    device, images = find_device(study), load_images(study)
    starts = load_starts(study, images)
    hashes = tuple(content_hash(image) for image in images.images)
    return Loaded(study, images, hashes, starts, device, given or {})


def _check(study: Study, images: ImageSet, spec: ModelSpec, model: Model) -> None:
    """The model has the classes of the labels, of the target and of the prices."""
    try:
        for label, name, origin in zip(images.labels, images.names, images.origins, strict=True):
            classes = model.classes or (LARGEST if label > LARGEST else None)
            check_label(label, classes, f"{origin}: the label of image {name}")
        check_target(study.goal.target, images, model.classes)
        for tariff in study.tariffs:
            for known in tariff.prices.classes or {}:
                if model.classes is not None and known >= model.classes:
                    raise InputError(
                        f"the price {tariff.name!r} has one for class {known}, but the model has "
                        f"{model.classes} classes",
                        expected=f"0 to {model.classes - 1}",
                    )
    except InputError as error:
        raise study.about(error, model=spec) from None


def fingerprint(loaded: Loaded, spec: ModelSpec, model: Model) -> dict[str, Any]:
    """What tells a model from another."""
    path = Path(spec.resolved)
    found: dict[str, Any] = {
        "file": None,
        "network": None,
        "answers": None,
        "dtype": str(model.dtype).removeprefix("torch."),
        "quantize": model.quantize,
    }
    if spec.name not in loaded.given and path.is_file():
        with open(path, "rb") as content:
            found["file"] = hashlib.file_digest(content, "sha256").hexdigest()
    if model.network is not None:
        found["network"] = _weights(model.network)
    if not loaded.study.metered:
        few = loaded.images.images[:PROBED].to(model.device, model.work_dtype)
        size = model.batch or len(few)
        few = few[torch.arange(size) % len(few)]
        with contextlib.suppress(Exception, SystemExit):  # the model's own: told where it matters
            answers = model(model.sent(few)).tolist()
            found["answers"] = answers[: min(size, PROBED, len(loaded.images))]
    return found


def _weights(network: torch.nn.Module) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for name, tensor in sorted(network.state_dict().items()):
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}\n".encode())
        plain = tensor.detach().cpu().contiguous().flatten()
        digest.update(plain.view(torch.uint8).numpy().tobytes() if plain.numel() else b"")
    return digest.hexdigest()


def compare_images(loaded: Loaded, before: list[tuple[str, int, str]], where: Path) -> None:
    """Raise FileError unless the images are those that the study was begun with."""
    now = list(zip(loaded.hashes, loaded.images.labels, strict=True))
    then = [(content, label) for content, label, _ in before]
    if now == then:
        return
    if len(now) != len(then):
        what = f"there are {len(now)} of them, and there were {len(then)}"
    else:
        place = next(i for i, (a, b) in enumerate(zip(now, then, strict=True)) if a != b)
        part = "its label" if now[place][0] == then[place][0] else "its content"
        what = f"image {place} ({before[place][2]}) has changed in {part}"
    raise FileError(
        f"the images of {loaded.study.images.path} are not those that {where} was begun with: "
        f"{what}; bring them back, or begin a new study in another folder."
    )


def compare_model(spec: ModelSpec, now: dict[str, Any], then: dict[str, Any], where: Path) -> None:
    """Raise FileError unless a model is the one that the study was begun with."""
    told = {"file": "its file", "network": "its weights", "answers": "its answers to some images"}
    for key, what in told.items():
        if now[key] is not None and then.get(key) is not None and now[key] != then[key]:
            raise FileError(
                f"the model {spec.name!r} ({spec.source}) is not the one that {where} was begun "
                f"with: {what} changed; bring it back, or begin a new study in another folder."
            )


def environment(device: torch.device) -> dict[str, str]:
    """Versions and the device."""
    from .. import __version__

    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    return {
        "tollbox": __version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "device": f"{device.type} ({name})",
    }
