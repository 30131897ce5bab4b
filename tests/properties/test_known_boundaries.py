"""Every preset on every boundary whose nearest point is known, 3x16x16, float64.

Within 1.25 of the optimum at a cost of 50 000, or `MISSES` says why the attack as published cannot,
and how near it comes. The best distance never rises with the cost, so being within 1.25 at a
smaller budget is enough: budgets are raised for those that are not there yet.

A limit of `MISSES` is wide, since seeds differ by much. So it is not what tells a sound AGREST from
a broken one: where the schedule is blamed, the run must show shares above the planned one; with a
schedule that fits, AGREST must come near all boundaries, and its flagged answers must be as many as
the closed form says.
"""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from driver import drive

import tollbox as tb
from tollbox import testing, theory
from tollbox.core.stop import Stop
from tollbox.parts.priors import BRIGHTNESS, Spectrum
from tollbox.parts.starts import GrowingNoise
from tollbox.parts.subspaces import Dct, Full

SHAPE = (3, 16, 16)
SMALL = (3, 6, 6)
PLAIN = ["hsja", "hsja+as"]
AGREST = ["hsja+agrest", "a-hsja"]
ALL_AGREST = [*AGREST, "geoda+agrest", "a-geoda", "cgba+agrest", "a-cgba"]
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
    "large, no answer is flagged, and estimates are the mean of random directions"
)
CLIPPED = (
    "its probe lies at |sum of g| times the distance, soon far outside the box: what clipping "
    "leaves of it has another direction"
)
RAYS = "ten rays in 768 dimensions: a cosine of about 0.1 for a thousand queries or two an estimate"
FEW = (
    "the budget pays for 500 flagged answers: the start takes 100 to 400 of them, and every search "
    "and estimate several"
)
NOISE = "the budget pays for 500 flagged answers, and uniform noise is adversarial once in 4000"
LAYER = (
    "asymmetric search asks near its start first, and stops where the path leaves the thin layer; "
    "binary search jumps over the gap"
)
FAR_SIDE = (
    "half of the seeds stay on the far side of the thin layer, at height 1.3: where flagged "
    "answers are dear its search, too, asks near its start first (at c* = 1 all seeds come across)"
)
TURNS = "on its way: turns on a sphere are small, and each takes an estimate and a search"
FEW_LAYER = "500 flagged answers (see half-space); and a search from afar stops at the thin layer"

