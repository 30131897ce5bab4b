"""What the configurations of a study's models say of its images: sizes, and names of classes.

1. A model that may bring a configuration is loaded before the images. The study's own words win
   over it (`data/resizing.py`).
2. All models of a study have the same images. If pictures are to be resized, and configurations say
   different things of it, the study has to say it itself.
3. What was found is in the record of the study, and a study that goes on takes it from there: no
   model is needed for its images, whatever a configuration says by then.

What a study is made from, loaded: its images, the images to begin from, a model, the device.

Whatever is wrong is reported with the study's file, the line and the key that it concerns.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from ..attacks.surrogates import Surrogate
from ..core.detector import Detector, check_detector_type
from ..core.device import usable
from ..core.model import Model
from ..core.preprocessing import Preprocessing
from ..data import images as image_files
from ..data import masks as mask_files
from ..data import starts as start_files
from ..data.data_sets import images_from
from ..data.images import ImageSet
from ..data.resizing import Configured, Preparation, pair
from ..data.user_code import called, importable, imported
from ..errors import InputError, mention
from ..models import loading as model_loading
from ..models.loading import LoadedNetwork, opened
from ..models.precision import DTYPES
from .selection import images_digest, select, take
from .specs import AttackSpec, DetectorSpec, ImagesSpec, ModelSpec, SurrogateSpec
from .store.record import StudyRecord
from .study import Study
from .toml import Key


@dataclass(frozen=True)
class Configurations:
    """Of several models, by their names in the study."""

    models: Mapping[str, Configured]

    @property
    def names(self) -> tuple[str, ...] | None:
        """Of the classes: the first model's that has them."""
        return next((model.names for model in self.models.values() if model.names), None)

    @property
    def preprocessing(self) -> Preprocessing | None:
        """What all models say of sizes; raises InputError if that differs."""
        sizes = {name: Preparation(model=model).resizing for name, model in self.models.items()}
        told = [(name, resizing) for name, resizing in sizes.items() if resizing is not None]
        for name, resizing in told:
            if resizing != told[0][1]:
                raise InputError(
                    f"the configurations of the models differ: for {told[0][0]!r} pictures are "
                    f"{told[0][1]}, and for {name!r} {resizing}",
                    expected="images that are the same for all models of a study",
                    remedy=f"give {mention('resize')} and {mention('crop')}, or make a study of "
                    "each",
                )
        return self.models[told[0][0]].preprocessing if told else None


@dataclass(frozen=True)
class Recorded:
    """What was found when a study was begun."""

    record: StudyRecord

    @property
    def names(self) -> tuple[str, ...] | None:
        """Of the classes, where they are the models' own."""
        return self.record.class_names if self.record.own_names else None

    @property
    def preprocessing(self) -> Preprocessing | None:
        """How pictures were resized."""
        sizes = self.record.resizing
        if sizes is None:
            return None
        crop = None if sizes.crop is None else pair(sizes.crop)
        return Preprocessing.of(sizes.resize, crop, interpolation=sizes.interpolation)


def load_images(study: Study, limit: int | None, own: Configured | None = None) -> ImageSet:
    """The images: those of the list if there is one, the first `limit`; made ready as the study
    says, or else as `own` does."""
    spec = study.images
    if spec.function is not None:
        importable(str(study.folder.resolve()))
    with reported(study, ("images", "path")):
        images = _all_images(spec, limit, own)
    if spec.listed is not None:
        images = select(images, spec.listed, spec.path)
    if limit is not None and len(images) > limit:
        images = take(images, range(limit))
    return images


def check_digest(study: Study, images: ImageSet) -> None:
    """Raise FileError unless the images are those of the digest, if there is one."""
    spec = study.images
    digest = images_digest(images) if spec.digest is not None else None
    if digest != spec.digest:
        raise study.source.error(
            ("images", "digest"),
            f"images.digest is '{spec.digest}', and the {len(images)} images of {spec.path} have "
            f"'{digest}': expected the same images and labels in the same order; bring them back, "
            f'or write digest = "{digest}" if these are right.',
        )


