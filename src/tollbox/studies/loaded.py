"""A study with its images, and with its models, surrogates and detector once they are needed.

A model is loaded, checked and fingerprinted once, when it is needed first; so is a surrogate. What
a study goes on with is checked against what it was begun with (`identity.py`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..attacks.surrogates import Surrogate
from ..benign import benign_panel
from ..check import CHECKED_IMAGES, Examined, exact_choice, examine, shapes_of, threads
from ..core.cell import Cell
from ..core.exactness import Exactness, Seen
from ..core.model import Model
from ..core.problem import Attack
from ..core.watch import Detector, RecordedAlarms
from ..engine.cores import threads_each
from ..engine.sizes import default_batch_size, trial_batch_size
from ..errors import InputError
from ..files.images import ImageSet
from ..files.masks import masks_digest
from ..models.opening import Opened
from ..models.registry import files_of
from .class_checks import check_model_classes, check_surrogate_classes
from .detector_identity import check_detector, detector_parts
from .grid import Grid, Place
from .identity import (
    check_exactness,
    check_images,
    check_masks,
    check_repeatable,
    check_surrogate,
    fingerprint,
)
from .sources import load_detector, load_model, load_surrogate, reported
from .spec.selection import take
from .spec.specs import AttackSpec, ModelSpec
from .spec.study import Study
from .store.record import Kept, ModelFingerprint
from .store.watch_record import WatchRecord


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
    opened: dict[str, Opened] = field(repr=False)
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
            model, exact = self.model(spec), self.study.exact
            running = {k: v for k, v in model.running.items() if k != "channels_last" or not exact}
            self._fingerprints[spec.name] = fingerprint(
                replace(model, running=running),
                self.images.images,
                size=trial_batch_size(model, self.study.batch_size),
                files=[] if spec.name in self.supplied else files_of(spec.resolved),
                ask=not (self.study.metered or exact),
            )
        return self._fingerprints[spec.name]

    def check_model(self, spec: ModelSpec, processes: int) -> Examined:
        """Raise InputError if a model answers at random; with the study's `check`, gives all that
        is found of it, and with `exact` what was chosen, for so many processes. A metered model is
        asked nothing."""
        study, model, images = self.study, self.model(spec), self.images.images
        if study.metered:
            return Examined([], Exactness(Seen.METERED))
        few = images[:CHECKED_IMAGES]
        try:
            if not study.exact:  # which looks more closely
                check_repeatable(model, images, trial_batch_size(model, study.batch_size))
            with threads(threads_each(processes)):
                if study.exact:
                    self.models[spec.name], examined = exact_choice(model, few, study.batch_size)
                    self._exactness[spec.name] = examined.exactness
                    return examined
                if study.check:
                    size = study.batch_size or default_batch_size(model)
                    return examine(model, few, shapes_of(model, size, study.one_shape))
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
        if self.study.watch is not None and not self._detectors:
            self._detectors.append(load_detector(self.study, self.study.watch))
        return self._detectors[0] if self._detectors else None

    def watch_record(self) -> WatchRecord | None:
        """What is recorded of the detector: what it is, and what it says of harmless queries about
        the images, as each model would be sent them."""
        spec, detector = self.study.watch, self.detector()
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
        series, image, watch = place.series, place.image, self.study.watch
        detector = RecordedAlarms() if replayed and watch is not None else self.detector()
        return Cell(
            attack=self.attack(series.attack),
            image=self.images.images[image],
            label=self.images.labels[image],
            prices=series.tariff.prices,
            budget=series.tariff.budget,
            max_queries=series.tariff.max_queries,
            max_flagged=series.tariff.max_flagged,
            goal=self.study.goal.goal,
            seed=place.seed,
            name=self.images.names[image],
            charge_clean=self.study.charge_clean,
            start=self.starts[image],
            norm=self.study.norm,
            mask=self.masks[image],
            watch=detector,
            alarm_price=0.0 if watch is None else watch.alarm_price,
            max_alarms=math.inf if watch is None else watch.max_alarms,
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
