"""An attack as other packages run one: their images in, their points out.

1. It holds an attack and options of `tb.run`, which are checked when it is made.
2. It returns the adversarial point with the smallest distance for each image, with the exact values
   that the model was sent. An image without one, or that is misclassified anyway, is returned
   unchanged.
3. Without labels (a targeted criterion has none), the labels are what the model answers; these
   queries are not charged.
4. An image that already has its target class gets another source class, so that its run stops as
   `ALREADY_MISCLASSIFIED` with the first query, at distance 0.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .._run import cell_template, check_names, run
from ..core.cell import Cell
from ..core.execution import Execution
from ..core.model import Model
from ..core.problem import Attack
from ..core.result import Results
from ..core.third_party_models import Pixels
from ..core.validation import check_instance, shown
from ..engine.batch import batch_size_for
from ..errors import InputError

ARGUMENTS = ("attack", "model", "images", "labels", "targets", "starts")
"""Arguments of `run` that the other package gives."""
PER_IMAGE = ("goal", "mask", "execution", "progress")
"""Options of `run` that are not part of the cell template."""
OPTIONS = tuple(name for name in inspect.signature(run).parameters if name not in ARGUMENTS)
WHOLE = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


class Names(NamedTuple):
    """What the other package calls the arguments of `run`."""

    images: str
    labels: str
    starts: str


@dataclass(frozen=True)
class Wrapped:
    """An attack with its options."""

    template: Cell
    options: Mapping[str, Any]
    names: Names

    @classmethod
    def of(cls, attack: str | Attack, options: Mapping[str, Any], names: Names) -> Wrapped:
        """Return a preset or an attack with its options; raise for what `run` would refuse."""
        check_names("Attack", options, OPTIONS)
        check_instance("execution", options.get("execution", Execution()), Execution)
        settings = {name: value for name, value in options.items() if name not in PER_IMAGE}
        return cls(cell_template(attack, **settings), dict(options), names)

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
        images = pixels.decode(inputs, self.names.images)
        given = labels if targets is None else targets
        sources = classes = _classes(given, len(images), self.names.labels)
        if classes is None or targets is not None:
            sources = self._answers(model, images)
        if classes is not None and targets is not None:
            pairs = zip(sources or [], classes, strict=True)
            sources = [a if a != target else int(target == 0) for a, target in pairs]
        try:
            results = run(
                self.template.attack,
                model,
                images,
                sources or [],
                targets=None if targets is None else classes,
                starts=None if starts is None else pixels.decode(starts, self.names.starts),
                **self.options,
            )
        except InputError as error:
            names = {**self.names._asdict(), "targets": self.names.labels}
            raise error.renamed(names) from None
        points = inputs.clone()
        for result in results:
            if result.adversarial is not None and result.stop.attacked:
                points[result.index] = pixels.encode(result.adversarial[None])[0].to(points)
        return points, results

    def _answers(self, model: Model, images: Tensor) -> list[int]:
        """Return the model's labels of clean images, as a run would send them."""
        size = batch_size_for(model, self.options.get("execution", Execution()))
        labels: list[int] = []
        for part in images.split(size):
            labels += model(model.sent(part.to(model.device, copy=True))).tolist()
        return [max(label, 0) for label in labels]  # an image without an answer fails in its run


def _classes(given: Any, count: int, name: str) -> list[int] | None:
    """Return one plain number for each of `count` images; None if none are given."""
    if given is None:
        return None
    try:
        classes = torch.as_tensor(given)
    except (TypeError, ValueError, RuntimeError):
        classes = torch.empty(0)
    if classes.shape != (count,) or classes.dtype not in WHOLE:
        shape = getattr(given, "shape", None)
        what = f"is {shown(given)}" if shape is None else f"has shape {tuple(shape)}"
        if shape == (count,):
            what = f"is of {given.dtype}"
        raise InputError(
            what, expected=f"a whole number for each image, {count} in all", input=name
        )
    return [int(value) for value in classes.tolist()]
