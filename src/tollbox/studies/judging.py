"""Judging: which images the models of a study classify correctly, where it has only those.

Each image is judged once, uncharged, before the study begins: `load` then has the models at hand,
too. What was found is recorded, and a study that goes on does not judge again.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from ..core.model import Model
from ..engine.sizes import trial_batch_size
from ..errors import InputError, mention
from ..files.tables import in_a_line
from .loaded import Loaded
from .spec.specs import ModelSpec
from .spec.study import Study
from .store.record import Kept


def judged(study: Study, ready: Callable[[int | None], Loaded]) -> Loaded:
    """With those images that each model classifies correctly. Half as many again as are wanted are
    loaded, then twice as many each time, until there are enough or no more."""
    limit = study.images.limit
    count = None if limit is None else limit + limit // 2 + 1
    models: dict[str, Model] = {}
    while True:
        loaded = ready(count)
        loaded.models.update(models)
        correct = {spec.name: _places(loaded, spec, limit) for spec in study.models}
        enough = all(len(places) == limit for places in correct.values())
        if enough or count is None or len(loaded.images) < count:
            break
        count, models = 2 * count, loaded.models
    for spec in study.models:
        if not correct[spec.name]:
            none = f"classifies none of the {len(loaded.images)} images correctly"
            raise _about_model(study, spec, none, "check its mean and std, and the labels")
    return loaded.only(Kept.of(correct, len(loaded.images), limit))


def _places(loaded: Loaded, spec: ModelSpec, limit: int | None) -> list[int]:
    """The places of the first `limit` images that a model classifies correctly; uncharged."""
    study, model = loaded.study, loaded.model(spec)
    images, labels = loaded.images.images, loaded.images.labels
    size, places = trial_batch_size(model, study.batch_size), list[int]()
    for first in range(0, len(images), size):
        if limit is not None and len(places) >= limit:
            break
        some = images[first : first + size]
        batch = some[torch.arange(size) % len(some)].to(model.device, model.dtype)
        try:
            answers = model(model.sent(batch)).tolist()
        except Exception as error:
            failed = f"failed when the images were judged: {in_a_line(error)}"
            raise _about_model(study, spec, failed) from None
        truth = labels[first : first + size]
        goals = (study.goal.for_label(label) for label in truth)
        right = zip(answers, goals, strict=False)  # the rest is padding
        places += [first + row for row, (said, goal) in enumerate(right) if goal.flags(said)]
    return places[:limit]


def _about_model(study: Study, spec: ModelSpec, what: str, remedy: str = "") -> InputError:
    """The error to raise of a model that cannot judge images."""
    expected = f"a model that gets some right, as {mention('correct_only')} is set"
    error = InputError(f"the model {spec.name!r} {what}", expected=expected, remedy=remedy)
    return study.about(error, ("models", study.models.index(spec), "source"))
