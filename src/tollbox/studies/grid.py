"""The grid: the numbers of the cells of a study, which depend only on the study.

Cells are numbered model by model, attack by attack, price by price, seed by seed, image by image. A
series is a model, an attack and a price: one row of a table. All models have the same number of
images; with `correct_only`, each model may have different ones.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from .specs import AttackSpec, ModelSpec, Tariff
from .store.record import Kept
from .study import Study


class Series(NamedTuple):
    """A model, an attack and a price."""

    number: int
    model: ModelSpec
    attack: AttackSpec
    tariff: Tariff

    def named(self, study: Study) -> str:
        """Return the name of the series, with the model only if the study has several."""
        model = f"{self.model.name}, " if len(study.models) > 1 else ""
        price = "c* =" if self.tariff.file is None else "prices"
        return f"{model}{self.attack.name}, {price} {self.tariff.name}"


class Place(NamedTuple):
    """The series, seed and image of a cell."""

    series: Series
    seed: int
    image: int


@dataclass(frozen=True)
class Grid:
    """The numbering of the cells of a study."""

    study: Study
    study_images: int
    kept: Kept | None = None
    """Images of each model; None if every model has all images of the study."""

    @cached_property
    def images(self) -> int:
        """Number of images of each model."""
        if self.kept is None:
            return self.study_images
        return len(self.kept.of_model[self.study.models[0].name])

    @cached_property
    def width(self) -> int:
        """Number of cells of a series."""
        return len(self.study.seeds) * self.images

    @cached_property
    def series(self) -> list[Series]:
        study = self.study
        triples = itertools.product(study.models, study.attacks, study.tariffs)
        return [Series(number, *triple) for number, triple in enumerate(triples)]

    def __len__(self) -> int:
        return len(self.series) * self.width

    def series_of(self, cell: int) -> int:
        return cell // self.width

    def place(self, cell: int) -> Place:
        series, rest = divmod(cell, self.width)
        seed, image = divmod(rest, self.images)
        found = self.series[series]
        if self.kept is not None:
            image = self.kept.of_model[found.model.name][image]
        return Place(found, self.study.seeds[seed], image)

    def cell(self, place: Place) -> int:
        series, seed, image = place
        if self.kept is not None:
            image = self.kept.of_model[series.model.name].index(image)
        return series.number * self.width + self.study.seeds.index(seed) * self.images + image
