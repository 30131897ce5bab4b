"""The inputs of a study: its images, and its models, surrogates and detector once they are needed.

1. Each input is loaded, checked and fingerprinted once, when it is first needed. A resumed study
   compares its inputs with its record (`fingerprint.py`).
2. Missing images, and supplied models unknown to the study, are reported before a model is loaded.
3. Labels, target, flagged classes and classes with prices must exist in every model. If the number
   of a model's classes is unknown, labels are checked against the names of the classes.
4. With `correct_only`, each model classifies images, uncharged, before the study starts. A resumed
   study uses the images that its record keeps.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..attacks.surrogates import SETTINGS, Surrogate, with_surrogate
from ..core.cell import Cell, check_label
from ..core.detector import Detection, Detector
from ..core.device import usable
from ..core.exactness import Exactness, Seen
from ..core.model import Model, as_model
from ..core.noise import content_hash
from ..core.problem import Attack
from ..core.validation import require
from ..data.classes import check_names
from ..data.goals import check_target, load_masks, load_starts, masks_digest
from ..data.images import ImageSet, check_there
from ..data.resizing import ModelConfiguration
from ..data.tables import LARGEST
from ..data.user_code import called, importable, imported
from ..detection import benign_panel
from ..engine.batch import batch_size_for, default_batch_size, trial_batch_size
from ..errors import FileError, InputError
from ..model_check import CHECKED_IMAGES, Examined, exact_choice, examine, shapes_of, threads
from ..models.loading import load_network, open_network
from ..models.network import Network, tried
from ..models.numerics import DTYPES
from ..models.pytorch import Running
from ..models.registry import brings_configuration, files_of, is_user_function
from ..workers.executors import threads_each
from .fingerprint import (
    NEW_STUDY,
    PROBES,
    attack_fingerprint,
    check_exactness,
    check_repeatable,
    check_unchanged,
    labels_of,
    model_fingerprint,
    price_fingerprint,
    settings_of,
    surrogate_name,
)
from .grid import Grid, Place
from .images import (
    Configurations,
    digest_of,
    load_images,
    only_correct,
    recorded_configuration,
    take,
)
from .specs import AttackSpec, ModelSpec
from .store.record import DIGEST, DetectorRecord, Fingerprint, Kept, ModelRecord, StudyRecord
from .study import Study


@dataclass(frozen=True)
class StudyInputs:
    """A study with its images, and with the models that were needed so far."""

    study: Study
    images: ImageSet
    starts: Sequence[Tensor | None]
    masks: Sequence[Tensor | None]
    device: torch.device
    supplied: Mapping[str, Model]
    """Models that the caller supplies, by name; they are not loaded."""
    own_names: bool = False
    """Whether the names of the classes come from the configuration of a model."""
    kept: Kept | None = None
    """Images of each model; None if every model has all images."""
    opened: dict[str, Network] = field(default_factory=dict, repr=False)
    """Models that are loaded but not yet fitted to the images, by name."""
    models: dict[str, Model] = field(default_factory=dict, repr=False)
    """Models that were needed so far, by name."""
    trust: bool = False
    """Whether the caller trusts model files that can run code; no study or store can say so."""
    _surrogates: dict[str, Surrogate] = field(default_factory=dict, init=False, repr=False)
    _exactness: dict[str, Exactness] = field(default_factory=dict, init=False, repr=False)
    _fingerprints: dict[str, Fingerprint] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def hashes(self) -> tuple[str, ...]:
        return tuple(content_hash(image) for image in self.images.images)

    @cached_property
    def grid(self) -> Grid:
        return Grid(self.study, len(self.images), self.kept)

    # -- models -----------------------------------------------------------------------------------

    def model(self, spec: ModelSpec) -> Model:
        """Return a model, checked against the labels, prices and goal."""
        if spec.name not in self.models:
            model = self.supplied.get(spec.name)
            if model is None:
                opened = self.opened.pop(spec.name, None)
                opened = opened or open_model(self.study, spec, self.device, self.trust)
                dtype = None if spec.dtype is None else DTYPES[spec.dtype]
                switches = spec.channels_last, spec.compile, spec.cuda_graphs, spec.tf32
                with self.study.reporting(spec=spec):
                    running = Running(spec.mean, spec.std, spec.quantize, dtype, *switches)
                    model = opened.fit(self.images.images[0], running)
            elif not self.study.execution.metered:
                with self.study.reporting(spec=spec):
                    model = tried(model, self.images.images[0])
            self._check_classes(spec, model)
            self.models[spec.name] = replace(model, names=self.images.class_names or None)
        return self.models[spec.name]

    def _check_classes(self, spec: ModelSpec, model: Model) -> None:
        """Raise InputError unless the labels, goal, prices and names fit the model's classes, and
        the batch size fits the model."""
        study, images = self.study, self.images
        with study.reporting(spec=spec):
            batch_size_for(model, study.execution)
            check_names(images.class_names, model.classes)
            known = model.classes or len(images.class_names) or None
            each = zip(images.labels, images.names, images.origins, strict=True)
            for label, name, origin in each:
                classes = known or (LARGEST if label > LARGEST else None)
                check_label(label, classes, f"{origin}: the label of image {name}")
            check_target(study.goal.target, images, model.classes)
            study.goal.goal.check(model.classes)
            for tariff in study.tariffs:
                largest = max(tariff.prices.classes or (), default=0)
                if model.classes is not None and largest >= model.classes:
                    raise InputError(
                        f"the price {tariff.name!r} has one for class {largest}, but the model "
                        f"has {model.classes} classes",
                        expected=f"0 to {model.classes - 1}",
                    )

    def model_record(self, spec: ModelSpec) -> ModelRecord:
        """Return the settings of a model, without the layout that an exact study chooses."""
        model, exact = self.model(spec), self.study.execution.exact
        running = {k: v for k, v in model.running.items() if k != "channels_last" or not exact}
        dtype = str(model.dtype).removeprefix("torch.")
        return ModelRecord(dtype, model.quantize, running, model.classes)

    def model_fingerprint(self, spec: ModelSpec) -> Fingerprint:
        """Return the fingerprint of a model. An exact study omits layout and labels, since its
        record of exactness has the chosen layout and a digest of the logits."""
        if spec.name not in self._fingerprints:
            model = replace(self.model(spec), running=self.model_record(spec).running)
            files = [] if spec.name in self.supplied else files_of(spec.resolved)
            labels = self.first_labels(spec)
            self._fingerprints[spec.name] = model_fingerprint(spec, model, files, labels)
        return self._fingerprints[spec.name]

    def file_digest(self, spec: ModelSpec) -> str | None:
        [properties] = self.model_fingerprint(spec).values()
        digest = properties.get("the file")
        return None if digest is None else digest.removeprefix(DIGEST)

    def first_labels(self, spec: ModelSpec) -> tuple[int, ...] | None:
        """Return a model's labels for the first images; None if it fails, or is not queried."""
        model, how = self.model(spec), self.study.execution
        if how.metered or how.exact:
            return None
        return labels_of(model, self.images.images[:PROBES], self._shapes(model))

    def _shapes(self, model: Model) -> list[int]:
        """Return the batch shapes of a run of the model, in increasing order."""
        how = self.study.execution
        return shapes_of(model, trial_batch_size(model, how.batch_size), how.one_shape)

    def examine(self, spec: ModelSpec, processes: int) -> Examined:
        """Check a model and return the findings; raise InputError if it answers at random.

        An exact study chooses a shape and layout that suit this number of processes.
        """
        study, model, images = self.study, self.model(spec), self.images.images
        how, few = study.execution, images[:CHECKED_IMAGES]
        if how.metered:
            return Examined([], Exactness(Seen.METERED))
        with study.reporting(spec=spec):
            if not how.exact:  # `exact_choice` checks more closely
                check_repeatable(model, images, self._shapes(model))
            with threads(threads_each(processes)):
                if how.exact:
                    self.models[spec.name], found = exact_choice(model, few, how.batch_size)
                    self._exactness[spec.name] = found.exactness
                    return found
                if how.check:
                    size = how.batch_size or default_batch_size(model)
                    return examine(model, few, shapes_of(model, size, how.one_shape))
        return Examined([], Exactness())

    def exact_model(self, spec: ModelSpec, then: Exactness, folder: Path) -> Model:
        """Return a model in the layout that was chosen at the start of the study; raise FileError
        if it is not exact here."""
        check_exactness(spec, then, then, folder)
        model = self.models[spec.name] = self.model(spec).in_layout(then.layout)
        if spec.name not in self._exactness:
            few = self.images.images[:CHECKED_IMAGES]
            self._exactness[spec.name] = examine(model, few, then.shapes).exactness
        check_exactness(spec, self._exactness[spec.name], then, folder)
        return model

    # -- attacks and the detector -----------------------------------------------------------------

    def surrogate(self, spec: AttackSpec) -> Surrogate | None:
        given = spec.surrogate
        if given is None:
            return None
        key = repr(given)  # attacks with equal networks share what is computed
        if key not in self._surrogates:
            if any(map(is_user_function, given.resolved)):
                importable(str(self.study.folder.resolve()))
            with self.study.reporting(spec=spec):
                networks = [
                    load_network(source, self.device, trust=self.trust) for source in given.resolved
                ]
                settings = {name: getattr(given, name) for name in SETTINGS}
                self._surrogates[key] = Surrogate(networks, **settings)
        return self._surrogates[key]

    def attack(self, spec: AttackSpec) -> Attack:
        attack: Any = spec.attack
        surrogate = self.surrogate(spec)
        changed: Attack = attack if surrogate is None else with_surrogate(attack, surrogate)
        return changed

    def check_surrogates(self) -> list[str]:
        """Return sentences about surrogates that have other classes than a model; raise InputError
        if one cannot be differentiated."""
        study, goal, found = self.study, self.study.goal, []
        how = "is attacked on its own prediction"
        if goal.target is not None:
            how = "compares its logits with those of the start image"
        for spec in study.attacks:
            if spec.surrogate is None or (surrogate := self.surrogate(spec)) is None:
                continue
            with study.reporting(spec=spec):
                counts = surrogate.classes(self.images.images[0].to(self.device))
            for source, member, count in zip(
                spec.surrogate.sources, surrogate.members, counts, strict=True
            ):
                pairs = itertools.product(study.models, set(self.images.labels))
                own = (
                    member.has_own_labels(
                        count, self.model(model).classes, label, goal.for_label(label)
                    )
                    for model, label in pairs
                )
                if any(own):
                    other = "labels of its own" if member.labels else f"other classes ({count})"
                    text = f"the surrogate {source} of the attack {spec.name!r} has {other}"
                    found.append(f"{text}, and {how}")
        return found

    @cached_property
    def detection(self) -> Detection | None:
        """The detector with the terms of its alarms; None if the study has no detector."""
        spec = self.study.detector
        if spec is None:
            return None
        importable(str(self.study.folder.resolve()))
        with self.study.reporting(("detector", "source")):
            found = imported(spec.source, "detector")
            is_detector = isinstance(found, Detector) and not isinstance(found, type)
            if callable(found) and not is_detector:
                found = called(found, spec.source, "detector")
            return replace(spec.terms, detector=found)

    def detector_record(self) -> DetectorRecord | None:
        """Return the record of the detector, with its answers to benign queries about the images,
        in the form in which each model would receive them."""
        spec, detection = self.study.detector, self.detection
        if spec is None or detection is None:
            return None
        images, detector = self.images.images, detection.detector
        models = {each.name: self.model(each) for each in self.study.models}
        panels = {name: benign_panel(detector, images, model) for name, model in models.items()}
        most = None if math.isinf(spec.max_alarms) else int(spec.max_alarms)
        return DetectorRecord(spec.source, spec.alarm_price, most, panels)

    # -- fingerprints -----------------------------------------------------------------------------

    @property
    def masks_digest(self) -> str | None:
        return masks_digest(self.masks)

    def replay_fingerprint(self, attacks: Iterable[AttackSpec]) -> Fingerprint:
        """Return the fingerprint of the inputs that a replay of these attacks needs."""
        found, mask = {}, self.study.goal.mask
        if mask is not None and self.masks_digest is not None:
            found[mask.name] = {"the masks": DIGEST + self.masks_digest}
        for spec in attacks:
            surrogate = self.surrogate(spec)
            if surrogate is not None:
                found[surrogate_name(spec)] = {
                    **{f"the {name}": repr(value) for name, value in surrogate.settings.items()},
                    "the weights": DIGEST + surrogate.digest,
                }
        return found

    def fingerprint(self) -> Fingerprint:
        """Return the fingerprint of all inputs except the models, attacks and noise."""
        study = self.study
        found = {**price_fingerprint(study), **self.replay_fingerprint(study.attacks)}
        if study.detector is not None and self.detection is not None:
            settings = settings_of("detector", self.detection.detector)
            found[f"the detector {study.detector.source}"] = settings
        return found

    def check_against(
        self, record: StudyRecord, images: Sequence[tuple[str, int, str]], folder: Path
    ) -> None:
        """Raise FileError unless everything except the models matches the record of `folder` and
        its `images`: the content hash, label and name of each."""
        older = f"resume it with tollbox {record.environment.tollbox}"
        check_unchanged(record, attack_fingerprint(self.study), folder, older)
        origin, changes = self.study.images.path, list[str]()
        if len(images) != len(self.images):
            counts = f"from {len(images)} to {len(self.images)}"
            changes = [f"the number of images of {origin} changed {counts}"]
        rows = zip(self.hashes, self.images.labels, images, strict=False)
        for place, (content, label, (content_then, label_then, name)) in enumerate(rows):
            if (content, label) != (content_then, label_then):
                part = "label" if content == content_then else "content"
                changes.append(f"the {part} of image {place} ({name}) of {origin} changed")
        if changes:
            remedy = f"restore the images, {NEW_STUDY}"
            raise FileError(f"{folder} cannot be resumed: {changes[0]}", remedy=remedy)
        check_unchanged(record, self.fingerprint(), folder)

    # -- cells ------------------------------------------------------------------------------------

    def cell(self, place: Place, replayed: bool = False) -> Cell:
        """Return a cell of the grid; `replayed` says that its answers and alarms are recorded."""
        series, image, spec = place.series, place.image, self.study.detector
        detection = spec.terms if spec is not None and replayed else self.detection
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

    def only(self, kept: Kept) -> StudyInputs:
        """Return the same inputs with only the kept images that exist."""
        places = [place for place in kept.places if place < len(self.images)]
        starts, masks = ([each[place] for place in places] for each in (self.starts, self.masks))
        images = take(self.images, places)
        return replace(self, images=images, starts=starts, masks=masks, kept=kept)


