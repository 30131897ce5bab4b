"""The metric in which distances from the source image are measured: ℓ2 or ℓ∞.

1. An attack and its parts name the metrics that they support (`metrics`); one that names none runs
   in any. An attack is refused before the first query if it or a part of it does not support the
   metric of the problem.
2. A distance is float64 and does not depend on other rows. In ℓ2, norms are taken along the last
   axis in the dtype of the rows, which is fast, then over those in float64, which keeps the error
   at that of one row of pixels. In ℓ∞ nothing is summed, and NaN stays NaN.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

from ..errors import mention
from .validation import expect, require, shown

if TYPE_CHECKING:
    from torch import Tensor


class Metric(enum.StrEnum):
    """A metric; its value is what the argument `norm` takes."""

    L2 = "l2"
    LINF = "linf"

    @property
    def sign(self) -> str:
        """The metric's symbol in figures and pages."""
        return "ℓ∞" if self is Metric.LINF else "ℓ2"

    def norms(self, rows: Tensor) -> Tensor:
        """Return the norm of each image in `rows`, (n, c, h, w)."""
        import torch  # here, since `tollbox status` needs only the names of metrics

        if self is Metric.LINF:
            return rows.abs().flatten(1).amax(1).double()
        lines = torch.linalg.vector_norm(rows, dim=-1).flatten(1)
        if len(lines) == 1:  # torch would sum a single row in another order
            lines = lines.expand(2, -1)
        norms: Tensor = torch.linalg.vector_norm(lines, dim=1, dtype=torch.float64)
        return norms[: len(rows)]


def norm_of(value: Any) -> Metric:
    """Return the metric called `value`; raise InputError if there is none."""
    known = isinstance(value, str) and value in list(Metric)
    require(known, "norm", value, "'l2' or 'linf'")
    return Metric(value)


def metrics_of(attack: object) -> tuple[Metric, ...]:
    """Return the metrics that an attack and all its parts support."""
    metrics = getattr(attack, "metrics", tuple(Metric))
    right = isinstance(metrics, tuple) and metrics and set(metrics) <= set(Metric)
    expected = "some of 'l2' and 'linf', as a tuple"
    expect(bool(right), f"has metrics = {shown(metrics)}", expected, input="attack")
    limits = list(_limits(attack))
    return tuple(each for each in map(Metric, metrics) if all(each in some for some in limits))


def _limits(part: Any, around: tuple[int, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the metrics of a part and of those inside. Other objects may have an attribute of that
    name, and an object may contain itself."""
    if not is_dataclass(part) or isinstance(part, type) or id(part) in around:
        return
    metrics = getattr(part, "metrics", None)
    if isinstance(metrics, tuple) and metrics:
        yield metrics
    for each in fields(part):
        yield from _limits(getattr(part, each.name, None), (*around, id(part)))


def check_made_for(attack: object, norm: Metric) -> None:
    """Raise InputError unless the attack supports the metric `norm`."""
    metrics = metrics_of(attack)
    supported = " and ".join(metrics) or "no norm, since its parts are made for different ones"
    given = f"is {norm}, but {type(attack).__name__} as given supports {supported}"
    expected = ", or ".join(filter(None, [" or ".join(metrics), f"another {mention('attack')}"]))
    expect(norm in metrics, given, expected, input="norm")
