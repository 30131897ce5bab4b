"""Whether all that a study names is of the same classes: labels, target, flagged classes and prices
are classes of every model, and a surrogate has the classes of the models.

Where a model does not say how many it has, labels are held against the names of the classes.

Judging: which images the models of a study classify correctly, where it has only those.

Each image is judged once, uncharged, before the study begins: `load` then has the models at hand,
too. What was found is recorded, and a study that goes on does not judge again.

A study with its images, and with its models, surrogates and detector once they are needed.

A model is loaded, checked and fingerprinted once, when it is needed first; so is a surrogate. What
a study goes on with is checked against what it was begun with (`identity.py`).

Loading a study: its images, starts and masks, and, where one may bring a configuration that the
images need, its models.

What contradicts itself in the study, or in the models that are given for it, is refused before
anything is loaded, and images that are not there before a model is fetched.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..attacks.surrogates import Surrogate
from ..core.cell import Cell, check_label
from ..core.detector import Detection, Detector, RecordedAlarms
from ..core.exactness import Exactness, Seen
from ..core.model import Model, as_model
from ..core.noise import content_hash
from ..core.problem import Attack
from ..core.validation import shown
from ..data.classes import check_names
from ..data.images import ImageSet, check_there
from ..data.masks import masks_digest
from ..data.resizing import Configured
from ..data.starts import check_target
from ..data.tables import LARGEST, in_a_line
from ..detection.benign import benign_panel
from ..engine.sizes import default_batch_size, trial_batch_size
from ..errors import InputError, mention
from ..model_check import CHECKED_IMAGES, Examined, exact_choice, examine, shapes_of, threads
from ..models.loading import LoadedNetwork
from ..models.registry import brings_configuration, files_of
from ..workers.executors import threads_each
from .fingerprint import (
    check_detector,
    check_exactness,
    check_images,
    check_masks,
    check_repeatable,
    check_surrogate,
    detector_parts,
    fingerprint,
)
from .grid import Grid, Place
from .selection import take
from .sources import (
    Configurations,
    Recorded,
    check_digest,
    find_device,
    load_detector,
    load_images,
    load_masks,
    load_model,
    load_starts,
    load_surrogate,
    open_model,
    reported,
)
from .specs import AttackSpec, ModelSpec
from .store.record import Kept, ModelFingerprint, StudyRecord, WatchRecord
from .study import Study


def check_model_classes(study: Study, images: ImageSet, spec: ModelSpec, model: Model) -> None:
    """The model has the classes of the labels, of the target and of the prices, and as many as
    there are names."""
    try:
        check_names(images.class_names, model.classes)
        known = model.classes or len(images.class_names) or None
        for label, name, origin in zip(images.labels, images.names, images.origins, strict=True):
            classes = known or (LARGEST if label > LARGEST else None)
            check_label(label, classes, f"{origin}: the label of image {name}")
        check_target(study.goal.target, images, model.classes)
        study.goal.goal.check(model.classes)
        for tariff in study.tariffs:
            for number in tariff.prices.classes or {}:
                if model.classes is not None and number >= model.classes:
                    raise InputError(
                        f"the price {tariff.name!r} has one for class {number}, but the model has "
                        f"{model.classes} classes",
                        expected=f"0 to {model.classes - 1}",
                    )
    except InputError as error:
        raise study.about(error, spec=spec) from None


def check_surrogate_classes(
    study: Study, images: ImageSet, classes: int, models: Mapping[str, int | None]
) -> None:
    """Raise InputError unless a surrogate of so many classes has those of the models; `models` has
    their numbers by name."""
    goal = study.goal
    largest = max(*images.labels, goal.target or 0, *(goal.flagged or ()))
    what = "is of an image, or of the goal" if goal.flagged else "is of an image, or the target"
    others = [f"class {largest} {what}"] if largest >= classes else []
    for name, count in models.items():
        if count not in (None, classes):
            others.append(f"the model {name!r} has {count}")
    if others:
        raise InputError(
            f"has {classes} classes, and {others[-1]}",
            expected="the classes of the models",
            input="surrogate",
        )


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
    size, places = trial_batch_size(model, study.execution.batch_size), list[int]()
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


@dataclass(frozen=True)
class Loaded:
    """A study with its images, and with those of its models that were needed so far."""

    study: Study
    images: ImageSet
    hashes: tuple[str, ...]
    starts: list[Tensor | None]
    masks: list[Tensor | None]
    device: torch.device
    supplied: Mapping[str, Model]
    """Models that are used instead of loading them, by name."""
    own_names: bool
    """Whether the names of the classes are from a model's configuration."""
    opened: dict[str, LoadedNetwork] = field(repr=False)
    """Models that are loaded and not tried yet, by name."""
    kept: Kept | None = None
    """Which of the images each model has; None: all of them."""
    models: dict[str, Model] = field(default_factory=dict, init=False, repr=False)
    """Those that were needed so far, by name."""
    _surrogates: dict[str, Surrogate] = field(default_factory=dict, init=False, repr=False)
    _exactness: dict[str, Exactness] = field(default_factory=dict, init=False, repr=False)
    _detectors: list[Detector] = field(default_factory=list, init=False, repr=False)
    _fingerprints: dict[str, ModelFingerprint] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def grid(self) -> Grid:
        """Its cells."""
        return Grid.of(self.study, len(self.images), self.kept)

    def model(self, spec: ModelSpec) -> Model:
        """A model, checked against the labels, prices and target."""
        if spec.name not in self.models:
            model = self.supplied.get(spec.name)
            if model is None:
                opened, example = self.opened.pop(spec.name, None), self.images.images[0]
                model = load_model(self.study, spec, example, self.device, opened)
            check_model_classes(self.study, self.images, spec, model)
            model = replace(model, names=self.images.class_names or None)
            self.models[spec.name] = model
        return self.models[spec.name]

    def fingerprint(self, spec: ModelSpec) -> ModelFingerprint:
        """What tells a model from another. That of an exact study has no layout and no answers: the
        record of exactness has the layout that was chosen, and a digest of logits."""
        if spec.name not in self._fingerprints:
            model, exact = self.model(spec), self.study.execution.exact
            running = {k: v for k, v in model.running.items() if k != "channels_last" or not exact}
            self._fingerprints[spec.name] = fingerprint(
                replace(model, running=running),
                self.images.images,
                size=trial_batch_size(model, self.study.execution.batch_size),
                files=[] if spec.name in self.supplied else files_of(spec.resolved),
                ask=not (self.study.execution.metered or exact),
            )
        return self._fingerprints[spec.name]

    def check_model(self, spec: ModelSpec, processes: int) -> Examined:
        """Raise InputError if a model answers at random; with the study's `check`, gives all that
        is found of it, and with `exact` what was chosen, for so many processes. A metered model is
        asked nothing."""
        study, model, images = self.study, self.model(spec), self.images.images
        if study.execution.metered:
            return Examined([], Exactness(Seen.METERED))
        few = images[:CHECKED_IMAGES]
        try:
            if not study.execution.exact:  # which looks more closely
                check_repeatable(model, images, trial_batch_size(model, study.execution.batch_size))
            with threads(threads_each(processes)):
                if study.execution.exact:
                    self.models[spec.name], examined = exact_choice(
                        model, few, study.execution.batch_size
                    )
                    self._exactness[spec.name] = examined.exactness
                    return examined
                if study.execution.check:
                    size = study.execution.batch_size or default_batch_size(model)
                    return examine(model, few, shapes_of(model, size, study.execution.one_shape))
        except InputError as error:
            raise study.about(error, spec=spec) from None
        return Examined([], Exactness())

    def exact_model(self, spec: ModelSpec, begun: Exactness, folder: Path) -> Model:
        """A model in the layout that was chosen when the study was begun; raises FileError if what
        held then does not hold here."""
        check_exactness(spec, begun, begun, folder)
        model = self.models[spec.name] = self.model(spec).in_layout(begun.layout)
        if spec.name not in self._exactness:
            few = self.images.images[:CHECKED_IMAGES]
            self._exactness[spec.name] = examine(model, few, begun.shapes).exactness
        check_exactness(spec, self._exactness[spec.name], begun, folder)
        return model

    def surrogate(self, spec: AttackSpec) -> Surrogate | None:
        """That of an attack, if it has one."""
        if spec.surrogate is None:
            return None
        if spec.name not in self._surrogates:
            self._surrogates[spec.name] = load_surrogate(
                self.study, spec, spec.surrogate, self.images.images[0], self.device
            )
        return self._surrogates[spec.name]

    def attack(self, spec: AttackSpec) -> Attack:
        """An attack, with its surrogate if it has one."""
        attack: Any = spec.attack
        surrogate = self.surrogate(spec)
        if surrogate is not None:
            attack = replace(attack, surrogate=surrogate)
        return attack  # type: ignore[no-any-return]

    def surrogate_digests(self) -> dict[str, str]:
        """By attack, what tells its surrogate from another, where it has one. Raises InputError
        unless that can be differentiated, and has the classes of the models."""
        digests = {}
        for spec in self.study.attacks:
            surrogate = self.surrogate(spec)
            if surrogate is not None:
                with reported(self.study, spec=spec):
                    classes = surrogate.classes(self.images.images[0].to(self.device))
                    models = {each.name: self.model(each).classes for each in self.study.models}
                    check_surrogate_classes(self.study, self.images, classes, models)
                digests[spec.name] = surrogate.digest
        return digests

    def check_surrogate(self, spec: AttackSpec, recorded: Mapping[str, str], folder: Path) -> None:
        """Raise FileError unless the surrogate of an attack, if it has one, is that which the study
        was begun with."""
        surrogate = self.surrogate(spec)
        if surrogate is not None:
            check_surrogate(spec, surrogate.digest, recorded.get(spec.name), folder)

    def detector(self) -> Detector | None:
        """The detector that is shown the queries, if there is one."""
        if self.study.detector is not None and not self._detectors:
            self._detectors.append(load_detector(self.study, self.study.detector))
        return self._detectors[0] if self._detectors else None

    def watch_record(self) -> WatchRecord | None:
        """What is recorded of the detector: what it is, and what it says of harmless queries about
        the images, as each model would be sent them."""
        spec, detector = self.study.detector, self.detector()
        if spec is None or detector is None:
            return None
        images = self.images.images
        return WatchRecord(
            spec.source,
            detector_parts(detector),
            spec.alarm_price,
            None if math.isinf(spec.max_alarms) else int(spec.max_alarms),
            {
                model.name: benign_panel(detector, images, self.model(model))
                for model in self.study.models
            },
        )

    def check_detector(self, recorded: WatchRecord | None, folder: Path) -> None:
        """Raise FileError unless the detector, if there is one, is that which the study was begun
        with."""
        detector = self.detector()
        if recorded is not None and detector is not None:
            check_detector(recorded, detector_parts(detector), folder)

    def cell(self, place: Place, replayed: bool = False) -> Cell:
        """A cell of the grid, ready to be run; `replayed`: all its answers and alarms are
        recorded."""
        series, image, watch = place.series, place.image, self.study.detector
        detector = RecordedAlarms() if replayed and watch is not None else self.detector()
        detection = None
        if watch is not None and detector is not None:
            detection = Detection(detector, watch.alarm_price, watch.max_alarms)
        return Cell(
            attack=self.attack(series.attack),
            image=self.images.images[image],
            label=self.images.labels[image],
            prices=series.tariff.prices,
            limits=series.tariff.limits,
            goal=self.study.goal.goal,
            seed=place.seed,
            name=self.images.names[image],
            charge_clean=self.study.charge_clean,
            start=self.starts[image],
            norm=self.study.norm,
            mask=self.masks[image],
            detection=detection,
        )

    def only(self, kept: Kept) -> Loaded:
        """The same with those images that are kept, as far as they are there."""
        places = [place for place in kept.places if place < len(self.images)]
        fewer = replace(
            self,
            images=take(self.images, places),
            hashes=tuple(self.hashes[place] for place in places),
            starts=[self.starts[place] for place in places],
            masks=[self.masks[place] for place in places],
            kept=kept,
        )
        fewer.models.update(self.models)
        fewer._detectors.extend(self._detectors)
        return fewer

    @property
    def masks_digest(self) -> str | None:
        """What tells the masks from others."""
        return masks_digest(self.masks)

    def check_masks(self, recorded: str | None, folder: Path) -> None:
        """Raise FileError unless the masks are those that the study was begun with."""
        check_masks(self.study, self.masks_digest, recorded, folder)

    def check_images(self, recorded: list[tuple[str, int, str]], folder: Path) -> None:
        """Raise FileError unless the images are those that the study was begun with."""
        images = list(zip(self.hashes, self.images.labels, strict=True))
        check_images(self.study, images, recorded, folder)


