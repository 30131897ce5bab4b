"""Whether the detector of a study is still the one that it was begun with: its kind, and its
settings, which are its fields, or what it has in `vars`; tensors and networks by their content.

Whether a study is still the one that was begun: its images, masks, models, prices, flagged
classes, attacks and noise.

1. What a study was begun with is in its record. It is read whatever has changed; it is resumed only
   by the same, and a refusal names what differs.
2. A model's fingerprint is the hash of its file, of its network's weights, how that is run, and its
   answers to a few images (uncharged; not if it is metered, or exact, where a digest of its logits
   is compared). Where both have one of these, it must be the same.
3. A surrogate is the same if its weights are.
4. A model that answers the same images differently when it is asked twice has none, and no study is
   begun with it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import platform
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .. import __version__
from ..core.detector import Detector
from ..core.exactness import Exactness, listed
from ..core.model import Model
from ..core.noise import NOISE_VERSION
from ..errors import FileError, InputError
from ..models.pytorch import weights_digest
from .specs import AttackSpec, ModelSpec
from .store.record import Environment, ModelFingerprint, StudyRecord, WatchRecord, parts_of
from .study import Study


def detector_parts(detector: Detector) -> dict[str, str]:
    """What tells a detector from another, field by field."""
    return dict(_settings("", detector, ()))


def _settings(name: str, value: Any, around: tuple[int, ...]) -> Iterator[tuple[str, str]]:
    """The settings of an object of the user's, whatever it is, by their dotted names; `around` are
    the ids of what it lies in, so that one which holds itself has an end."""
    if id(value) in around:
        yield name, "what it lies in"
        return
    around = (*around, id(value))
    if value is None or isinstance(value, str | int | float | tuple | frozenset):
        yield name, repr(value)
    elif isinstance(value, torch.nn.Module):
        yield name, f"{type(value).__qualname__} {weights_digest(value)}"
    elif isinstance(value, Tensor | np.ndarray):
        array = np.ascontiguousarray(torch.as_tensor(value).detach().cpu().numpy())
        yield name, f"{array.dtype} {array.shape} {hashlib.sha256(array.data).hexdigest()}"
    elif isinstance(value, list):
        for number, part in enumerate(value):
            yield from _settings(f"{name}.{number}".lstrip("."), part, around)
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from _settings(f"{name}.{key}".lstrip("."), part, around)
    else:
        kind = getattr(value, "__qualname__", type(value).__qualname__)
        yield name or "detector", kind
        inside = {} if callable(value) and hasattr(value, "__qualname__") else _fields(value)
        for key, part in inside.items():
            yield from _settings(f"{name}.{key}".lstrip("."), part, around)


def _fields(value: Any) -> dict[str, Any]:
    if dataclasses.is_dataclass(value):
        return {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
    return dict(getattr(value, "__dict__", {}))


def check_detector(recorded: WatchRecord, now: Mapping[str, str], folder: Path) -> None:
    """Raise FileError unless the detector is the one that the study was begun with."""
    change = recorded.change(now)
    if change is not None:
        raise FileError(
            f"the detector {recorded.source} is not the one that {folder} was begun with: it was "
            f"begun {change}",
            remedy=f"bring it back, {BEGIN_ANEW}",
        )


PROBES = 8
"""Images whose labels are part of a model's fingerprint."""
BEGIN_ANEW = "or begin a new study in another folder"


def current_environment(device: torch.device) -> Environment:
    """Versions and the device, here and now."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    return Environment(
        tollbox=__version__,
        torch=torch.__version__,
        numpy=np.__version__,
        python=platform.python_version(),
        device=f"{device.type} ({name})",
    )


def environment_notice(record: StudyRecord, device: torch.device) -> str | None:
    """A sentence if a study is resumed under another tollbox, torch, numpy or device than it was
    begun with; its numbers may then differ in the last bits, which is no reason to refuse it."""
    changes = record.environment.changes(current_environment(device), but=("python",))
    if not changes:
        return None
    return (
        f"This study was begun elsewhere ({changes}): cells that are run now may differ from those "
        "of an unbroken run, and cells under way may have to be begun anew."
    )


def fingerprint(
    model: Model, images: Tensor, *, size: int, files: Sequence[Path], ask: bool
) -> ModelFingerprint:
    """What tells a model from another; `files` are where it is from, `ask`: it may be asked.

    `size`: rows of a batch, here and below; a model may be compiled for those of a run.
    """
    return ModelFingerprint(
        dtype=str(model.dtype).removeprefix("torch."),
        quantize=model.quantize,
        file=_hash_files(files) if files else None,
        network=None if model.network is None else weights_digest(model.network),
        answers=_labels(model, images[:PROBES], size) if ask else None,
        running=model.running or None,
    )


def _hash_files(paths: Sequence[Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as content:
            hashlib.file_digest(content, lambda: digest)
    return digest.hexdigest()


def check_repeatable(model: Model, images: Tensor, size: int) -> None:
    """Raise InputError if the model answers at random; uncharged.

    Asked twice are images, and blends of two, where decisions are close.
    """
    few = images[:PROBES]
    points = torch.cat([few, torch.lerp(few, few.roll(1, 0), 0.5)])
    first, second = _labels(model, points, size), _labels(model, points, size)
    if first is None or second is None or first == second:
        return
    changed = sum(one != other for one, other in zip(first, second, strict=True))
    raise InputError(
        f"answers at random: {changed} of {len(first)} labels changed when the same images were "
        "asked twice",
        expected="the same label each time",
        remedy="call .eval() on a network with dropout, and fix the seed of what it samples",
        input="model",
    )


def _labels(model: Model, points: Tensor, size: int) -> tuple[int, ...] | None:
    """The model's labels for a few points, as far as they fit into a batch; None if it fails."""
    few = points.to(model.device, model.dtype)
    count = len(few)
    size = model.batch or max(size, count)
    # An error of the model's own is reported when its cells are run.
    with contextlib.suppress(Exception, SystemExit):
        answers = model(model.sent(few[torch.arange(size) % count])).tolist()
        return tuple(answers[:count])
    return None


