"""Every preset on every boundary whose nearest point is known, 3x16x16, float64.

Within 1.25 of the optimum at a cost of 50 000, or `MISSES` says why the attack as published cannot,
and how near it comes. The best distance never rises with the cost, so being within 1.25 at a
smaller budget is enough: budgets are raised for those that are not there yet.
"""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from driver import drive

import tollbox as tb
from tollbox import testing
from tollbox.core.stop import Stop
from tollbox.parts.priors import BRIGHTNESS, Spectrum
from tollbox.parts.starts import GrowingNoise
from tollbox.parts.subspaces import Dct, Full

SHAPE = (3, 16, 16)
SMALL = (3, 6, 6)
PLAIN = ["hsja", "hsja+as"]
AGREST = ["hsja+agrest", "a-hsja"]
NEAR = 1.25
BUDGET = 50_000
EARLIER = {1: (4500, 8500), 10: (20_000,), 100: ()}
"""Budgets that are tried before `BUDGET`, by c*."""
TWINS = {"a-surfree", "hsja+as", "a-hsja", "geoda+as", "a-geoda", "cgba+as", "a-cgba"}
"""At c* = 1 the same run, query for query, as the preset without asymmetric search (a test in
test_attacks.py)."""
SMOOTH = {boundary.name: boundary for boundary in testing.boundaries(factor=4)[:-1]}
"""Normals of low frequencies only, which all presets can reach."""

OVERSHOOT = (
    "the schedule's cosine is far below the true one on so small an image: the overshoot grows too "
    "large, no answer is flagged, and estimates have no direction"
)
BIAS = (
    "the first bias is an overshoot of three sampling radii, and every cosine at the sphere is "
    "above 0.8: no answer is flagged, and ten cuts of a tenth come too late"
)
RAYS = "ten rays in 768 dimensions: a cosine of about 0.1 for a thousand queries or two an estimate"
FLAGGED = "half of the 14 queries of a search are flagged: the budget pays for some 400 directions"
FEW = (
    "the budget pays for 500 flagged answers: the start takes 100 to 400 of them, and every search "
    "and estimate several"
)
NOISE = "the budget pays for 500 flagged answers, and uniform noise is adversarial once in 4000"
LAYER = (
    "asymmetric search asks near its start first, and stops where the path leaves the thin layer; "
    "binary search jumps over the gap"
)
TURNS = "on its way: turns on a sphere are small, and each takes an estimate and a search"
FEW_LAYER = "500 flagged answers (see half-space); and a search from afar stops at the thin layer"

