"""Presets on a plane of which only a part may be crossed: where pixels outside a mask are fixed.

The nearest point of the plane <n, x - x*> = b within a mask M is at b / |M n|, in ℓ∞ at
b / |M n|_1. One preset of each kind of direction and start is run, at c* = 1:

    hsja, geoda, cgba       estimates in the whole space and in low frequencies
    surfree, tria           directions that are drawn, and made orthogonal
    hsja-original           uniform noise as a start, and a radius by the dimension
    qfool, boundary         walks outward and along the boundary
    sign-opt                rays
    frugal, cgba+seri       priors, rays inward as a start; factors of blocks
    rays, hsja-linf         signs; the box

All other presets were run once on these planes at c* = 1, up to a cost of 50 000: each that comes
within 1.25 of the same plane without a mask came within 1.25 with it.
"""

from __future__ import annotations

import pytest
import torch

import tollbox as tb
from tollbox import testing
from tollbox.core.metric import Metric

NEAR = 1.25
MASK = torch.zeros(16, 16, dtype=torch.bool)
MASK[2:14, 3:12] = True
L2 = {
    **dict.fromkeys(("hsja", "geoda", "cgba", "surfree", "tria", "qfool", "frugal"), 4500),
    **{"hsja-original": 8500, "boundary": 8500, "cgba+seri": 4500, "sign-opt": 8500},
}
"""Presets, and the cost at which they are near."""
LINF = {"rays": 8500, "hsja-linf": 8500}


def plane(norm):
    """A plane whose nearest point within the mask is as far as that of a plane at 1 without."""
    normal = testing._unit(0, testing.SHAPE, 4.0).view(testing.SHAPE)
    inside = float(torch.linalg.vector_norm(normal * MASK))
    if norm == "l2":
        return testing.half_space(inside, factor=4), 1.0
    plane = testing.half_space(inside, factor=4, norm=Metric.LINF)
    return plane, inside / float((normal * MASK).abs().sum())


@pytest.mark.parametrize(
    ("norm", "name", "budget"),
    [("l2", *each) for each in L2.items()] + [("linf", *each) for each in LINF.items()],
)
def test_within_a_quarter_of_the_optimum_within_a_mask(norm, name, budget):
    boundary, optimum = plane(norm)
    cell = tb.attack.Cell(
        tb.preset(name), boundary.source, 0, tb.Prices(), tb.Limits(budget), norm=norm, mask=MASK
    )
    [result] = tb.attack.run_cells([cell], boundary.model())
    assert 1 - 1e-9 <= result.distance / optimum <= NEAR
    outside = ~MASK.expand(testing.SHAPE)
    assert torch.equal(result.adversarial[outside], boundary.source[outside])


@pytest.mark.parametrize("name", ["a-hsja", "frugal"])
def test_a_mask_a_set_and_a_target_together(name):
    """The far side has the classes 1 and 2, by a number within the mask; 1 is flagged, too, so that
    nothing but 2 is adversarial, with a target and without."""
    boundary, optimum = plane("l2")

    def three(images):
        found = boundary.labels(images)
        return torch.where(found > 0, 1 + (images[:, 0, 5, 5] > 0.5).long(), 0)

    model = tb.models.from_callable(three, dtype=torch.float64, classes=3)
    start = None
    for target in (None, 2):
        cell = tb.attack.Cell(
            tb.preset(name),
            boundary.source,
            0,
            tb.Prices(2, 1),
            tb.Limits(6000),
            goal=tb.Goal({0, 1}, target),
            mask=MASK,
            start=start,
        )
        [result] = tb.attack.run_cells([cell], model)
        assert int(three(result.adversarial[None])) == 2
        start = (4 * result.adversarial - 3 * boundary.source).clamp(0, 1)  # a target needs one
        assert optimum - 1e-9 <= result.distance <= 1.6 * optimum
        tally = sum(result.ledger.counts.values(), start=type(result.ledger.counts["clean"])())
        assert result.ledger.flagged == tally[0] + tally[1]
        assert result.ledger.cost == 2 * (tally[0] + tally[1]) + tally[2]
