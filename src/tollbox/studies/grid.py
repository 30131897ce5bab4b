"""The grid: every cell of a study has a number, the same whoever counts.

Model by model, attack by attack, price by price, seed by seed, image by image. A series is a model,
an attack and a price: what a table has a row for. All models have the same number of images; where
each has only those that it classifies correctly, they are not the same ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from .specs import AttackSpec, ModelSpec, Tariff
from .store.record import Kept
from .study import Study


class Series(NamedTuple):
    """A model, an attack, a price."""

    number: int
    model: ModelSpec
    attack: AttackSpec
    tariff: Tariff

    def named(self, study: Study) -> str:
        """What it is called: the model only where there are several; a file of prices is no c*."""
        model = f"{self.model.name}, " if len(study.models) > 1 else ""
        price = "c* =" if self.tariff.file is None else "prices"
        return f"{model}{self.attack.name}, {price} {self.tariff.name}"


class Place(NamedTuple):
    """Where a cell is in the grid."""

    series: Series
    seed: int
    image: int


@dataclass(frozen=True)
class Grid:
    """The cells of a study with so many images."""

    study: Study
    images: int
    """Of each model."""
    of_model: Mapping[str, Sequence[int]] | None = None
    """By model, which of the study's images it has; None: all of them."""

    @classmethod
    def of(cls, study: Study, images: int, kept: Kept | None) -> Grid:
        """The grid of a study with so many images, of which each model has those that are kept."""
        if kept is None:
            return cls(study, images)
        return cls(study, len(kept.of_model[study.models[0].name]), kept.of_model)

    @property
    def width(self) -> int:
        """Cells of a series."""
        return len(self.study.seeds) * self.images

    @cached_property
    def series(self) -> list[Series]:
        """All series, in order."""
        study = self.study
        triples = (
            (model, attack, tariff)
            for model in study.models
            for attack in study.attacks
            for tariff in study.tariffs
        )
        return [Series(number, *triple) for number, triple in enumerate(triples)]

    def __len__(self) -> int:
        study = self.study
        return len(study.models) * len(study.attacks) * len(study.tariffs) * self.width

    def series_of(self, cell: int) -> int:
        """The number of the series that a cell is in."""
        return cell // self.width

    def place(self, cell: int) -> Place:
        """Where a cell is."""
        series, rest = divmod(cell, self.width)
        seed, image = divmod(rest, self.images)
        found = self.series[series]
        if self.of_model is not None:
            image = self.of_model[found.model.name][image]
        return Place(found, self.study.seeds[seed], image)

    def cell(self, place: Place) -> int:
        """The cell at a place."""
        series, seed, image = place
        if self.of_model is not None:
            image = self.of_model[series.model.name].index(image)
        return series.number * self.width + self.study.seeds.index(seed) * self.images + image
