"""A tollbox attack as an evasion attack of the Adversarial Robustness Toolbox (ART).

    attack = Attack("frugal", classifier, prices=tb.Prices(source=100), budget=5_000)
    adversarial = attack.generate(x, y)
    attack.results[0].ledger

1. Images are arrays with the classifier's `clip_values` and layout. Without `y`, the classifier
   gives the labels. Ledgers exclude these queries and those for the labels of a targeted run.
2. Distances of `results` refer to pixels in [0,1]: the distances of the arrays divided by the width
   of the clip values.

ART is imported when `Attack` is first used.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..core.model import from_third_party
from ..core.problem import Attack as AnyAttack
from ..core.result import Results
from ..core.third_party_models import art_model
from ..core.validation import check_flag, require
from ..data.user_code import optional
from ..errors import InputError
from .wrapping import Wrapped

PURPOSE = "tollbox.interop.art.Attack is an attack of the Adversarial Robustness Toolbox"
NAMES = {"images": "x", "labels": "y", "targets": "y", "starts": "x_adv_init"}


class ArtAttack:
    """The methods that ART's base class requires; `Attack` inherits from both."""

    attack_params: ClassVar[list[str]] = ["attack", "targeted", "channels_first", "options"]
    """The attributes that `set_params` may change."""
    results: Results | None = None
    """The results of the last `generate`, as `tb.run` returns them."""

    def __init__(
        self,
        attack: str | AnyAttack,
        estimator: Any,
        *,
        targeted: bool = False,
        channels_first: bool | None = None,
        **options: Any,
    ) -> None:
        """`attack` is an attack or the name of a preset; `options` are those of `tb.run`.

        `channels_first` is for a classifier that does not specify it; the default is False.
        """
        super().__init__(estimator=estimator)  # type: ignore[call-arg]
        self.estimator: Any
        self.attack, self.options = attack, options
        self.targeted, self.channels_first = targeted, channels_first
        self._check_params()

    def _check_params(self) -> None:
        check_flag("targeted", self.targeted)
        if self.channels_first is not None:
            check_flag("channels_first", self.channels_first)
        self._third_party = art_model(self.estimator, self.channels_first)
        self._wrapped = Wrapped(self.attack, self.options, NAMES)

    def generate(self, x: Any, y: Any = None, x_adv_init: Any = None) -> NDArray[Any]:
        """Return the closest adversarial point of each image, or the image if none was found.

        `y`: the labels, or the classes to reach if the attack is targeted; numbers, or one-hot.
        `x_adv_init`: a point to start from for each image.
        """
        if self.targeted and y is None:
            given = "is not given, and the attack is targeted"
            raise InputError(given, expected="the classes to reach", input="y")
        points, self.results = self._wrapped.run(
            from_third_party(self._third_party),
            self._third_party.pixels,
            _tensor(x, "x"),
            **{"targets" if self.targeted else "labels": _numbers(y)},
            starts=None if x_adv_init is None else _tensor(x_adv_init, "x_adv_init"),
        )
        return points.numpy()


def _tensor(images: Any, name: str) -> Tensor:
    array = np.asarray(images)
    require(array.dtype.kind in "fiu", name, images, "an array of numbers")
    return torch.from_numpy(np.array(array, np.float32))


def _numbers(y: Any) -> Any:
    """Return classes as numbers; in a one-hot row, the largest entry."""
    classes = None if y is None else np.asarray(y)
    if classes is None or classes.ndim != 2:
        return classes
    return classes.argmax(1) if classes.shape[1] > 1 else classes[:, 0]


def __getattr__(name: str) -> Any:
    if name != "Attack":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    base = optional("art.attacks", PURPOSE, "art").EvasionAttack
    estimators = optional("art.estimators", PURPOSE, "art")
    mixin = optional("art.estimators.classification", PURPOSE, "art").ClassifierMixin
    body = {
        "__module__": __name__,
        "__doc__": "An evasion attack of ART. " + str(__doc__),
        "_estimator_requirements": (estimators.BaseEstimator, mixin),
    }
    return globals().setdefault(name, type(name, (ArtAttack, base), body))
