"""An attack for other packages: it takes their images and returns points in the same form.

1. It returns the adversarial point with the smallest distance for each image, with the exact values
   that were sent to the model. If there is none, or if the image is already misclassified, it
   returns the image unchanged.
2. Without labels (a targeted criterion has none), the labels are the model's answers; these queries
   are not charged.
3. An image that already has its target class gets another source class, so that its run stops with
   `ALREADY_MISCLASSIFIED` after the first query, at distance 0.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from .._run import cell_template, check_names, run
from ..core.execution import Execution
from ..core.model import Model
from ..core.problem import Attack
from ..core.result import Results
from ..core.third_party_models import Pixels
from ..core.validation import check_instance, shown
from ..engine.batch import batch_size_for
from ..errors import InputError

ARGUMENTS = ("attack", "model", "images", "labels", "targets", "starts")
"""Arguments of `run` that the other package supplies."""
PER_IMAGE = ("goal", "mask", "execution", "progress")
"""Options of `run` that are not part of the cell template."""
OPTIONS = tuple(name for name in inspect.signature(run).parameters if name not in ARGUMENTS)
WHOLE = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


class Wrapped:
    """An attack and its options, to run on the images of another package."""

    def __init__(
        self, attack: str | Attack, options: Mapping[str, Any], names: Mapping[str, str]
    ) -> None:
        """`names` maps arguments of `run` to their names in the other package."""
        check_names("Attack", options, OPTIONS)
        self._execution = options.get("execution", Execution())
        check_instance("execution", self._execution, Execution)
        settings = {name: value for name, value in options.items() if name not in PER_IMAGE}
        self.template = cell_template(attack, **settings)
        self._options, self._names = dict(options), names

    def run(
        self,
        model: Model,
        pixels: Pixels,
        inputs: Tensor,
        *,
        labels: Any = None,
        targets: Any = None,
        starts: Tensor | None = None,
    ) -> tuple[Tensor, Results]:
        """Return the points, in the form of `inputs`, and the results; `labels` or `targets` has
        one class for each image."""
        names, classes = self._names, None
        images = pixels.decode(inputs, names["images"])
        if labels is not None:
            sources = _classes(labels, len(images), names["labels"])
        else:
            parts = images.split(batch_size_for(model, self._execution))
            answers = [model(model.sent(part.to(model.device, copy=True))) for part in parts]
            # An undecided label becomes 0 here; the run of that image reports the failure.
            sources = torch.cat(answers).clamp(min=0).tolist()
        if targets is not None:
            classes = _classes(targets, len(images), names["targets"])
            pairs = zip(sources, classes, strict=True)
            sources = [a if a != target else int(target == 0) for a, target in pairs]
        try:
            results = run(
                self.template.attack,
                model,
                images,
                sources,
                targets=classes,
                starts=None if starts is None else pixels.decode(starts, names["starts"]),
                **self._options,
            )
        except InputError as error:
            raise error.renamed(names) from None
        points = inputs.clone()
        for result in results:
            if result.adversarial is not None and result.stop.attacked:
                points[result.index] = pixels.encode(result.adversarial[None])[0].to(points)
        return points, results


def _classes(given: Any, count: int, name: str) -> list[int]:
    try:
        classes = torch.as_tensor(given)
    except (TypeError, ValueError, RuntimeError):
        classes = torch.empty(0)
    if classes.shape == (count,) and classes.dtype in WHOLE:
        return [int(value) for value in classes.tolist()]
    shape = getattr(given, "shape", None)
    what = f"is {shown(given)}" if shape is None else f"has shape {tuple(shape)}"
    if shape == (count,):
        what = f"is of {given.dtype}"
    raise InputError(what, expected=f"a whole number for each image, {count} in all", input=name)
