"""The fingerprint of a study: digests and settings of all that must not change while it is run.

1. The record of a study keeps the fingerprint of its start. You can read a study unless its prices
   or flagged classes have changed. You can resume it only if nothing has changed; the error names
   the first change.
2. The fingerprint of a model has digests of its file, of its network's weights and of its labels
   for a few images, and how the network is run. The labels are not charged. A metered model is not
   queried; for an exact one, a digest of its logits is compared instead (`Exactness`).
3. An attack is described by its fields, a detector by its fields or `vars`; tensors and networks by
   their content.
4. No study is started with a model that gives different labels for the same images.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .. import __version__
from ..core.by_side import BySide
from ..core.exactness import Exactness, listed
from ..core.model import Model
from ..core.noise import NOISE_VERSION
from ..errors import FileError, InputError
from ..models.pytorch import weights_digest
from .images import classified
from .specs import AttackSpec, ModelSpec
from .store.record import DIGEST, Environment, Fingerprint, StudyRecord, difference
from .study import Study

PROBES = 8
"""Number of images whose labels are part of a model's fingerprint."""
NEW_STUDY = "or start a new study in another folder"


def attack_fingerprint(study: Study) -> Fingerprint:
    """Return the fingerprint of the noise and of the attacks, without their surrogates."""
    found = {"the noise": {"the version": str(NOISE_VERSION)}}
    for spec in study.attacks:
        found[f"the attack {spec.name!r}"] = settings_of("attack", spec.attack)
    return found


def price_fingerprint(study: Study) -> Fingerprint:
    """Return the fingerprint of the prices and the flagged classes, which may come from files."""
    found = {
        f"the price {tariff.name!r}": {"the values": _digest(repr(tariff.prices))}
        for tariff in study.tariffs
    }
    goal = study.goal
    if goal.flagged is not None:
        origin = "the goal" if goal.flagged_file is None else goal.flagged_file.name
        found[origin] = {"the flagged classes": _digest(repr(sorted(goal.flagged)))}
    return found


def surrogate_name(spec: AttackSpec) -> str:
    """Return the name of an attack's surrogate in fingerprints."""
    sources = () if spec.surrogate is None else spec.surrogate.sources
    return f"the surrogate of the attack {spec.name!r} ({', '.join(sources)})"


def model_fingerprint(
    spec: ModelSpec, model: Model, files: Sequence[Path], labels: tuple[int, ...] | None
) -> Fingerprint:
    """Return the fingerprint of a model from `files`, with its labels for some images."""
    found: dict[str, str] = {}
    if files:
        digest = hashlib.sha256()
        for path in files:
            with open(path, "rb") as content:
                hashlib.file_digest(content, lambda: digest)
        found["the file"] = DIGEST + digest.hexdigest()
    if model.network is not None:
        found["the weights"] = DIGEST + weights_digest(model.network)
    if labels is not None:
        found["the labels for some images"] = _digest(repr(labels))
    return {f"the model {spec.name!r} ({spec.source})": {**found, **model.running}}


def _digest(text: str) -> str:
    return DIGEST + hashlib.sha256(text.encode()).hexdigest()


def settings_of(kind: str, value: Any) -> dict[str, str]:
    """Return the settings of an attack or a detector by their dotted names.

    The type of the object itself is under the name `kind`, that of a part under the part's name.
    """

    def found(name: str, value: Any, around: tuple[int, ...]) -> Iterator[tuple[str, str]]:
        if id(value) in around:
            yield name, "an object that contains it"
            return
        inside: Mapping[Any, Any] = {}
        if value is None or isinstance(value, str | int | float | tuple | frozenset):
            yield name, repr(value)
        elif isinstance(value, BySide):
            yield from found(name, value.large, around)
            yield from found(f"{name} below {value.below} pixels", value.small, around)
        elif isinstance(value, torch.nn.Module):
            yield name, f"{type(value).__qualname__} {weights_digest(value)}"
        elif isinstance(value, Tensor | np.ndarray):
            array = np.ascontiguousarray(torch.as_tensor(value).detach().cpu().numpy())
            yield name, f"{array.dtype} {array.shape} {hashlib.sha256(array.data).hexdigest()}"
        elif isinstance(value, list | dict):
            inside = value if isinstance(value, dict) else dict(enumerate(value))
        elif callable(value) and hasattr(value, "__qualname__"):
            yield name or kind, value.__qualname__
        else:
            yield name or kind, type(value).__qualname__
            inside = getattr(value, "__dict__", {})
            if dataclasses.is_dataclass(value):
                inside = {each.name: getattr(value, each.name) for each in fields(value)}
        for key, part in inside.items():
            yield from found(f"{name}.{key}".lstrip("."), part, (*around, id(value)))

    return dict(found("", value, ()))