MISSES: dict[tuple[str, int], dict[str, tuple[float, str]]] = {
    ("half-space", 1): {
        "stealthy-hsja": (1.8, RAYS),  # 1.44; 1.44 to 1.61
    },
    ("half-space", 10): {
        "hsja+agrest": (4.5, OVERSHOOT),  # 4.01; 2.99 to 4.01
        "a-hsja": (4.5, OVERSHOOT),  # 4.01; 2.99 to 4.01
        "geoda+agrest": (2.4, OVERSHOOT),  # 1.32; 1.32 to 2.11
        "a-geoda": (2.4, OVERSHOOT),  # 1.32; 1.32 to 2.11
        "cgba+agrest": (2.1, OVERSHOOT),  # 1.55; 1.32 to 1.82
        "a-cgba": (2.1, OVERSHOOT),  # 1.55; 1.32 to 1.82
        "stealthy-hsja": (8.6, RAYS),  # 1.81; 1.58 to inf
    },
    ("half-space", 100): {
        "surfree": (4.7, FEW),  # 2.68; 2.47 to 4.22
        "a-surfree": (2.5, FEW),  # 1.54; 1.54 to 2.24
        "hsja": (4.2, FEW),  # 1.70; 1.70 to 3.75
        "hsja+as": (3.5, FEW),  # 1.59; 1.59 to 3.11
        "hsja+agrest": (8.9, OVERSHOOT),  # 5.24; 4.85 to 8.03
        "a-hsja": (8.9, OVERSHOOT),  # 5.24; 4.85 to 8.03
        "geoda+agrest": (3.5, OVERSHOOT),  # 2.69; 1.70 to 3.17
        "a-geoda": (3.5, OVERSHOOT),  # 2.69; 1.70 to 3.17
        "cgba+agrest": (2.7, OVERSHOOT),  # 1.49; 1.32 to 2.44
        "a-cgba": (2.7, OVERSHOOT),  # 1.49; 1.32 to 2.44
        "surfree-original": (1.9, FEW),  # 1.60; 1.43 to 1.71
        "stealthy-hsja": (math.inf, NOISE),  # inf; 2.70 to inf
        "hsja+calibrated": (3.2, FEW),  # 1.35; 1.35 to 2.86
        "frugal": (3.0, FEW),  # 1.97; 1.67 to 2.70
    },
    ("half-space in box", 1): {
        "stealthy-hsja": (1.9, RAYS),  # 1.65; 1.58 to 1.72
    },
    ("half-space in box", 10): {
        "surfree": (1.6, FLAGGED),  # 1.40; 1.26 to 1.41
        "hsja+agrest": (4.6, OVERSHOOT),  # 4.05; 2.72 to 4.14
        "a-hsja": (4.6, OVERSHOOT),  # 4.05; 2.72 to 4.14
        "geoda+agrest": (2.7, OVERSHOOT),  # 1.34; 1.34 to 2.40
        "a-geoda": (2.7, OVERSHOOT),  # 1.34; 1.34 to 2.40
        "cgba+agrest": (1.9, OVERSHOOT),  # 1.43; 1.28 to 1.67
        "a-cgba": (1.9, OVERSHOOT),  # 1.43; 1.28 to 1.67
        "stealthy-hsja": (2.1, RAYS),  # 1.80; 1.70 to 1.86
    },
    ("half-space in box", 100): {
        "surfree": (5.6, FEW),  # 3.26; 2.90 to 5.05
        "a-surfree": (2.2, FEW),  # 1.84; 1.71 to 1.99
        "hsja": (2.2, FEW),  # 1.94; 1.76 to 1.97
        "hsja+as": (2.1, FEW),  # 1.77; 1.67 to 1.87
        "hsja+agrest": (8.6, OVERSHOOT),  # 6.12; 4.98 to 7.76
        "a-hsja": (8.6, OVERSHOOT),  # 6.12; 4.98 to 7.76
        "geoda+agrest": (3.4, OVERSHOOT),  # 2.62; 1.76 to 3.01
        "a-geoda": (3.4, OVERSHOOT),  # 2.62; 1.76 to 3.01
        "cgba+agrest": (3.2, OVERSHOOT),  # 2.47; 1.23 to 2.84
        "a-cgba": (3.2, OVERSHOOT),  # 2.47; 1.23 to 2.84
        "surfree-original": (2.3, FEW),  # 2.02; 1.61 to 2.02
        "stealthy-hsja": (3.6, RAYS),  # 3.00; 2.83 to 3.19
        "hsja+calibrated": (1.7, FEW),  # 1.40; 1.40 to 1.49
        "frugal": (2.2, FEW),  # 1.73; 1.55 to 1.99
    },
    ("sphere", 1): {
        "stealthy-geoda": (2.0, BIAS),  # 1.74; 1.69 to 1.75
    },
    ("sphere", 10): {
        "hsja+agrest": (2.0, OVERSHOOT),  # 1.74; 1.69 to 1.75
        "a-hsja": (2.0, OVERSHOOT),  # 1.74; 1.69 to 1.75
        "geoda+agrest": (2.0, OVERSHOOT),  # 1.74; 1.69 to 1.75
        "a-geoda": (2.0, OVERSHOOT),  # 1.74; 1.69 to 1.75
        "cgba+agrest": (2.0, OVERSHOOT),  # 1.74; 1.69 to 1.75
        "a-cgba": (2.0, OVERSHOOT),  # 1.74; 1.69 to 1.75
        "stealthy-geoda": (2.0, BIAS),  # 1.74; 1.69 to 1.75
        "frugal": (1.6, TURNS),  # 1.28; 1.26 to 1.43
    },
    ("sphere", 100): {
        "surfree": (1.9, FEW),  # 1.60; 1.55 to 1.67
        "a-surfree": (1.6, FEW),  # 1.33; 1.24 to 1.37
        "hsja": (1.6, FEW),  # 1.39; 1.35 to 1.43
        "hsja+as": (1.6, FEW),  # 1.34; 1.32 to 1.39
        "hsja+agrest": (2.0, OVERSHOOT),  # 1.74; 1.69 to 1.75
        "a-hsja": (2.0, OVERSHOOT),  # 1.74; 1.69 to 1.75
        "geoda+agrest": (2.0, OVERSHOOT),  # 1.74; 1.69 to 1.75
        "a-geoda": (2.0, OVERSHOOT),  # 1.74; 1.69 to 1.75
        "cgba+agrest": (2.0, OVERSHOOT),  # 1.74; 1.69 to 1.75
        "a-cgba": (2.0, OVERSHOOT),  # 1.74; 1.69 to 1.75
        "surfree-original": (1.7, FEW),  # 1.40; 1.39 to 1.46
        "stealthy-hsja": (1.6, RAYS),  # 1.39; 1.38 to 1.41
        "stealthy-geoda": (2.0, BIAS),  # 1.74; 1.69 to 1.75
        "hsja+calibrated": (1.5, FEW),  # 1.30; 1.27 to 1.30
        "frugal": (1.8, FEW),  # 1.54; 1.54 to 1.58
    },
    ("wedge", 1): {
        "stealthy-hsja": (1.9, RAYS),  # 1.53; 1.53 to 1.71
    },
    ("wedge", 10): {
        "hsja+agrest": (4.5, OVERSHOOT),  # 2.78; 2.38 to 4.00
        "a-hsja": (4.5, OVERSHOOT),  # 2.78; 2.38 to 4.00
        "geoda+agrest": (2.4, OVERSHOOT),  # 1.31; 1.31 to 2.10
        "a-geoda": (2.4, OVERSHOOT),  # 1.31; 1.31 to 2.10
        "cgba+agrest": (2.2, OVERSHOOT),  # 1.66; 1.31 to 1.93
        "a-cgba": (2.2, OVERSHOOT),  # 1.66; 1.31 to 1.93
        "stealthy-hsja": (3.1, RAYS),  # 1.80; 1.75 to inf
    },
    ("wedge", 100): {
        "surfree": (7.9, FEW),  # 2.79; 2.49 to 7.15
        "a-surfree": (3.4, FEW),  # 1.61; 1.61 to 3.07
        "hsja": (3.9, FEW),  # 1.87; 1.74 to 3.50
        "hsja+as": (3.4, FEW),  # 1.78; 1.69 to 3.01
        "hsja+agrest": (7.0, OVERSHOOT),  # 6.00; 4.84 to 6.31
        "a-hsja": (7.0, OVERSHOOT),  # 6.00; 4.84 to 6.31
        "geoda": (13.1, FEW),  # 1.32; 1.25 to 11.90
        "geoda+agrest": (3.2, OVERSHOOT),  # 2.34; 1.96 to 2.91
        "a-geoda": (3.2, OVERSHOOT),  # 2.34; 1.96 to 2.91
        "cgba+agrest": (3.1, OVERSHOOT),  # 2.74; 1.53 to 2.74
        "a-cgba": (3.1, OVERSHOOT),  # 2.74; 1.53 to 2.74
        "surfree-original": (2.2, FEW),  # 1.69; 1.56 to 1.97
        "stealthy-hsja": (math.inf, NOISE),  # inf; 5.29 to inf
        "hsja+calibrated": (3.6, FEW),  # 1.42; 1.37 to 3.23
        "frugal": (3.3, FEW),  # 1.69; 1.54 to 2.96
    },
    ("slab", 1): {
        "stealthy-hsja": (2.4, RAYS),  # 1.88; 1.88 to 2.10
    },
    ("slab", 10): {
        "hsja+agrest": (4.5, OVERSHOOT),  # 4.01; 2.99 to 4.01
        "a-hsja": (5.1, OVERSHOOT),  # 3.71; 2.98 to 4.60
        "geoda+agrest": (2.3, OVERSHOOT),  # 1.32; 1.32 to 2.03
        "a-geoda": (3.0, OVERSHOOT),  # 1.33; 1.33 to 2.64
        "cgba+as": (1.5, LAYER),  # 1.31; 1.30 to 1.31
        "cgba+agrest": (2.4, OVERSHOOT),  # 1.55; 1.32 to 2.13
        "a-cgba": (2.7, OVERSHOOT),  # 2.01; 1.61 to 2.37
        "stealthy-hsja": (8.6, RAYS),  # 2.34; 2.06 to inf
    },
    ("slab", 100): {
        "surfree": (4.8, FEW),  # 2.68; 2.47 to 4.31
        "a-surfree": (3.8, LAYER),  # 2.01; 1.86 to 3.44
        "hsja": (4.2, FEW),  # 1.90; 1.85 to 3.75
        "hsja+as": (4.6, LAYER),  # 2.08; 2.08 to 4.10
        "hsja+agrest": (8.9, OVERSHOOT),  # 5.24; 5.24 to 8.03
        "a-hsja": (11.5, OVERSHOOT),  # 7.24; 6.66 to 10.44
        "geoda+as": (2.1, LAYER),  # 1.51; 1.51 to 1.86
        "geoda+agrest": (3.5, OVERSHOOT),  # 2.69; 2.22 to 3.17
        "a-geoda": (4.6, OVERSHOOT),  # 3.69; 2.22 to 4.13
        "cgba+as": (13.3, LAYER),  # 1.39; 1.39 to 12.02
        "cgba+agrest": (3.0, OVERSHOOT),  # 1.94; 1.40 to 2.65
        "a-cgba": (13.4, LAYER),  # 1.82; 1.82 to 12.13
        "surfree-original": (2.0, FEW),  # 1.60; 1.51 to 1.76
        "stealthy-hsja": (math.inf, NOISE),  # inf; 3.48 to inf
        "hsja+calibrated": (3.2, FEW),  # 1.41; 1.41 to 2.86
        "frugal": (12.9, FEW_LAYER),  # 2.15; 2.15 to 11.67
    },
}
"""By boundary and c*: what each preset reaches at most, in units of the optimum, and why. Behind it
what seed 0 reaches, which is run here, and the least and the largest of seeds 0 to 7. The limit is
the largest that is finite, and a tenth: seeds differ by much, above all in what the start costs."""


