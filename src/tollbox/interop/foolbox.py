"""A tollbox attack as a Foolbox attack.

    attack = tollbox.interop.foolbox.Attack("frugal", prices=tb.Prices(source=100), budget=5_000)
    raw, clipped, success = attack(fmodel, images, labels, epsilons=[0.5, 1.0])
    attack.results[0].ledger

1. It is a `MinimizationAttack`: Foolbox clips the points to each epsilon and queries the model
   again to see whether they are adversarial. Ledgers exclude these queries and those for the labels
   of a targeted run.
2. Images have the model's bounds. Distances of `results` refer to pixels in [0,1]: Foolbox's
   distances divided by the width of the bounds.
3. Every run uses its whole budget, whatever the epsilons: `early_stop` is ignored, so that results
   equal those of `tb.run`.

Foolbox is imported when `Attack` is first used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..core.problem import Attack as AnyAttack
from ..core.result import Results
from ..core.third_party_models import foolbox_model
from ..core.validation import require, shown
from ..data.user_code import optional
from ..errors import InputError
from ..models.functions import from_foolbox
from .wrapping import Wrapped

PURPOSE = "tollbox.interop.foolbox.Attack is a Foolbox attack"
FLOATS = "floats, in a tensor of PyTorch or an array of NumPy"
NAMES = {
    "images": "inputs",
    "labels": "criterion",
    "targets": "criterion",
    "starts": "starting_points",
}


class FoolboxAttack:
    """The methods that Foolbox's base class requires; `Attack` inherits from both."""

    results: Results | None = None
    """The results of the last run, as `tb.run` returns them."""

    def __init__(self, attack: str | AnyAttack, **options: Any) -> None:
        """`attack` is an attack or the name of a preset; `options` are those of `tb.run`."""
        self._wrapped = Wrapped(attack, options, NAMES)

    @property
    def distance(self) -> Any:
        """Foolbox's distance for the option `norm`."""
        norm = str(self._wrapped.template.norm)
        return getattr(optional("foolbox.distances", PURPOSE, "foolbox"), norm)

    def run(
        self,
        model: Any,
        inputs: Any,
        criterion: Any,
        *,
        early_stop: float | None = None,  # noqa: ARG002
        starting_points: Any = None,
    ) -> Any:
        """Return the closest adversarial point of each input, or the input if none was found."""
        eagerpy = optional("eagerpy", PURPOSE, "foolbox")
        images, restored = _converted(eagerpy.astensor_, inputs, "inputs", FLOATS)
        raw, starts = _tensor(images.raw, "inputs"), None
        if starting_points is not None:
            given = _converted(eagerpy.astensor, starting_points, "starting_points", FLOATS)
            starts = _tensor(given.raw, "starting_points")
        asked = from_foolbox(model, device=raw.device, dtype=raw.dtype)
        pixels, goal = foolbox_model(model).pixels, _goal(criterion)
        points, self.results = self._wrapped.run(asked, pixels, raw, **goal, starts=starts)
        of_torch = isinstance(images.raw, Tensor)
        return restored(eagerpy.astensor(points if of_torch else points.numpy()))


def _converted(convert: Callable[[Any], Any], value: Any, name: str, expected: str) -> Any:
    """Return what a function of Foolbox makes of a value; raise InputError if it refuses it."""
    try:
        return convert(value)
    except ValueError:
        raise InputError(f"is {shown(value)}", expected=expected, input=name) from None


def _tensor(images: Any, name: str) -> Tensor:
    if isinstance(images, np.ndarray):
        images = torch.from_numpy(np.array(images))
    if not isinstance(images, Tensor) or not images.is_floating_point():
        what = images.dtype if isinstance(images, Tensor) else type(images).__name__
        raise InputError(f"is of {what}", expected=FLOATS, input=name)
    return images.detach()


def _goal(criterion: Any) -> dict[str, Any]:
    """Return the option `labels` or `targets` for labels or a Foolbox criterion."""
    criteria = optional("foolbox.criteria", PURPOSE, "foolbox")
    if isinstance(criterion, criteria.TargetedMisclassification):
        return {"targets": criterion.target_classes.raw}
    expected = "labels, Misclassification or TargetedMisclassification"
    if not isinstance(criterion, criteria.Criterion):
        criterion = _converted(criteria.Misclassification, criterion, "criterion", expected)
    known = isinstance(criterion, criteria.Misclassification)
    require(known, "criterion", criterion, expected)
    return {"labels": criterion.labels.raw}


def __getattr__(name: str) -> Any:
    if name != "Attack":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    base = optional("foolbox.attacks.base", PURPOSE, "foolbox").MinimizationAttack
    body = {"__module__": __name__, "__doc__": "A Foolbox attack. " + str(__doc__)}
    return globals().setdefault(name, type(name, (FoolboxAttack, base), body))
