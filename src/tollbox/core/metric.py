"""The metric: what a distance from the source image is measured in, ℓ2 or ℓ∞.

1. It is a part of the problem (`norm`): the nearest point, all distances and all that is made of
   them are in it. Random numbers do not depend on it.
2. An attack says which metrics it is made for (`metrics`); one that does not say runs in any. One
   that is made for others is refused before the first query, and never run all the same.
3. A distance is float64, and that of a row depends on no other row. In ℓ2 it is summed along the
   last axis in the dtype of the rows, which is fast, then over those norms in float64, which keeps
   the error at that of one pixel row. In ℓ∞ nothing is summed; what is not a number stays so.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from ..errors import InputError, mention
from .validation import shown

if TYPE_CHECKING:
    from torch import Tensor


class Metric(enum.StrEnum):
    """A metric; its text is what `norm` takes."""

    L2 = "l2"
    LINF = "linf"

    @property
    def sign(self) -> str:
        """As figures and pages write it."""
        return "ℓ∞" if self is Metric.LINF else "ℓ2"

    def norms(self, rows: Tensor) -> Tensor:
        """The norm of each image of (n, c, h, w)."""
        import torch  # `tollbox status` needs the name of a metric only

        if self is Metric.LINF:
            return rows.abs().flatten(1).amax(1).double()
        lines = torch.linalg.vector_norm(rows, dim=-1).flatten(1)
        if len(lines) == 1:  # a single row would be summed in another order
            lines = lines.expand(2, -1)
        norms: Tensor = torch.linalg.vector_norm(lines, dim=1, dtype=torch.float64)
        return norms[: len(rows)]


@runtime_checkable
class MadeForMetrics(Protocol):
    """An attack that says in which metrics it means something."""

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Those that it is made for."""


def norm_of(value: Any) -> Metric:
    """The metric of that name; raises InputError if there is none."""
    if not isinstance(value, str) or value not in list(Metric):
        raise InputError(f"is {shown(value)}", expected="'l2' or 'linf'", input="norm")
    return Metric(value)


def metrics_of(attack: object) -> tuple[Metric, ...]:
    """The metrics that an attack is made for."""
    metrics = attack.metrics if isinstance(attack, MadeForMetrics) else tuple(Metric)
    if not isinstance(metrics, tuple) or not metrics or not set(metrics) <= set(Metric):
        raise InputError(
            f"has metrics = {shown(metrics)}",
            expected="some of 'l2' and 'linf', as a tuple",
            input="attack",
        )
    return tuple(map(Metric, metrics))


def check_made_for(attack: object, norm: Metric) -> None:
    """Raise InputError unless an attack is made for a metric."""
    metrics = metrics_of(attack)
    if norm not in metrics:
        raise InputError(
            f"is {norm}, and {type(attack).__name__} as given is made for {' and '.join(metrics)}",
            expected=f"{' or '.join(metrics)}, or another {mention('attack')}",
            input="norm",
        )
