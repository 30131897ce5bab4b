"""Published attacks with surrogates: what exact networks bring, and what useless ones cost."""

from __future__ import annotations

import math

import pytest
import torch
from every_preset import NETWORK, Waves
from torch import Tensor, nn

import tollbox as tb
from tollbox import testing
from tollbox.attacks.prior_opt import _priors
from tollbox.attacks.surrogates import Surrogate
from tollbox.core.ask import Iterate

SHAPE = (3, 16, 16)
RIVALS = [name for name in tb.attacks.WITH_SURROGATE if not name.startswith("frugal")]
NORMAL = testing._unit(0, SHAPE).view(SHAPE)


class Plane(nn.Module):
    """Class 1 beyond the plane at a distance of 1 from grey, class 0 before it."""

    def __init__(self, normal: Tensor = NORMAL, offset: float = 1.0) -> None:
        super().__init__()
        self.normal, self.offset = nn.Parameter(normal.float()), offset

    def forward(self, images: Tensor) -> Tensor:
        margin = ((images - 0.5) * self.normal).flatten(1).sum(1) - self.offset
        return torch.stack([-margin, margin, margin - 9], 1)


class Broken(nn.Module):
    """Logits without information: constant, or not a number."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.tensor(value))

    def forward(self, images: Tensor) -> Tensor:
        return (images.flatten(1)[:, :1] * 0 + self.value).expand(-1, 3)


def run(name, network, budget=600, seed=0, model=None, boundary=None, **more):
    boundary = boundary or testing.half_space()
    attack = tb.preset(name, surrogate=network)
    cell = tb.attack.Cell(
        attack, boundary.source, 0, limits=tb.Limits(budget), seed=seed, name=name, **more
    )
    [result] = tb.attack.run_cells([cell], model or boundary.model())
    assert not result.stop.failed, (name, result.reason)
    assert result.ledger.cost <= budget
    return result


# -- directions -----------------------------------------------------------------------------------


def test_a_prior_is_the_gradient_of_the_networks_own_distance():
    """For a plane, g(theta) = b / <n, theta>: its gradient on the sphere points away from n. It
    does not depend on where the network's plane lies, also beyond four times the distance."""
    across = testing._unit(1, SHAPE).view(SHAPE)
    theta = (NORMAL + across) / torch.linalg.vector_norm(NORMAL + across)
    problem = tb.attack.Problem(torch.full(SHAPE, 0.5, dtype=torch.float64), 0)
    expected = -(NORMAL - (NORMAL * theta).sum() * theta)
    expected = expected / torch.linalg.vector_norm(expected)
    iterate = Iterate(problem.source + 1.5 * theta, 1.5)
    for offset in (0.5, 1.0, 3.0, 100.0):
        [prior] = _priors(problem, Surrogate(Plane(offset=offset)), iterate)
        assert torch.allclose(prior, expected, atol=1e-6), offset


def test_the_prior_is_taken_where_the_ray_leaves_the_networks_class():
    """A network with one gradient up to a distance of 1.98 along theta, and another beyond it."""

    class Bent(nn.Module):
        def forward(self, images):
            away = (images - 0.5).flatten(1)
            along = away @ theta.flatten().float()
            first, second = (away @ each.flatten().float() for each in sides)
            margin = along - 2 + torch.where(along < 1.98, first, 3 * second)
            return torch.stack([-margin, margin], 1)

    theta = NORMAL
    sides = []
    for seed in (1, 2):
        side = testing._unit(seed, SHAPE).view(SHAPE)
        side = side - sum(((side * each).sum() * each for each in (theta, *sides)), 0 * side)
        sides.append(side / torch.linalg.vector_norm(side))
    problem = tb.attack.Problem(torch.full(SHAPE, 0.5, dtype=torch.float64), 0)
    [prior] = _priors(problem, Surrogate(Bent()), Iterate(problem.source + theta, 1.0))
    assert float((prior * sides[1]).sum()) == pytest.approx(-1, abs=1e-4)


def test_equal_networks_give_one_prior_and_broken_ones_none():
    problem = tb.attack.Problem(torch.full(SHAPE, 0.5, dtype=torch.float64), 0)
    iterate = Iterate(problem.source + testing._unit(1, SHAPE).view(SHAPE), 1.0)
    networks = [Broken(0.0), Waves(), Broken(math.nan), Waves(), Plane()]
    priors = torch.stack(_priors(problem, Surrogate(networks), iterate)).flatten(1)
    assert torch.allclose(priors @ priors.T, torch.eye(2, dtype=torch.float64), atol=1e-5)


