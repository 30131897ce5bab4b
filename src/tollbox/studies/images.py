"""The images of a study: their source, their selection, and their identification.

1. A model that may have a configuration is loaded before the images, since its configuration may
   set the size of images and the names of classes. The study's own settings take precedence
   (`data/resizing.py`). If image files have to be resized and the configurations of the models
   differ, the study must set the size.
2. The record keeps these settings. A resumed study reads them from there: it loads no model for its
   images, and ignores later changes to a configuration.
3. An image is identified by the hash of its content, so that a list is valid wherever the files
   are and whatever their names. In a list the hash comes first on a line; the rest is a comment.
4. The digest is blake2b with 16 bytes over the lines "hash label", each with its newline, in the
   order of the images.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import torch
from torch import Tensor

from ..core.model import Model
from ..core.noise import content_hash
from ..core.preprocessing import Preprocessing
from ..data import images as image_files
from ..data.data_sets import images_from
from ..data.images import ImageSet
from ..data.resizing import ModelConfiguration, Preparation, pair
from ..data.tables import in_a_line, read_lines, shortened
from ..data.user_code import importable
from ..engine.batch import trial_batch_size
from ..errors import FileError, InputError, mention
from .kinds import DIGITS, is_hash
from .store.record import Kept, StudyRecord

if TYPE_CHECKING:
    from .inputs import StudyInputs
    from .specs import ModelSpec
    from .study import Study

HASH = "a content hash on each line"


def images_digest(images: ImageSet) -> str:
    return digest_of(zip(map(content_hash, images.images), images.labels, strict=True))


def digest_of(pairs: Iterable[tuple[str, int]]) -> str:
    digest = hashlib.blake2b(digest_size=DIGITS // 2)
    for content, label in pairs:
        digest.update(f"{content} {label}\n".encode())
    return digest.hexdigest()


def read_list(file: Path) -> dict[str, int]:
    """Return the content hashes of a list in order, each with its line number."""
    lines_by_hash: dict[str, int] = {}
    for number, line in enumerate(read_lines(file, HASH, input=""), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        name, where = words[0].lower(), f"{file}, line {number}"
        if not is_hash(name):
            given = f"{shortened(words[0])!r} is not a content hash"
            digits = f"{DIGITS} hexadecimal digits"
            raise FileError(given, expected=digits, remedy="begin a comment with #", where=where)
        if name in lines_by_hash:
            given = f"{name} is on line {lines_by_hash[name]} already"
            raise FileError(given, expected="each image once", remedy="leave one out", where=where)
        lines_by_hash[name] = number
    if not lines_by_hash:
        raise FileError(f"{file} lists no image", expected=HASH)
    return lines_by_hash


def select(images: ImageSet, file: Path, origin: Path) -> ImageSet:
    """Return the images that a list names, in its order; `origin` is the source of `images`."""
    places: dict[str, list[int]] = {}
    for place, image in enumerate(images.images):
        places.setdefault(content_hash(image), []).append(place)
    order = []
    for name, line in read_list(file).items():
        same, where = places.get(name, []), f"{file}, line {line}"
        labels = sorted({images.labels[place] for place in same})
        if not same:
            none = f"none of the {len(images)} images of {origin} has the content {name}"
            there, remedy = "images that exist, unchanged", "leave the line out, or add the image"
            raise FileError(none, expected=there, remedy=remedy, where=where)
        if len(labels) > 1:
            given = f"{len(same)} images of {origin} have the content {name} and different labels"
            given += f", {labels[0]} and {labels[1]}"
            remedy = "remove the wrong one"
            raise FileError(given, expected="one label", remedy=remedy, where=where)
        order.append(same[0])
    return take(images, order)


def take(images: ImageSet, places: Sequence[int]) -> ImageSet:
    of_each: dict[str, Any] = {
        name: tuple(getattr(images, name)[place] for place in places)
        for name in ("labels", "names", "origins")
    }
    return replace(images, images=images.images[list(places)], **of_each)


@dataclass(frozen=True)
class Configurations:
    """The configurations of several models, by their names in the study."""

    models: Mapping[str, ModelConfiguration]

    @property
    def names(self) -> tuple[str, ...] | None:
        """Names of the classes, from the first model that has them."""
        return next((model.names for model in self.models.values() if model.names), None)

    @property
    def preprocessing(self) -> Preprocessing | None:
        """The preprocessing for all models; raises InputError if their resizing differs."""
        sizes = {
            name: resizing
            for name, model in self.models.items()
            if (resizing := Preparation(model=model).resizing) is not None
        }
        if not sizes:
            return None
        first, expected = next(iter(sizes.items()))
        for name, resizing in sizes.items():
            if resizing != expected:
                raise InputError(
                    f"the configurations of the models differ: for {first!r} images are "
                    f"{expected}, and for {name!r} {resizing}",
                    expected="images that are the same for all models of a study",
                    remedy=f"set {mention('resize')} and {mention('crop')}, or make a study of "
                    "each",
                )
        return self.models[first].preprocessing


class KnownConfiguration(NamedTuple):
    names: tuple[str, ...] | None
    preprocessing: Preprocessing | None


def recorded_configuration(record: StudyRecord) -> KnownConfiguration:
    """Return the configuration that was in force when a study was started."""
    names, sizes = record.class_names if record.own_names else None, record.resizing
    if sizes is None:
        return KnownConfiguration(names, None)
    crop = None if sizes.crop is None else pair(sizes.crop)
    own = Preprocessing(sizes.resize, crop, interpolation=sizes.interpolation)
    return KnownConfiguration(names, own)


def load_images(study: Study, limit: int | None, own: ModelConfiguration) -> ImageSet:
    """Return the first `limit` images of the study, or of its list if it has one, prepared as the
    study says, or else as `own` says."""
    spec = study.images
    count = limit if spec.listed is None else None
    how: dict[str, Any] = {"resizing": spec.resizing, "names": spec.names, "model": own}
    with study.reporting(("images", "path")):
        if spec.function is not None:
            if not spec.function.startswith("tollbox."):
                importable(str(study.folder.resolve()))
            images = images_from(spec.function, count, **how)
        else:
            images = image_files.load_images(spec.path, spec.labels, count, **how)
    if spec.listed is not None:
        images = select(images, spec.listed, spec.path)
    return images if limit is None or len(images) <= limit else take(images, range(limit))


def only_correct(study: Study, load_first: Callable[[int | None], StudyInputs]) -> StudyInputs:
    """Return the inputs with the images that each model classifies correctly. Load 1.5 times the
    wanted number of images at first, and double that until there are enough."""
    limit = study.images.limit
    count = None if limit is None else limit + limit // 2 + 1
    while True:
        inputs = load_first(count)
        correct = {spec.name: _correct_places(inputs, spec, limit) for spec in study.models}
        enough = all(len(places) == limit for places in correct.values())
        if enough or count is None or len(inputs.images) < count:
            break
        count *= 2
    for spec in study.models:
        if not correct[spec.name]:
            none = f"classifies none of the {len(inputs.images)} images correctly"
            _refuse(study, spec, none, "check its mean and std, and the labels")
    return inputs.only(Kept.of(correct, len(inputs.images), limit))


def _correct_places(inputs: StudyInputs, spec: ModelSpec, limit: int | None) -> list[int]:
    """Return the positions of the first `limit` images that a model classifies correctly."""
    study, model = inputs.study, inputs.model(spec)
    images, labels = inputs.images.images, inputs.images.labels
    size, places = trial_batch_size(model, study.execution.batch_size), list[int]()
    for first in range(0, len(images), size):
        if limit is not None and len(places) >= limit:
            break
        try:
            answers = classified(model, images[first : first + size], size)
        except Exception as error:
            _refuse(study, spec, f"failed to classify the images: {in_a_line(error)}")
        goals = (study.goal.for_label(label) for label in labels[first:])
        rows = enumerate(zip(answers, goals, strict=False), first)
        places += [place for place, (answer, goal) in rows if goal.flags(answer)]
    return places[:limit]


def classified(model: Model, points: Tensor, size: int) -> list[int]:
    """Return the model's labels for points, which are sent in one batch padded to `size`."""
    batch = points[torch.arange(size) % len(points)].to(model.device, model.dtype)
    labels: list[int] = model(model.sent(batch)).tolist()
    return labels[: len(points)]


def _refuse(study: Study, spec: ModelSpec, what: str, remedy: str = "") -> NoReturn:
    """Raise InputError about a model for which no correctly classified image was found."""
    expected = f"a model that classifies some correctly, as {mention('correct_only')} is set"
    with study.reporting(("models", study.models.index(spec), "source")):
        raise InputError(f"the model {spec.name!r} {what}", expected=expected, remedy=remedy)