def whole(attack):
    """The same attack, with directions drawn in the whole space."""
    if hasattr(attack, "directions"):
        return replace(attack, directions=replace(attack.directions, subspace=Full()))
    return replace(attack, estimate=replace(attack.estimate, subspace=Full()))


def reached(boundary, attacks, ratio, budgets, late=()):
    """Distances in units of the optimum, by name, at the first budget that brings them near; those
    that are `late` are run with the last budget only."""
    found, left = {}, [name for name in attacks if name not in late]
    for budget in budgets:
        if budget == budgets[-1]:
            left += [name for name in attacks if name in late]
        cells = [
            tb.Cell(attacks[name], boundary.source, 0, tb.Prices(ratio, 1), budget) for name in left
        ]
        results = tb.run_cells(cells, boundary.model())  # none, if all are near
        assert all(result.ledger.cost <= budget for result in results)
        found |= {n: r.distance / boundary.optimum for n, r in zip(left, results, strict=True)}
        ended = {n: r.stop is not Stop.BUDGET for n, r in zip(left, results, strict=True)}
        left = [name for name in left if found[name] > NEAR and not ended[name]]
    return found


def complaints(found, misses):
    """What is not as `misses` has it."""
    said = []
    for name, distance in found.items():
        if not distance >= 1 - 1e-9:
            said.append(f"{name}: {distance:.4f}, nearer than is possible")
        elif name not in misses and distance > NEAR:
            said.append(f"{name}: {distance:.4f} is not within {NEAR}")
        elif name in misses and distance <= NEAR:
            said.append(f"{name}: {distance:.4f} is within {NEAR}: take it off the list of misses")
        elif name in misses and distance > misses[name][0]:
            said.append(f"{name}: {distance:.4f}, worse than {misses[name][0]}")
    return said