def test_the_look_ahead_follows_from_the_share_that_priors_explain():
    """The share is 0 at t = 1. Later it is above 0 for an exact network, and at most 0.6."""
    steps = [step.notes for step in run("pars-opt", Plane(), 3000).trace[1:]]
    factor = (768 - 1) / (2 / math.pi * (199 - 1) + 1)  # (d - s) / kappa
    left = 1.0  # gamma alpha
    for t, notes in enumerate(steps, 1):
        share, ahead = notes["prior_share"], notes["look_ahead"]
        assert share == 0 if t == 1 else 0 < share <= 0.6
        zeta = (share + (1 - share) / factor) / (share + (1 - share) * factor)  # over alpha
        assert ahead**2 == pytest.approx(zeta * left * (1 - ahead))
        left *= 1 - ahead
    assert max(notes["prior_share"] for notes in steps) > 0.3
    assert len(steps) > 5


# -- what they bring ------------------------------------------------------------------------------


def test_exact_networks_lead_to_the_optimum_at_once():
    """A half-space at 1 whose normal has all frequencies, 1,500 queries, five seeds. Sign-OPT ends
    at 1.94 to 2.38, Prior-OPT within 1.1e-6 of the optimum, PARS-OPT within 0.0047; the limits are
    ten times and twice that."""
    boundary = testing.half_space()
    source = boundary.source[None]
    for seed in range(5):
        [alone] = tb.run(
            tb.preset("sign-opt"), boundary.model(), source, [0], budget=1500, seed=seed
        )
        assert alone.distance > 1.9
        assert run("prior-opt", Plane(), 1500, seed).distance < 1 + 1e-5
        assert run("pars-opt", Plane(), 1500, seed).distance < 1.01


def test_sqba_follows_the_signs_of_an_exact_gradient():
    """The signs of a normal of Gaussian numbers have the cosine sqrt(2/pi) with it, so the plane at
    1 is at sqrt(pi/2) = 1.2533 along them. A start by noise is five times as far."""
    for seed in range(5):
        guided = run("sqba", Plane(), 40, seed)
        assert guided.distance == pytest.approx(math.sqrt(math.pi / 2), rel=0.03)
        assert guided.ledger.by_phase["start"] == 1


# -- useless networks, masks, targets, 8 bits -----------------------------------------------------


@pytest.mark.parametrize("name", RIVALS)
@pytest.mark.parametrize("value", [0.0, math.nan, math.inf])
def test_a_network_without_a_gradient_costs_little(name, value):
    with_one = run(name, Broken(value))
    without = tb.attacks.WITH_SURROGATE[name].attack
    boundary = testing.half_space()
    [alone] = tb.run(without, boundary.model(), boundary.source[None], [0], budget=600)
    assert with_one.distance == alone.distance


@pytest.mark.parametrize("name", [*RIVALS, "frugal+surrogate"])
def test_masks_targets_and_8_bits(name):
    boundary = testing.half_space(0.5)
    mask = torch.zeros(SHAPE, dtype=torch.bool)
    mask[:, 4:12, 2:14] = True
    masked = run(name, NETWORK, 800, boundary=boundary, mask=mask)
    assert torch.equal(masked.adversarial[~mask], boundary.source[~mask])
    assert masked.distance < masked.improvements[0].distance
    rounded = run(name, NETWORK, 800, boundary=boundary, model=boundary.model(quantize=8))
    levels = rounded.adversarial * 255
    assert torch.allclose(levels, levels.round(), atol=1e-6)
    assert rounded.distance < rounded.improvements[0].distance

    start = (boundary.source + 3 * NORMAL).clamp(0, 1)
    target = int(boundary.labels(start[None])[0])
    aimed = run(name, Plane(), 800, boundary=boundary, target=target, start=start)
    assert int(boundary.labels(aimed.adversarial[None])[0]) == target
    assert aimed.distance < 3


@pytest.mark.slow
@pytest.mark.parametrize("name", RIVALS)
def test_other_processes_give_the_same_results(name):
    model = tb.models.from_torch(Plane())
    attack = tb.preset(name, surrogate=Waves())
    images = 0.5 + 0.01 * torch.randn(2, *SHAPE, generator=torch.Generator().manual_seed(0))
    cells = [tb.attack.Cell(attack, image, 0, limits=tb.Limits(500)) for image in images]
    here = tb.attack.run_cells(cells, model)
    with tb.workers.Workers(model, 2, force=True) as workers:
        there = tb.attack.run_cells(cells, model, execution=tb.Execution(workers=workers))
    assert all(len(result.improvements) > 1 for result in here)
    assert [result.improvements for result in there] == [result.improvements for result in here]
