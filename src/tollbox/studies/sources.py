"""What a study is made from, loaded: its images, the images to begin from, a model, the device.

Whatever is wrong is reported with the study's file, the line and the key that it concerns.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor

from ..attacks.surrogates import Surrogate
from ..core.devices import usable
from ..core.model import Model
from ..core.watch import Detector, check_watch
from ..errors import InputError
from ..files import images as image_files
from ..files import masks as mask_files
from ..files import starts as start_files
from ..files.functions import called, importable, imported
from ..files.image_functions import images_from
from ..files.images import ImageSet
from ..files.preparation import Configured
from ..models import loading as model_loading
from ..models.opening import Opened, opened
from ..models.precision import DTYPES
from .spec.key_lines import Key
from .spec.selection import images_digest, select, take
from .spec.specs import AttackSpec, ImagesSpec, ModelSpec, SurrogateSpec
from .spec.study import Study
from .spec.watch import WatchSpec


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


def open_model(study: Study, spec: ModelSpec, device: str | torch.device) -> Opened:
    """One of the models, not tried on an image yet."""
    if ":" in spec.resolved:
        importable(str(study.folder.resolve()))
    with reported(study, spec=spec):
        return opened(
            spec.resolved, names=study.images.names, device=device, batch_size=study.batch_size
        )


def load_model(
    study: Study,
    spec: ModelSpec,
    example: Tensor,
    device: str | torch.device,
    opened: Opened | None = None,
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


def load_detector(study: Study, spec: WatchSpec) -> Detector:
    """The detector that is shown the queries."""
    importable(str(study.folder.resolve()))
    with reported(study, ("watch", "source")):
        detector = imported(spec.source, "watch")
        if callable(detector) and (
            isinstance(detector, type) or not isinstance(detector, Detector)
        ):
            detector = called(detector, spec.source, "watch")
        check_watch(detector, spec.alarm_price, spec.max_alarms)
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