@pytest.mark.parametrize("ratio", [1, 10, 100])
@pytest.mark.parametrize("name", SMOOTH)
def test_within_a_quarter_of_the_optimum_or_the_reason(name, ratio):
    misses = MISSES.get((name, ratio), {})
    names = [preset for preset in tb.presets() if not (ratio == 1 and preset in TWINS)]
    attacks = {preset: tb.preset(preset) for preset in names}
    late = {*misses, "surfree"} if ratio == 10 else set(misses)  # which needs 30 000 and more
    budgets = (*EARLIER[ratio], BUDGET)
    found = reached(SMOOTH[name], attacks, ratio, budgets, late)
    assert sorted(found) == sorted(names)
    assert complaints(found, misses) == []


def test_the_list_of_misses_is_of_presets_and_boundaries_and_has_reasons():
    for (name, ratio), misses in MISSES.items():
        assert name in SMOOTH
        assert ratio in EARLIER
        for preset, (bound, reason) in misses.items():
            assert preset in tb.presets()
            assert bound > NEAR
            assert len(reason.split()) > 5


def test_a_complaint_is_made_where_there_is_one():
    """Of the four ways in which a list may be wrong each is seen."""
    misses = {"far": (2.0, "a reason"), "near": (2.0, "a reason"), "fine": (2.0, "a reason")}
    found = {"ok": 1.2, "bad": 1.3, "far": 2.1, "near": 1.2, "fine": 1.5, "magic": 0.9}
    assert [line.split(":")[0] for line in complaints(found, misses)] == [
        "bad",
        "far",
        "near",
        "magic",
    ]


