"""An attack as other packages run one: images of theirs in, points of theirs out.

1. It holds an attack and the options of `tb.run`, which are checked when it is made.
2. What comes back for an image is its nearest adversarial point, with the very values that the
   model was sent; for an image without one, or that was misclassified anyway, the image itself.
3. Where labels are not given (a targeted criterion has none), they are what the model answers:
   queries that nobody is charged for.
4. An image that already has its target class has no source class. It is given one that it has not,
   so its run ends as `ALREADY_MISCLASSIFIED` with its first query, at distance 0.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .._run import LIMITS, check_names, checked_limits, run
from ..attacks.presets import preset
from ..core.model import Model
from ..core.problem import Attack
from ..core.result import Results
from ..core.third_party_models import Pixels
from ..core.validation import shown
from ..engine.batch import default_batch_size
from ..errors import InputError

ARGUMENTS = ("attack", "model", "images", "labels", "targets", "starts")
"""What `run` takes that is not an option here: the other package gives it."""
SIGNATURE = inspect.signature(run)
WHOLE = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
OPTIONS = tuple(name for name in SIGNATURE.parameters if name not in ARGUMENTS)


class Names(NamedTuple):
    """What the other package calls the arguments of `run`."""

    images: str
    labels: str
    starts: str


@dataclass(frozen=True)
class Wrapped:
    """An attack, and how it is run."""

    attack: Attack
    options: Mapping[str, Any]
    names: Names

    @classmethod
    def of(cls, attack: str | Attack, options: Mapping[str, Any], names: Names) -> Wrapped:
        """With the name of a preset, or an attack; raises for what `run` would refuse."""
        check_names("Attack", options, OPTIONS)
        chosen = preset(attack) if isinstance(attack, str) else attack
        bound = SIGNATURE.bind(chosen, None, None, None, **options)
        bound.apply_defaults()
        checked_limits(chosen, *(bound.arguments[name] for name in LIMITS))
        return cls(chosen, dict(options), names)

    @property
    def norm(self) -> str:
        """What its distances are measured in."""
        return str(self.options.get("norm", SIGNATURE.parameters["norm"].default))

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
        """The points, as `inputs` are, and the results. `labels` or `targets`: one for each."""
        images = pixels.decode(inputs, self.names.images)
        classes = _classes(labels if targets is None else targets, len(images), self.names.labels)
        if targets is not None or classes is None:
            answers = self._answers(model, images)
            sources = answers if targets is None else _apart(answers, classes or [])
        else:
            sources = classes
        try:
            results = run(
                self.attack,
                model,
                images,
                sources,
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
        """The model's labels of clean images, as a run would send them."""
        size = self.options.get("batch_size") or default_batch_size(model)
        labels: list[int] = []
        for part in images.split(size):
            labels += model(model.sent(part.to(model.device, copy=True))).tolist()
        return [max(label, 0) for label in labels]  # one without an answer fails in its own run


def _apart(answers: Sequence[int], targets: Sequence[int]) -> list[int]:
    """The answers; where one is the target, another class."""
    return [
        label if label != target else int(target == 0)
        for label, target in zip(answers, targets, strict=True)
    ]


def _classes(given: Any, count: int, name: str) -> list[int] | None:
    """Classes as plain numbers, one for each of `count` images; None if none are given."""
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