def load(
    study: Study,
    models: Mapping[str, Model] | None = None,
    record: StudyRecord | None = None,
    trust: bool = False,
) -> StudyInputs:
    """Load the images, starts and masks of a study; models in `models` are used as they are.

    record: record of the study, if it is resumed or read. Without it, models that bring a
        configuration are loaded as well, and with `correct_only` images are classified.
    trust: whether the caller trusts model files that can run code.
    """
    require(models is None or isinstance(models, Mapping), "models", models, "models by name")
    names = [spec.name for spec in study.models]
    for name in models or {}:
        if name not in names:
            expected = f"names of the study: {', '.join(names)}"
            raise InputError(f"has {name!r}", expected=expected, input="models")
    supplied = {name: as_model(model) for name, model in (models or {}).items()}
    device = find_device(study)
    if study.images.function is None:
        with study.reporting(("images", "path")):  # before a model is downloaded
            check_there(study.images.path)
    opened = {
        spec.name: open_model(study, spec, device, trust)
        for spec in study.models
        if record is None and spec.name not in supplied and brings_configuration(spec.resolved)
    }
    own: ModelConfiguration = Configurations({**supplied, **opened})
    if record is not None:
        own = recorded_configuration(record)
    fitted: dict[str, Model] = {}

    def load_first(limit: int | None) -> StudyInputs:
        images = load_images(study, limit, own)
        with study.reporting(("goal", "start")):
            starts = load_starts(study.goal.start, images, limit)
        with study.reporting(("goal", "mask")):
            masks = load_masks(study.goal.mask, images)
        own_names = study.images.names is None and bool(own.names)
        loaded = study, images, starts, masks, device, supplied, own_names
        return StudyInputs(*loaded, opened=opened, models=fitted, trust=trust)

    kept = None if record is None else record.kept
    if not study.images.correct_only:
        inputs = load_first(study.images.limit)
    elif kept is not None:
        inputs = load_first(max(kept.looked_at.values())).only(kept)
    else:
        inputs = only_correct(study, load_first)
    chosen = study.images
    digest = digest_of(zip(inputs.hashes, inputs.images.labels, strict=True))
    if chosen.digest not in (None, digest):
        raise study.source.error(
            ("images", "digest"),
            f"images.digest is '{chosen.digest}', and the {len(inputs.images)} images of "
            f"{chosen.path} have '{digest}': expected the same images and labels in the same "
            f'order; restore them, or write digest = "{digest}" if these are right.',
        )
    return inputs


def open_model(study: Study, spec: ModelSpec, device: str | torch.device, trust: bool) -> Network:
    """Load a model without fitting it to the images."""
    if is_user_function(spec.resolved):
        importable(str(study.folder.resolve()))
    with study.reporting(spec=spec):
        names, size = study.images.names, study.execution.batch_size
        return open_network(spec.resolved, names=names, device=device, batch_size=size, trust=trust)


def find_device(study: Study) -> torch.device:
    """Return the device of the study after testing that it works."""
    with study.reporting(("device",)):
        return usable(study.device)
