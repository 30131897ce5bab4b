"""Whether all that a study names is of the same classes: labels, target, flagged classes and prices
are classes of every model, and a surrogate has the classes of the models.

Where a model does not say how many it has, labels are held against the names of the classes.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..core.cell import check_label
from ..core.model import Model
from ..errors import InputError
from ..files.images import ImageSet
from ..files.naming import check_names
from ..files.starts import check_target
from ..files.tables import LARGEST
from .spec.specs import ModelSpec
from .spec.study import Study


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
