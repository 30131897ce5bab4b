"""Transfer: a start for any attack in ℓ2, from transfer attacks on surrogates."""

from __future__ import annotations

from ..core.ask import Asking, Iterate
from ..core.metric import Metric
from ..core.problem import Problem
from ..errors import InputError
from ..parts.registry import Checked, register
from ..parts.starts import Start
from .frugal.ray_start import RayStart
from .surrogates import OptionalSurrogate
from .transfer import guides_of, transfer_rays


@register(Start)
class Transfer(Checked):
    """Rays from transfer attacks on surrogates; low-frequency rays where those are not close."""

    surrogate: OptionalSurrogate = None

    metrics = (Metric.L2,)
    tolerance = RayStart.tolerance

    def __call__(self, problem: Problem) -> Asking[Iterate | None]:
        if self.surrogate is None:
            expected = (
                'networks, as surrogate = "timm:resnet18" in [[attacks]] or tb.Surrogate(...)'
            )
            given = "is missing, and the start Transfer needs one"
            raise InputError(given, expected=expected, input="surrogate")
        members, known = guides_of(problem, self.surrogate)
        rays = transfer_rays(problem, self.surrogate, members) if members else None
        hit = yield from RayStart().find(problem, rays, doubted=not known)
        return None if hit is None else hit.iterate
