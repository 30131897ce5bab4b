"""The grid: every cell of a study has a number, the same whoever counts.

Model by model, attack by attack, price by price, seed by seed, image by image. A series is a model,
an attack and a price: what a table has a row for.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from .spec.specs import AttackSpec, ModelSpec, Tariff
from .spec.study import Study


class Series(NamedTuple):
    """A model, an attack, a price."""

    number: int
    model: ModelSpec
    attack: AttackSpec
    tariff: Tariff

    def named(self, study: Study) -> str:
        """What it is called: the model only where there are several."""
        model = f"{self.model.name}, " if len(study.models) > 1 else ""
        return f"{model}{self.attack.name}, c* = {self.tariff.name}"


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
        return Place(self.series[series], self.study.seeds[seed], image)
