"""The grid: the numbers of the cells of a study, which depend only on the study.

Cells are numbered model by model, attack by attack, price by price, seed by seed, image by image. A
series is a model, an attack and a price: one row of a table. All models have the same number of
images; with `correct_only`, these are different images.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
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
        """Return its name, with the model only if there are several."""
        model = f"{self.model.name}, " if len(study.models) > 1 else ""
        price = "c* =" if self.tariff.file is None else "prices"
        return f"{model}{self.attack.name}, {price} {self.tariff.name}"


class Place(NamedTuple):
    """The place of a cell in the grid."""

    series: Series
    seed: int
    image: int


@dataclass(frozen=True)
class Grid:
    """The cells of a study."""

    study: Study
    images: int
    """Number of images of each model."""
    of_model: Mapping[str, Sequence[int]] | None = None
    """Positions of each model's images among those of the study; None if it has all of them."""

    @classmethod
    def of(cls, study: Study, images: int, kept: Kept | None) -> Grid:
        """Return the grid of a study with this number of images, of which each model has those that
        are kept."""
        if kept is None:
            return cls(study, images)
        return cls(study, len(kept.of_model[study.models[0].name]), kept.of_model)

    @property
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
        """Return the number of the series that a cell is in."""
        return cell // self.width

    def place(self, cell: int) -> Place:
        series, rest = divmod(cell, self.width)
        seed, image = divmod(rest, self.images)
        found = self.series[series]
        if self.of_model is not None:
            image = self.of_model[found.model.name][image]
        return Place(found, self.study.seeds[seed], image)

    def cell(self, place: Place) -> int:
        series, seed, image = place
        if self.of_model is not None:
            image = self.of_model[series.model.name].index(image)
        return series.number * self.width + self.study.seeds.index(seed) * self.images + image
