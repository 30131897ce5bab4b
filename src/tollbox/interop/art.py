"""An attack of tollbox as an evasion attack of the Adversarial Robustness Toolbox (ART).

    attack = Attack("frugal", classifier, prices=tb.Prices(source=100), budget=5_000)
    adversarial = attack.generate(x, y)
    attack.results[0].ledger

1. Images are arrays with the classifier's `clip_values` and layout. Without `y` the labels are what
   the classifier answers. No ledger has these queries, or those for the labels of a targeted run.
2. `results` belong to the last `generate`. Their distances refer to pixels in [0,1]: the distances
   of the arrays divided by the width of the clip values.

ART is imported when `Attack` is first used.
"""

from __future__ import annotations

from types import new_class
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..core.model import from_peer
from ..core.problem import Attack as AnyAttack
from ..core.result import Results
from ..core.third_party_models import art_peer
from ..core.validation import check_flag, shown
from ..data.user_code import optional
from ..errors import InputError
from .wrapping import Names, Wrapped

PURPOSE = "tollbox.interop.art.Attack is an attack of the Adversarial Robustness Toolbox"
NAMES = Names(images="x", labels="y", starts="x_adv_init")


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
        self._peer = art_peer(self.estimator, self.channels_first)
        self._wrapped = Wrapped.of(self.attack, self.options, NAMES)

    def generate(self, x: Any, y: Any = None, x_adv_init: Any = None) -> NDArray[Any]:
        """Return the closest adversarial point of each image, or the image if none was found.

        `y`: the labels, or the classes to reach if the attack is targeted; numbers, or one-hot.
        `x_adv_init`: a point to start from for each image.
        """
        if self.targeted and y is None:
            raise InputError(
                "is not given, and the attack is targeted",
                expected="the classes to reach",
                input="y",
            )
        points, self.results = self._wrapped.run(
            from_peer(self._peer),
            self._peer.pixels,
            _tensor(x, "x"),
            **{"targets" if self.targeted else "labels": _numbers(y)},
            starts=None if x_adv_init is None else _tensor(x_adv_init, "x_adv_init"),
        )
        return points.numpy()


def _tensor(images: Any, name: str) -> Tensor:
    array = np.asarray(images)
    if array.dtype.kind not in "fiu":
        raise InputError(f"is {shown(images)}", expected="an array of numbers", input=name)
    return torch.from_numpy(np.array(array, np.float32))


def _numbers(y: Any) -> Any:
    """Return classes as numbers; in a one-hot row, the largest entry."""
    if y is None:
        return None
    classes = np.asarray(y)
    if classes.ndim != 2:
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
    made = new_class(name, (ArtAttack, base), exec_body=lambda space: space.update(body))
    return globals().setdefault(name, made)