# -- normals of all frequencies -------------------------------------------------------------------


@pytest.mark.parametrize(("ratio", "budget"), [(1, 5000), (10, 30_000)])
@pytest.mark.parametrize("boundary", testing.boundaries()[:-1], ids=lambda b: b.name)
def test_hsja_draws_in_the_whole_space_and_needs_no_smooth_boundary(boundary, ratio, budget):
    names = PLAIN if ratio > 1 else ["hsja", "hsja+agrest"]  # no overshoot at c* = 1
    found = reached(boundary, {name: tb.preset(name) for name in names}, ratio, (budget,))
    assert complaints(found, {}) == []


WHITE = {
    boundary.name: boundary
    for boundary in (
        testing.half_space(shape=SMALL),
        testing.half_space_in_box(SMALL),
        testing.sphere(SMALL),
        testing.wedge(SMALL),
        testing.slab(SMALL),
    )
}
SIGNS = (
    "where pixels clip, displacements have a mean, and most answers are flagged: a sum of signs "
    "without weights points along that mean"
)
WHITE_MISSES: dict[str, dict[str, tuple[float, str]]] = {
    "half-space in box": {"cgba-original": (2.0, SIGNS)},
}


@pytest.mark.parametrize("name", WHITE)
def test_nothing_but_the_subspace_keeps_an_attack_from_any_other_boundary(name):
    """The same attacks, drawing in the whole space, on boundaries with normals of all frequencies.
    (3x6x6: as many dimensions as GeoDA's third of the frequencies of 3x16x16. Without Stealthy
    GeoDA, whose first bias of 30 is meant for 75x75x3 dimensions and is far too large for these.)
    """
    names = ["surfree", "surfree-original", "geoda", "geoda+agrest"]
    names += ["cgba", "cgba+agrest", "cgba-original"]
    misses = WHITE_MISSES.get(name, {})
    attacks = {preset: whole(tb.preset(preset)) for preset in names}
    found = reached(WHITE[name], attacks, 1, (3000, 9000, BUDGET), misses)
    assert complaints(found, misses) == []


