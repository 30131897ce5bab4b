"""The sources of a study: its images, the configurations of its models, and its device.

1. A model that may bring a configuration is loaded before the images, since its configuration may
   say how large images are and what classes are called. The study's own settings take precedence
   (`data/resizing.py`).
2. All models of a study have the same images. If image files have to be resized and the
   configurations of the models differ, the study has to set the size.
3. The record keeps what was found. A resumed study takes it from there: it loads no model for its
   images, and ignores later changes of a configuration.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from ..core.device import usable
from ..core.preprocessing import Preprocessing
from ..data import images as image_files
from ..data.data_sets import images_from
from ..data.images import ImageSet
from ..data.resizing import ModelConfiguration, Preparation, pair
from ..data.user_code import importable
from ..errors import InputError, mention
from ..models.loading import LoadedNetwork
from .selection import select, take
from .specs import ModelSpec
from .store.record import StudyRecord
from .study import Study


@dataclass(frozen=True)
class Configurations:
    """The configurations of several models, by their names in the study."""

    models: Mapping[str, ModelConfiguration]

    @property
    def names(self) -> tuple[str, ...] | None:
        """Names of the classes, of the first model that has them."""
        return next((model.names for model in self.models.values() if model.names), None)

    @property
    def preprocessing(self) -> Preprocessing | None:
        """The preprocessing of all models; raises InputError if their sizes differ."""
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
    """The configuration of a model, known without it."""

    names: tuple[str, ...] | None
    preprocessing: Preprocessing | None


def recorded_configuration(record: StudyRecord) -> KnownConfiguration:
    """Return the configuration that was in force when a study was started."""
    names, sizes = record.class_names if record.own_names else None, record.resizing
    if sizes is None:
        return KnownConfiguration(names, None)
    crop = None if sizes.crop is None else pair(sizes.crop)
    own = Preprocessing.of(sizes.resize, crop, interpolation=sizes.interpolation)
    return KnownConfiguration(names, own)


def load_images(study: Study, limit: int | None, own: ModelConfiguration) -> ImageSet:
    """Return the first `limit` images of the study, or of its list if it has one.

    They are made ready as the study says, or else as `own` does.
    """
    spec = study.images
    count = limit if spec.listed is None else None
    how: dict[str, Any] = {"resizing": spec.resizing, "names": spec.names, "model": own}
    with study.reporting(("images", "path")):
        if spec.function is not None:
            importable(str(study.folder.resolve()))
            images = images_from(spec.function, count, **how)
        else:
            images = image_files.load_images(spec.path, spec.labels, count, **how)
    if spec.listed is not None:
        images = select(images, spec.listed, spec.path)
    return images if limit is None or len(images) <= limit else take(images, range(limit))


def open_model(study: Study, spec: ModelSpec, device: str | torch.device) -> LoadedNetwork:
    """Return a model that is not yet fitted to the images."""
    if ":" in spec.resolved:
        importable(str(study.folder.resolve()))
    with study.reporting(spec=spec):
        return LoadedNetwork.load(
            spec.resolved,
            names=study.images.names,
            device=device,
            batch_size=study.execution.batch_size,
        )


def find_device(study: Study) -> torch.device:
    """Return the device of the study, after a test that it works."""
    with study.reporting(("device",)):
        return usable(study.device)