def _all_images(spec: ImagesSpec, limit: int | None, own: Configured | None) -> ImageSet:
    """The images before any are chosen; without a list, no more than `limit`."""
    limit, ready = limit if spec.listed is None else None, spec.resizing
    if spec.function is not None:
        return images_from(spec.function, limit, resizing=ready, names=spec.names, model=own)
    return image_files.load_images(
        spec.path, spec.labels, limit, resizing=ready, names=spec.names, model=own
    )


def load_starts(study: Study, images: ImageSet, limit: int | None) -> list[Tensor | None]:
    """The image to begin from, for each of the images; None where the attack finds one itself."""
    with reported(study, ("goal", "start")):
        return start_files.load_starts(study.goal.start, images, limit)


def load_masks(study: Study, images: ImageSet) -> list[Tensor | None]:
    """Which pixels of each of the images may change; None: all."""
    with reported(study, ("goal", "mask")):
        return mask_files.load_masks(study.goal.mask, images)


def open_model(study: Study, spec: ModelSpec, device: str | torch.device) -> LoadedNetwork:
    """One of the models, not tried on an image yet."""
    if ":" in spec.resolved:
        importable(str(study.folder.resolve()))
    with reported(study, spec=spec):
        return opened(
            spec.resolved,
            names=study.images.names,
            device=device,
            batch_size=study.execution.batch_size,
        )


def load_model(
    study: Study,
    spec: ModelSpec,
    example: Tensor,
    device: str | torch.device,
    opened: LoadedNetwork | None = None,
) -> Model:
    """One of the models, tried on `example` (c, h, w); `opened` is the same, if it is at hand."""
    opened = opened or open_model(study, spec, device)
    with reported(study, spec=spec):
        return model_loading.fitted(
            opened,
            example,
            mean=spec.mean,
            std=spec.std,
            quantize=spec.quantize,
            dtype=None if spec.dtype is None else DTYPES[spec.dtype],
            channels_last=spec.channels_last,
            compile=spec.compile,
            cuda_graphs=spec.cuda_graphs,
            tf32=spec.tf32,
        )


def load_surrogate(
    study: Study,
    attack: AttackSpec,
    spec: SurrogateSpec,
    example: Tensor,
    device: str | torch.device,
) -> Surrogate:
    """The surrogate of one of the attacks, for images like `example` (c, h, w)."""
    if any(":" in source for source in spec.resolved):
        importable(str(study.folder.resolve()))
    with reported(study, spec=attack):
        own = spec.mean is None and spec.std is None
        networks = [
            model_loading.load_network(one, example, device, normalised=own)
            for one in spec.resolved
        ]
        return Surrogate(networks, mean=spec.mean, std=spec.std)


def load_detector(study: Study, spec: DetectorSpec) -> Detector:
    """The detector that is shown the queries."""
    importable(str(study.folder.resolve()))
    with reported(study, ("detector", "source")):
        detector = imported(spec.source, "detector")
        if callable(detector) and (
            isinstance(detector, type) or not isinstance(detector, Detector)
        ):
            detector = called(detector, spec.source, "detector")
        check_detector_type(detector)
    return detector  # type: ignore[no-any-return]


def find_device(study: Study) -> torch.device:
    """The device of the study, which works."""
    with reported(study, ("device",)):
        return usable(study.device)


SURROGATE_INPUTS = {
    **dict.fromkeys(("model", "network"), "surrogate"),
    "mean": "surrogate_mean",
    "std": "surrogate_std",
}
"""What belongs to a surrogate, by what it is called where it is loaded."""


@contextlib.contextmanager
def reported(
    study: Study, key: Key = (), spec: ModelSpec | AttackSpec | None = None
) -> Iterator[None]:
    """While entered, an InputError is one about the study's file, by default about this key; with
    `spec`, about that model or attack."""
    try:
        yield
    except InputError as error:
        own = error.renamed(SURROGATE_INPUTS) if isinstance(spec, AttackSpec) else error
        raise study.about(own, key, spec) from None