# -- as it was begun ------------------------------------------------------------------------------


def price_texts(study: Study) -> tuple[str, ...]:
    """The prices in words, to tell whether a file of prices has changed."""
    return tuple(f"{tariff.name}: {tariff.prices!r}" for tariff in study.tariffs)


def flagged_labels(study: Study) -> tuple[int, ...] | None:
    """The flagged classes, to tell whether a file of them has changed."""
    return None if study.goal.flagged is None else tuple(sorted(study.goal.flagged))


def recorded_study(record: StudyRecord, *, files: bool) -> Study:
    """The study as it was begun; with `files`, what it names must be there."""
    study = Study.from_text(record.text, record.folder, record.where, files=files)
    check_tables(record, study)
    return study


def check_tables(record: StudyRecord, study: Study) -> None:
    """Raise FileError unless the files of prices and of flagged classes say what they did when the
    study was begun."""
    for now, begun in zip(price_texts(study), record.prices, strict=True):
        if now != begun:
            raise FileError(
                f"the prices have changed since the study was begun, when there was {begun}",
                remedy=f"bring the file of prices back, {BEGIN_ANEW}",
                where=study.where,
            )
    if flagged_labels(study) != record.flagged:
        raise FileError(
            f"the flagged classes of {study.goal.flagged_file} have changed since the study was "
            "begun",
            remedy=f"bring the file back, {BEGIN_ANEW}",
            where=study.where,
        )


def attack_parts(study: Study) -> dict[str, dict[str, str]]:
    """The parts of each attack, by the attack's name."""
    return {spec.name: parts_of(spec.attack) for spec in study.attacks}


def resume_obstacle(record: StudyRecord, study: Study) -> str | None:
    """What keeps this version from going on with a study, in words."""
    return record.resume_obstacle(attack_parts(study), NOISE_VERSION)


def check_attacks(record: StudyRecord, study: Study, folder: Path) -> None:
    """Raise FileError unless the attacks and the noise are those that the study was begun with."""
    obstacle = resume_obstacle(record, study)
    if obstacle is not None:
        raise FileError(
            f"{folder} cannot be resumed: {obstacle}",
            remedy=f"resume it with tollbox {record.environment.tollbox}, {BEGIN_ANEW}",
        )


def check_images(
    study: Study,
    images: Sequence[tuple[str, int]],
    recorded: Sequence[tuple[str, int, str]],
    folder: Path,
) -> None:
    """Raise FileError unless the images (content hash and label) are those that were recorded."""
    if len(images) != len(recorded):
        change = f"there are {len(images)} of them, and there were {len(recorded)}"
    else:
        for place, (now, (content, label, name)) in enumerate(zip(images, recorded, strict=True)):
            if now != (content, label):
                part = "its label" if now[0] == content else "its content"
                change = f"image {place} ({name}) has changed in {part}"
                break
        else:
            return
    raise FileError(
        f"the images of {study.images.path} are not those that {folder} was begun with: {change}",
        remedy=f"bring them back, {BEGIN_ANEW}",
    )


def check_masks(study: Study, now: str | None, recorded: str | None, folder: Path) -> None:
    """Raise FileError unless the masks, by their digests, are those that were recorded."""
    if now != recorded:
        raise FileError(
            f"the masks of {study.goal.mask} are not those that {folder} was begun with",
            remedy=f"bring them back, {BEGIN_ANEW}",
        )


def check_exactness(spec: ModelSpec, now: Exactness, begun: Exactness, folder: Path) -> None:
    """Raise FileError unless a model is exact here, with the very bits that it was begun with."""
    if now.exact and now.digest == begun.digest:
        return
    layout = f" ({begun.layout})" if begun.layout else ""
    where = f"in batches of {listed([str(size) for size in begun.shapes])}{layout}"
    if now.exact:
        what = f"the model {spec.name!r} gives other {now.seen} here than where it was begun"
    elif now.known:
        what = f"a row of the model {spec.name!r} depends on {listed(now.matters)} here"
    else:
        what = f"it is not known of the model {spec.name!r} whether it is exact"
    raise FileError(
        f"{folder} is an exact study, and {what}, {where}",
        remedy="go on with the model, the device and the versions that it was begun with, "
        f"{BEGIN_ANEW}",
    )


def check_model(
    spec: ModelSpec, now: ModelFingerprint, recorded: ModelFingerprint, folder: Path
) -> None:
    """Raise FileError unless a model is the one that the study was begun with."""
    change = recorded.change(now)
    if change is not None:
        raise FileError(
            f"the model {spec.name!r} ({spec.source}) is not the one that {folder} was begun "
            f"with: {change} changed",
            remedy=f"bring it back, {BEGIN_ANEW}",
        )


def check_surrogate(spec: AttackSpec, now: str, recorded: str | None, folder: Path) -> None:
    """Raise FileError unless the surrogate of an attack is the one that the study was begun with,
    by the digests of its weights."""
    if now != recorded and spec.surrogate is not None:
        raise FileError(
            f"the surrogate of the attack {spec.name!r} ({', '.join(spec.surrogate.sources)}) is "
            f"not the one that {folder} was begun with: its weights changed",
            remedy=f"bring it back, {BEGIN_ANEW}",
        )