MISSES: dict[tuple[str, int], dict[str, tuple[float, str]]] = {
    ("half-space", 1): {
        "stealthy-hsja": (1.9, RAYS),  # 1.44
    },
    ("half-space", 10): {
        "hsja+agrest": (3.6, OVERSHOOT),  # 2.85
        "a-hsja": (3.5, OVERSHOOT),  # 2.74
        "stealthy-hsja": (2.3, RAYS),  # 1.81
    },
    ("half-space", 100): {
        "surfree": (2.0, FEW),  # 1.58
        "a-surfree": (1.6, FEW),  # 1.28
        "hsja": (2.4, FEW),  # 1.84
        "hsja+as": (2.2, FEW),  # 1.72
        "hsja+agrest": (8.1, OVERSHOOT),  # 6.42
        "a-hsja": (8.1, OVERSHOOT),  # 6.42
        "geoda+agrest": (2.5, OVERSHOOT),  # 1.95
        "a-geoda": (2.5, OVERSHOOT),  # 1.95
        "cgba+agrest": (2.8, OVERSHOOT),  # 2.20
        "a-cgba": (2.6, OVERSHOOT),  # 2.07
        "surfree-original": (2.1, FEW),  # 1.62
        "stealthy-hsja": (math.inf, NOISE),  # inf
        "stealthy-geoda": (math.inf, NOISE),  # inf
        "hsja+calibrated": (3.2, FEW),  # 1.35; 1.35 to 2.86
        "frugal": (3.0, FEW),  # 1.97; 1.67 to 2.70
    },
    ("half-space in box", 1): {
        "stealthy-hsja": (2.1, RAYS),  # 1.65
        "stealthy-geoda": (1.8, CLIPPED),  # 1.36
    },
    ("half-space in box", 10): {
        "hsja+agrest": (3.7, OVERSHOOT),  # 2.92
        "a-hsja": (3.6, OVERSHOOT),  # 2.83
        "geoda+agrest": (1.6, OVERSHOOT),  # 1.27
        "a-geoda": (1.6, OVERSHOOT),  # 1.27
        "stealthy-hsja": (2.3, RAYS),  # 1.80
        "stealthy-geoda": (1.8, CLIPPED),  # 1.36
    },
    ("half-space in box", 100): {
        "surfree": (2.2, FEW),  # 1.73
        "a-surfree": (1.7, FEW),  # 1.32
        "hsja": (2.7, FEW),  # 2.13
        "hsja+as": (2.5, FEW),  # 2.00
        "hsja+agrest": (7.5, OVERSHOOT),  # 5.94
        "a-hsja": (7.5, OVERSHOOT),  # 5.94
        "geoda+agrest": (2.3, OVERSHOOT),  # 1.77
        "a-geoda": (2.3, OVERSHOOT),  # 1.77
        "cgba+agrest": (3.1, OVERSHOOT),  # 2.47
        "a-cgba": (2.3, OVERSHOOT),  # 1.78
        "surfree-original": (2.6, FEW),  # 2.07
        "stealthy-hsja": (3.8, RAYS),  # 3.00
        "stealthy-geoda": (1.8, CLIPPED),  # 1.37
        "hsja+calibrated": (1.7, FEW),  # 1.40; 1.40 to 1.49
        "frugal": (2.2, FEW),  # 1.73; 1.55 to 1.99
    },
    ("sphere", 10): {
        "hsja+agrest": (2.1, OVERSHOOT),  # 1.66
        "a-hsja": (2.1, OVERSHOOT),  # 1.66
        "geoda+agrest": (1.8, OVERSHOOT),  # 1.40
        "a-geoda": (1.8, OVERSHOOT),  # 1.40
        "frugal": (1.6, TURNS),  # 1.28; 1.26 to 1.43
    },
    ("sphere", 100): {
        "hsja": (1.9, FEW),  # 1.45
        "hsja+as": (1.8, FEW),  # 1.43
        "hsja+agrest": (2.1, OVERSHOOT),  # 1.68
        "a-hsja": (2.1, OVERSHOOT),  # 1.68
        "geoda+agrest": (2.0, OVERSHOOT),  # 1.57
        "a-geoda": (2.0, OVERSHOOT),  # 1.53
        "cgba+agrest": (2.1, OVERSHOOT),  # 1.68
        "a-cgba": (2.0, OVERSHOOT),  # 1.56
        "surfree-original": (1.8, FEW),  # 1.41
        "stealthy-hsja": (1.8, RAYS),  # 1.39
        "stealthy-geoda": (1.8, FEW),  # 1.36
        "hsja+calibrated": (1.5, FEW),  # 1.30; 1.27 to 1.30
        "frugal": (1.8, FEW),  # 1.54; 1.54 to 1.58
    },
    ("wedge", 1): {
        "stealthy-hsja": (2.0, RAYS),  # 1.53
    },
    ("wedge", 10): {
        "hsja+agrest": (3.4, OVERSHOOT),  # 2.69
        "a-hsja": (3.4, OVERSHOOT),  # 2.65
        "geoda+agrest": (1.6, OVERSHOOT),  # 1.25
        "a-geoda": (1.6, OVERSHOOT),  # 1.25
        "stealthy-hsja": (2.3, RAYS),  # 1.80
    },
    ("wedge", 100): {
        "surfree": (2.8, FEW),  # 2.19
        "a-surfree": (1.8, FEW),  # 1.38
        "hsja": (2.5, FEW),  # 1.99
        "hsja+as": (2.3, FEW),  # 1.81
        "hsja+agrest": (7.2, OVERSHOOT),  # 5.69
        "a-hsja": (7.2, OVERSHOOT),  # 5.69
        "geoda+agrest": (2.3, OVERSHOOT),  # 1.80
        "a-geoda": (1.9, OVERSHOOT),  # 1.47
        "cgba+agrest": (2.8, OVERSHOOT),  # 2.18
        "a-cgba": (2.6, OVERSHOOT),  # 2.00
        "surfree-original": (2.3, FEW),  # 1.78
        "stealthy-hsja": (math.inf, NOISE),  # inf
        "stealthy-geoda": (math.inf, NOISE),  # inf
        "hsja+calibrated": (3.6, FEW),  # 1.42; 1.37 to 3.23
        "frugal": (3.3, FEW),  # 1.69; 1.54 to 2.96
    },
    ("slab", 1): {
        "stealthy-hsja": (2.4, RAYS),  # 1.88
    },
    ("slab", 10): {
        "hsja+agrest": (3.6, OVERSHOOT),  # 2.84
        "a-hsja": (3.5, OVERSHOOT),  # 2.75
        "a-geoda": (1.6, OVERSHOOT),  # 1.26
        "cgba+as": (1.7, LAYER),  # 1.30
        "a-cgba": (1.9, OVERSHOOT),  # 1.52
        "stealthy-hsja": (3.0, RAYS),  # 2.34
        "frugal": (2.0, FAR_SIDE),  # 1.45; 1.12 to 1.76
    },
    ("slab", 100): {
        "surfree": (2.0, FEW),  # 1.59
        "a-surfree": (2.1, LAYER),  # 1.67
        "hsja": (2.5, FEW),  # 1.98
        "hsja+as": (2.9, LAYER),  # 2.24
        "hsja+agrest": (8.1, OVERSHOOT),  # 6.42
        "a-hsja": (9.9, OVERSHOOT),  # 7.86
        "geoda+as": (1.9, LAYER),  # 1.45
        "geoda+agrest": (2.5, OVERSHOOT),  # 1.95
        "a-geoda": (2.7, OVERSHOOT),  # 2.12
        "cgba+as": (1.8, LAYER),  # 1.39
        "cgba+agrest": (2.8, OVERSHOOT),  # 2.20
        "a-cgba": (3.4, LAYER),  # 2.69
        "surfree-original": (2.1, FEW),  # 1.62
        "stealthy-hsja": (math.inf, NOISE),  # inf
        "stealthy-geoda": (math.inf, NOISE),  # inf
        "hsja+calibrated": (3.2, FEW),  # 1.41; 1.41 to 2.86
        "cgba+calibrated": (1.7, FEW),  # 1.33; 1.02 to 1.48
        "frugal": (12.9, FEW_LAYER),  # 2.15; 2.15 to 11.67
    },
}
"""By boundary and c*: what each preset reaches at most, in units of the optimum, and why. Behind it
what seed 0 reaches, which is run here; the limit is a quarter more. Where three numbers are given,
the last two are the least and the largest of seeds 0 to 7, and the limit is the largest that is
finite, and a tenth: seeds differ by much, above all in what the start costs."""