def load(
    study: Study, models: Mapping[str, Model] | None = None, begun: StudyRecord | None = None
) -> Loaded:
    """Load the images and starts of a study; `models` are used instead of loading them.

    begun: what was recorded when it was begun; without it, models that bring a configuration are
        loaded, too, and images are judged if the study asks for it.
    """
    correct_only = study.images.correct_only
    if study.execution.metered and correct_only:
        raise study.about(
            InputError(
                f"and {mention('metered')} are both set: images are judged uncharged, and a "
                "metered model bills every row",
                remedy="leave one of them out, and list images that are known to be right",
                input="correct_only",
            )
        )
    if study.execution.metered and (study.execution.check or study.execution.exact):
        raise study.about(
            InputError(
                f"and {mention('metered')} are both set: the check asks uncharged, and a metered "
                "model bills every row",
                remedy="leave one of them out",
                input="check" if study.execution.check else "exact",
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


def _opened(
    study: Study, device: torch.device, supplied: Mapping[str, Model]
) -> dict[str, LoadedNetwork]:
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
    opened: dict[str, LoadedNetwork],
    own: Configured,
    limit: int | None,
) -> Loaded:
    """With the first `limit` images, made ready as the study or `own` says."""
    images = load_images(study, limit, own)
    starts = load_starts(study, images, limit)
    hashes = tuple(content_hash(image) for image in images.images)
    masks, own_names = load_masks(study, images), study.images.names is None and bool(own.names)
    return Loaded(study, images, hashes, starts, masks, device, supplied, own_names, opened)