def recorded_study(record: StudyRecord, *, files: bool) -> Study:
    """Return the study of a record; with `files`, the files that it names must exist. Its prices
    and flagged classes must be those of the record."""
    study = Study.from_text(record.text, record.folder, record.where, files=files)
    change = difference(record.fingerprint, price_fingerprint(study))
    if change is not None:
        since = f"{change} since the study was started"
        raise FileError(since, remedy=f"restore the file, {NEW_STUDY}", where=study.where)
    return study


def check_unchanged(
    record: StudyRecord, now: Fingerprint, folder: Path, remedy: str = "restore it"
) -> None:
    """Raise FileError if an entry of `now` differs from the record."""
    change = difference(record.fingerprint, now)
    if change is not None:
        raise FileError(f"{folder} cannot be resumed: {change}", remedy=f"{remedy}, {NEW_STUDY}")


def check_exactness(spec: ModelSpec, now: Exactness, then: Exactness, folder: Path) -> None:
    """Raise FileError unless a model is exact here and gives the same bits as at the start."""
    if now.exact and now.digest == then.digest:
        return
    layout = f" ({then.layout})" if then.layout else ""
    what = f"it is not known whether the model {spec.name!r} is exact"
    if now.exact:
        what = f"the {now.seen} of the model {spec.name!r} differ from those at its start"
    elif now.known:
        what = f"a row of the model {spec.name!r} depends on {listed(now.matters)} here"
    raise FileError(
        f"{folder} is an exact study, and {what}, in batches of "
        f"{listed([str(size) for size in then.shapes])}{layout}",
        remedy=f"resume it with the model, device and versions of its start, {NEW_STUDY}",
    )


def check_repeatable(model: Model, images: Tensor, shapes: Sequence[int]) -> None:
    """Raise InputError if the model answers at random. It gets each point twice, uncharged: images,
    and blends of two, where decisions are close."""
    few = images[:PROBES]
    points = torch.cat([few, torch.lerp(few, few.roll(1, 0), 0.5)])
    first, second = (labels_of(model, points, shapes) for _ in range(2))
    if first is None or second is None or first == second:
        return
    changed = sum(one != other for one, other in zip(first, second, strict=True))
    raise InputError(
        f"answers at random: {changed} of {len(first)} labels changed when the same images were "
        "sent twice",
        expected="the same label each time",
        remedy="call .eval() on a network with dropout, and fix the seed of what it samples",
        input="model",
    )


def labels_of(model: Model, points: Tensor, shapes: Sequence[int]) -> tuple[int, ...] | None:
    """Return the model's labels for a few points in one batch, of the smallest of the run's
    `shapes` that holds them, since a large one may take seconds; None if the model fails."""
    size = next((shape for shape in shapes if shape >= len(points)), len(points))
    # The model's own error is reported when its cells are run.
    with contextlib.suppress(Exception, SystemExit):
        return tuple(classified(model, points, model.batch or size))
    return None


def current_environment(device: torch.device) -> Environment:
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    versions = __version__, torch.__version__, np.__version__, platform.python_version()
    return Environment(*versions, device=f"{device.type} ({name})")


def environment_notice(record: StudyRecord, device: torch.device) -> str | None:
    """Return a sentence if tollbox, torch, numpy or the device are not those of the record, which
    may change the last bits of numbers."""
    changes = record.environment.changes(current_environment(device), ignore=("python",))
    if not changes:
        return None
    return (
        f"This study was started elsewhere ({changes}): cells that are run now may differ from "
        "those of an uninterrupted run, and cells under way may have to be restarted."
    )