@pytest.mark.parametrize(
    ("preset", "share", "budget"),
    [("surfree", 0.5, 9000), ("geoda", 3 / 8, 2500), ("cgba", 0.25, 1500)],
)
def test_in_a_subspace_an_attack_reaches_what_the_subspace_allows_and_no_more(
    preset, share, budget
):
    """All that it asks lies in the span V of the subspace and of the start's direction (where
    nothing clips). In it the nearest point of a plane at distance r is at r / |P_V n|: with a
    normal of all frequencies about twice, 2.7 times and 4 times as far. It comes within 1.25 of
    that."""
    boundary = testing.half_space(0.2)
    attack = tb.preset(preset)
    space = attack.directions.subspace if preset == "surfree" else attack.estimate.subspace
    problem = tb.Problem(boundary.source, 0)
    begun = drive(
        GrowingNoise()(problem), problem, lambda point: int(boundary.labels(point[None])[0])
    ).returned
    normal, away = testing._unit(0, SHAPE), (begun.point - boundary.source).flatten()

    def inside(vector):
        image = vector.view(1, *SHAPE)
        return space.expand(space.project(image), SHAPE).flatten()

    across = away - inside(away)  # what the start adds to the subspace
    across = across / torch.linalg.vector_norm(across)

    def projected(vector):
        return inside(vector) + (vector @ across) * across

    floor = 0.2 / float(torch.linalg.vector_norm(projected(normal)))
    assert floor == pytest.approx(0.2 / share, rel=0.15)
    [result] = tb.run(attack, boundary.model(), boundary.source[None], [0], budget=budget)
    found = (result.adversarial - boundary.source).flatten()
    assert result.adversarial.min() > 0  # nothing clips
    assert result.adversarial.max() < 1
    assert torch.allclose(projected(found), found, atol=1e-9)
    assert floor * (1 - 1e-9) <= result.distance <= 1.25 * floor
    assert result.distance > NEAR * boundary.optimum


@pytest.mark.parametrize(("ratio", "budget"), [(1, 1500), (10, 6000)])
@pytest.mark.parametrize("name", SMOOTH)
def test_nothing_but_the_prior_keeps_frugal_from_a_boundary(name, ratio, budget):
    """With directions from where the normals lie it comes within 1.25 for a small part of the cost,
    where samples bend and clip, and behind a thin layer, too."""
    attack = replace(tb.preset("frugal"), prior=Dct(4))
    assert complaints(reached(SMOOTH[name], {"frugal": attack}, ratio, (budget,)), {}) == []


@pytest.mark.parametrize("ratio", [1, 10])
def test_frugal_on_a_model_of_8_bits(ratio):
    """The known boundary, asked in 256 levels; what is reported is a picture of 8 bits."""
    boundary = testing.half_space(factor=4)
    attack = replace(tb.preset("frugal"), prior=Dct(4))
    cell = tb.Cell(attack, boundary.source, 0, tb.Prices(ratio, 1), 1500 * ratio)
    [result] = tb.run_cells([cell], boundary.model(quantize=8))
    assert result.stop is Stop.BUDGET
    assert 1 <= result.distance <= 1.1
    levels = result.adversarial * 255
    assert torch.allclose(levels, levels.round(), atol=1e-9)
    assert int(boundary.labels(result.adversarial[None])) != 0


@pytest.mark.parametrize("grey", [1 / 3, 0.5, 0.7, 0.9])
def test_frugal_ends_along_the_normal_as_the_prior_weighs_it(grey):
    """The mean of an estimate is S g, S the covariance of the directions. Where x - x* is along it
    there is no turn left: the distance is that of the plane times |S g| / <g, S g>, which is 1 for
    directions of one energy, 1.05, 1.31 and 1.84 for a share `grey` along brightness. (Noise takes
    it a little farther, up to 5 % for the last.)"""
    boundary = testing.half_space(factor=4)
    normal = testing._unit(0, SHAPE, 4).view(3, -1)
    light = torch.tensor(BRIGHTNESS, dtype=torch.float64)
    light = light / torch.linalg.vector_norm(light)
    bright = torch.outer(light, light @ normal)
    drawn = grey * bright + (1 - grey) / 2 * (normal - bright)
    limit = float(torch.linalg.vector_norm(drawn) / (drawn * normal).sum())
    prior = Spectrum(4.5, grey)
    attack = replace(tb.preset("frugal"), prior=prior, fallback_prior=prior, reweighing_period=0)
    cell = tb.Cell(attack, boundary.source, 0, budget=4500)
    [result] = tb.run_cells([cell], boundary.model())
    assert result.distance == pytest.approx(limit, rel=0.07)
    assert limit == pytest.approx({1 / 3: 1, 0.5: 1.054, 0.7: 1.310, 0.9: 1.844}[grey], abs=1e-3)