def whole(attack):
    """The same attack, with directions drawn in the whole space."""
    if hasattr(attack, "directions"):
        return replace(attack, directions=replace(attack.directions, subspace=Full()))
    return replace(attack, estimate=replace(attack.estimate, subspace=Full()))


def runs(boundary, attacks, ratio, budgets, late=()):
    """Results by name, at the first budget that brings them near; those that are `late` are run
    with the last budget only."""
    found, left = {}, [name for name in attacks if name not in late]
    for budget in budgets:
        if budget == budgets[-1]:
            left += [name for name in attacks if name in late]
        cells = [
            tb.Cell(attacks[name], boundary.source, 0, tb.Prices(ratio, 1), budget) for name in left
        ]
        results = tb.run_cells(cells, boundary.model())  # none, if all are near
        assert all(result.ledger.cost <= budget for result in results)
        found |= dict(zip(left, results, strict=True))
        far = {name for name in left if found[name].distance > NEAR * boundary.optimum}
        left = [name for name in left if name in far and found[name].stop is Stop.BUDGET]
    return found


def distances(boundary, results):
    """In units of the optimum, by name."""
    return {name: result.distance / boundary.optimum for name, result in results.items()}


def reached(boundary, attacks, ratio, budgets, late=()):
    """How near each comes, in units of the optimum."""
    return distances(boundary, runs(boundary, attacks, ratio, budgets, late))


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


def unproved(shares, misses):
    """Misses that are blamed on an overshoot that is too large, where that is not what happened:
    the share of low-cost answers is then above the planned one. `shares`: both, by name."""
    return [
        f"{name}: a share of {shares[name][0]:.3f}, where {shares[name][1]:.3f} is planned"
        for name, (_, reason) in misses.items()
        if reason == OVERSHOOT and not shares[name][0] > shares[name][1]
    ]


def pooled(result):
    """The share of low-cost answers over all estimates of a run, and what was planned."""
    notes = [step.notes for step in result.trace if "share" in step.notes]
    asked = sum(each["estimate_queries"] for each in notes)
    low = sum(each["share"] * each["estimate_queries"] for each in notes)
    return low / asked, notes[-1]["planned_share"]


@pytest.mark.parametrize("ratio", [1, 10, 100])
@pytest.mark.parametrize("name", SMOOTH)
def test_within_a_quarter_of_the_optimum_or_the_reason(name, ratio):
    misses = MISSES.get((name, ratio), {})
    names = [preset for preset in tb.presets() if not (ratio == 1 and preset in TWINS)]
    attacks = {preset: tb.preset(preset) for preset in names}
    late = {*misses, "surfree"} if ratio == 10 else set(misses)  # which needs 30 000 and more
    budgets = (*EARLIER[ratio], BUDGET)
    results = runs(SMOOTH[name], attacks, ratio, budgets, late)
    assert sorted(results) == sorted(names)
    assert complaints(distances(SMOOTH[name], results), misses) == []
    blamed = {preset for preset, (_, reason) in misses.items() if reason == OVERSHOOT}
    assert unproved({preset: pooled(results[preset]) for preset in blamed}, misses) == []


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


