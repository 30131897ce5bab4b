"""What the configurations of a study's models say of its images: sizes, and names of classes.

1. A model that may bring a configuration is loaded before the images. The study's own words win
   over it (`files/preparation.py`).
2. All models of a study have the same images. If pictures are to be resized, and configurations say
   different things of it, the study has to say it itself.
3. What was found is in the record of the study, and a study that goes on takes it from there: no
   model is needed for its images, whatever a configuration says by then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..core.preprocessing import Preprocessing
from ..errors import InputError, mention
from ..files.preparation import Configured, Preparation
from ..files.resizing import pair
from .store.record import StudyRecord


@dataclass(frozen=True)
class Configurations:
    """Of several models, by their names in the study."""

    models: Mapping[str, Configured]

    @property
    def names(self) -> tuple[str, ...] | None:
        """Of the classes: the first model's that has them."""
        return next((model.names for model in self.models.values() if model.names), None)

    @property
    def preprocessing(self) -> Preprocessing | None:
        """What all models say of sizes; raises InputError if that differs."""
        sizes = {name: Preparation(model=model).resizing for name, model in self.models.items()}
        told = [(name, resizing) for name, resizing in sizes.items() if resizing is not None]
        for name, resizing in told:
            if resizing != told[0][1]:
                raise InputError(
                    f"the configurations of the models differ: for {told[0][0]!r} pictures are "
                    f"{told[0][1]}, and for {name!r} {resizing}",
                    expected="images that are the same for all models of a study",
                    remedy=f"give {mention('resize')} and {mention('crop')}, or make a study of "
                    "each",
                )
        return self.models[told[0][0]].preprocessing if told else None


@dataclass(frozen=True)
class Recorded:
    """What was found when a study was begun."""

    record: StudyRecord

    @property
    def names(self) -> tuple[str, ...] | None:
        """Of the classes, where they are the models' own."""
        return self.record.class_names if self.record.own_names else None

    @property
    def preprocessing(self) -> Preprocessing | None:
        """How pictures were resized."""
        sizes = self.record.resizing
        if sizes is None:
            return None
        crop = None if sizes.crop is None else pair(sizes.crop)
        return Preprocessing.of(sizes.resize, crop, interpolation=sizes.interpolation)