# -- what ends a run ------------------------------------------------------------------------------


@pytest.mark.parametrize("preset", AGREST)
def test_agrest_as_published_loses_its_flagged_answers(preset):
    """At c* = 10 the schedule says cos(alpha) = 0.03 to 0.09 while the attack's true cosine, the
    distance of the plane over that of the iterate, is above 0.3 soon after the start. The overshoot
    is then several times too large, every answer is low-cost, and there is no direction: the run
    ends as NO_INFORMATION at about 3.3 times the optimum (start: about 9), not in NaN. The plain
    presets reach 1.05 at the same cost."""
    boundary = testing.half_space()
    [result] = tb.run(
        tb.preset(preset),
        boundary.model(),
        boundary.source[None],
        [0],
        prices=tb.Prices(10, 1),
        budget=100_000,
    )
    assert result.stop is Stop.NO_INFORMATION
    assert math.isfinite(result.distance)
    assert 1.25 < result.distance / boundary.optimum < 5
    assert all(math.isfinite(step.distance) for step in result.trace)
    blind = [step.notes["share"] for step in result.trace[-5:]]
    assert blind == [1.0] * 5
    assert result.trace[-1].notes["planned_share"] == pytest.approx(0.871, abs=1e-3)


def test_without_a_start_there_is_no_distance():
    boundary = testing.constant()
    cells = [
        tb.Cell(tb.preset(name), boundary.source, 0, tb.Prices(10, 1), 200_000, name=name)
        for name in tb.presets()
    ]
    for cell, result in zip(cells, tb.run_cells(cells, boundary.model()), strict=True):
        assert result.stop is Stop.NO_START, cell.name
        assert (result.distance, result.adversarial, result.trace) == (math.inf, None, ())
        tries = {"stealthy-hsja": 10_000, "frugal": 6 + 1000}.get(cell.name, 1000)
        assert result.ledger.by_phase == {"clean": 10, "start": 10 * tries}
        assert result.ledger.source == tries + 1


# -- the rules ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ratio", "budget"), [(0.1, 100), (1, 350), (10, 2500)])
@pytest.mark.parametrize("boundary", testing.boundaries(), ids=lambda b: b.name)
@pytest.mark.parametrize("preset", tb.presets())
def test_every_preset_keeps_the_rules_of_attacks(preset, boundary, ratio, budget):
    _, faults = testing.check_attack(
        tb.preset(preset), boundary, tb.Prices(ratio, 1), budget=budget
    )
    assert faults == []


def test_the_suite_finds_an_attack_that_breaks_the_rules():
    class Cheat:
        def __call__(self, problem):
            yield tb.Ask(problem.source[None] + 0.01, phase="probe")
            problem.accept(problem.source + 0.02)
            return Stop.CONVERGED

    class Unsteady:
        def __len__(self):
            return 5

        def __getitem__(self, rows):
            first, last, _ = rows.indices(5)
            return testing.half_space().source.expand(last - first, -1, -1, -1) + (last - first) / 9

    class Sloppy:
        def __call__(self, problem):
            yield tb.Ask(Unsteady(), phase="probe")
            return Stop.CONVERGED

    _, faults = testing.check_attack(Cheat(), testing.half_space())
    assert faults == ["accepted a point that was not asked and found adversarial"]
    _, faults = testing.check_attack(Sloppy(), testing.half_space())
    assert faults == ["rows of phase 'probe' depend on the slice they are in"]
