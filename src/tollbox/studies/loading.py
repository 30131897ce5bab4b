"""Loading a study: its images, starts and masks, and, where one may bring a configuration that the
images need, its models.

What contradicts itself in the study, or in the models that are given for it, is refused before
anything is loaded, and images that are not there before a model is fetched.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import torch

from ..core.arguments import shown
from ..core.model import Model, as_model
from ..core.noise import content_hash
from ..errors import InputError, mention
from ..files.images import check_there
from ..files.preparation import Configured
from ..models.opening import Opened
from ..models.registry import brings_configuration
from .configuration import Configurations, Recorded
from .judging import judged
from .loaded import Loaded
from .sources import (
    check_digest,
    find_device,
    load_images,
    load_masks,
    load_starts,
    open_model,
    reported,
)
from .spec.study import Study
from .store.record import StudyRecord


def load(
    study: Study, models: Mapping[str, Model] | None = None, begun: StudyRecord | None = None
) -> Loaded:
    """Load the images and starts of a study; `models` are used instead of loading them.

    begun: what was recorded when it was begun; without it, models that bring a configuration are
        loaded, too, and images are judged if the study asks for it.
    """
    correct_only = study.images.correct_only
    if study.metered and correct_only:
        raise study.about(
            InputError(
                f"and {mention('metered')} are both set: images are judged uncharged, and a "
                "metered model bills every row",
                remedy="leave one of them out, and list images that are known to be right",
                input="correct_only",
            )
        )
    if study.metered and (study.check or study.exact):
        raise study.about(
            InputError(
                f"and {mention('metered')} are both set: the check asks uncharged, and a metered "
                "model bills every row",
                remedy="leave one of them out",
                input="check" if study.check else "exact",
            )
        )
    if models is not None and not isinstance(models, Mapping):
        raise InputError(f"is {shown(models)}", expected="models by name", input="models")
    names = [spec.name for spec in study.models]
    for name in models or {}:
        if name not in names:
            raise InputError(
                f"has {name!r}", expected=f"names of the study: {', '.join(names)}", input="models"
            )
    supplied = {name: as_model(model) for name, model in (models or {}).items()}
    device, limit = find_device(study), study.images.limit
    if study.images.function is None:
        with reported(study, ("images", "path")):  # before a model is fetched
            check_there(study.images.path)
    opened = _opened(study, device, supplied) if begun is None else {}
    own = Configurations({**supplied, **opened}) if begun is None else Recorded(begun)
    ready = partial(_load, study, device, supplied, opened, own)
    kept = None if begun is None else begun.kept
    if not correct_only:
        loaded = ready(limit)
    elif kept is not None:
        loaded = ready(max(kept.looked_at.values())).only(kept)
    else:
        loaded = judged(study, ready)
    check_digest(study, loaded.images)
    return loaded


def _opened(study: Study, device: torch.device, supplied: Mapping[str, Model]) -> dict[str, Opened]:
    """Those models that may bring a configuration, by name."""
    return {
        spec.name: open_model(study, spec, device)
        for spec in study.models
        if spec.name not in supplied and brings_configuration(spec.resolved)
    }


def _load(
    study: Study,
    device: torch.device,
    supplied: Mapping[str, Model],
    opened: dict[str, Opened],
    own: Configured,
    limit: int | None,
) -> Loaded:
    """With the first `limit` images, made ready as the study or `own` says."""
    images = load_images(study, limit, own)
    starts = load_starts(study, images, limit)
    hashes = tuple(content_hash(image) for image in images.images)
    masks, own_names = load_masks(study, images), study.images.names is None and bool(own.names)
    return Loaded(study, images, hashes, starts, masks, device, supplied, own_names, opened)
