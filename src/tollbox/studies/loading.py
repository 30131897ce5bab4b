"""A study's images, starts and models, loaded and checked: labels, targets and prices against the
models' classes. A model is loaded, checked and fingerprinted once, when it is needed first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor

from ..check import CHECKED_IMAGES, Examined, exact_choice, examine, shapes_of, threads
from ..core.arguments import shown
from ..core.cell import Cell, check_label
from ..core.exactness import Exactness, Seen
from ..core.model import Model, as_model
from ..core.noise import content_hash
from ..engine.engine import default_batch_size, trial_batch_size
from ..engine.executors import threads_each
from ..errors import InputError, mention
from ..files.images import ImageSet
from ..files.starts import check_target
from ..files.tables import LARGEST
from .grid import Grid, Place
from .identity import check_exactness, check_images, check_repeatable, fingerprint
from .sources import find_device, load_images, load_model, load_starts
from .spec.specs import ModelSpec
from .spec.study import Study
from .store.record import ModelFingerprint


@dataclass(frozen=True)
class Loaded:
    """A study with its images, and with those of its models that were needed so far."""

    study: Study
    images: ImageSet
    hashes: tuple[str, ...]
    starts: list[Tensor | None]
    device: torch.device
    supplied: Mapping[str, Model]
    """Models that are used instead of loading them, by name."""
    _models: dict[str, Model] = field(default_factory=dict, init=False, repr=False)
    _exactness: dict[str, Exactness] = field(default_factory=dict, init=False, repr=False)
    _fingerprints: dict[str, ModelFingerprint] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def grid(self) -> Grid:
        """Its cells."""
        return Grid(self.study, len(self.images))

    def model(self, spec: ModelSpec) -> Model:
        """A model, checked against the labels, prices and target."""
        if spec.name not in self._models:
            model = self.supplied.get(spec.name)
            if model is None:
                model = load_model(self.study, spec, self.images.images[0], self.device)
            _check(self.study, self.images, spec, model)
            self._models[spec.name] = model
        return self._models[spec.name]

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
                file=None if spec.name in self.supplied else Path(spec.resolved),
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
                    self._models[spec.name], examined = exact_choice(model, few, study.batch_size)
                    self._exactness[spec.name] = examined.exactness
                    return examined
                if study.check:
                    size = study.batch_size or default_batch_size(model)
                    return examine(model, few, shapes_of(model, size, study.one_shape))
        except InputError as error:
            raise study.about(error, model=spec) from None
        return Examined([], Exactness())

    def exact_model(self, spec: ModelSpec, begun: Exactness, folder: Path) -> Model:
        """A model in the layout that was chosen when the study was begun; raises FileError if what
        held then does not hold here."""
        check_exactness(spec, begun, begun, folder)
        model = self._models[spec.name] = self.model(spec).in_layout(begun.layout)
        if spec.name not in self._exactness:
            few = self.images.images[:CHECKED_IMAGES]
            self._exactness[spec.name] = examine(model, few, begun.shapes).exactness
        check_exactness(spec, self._exactness[spec.name], begun, folder)
        return model

    def cell(self, place: Place) -> Cell:
        """A cell of the grid, ready to be run."""
        series, image = place.series, place.image
        return Cell(
            attack=series.attack.attack,
            image=self.images.images[image],
            label=self.images.labels[image],
            prices=series.tariff.prices,
            budget=series.tariff.budget,
            max_queries=series.tariff.max_queries,
            target=self.study.goal.target,
            seed=place.seed,
            name=self.images.names[image],
            charge_clean=self.study.charge_clean,
            start=self.starts[image],
        )

    def check_images(self, recorded: list[tuple[str, int, str]], folder: Path) -> None:
        """Raise FileError unless the images are those that the study was begun with."""
        images = list(zip(self.hashes, self.images.labels, strict=True))
        check_images(self.study, images, recorded, folder)


def load(study: Study, models: Mapping[str, Model] | None = None) -> Loaded:
    """Load the images and starts of a study; `models` are used instead of loading them."""
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
    device, images = find_device(study), load_images(study)
    starts = load_starts(study, images)
    hashes = tuple(content_hash(image) for image in images.images)
    return Loaded(study, images, hashes, starts, device, supplied)


def _check(study: Study, images: ImageSet, spec: ModelSpec, model: Model) -> None:
    """The model has the classes of the labels, of the target and of the prices."""
    try:
        for label, name, origin in zip(images.labels, images.names, images.origins, strict=True):
            classes = model.classes or (LARGEST if label > LARGEST else None)
            check_label(label, classes, f"{origin}: the label of image {name}")
        check_target(study.goal.target, images, model.classes)
        for tariff in study.tariffs:
            for number in tariff.prices.classes or {}:
                if model.classes is not None and number >= model.classes:
                    raise InputError(
                        f"the price {tariff.name!r} has one for class {number}, but the model has "
                        f"{model.classes} classes",
                        expected=f"0 to {model.classes - 1}",
                    )
    except InputError as error:
        raise study.about(error, model=spec) from None