def test_a_blame_without_a_proof_is_seen():
    misses = dict.fromkeys(("right", "even", "lower", "other"), (2.0, OVERSHOOT))
    misses["other"] = (2.0, FEW)
    shares = {"right": (0.95, 0.87), "even": (0.87, 0.87), "lower": (0.5, 0.87)}
    assert [line.split(":")[0] for line in unproved(shares, misses)] == ["even", "lower"]


# -- AGREST with a schedule that fits -------------------------------------------------------------

FITTING = 1.0
"""m: cos(alpha_t) rises as 1 - 1/t, about as fast as the true cosine does on so small an image."""


def fitting(preset):
    """The preset with the rate `FITTING`."""
    attack = tb.preset(preset)
    return replace(attack, estimate=replace(attack.estimate, m=FITTING))


@pytest.mark.parametrize("name", SMOOTH)
def test_nothing_but_the_schedule_keeps_agrest_from_a_boundary(name):
    """At c* = 10, for two fifths of the cost at which all of them miss with the published rates."""
    misses = {"a-cgba": (1.5, LAYER)} if name == "slab" else {}
    attacks = {preset: fitting(preset) for preset in ALL_AGREST}
    assert complaints(reached(SMOOTH[name], attacks, 10, (20_000,)), misses) == []


@pytest.mark.parametrize("preset", ALL_AGREST)
def test_agrest_has_as_many_flagged_answers_as_the_closed_form_says(preset):
    # In whole runs at c* = 10, over some 25 estimates and 6000 answers. At a plane the true cosine
    # is its distance over that of the iterate, and omega_t is worked out here from the paper's
    # formulas. Off by 5 standard errors has probability 6e-7 by chance. An overshoot of 1.2 times
    # the right one shifts the number by 7.8 or more: it is seen with a power of .997.
    boundary, attack, ratio = testing.half_space(factor=4), fitting(preset), 10
    cell = tb.Cell(attack, boundary.source, 0, tb.Prices(ratio, 1), 20_000)
    [result] = tb.run_cells([cell], boundary.model())
    d, low = boundary.source.numel(), attack.estimate.subspace.dimension(SHAPE)
    x, first = theory.optimal_overshoot(ratio, low), theory.initial_cosine(d)
    found = wanted = shifted = variance = 0.0
    for t, (before, step) in enumerate(zip(result.trace, result.trace[1:], strict=False), 1):
        height = x / (1 - (1 - first) / t**FITTING) * boundary.optimum / before.distance
        asked, flagged = step.notes["estimate_queries"], theory.cap_complement(height, low)
        found += (1 - step.notes["share"]) * asked
        wanted += flagged * asked
        shifted += theory.cap_complement(1.2 * height, low) * asked
        variance += flagged * (1 - flagged) * asked
    error = math.sqrt(variance)
    assert wanted - shifted > 7.8 * error
    assert abs(found - wanted) < 5 * error


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
    [("surfree", 0.25, 9000), ("geoda", 0.25, 2500), ("cgba", 0.25, 1500)],
)
def test_in_a_subspace_an_attack_reaches_what_the_subspace_allows_and_no_more(
    preset, share, budget
):
    """All that it asks lies in the span V of the subspace and of the start's direction (where
    nothing clips). In it the nearest point of a plane at distance r is at r / |P_V n|: with a
    normal of all frequencies about 4 times as far. It comes within 1.25 of that."""
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
def test_agrest_loses_its_flagged_answers_and_refusing_them_ends_it(preset):
    """At c* = 10 the schedule says cos(alpha) = 0.03 to 0.09 while the attack's true cosine, the
    distance of the plane over that of the iterate, is above 0.3 soon after the start. The overshoot
    is then several times too large, and every answer is low-cost. If such estimates are refused the
    run ends as NO_INFORMATION at about 3.3 times the optimum (start: about 9). The plain presets
    reach 1.05 at the same cost."""
    boundary = testing.half_space()
    attack = tb.preset(preset)
    [result] = tb.run(
        replace(attack, estimate=replace(attack.estimate, refuse_one_sided=True)),
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
        tries = {"stealthy-hsja": 10_000, "stealthy-geoda": 10_000, "frugal": 6 + 1000}
        tries = tries.get(cell.name, 1000)
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
