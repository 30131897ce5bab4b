"""Every preset on every boundary whose nearest point is known, 3x16x16, float64.

Within 1.25 of the optimum at a cost of 50 000, or known_boundaries.json says how near it comes with
each of eight seeds, and `WHY` why the attack as published comes no nearer. The best distance never
rises with the cost, so a run stops as soon as it is within 1.25.

How near an attack comes is not what tells a sound AGREST from a broken one, since seeds differ:
where the schedule is blamed, the run must show shares above the planned one; with a schedule that
fits, AGREST must come near all boundaries, and its flagged answers must be as many as the closed
form says.
"""

from __future__ import annotations

import json
import math
import os
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

import pytest
import torch
from driver import drive
from every_preset import attack_of, names

import tollbox as tb
from tollbox import testing
from tollbox.core.by_side import at_side
from tollbox.core.metric import Metric
from tollbox.core.stop import Stop
from tollbox.parts.priors import BRIGHTNESS, Spectrum
from tollbox.parts.starts import GrowingNoise
from tollbox.parts.subspaces import Dct, Full
from tollbox.theory import caps

SHAPE = (3, 16, 16)
SMALL = (3, 6, 6)
PLAIN = ["hsja", "hsja+as"]
AGREST = ["hsja+agrest", "a-hsja"]
GEOMETRIC_AGREST = ("a-tangent", "a-qeba", "a-qfool", "a-ttba", "a-cgba-h")
ALL_AGREST = (*AGREST, "geoda+agrest", "a-geoda", "cgba+agrest", "a-cgba")
SCHEDULED = (*ALL_AGREST, "a-hsja-linf")
DPATTACK = ("dpattack", "a-dpattack", "dpattack-l2", "a-dpattack-l2")
NEAR = 1.25
BUDGET = 50_000
RATIOS = (1, 10, 100)
TWINS = {"a-rays", "a-surfree", "hsja+as", "a-hsja", "geoda+as", "a-geoda", "cgba+as", "a-cgba"}
TWINS |= {"a-boundary", "a-tria", "a-opt", "a-sign-opt", "a-adba"}
TWINS |= {"a-dpattack", "a-dpattack-l2"}
TWINS |= {"a-evolutionary", "a-aha", "a-sign-flip"}
"""At c* = 1 the same run, query for query, as the preset without asymmetric search (tests in
test_attacks.py, test_boundary.py and test_classics.py)."""
LONG_WALKS = ("aha", "sign-flip")
"""At c* = 1 they send 50,000 queries one by one, in half a minute each: c* = 10 and 100 suffice."""
SMOOTH = {boundary.name: boundary for boundary in testing.boundaries(factor=4)[:-1]}
"""Normals of low frequencies only, which all presets can reach."""
KNOWN = SMOOTH | {
    f"linf {boundary.name}": boundary for boundary in testing.boundaries(4, Metric.LINF)[:-1]
}
"""And those in the other metric, for the presets that are made for it."""

OVERSHOOT = (
    "the schedule's cosine is far below the true one on so small an image: the overshoot grows too "
    "large, no answer is flagged, and estimates are the mean of random directions"
)
CLIPPED = (
    "its probe lies at |sum of g| times the distance, soon far outside the box: what clipping "
    "leaves of it has another direction"
)
RAYS = "ten rays in 768 dimensions: a cosine of about 0.1 for a thousand queries or two an estimate"
DEAR_RAYS = "ten rays in 768 dimensions: a cosine of about 0.1 for a cost of 700 to 1000 each time"
FEW = (
    "the budget pays for 500 flagged answers: the start takes 100 to 400 of them, and every search "
    "and estimate several"
)
NOISE = (
    "the budget pays for 500 flagged answers (5000 at c* = 10, which some seeds need for a start), "
    "and uniform noise is adversarial once in 4000"
)
LAYER = (
    "asymmetric search asks near its start first, and stops where the path leaves the thin layer; "
    "binary search jumps over the gap"
)
TURNS = "on its way: turns on a sphere are small, and each takes an estimate and a search"
FEW_LAYER = "500 flagged answers (see half-space); and a search from afar stops at the thin layer"
ONLY_SIGNS = (
    "a ray of signs cannot come nearer to a plane than sqrt(d) / |w|_1, about 1.25 times its "
    "distance; to an edge less near"
)
ONE_BY_ONE = (
    "the farther of two planes binds: a flip in the other's half brings nothing alone, and is not "
    "kept"
)
COARSE = "its steps are 5 % of so small a radius: a flip that brings less is not kept"
LARGE = "an estimate has 100 sqrt(t) queries, half of them flagged: the budget pays for twenty"
WALK = (
    "on its way: one query a step, three in four or more of them flagged; the budget pays for 600 "
    "steps at c* = 100"
)
DRIFTS = (
    "it accepts farther points, too: after its best point (1.4 to 1.9 after a cheap start) it "
    "drifts away again"
)
TRIANGLE = (
    "its least angle asks for a gain of 2 to 4 %, along one wave a channel: near the nearest point "
    "no plane has one, and it ends"
)
ONE_NORMAL = (
    "it goes straight along a normal: that of one face of the wedge meets the other at 4/3, 1.49 "
    "of the optimum, and only estimates that hit both faces bring it nearer"
)

WALKS = ("boundary", "a-boundary", "evolutionary", "a-evolutionary", "aha", "a-aha")
FLIPS = (
    "the budget pays for 500 flagged answers: comparisons take a third to a half of them, and what "
    "is left pays for one or two hundred pairs of flips, of blocks that are still large"
)

DRY = ("half-space", "wedge", "slab")
"""Where uniform noise is seldom adversarial."""
WHY: list[tuple[tuple[str, ...], tuple[int, ...], tuple[str, ...], str]] = [
    ((), (1, 10, 100), ("stealthy-rays",), COARSE),
    (("linf corner",), (1, 10, 100), ("rays", "a-rays"), ONE_BY_ONE),
    (("linf corner",), (10, 100), ("adba", "a-adba", "frugal-linf"), ONE_BY_ONE),
    (tuple(SMOOTH), (1, 10), ("rays-l2", *DPATTACK), ONLY_SIGNS),
    ((), (100,), DPATTACK, FLIPS),
    ((), (10,), ("hsja-linf",), LARGE),
    (("linf half-space", "linf corner"), (100,), ("hsja-linf", "a-hsja-linf"), NOISE),
    (("slab",), (10, 100), ("cgba+as", "hsja+as", "geoda+as", "a-surfree"), LAYER),
    (("slab",), (100,), ("frugal", "frugal+seri"), FEW_LAYER),
    (DRY, (10, 100), ("stealthy-geoda", "boundary", "a-boundary", "tangent"), NOISE),
    (DRY, (10, 100), ("evolutionary", "a-evolutionary"), NOISE),
    (("linf half-space",), (10, 100), ("sign-flip", "a-sign-flip"), NOISE),
    (("linf corner",), (100,), ("sign-flip", "a-sign-flip"), NOISE),
    (DRY, (100,), ("aha", "a-aha", "a-tangent"), NOISE),
    ((), (10,), ("aha", "a-aha"), DRIFTS),
    ((), (10, 100), (*WALKS, "sign-flip", "a-sign-flip"), WALK),
    (DRY, (100,), ("stealthy-hsja", "hsja-original"), NOISE),
    (("half-space in box",), (1, 10, 100), ("stealthy-geoda",), CLIPPED),
    ((), (1, 10, 100), ("stealthy-hsja",), RAYS),
    ((), (1, 10), ("stealthy-opt",), RAYS),
    ((), (10,), ("opt", "a-opt"), DEAR_RAYS),
    (("wedge",), (1, 10, 100), ("qfool", "a-qfool"), ONE_NORMAL),
    ((), (1, 10, 100), ("tria", "a-tria"), TRIANGLE),
    ((), (10, 100), (*SCHEDULED, *GEOMETRIC_AGREST), OVERSHOOT),
    (("sphere",), (1, 10), ("stealthy-geoda",), TURNS),
    ((), (100,), (), FEW),
]
"""Boundaries, prices and presets (none named: all of them), and why these do not come near; the
first that fits counts."""
FILE = Path(__file__).with_name("known_boundaries.json")
"""What each preset reaches that does not come near with every one of eight seeds, in units of the
optimum, seed by seed. `python tests/properties/test_known_boundaries.py` makes it again (a quarter
of an hour on two cores): if a change is meant to change it, say in the commit why."""
SEEDS = range(8)
RECORD: dict[str, dict[str, list[float]]] = json.loads(FILE.read_text())
SLACK = 1.1
"""Seed 0, which is run here, may come this much less near than recorded (or within 1.25)."""


def why(name, ratio, preset):
    """The reason for a miss, or nothing."""
    for where, ratios, presets, reason in WHY:
        if (not where or name in where) and ratio in ratios and (not presets or preset in presets):
            return reason
    return ""


def misses_of(name, ratio):
    """Of a boundary and a price: what each preset that misses reaches at most, and why."""
    return {
        preset: (max(NEAR, SLACK * found[0]), why(name, ratio, preset))
        for preset, found in RECORD[case(name, ratio)].items()
    }


def case(name, ratio):
    """The name of a boundary and a price in the record."""
    return f"{name}, c* = {ratio}"


def whole(attack):
    """The same attack, with directions drawn in the whole space."""
    if hasattr(attack, "directions"):
        return replace(attack, directions=replace(attack.directions, subspace=Full(), dropped=0.0))
    return replace(attack, estimate=replace(attack.estimate, subspace=Full()))


@dataclass(frozen=True)
class UntilNear:
    """An attack that stops once it has found an adversarial point within `near`."""

    attack: Any
    near: float

    @property
    def metrics(self):
        return self.attack.metrics

    def __call__(self, problem):
        asking, answers = self.attack(problem), None
        while True:
            try:
                ask = asking.send(answers)
            except StopIteration as end:
                return end.value
            answers = yield ask
            if (answers.distances[answers.adversarial] <= self.near).any():
                return Stop.CONVERGED


def runs(boundary, attacks, ratio, budget, seed=0):
    """Results by name; a run stops once it is near."""
    near = NEAR * boundary.optimum
    options = {"seed": seed, "norm": boundary.norm}
    cells = [
        tb.attack.Cell(
            UntilNear(attack, near),
            boundary.source,
            0,
            tb.Prices(ratio, 1),
            tb.Limits(budget),
            **options,
        )
        for attack in attacks.values()
    ]
    results = tb.attack.run_cells(cells, boundary.model())
    assert all(result.ledger.cost <= budget for result in results)
    return dict(zip(attacks, results, strict=True))


def distances(boundary, results):
    """In units of the optimum, by name."""
    return {name: result.distance / boundary.optimum for name, result in results.items()}


def reached(boundary, attacks, ratio, budget):
    """How near each comes, in units of the optimum."""
    return distances(boundary, runs(boundary, attacks, ratio, budget))


def complaints(found, misses):
    """What is not as `misses` has it."""
    said = []
    for name, distance in found.items():
        if not distance >= 1 - 1e-9:
            said.append(f"{name}: {distance:.4f}, nearer than is possible")
        elif name not in misses and distance > NEAR:
            said.append(f"{name}: {distance:.4f} is not within {NEAR}")
        elif name in misses and distance > misses[name][0]:
            said.append(f"{name}: {distance:.4f}, worse than {misses[name][0]}")
    return said


def unproved(shares, misses):
    """Misses that are blamed on an overshoot that is too large, where that is not what happened:
    the share of low-cost answers is then above the planned one. `shares`: both, by name, of those
    that did not come near."""
    return [
        f"{name}: a share of {shares[name][0]:.3f}, where {shares[name][1]:.3f} is planned"
        for name, (_, reason) in misses.items()
        if reason == OVERSHOOT and name in shares and not shares[name][0] > shares[name][1]
    ]


def pooled(result):
    """The share of low-cost answers over all estimates of a run, and what was planned."""
    notes = [step.notes for step in result.trace if "share" in step.notes]
    asked = sum(each["estimate_queries"] for each in notes)
    low = sum(each["share"] * each["estimate_queries"] for each in notes)
    return low / asked, notes[-1]["planned_share"]


def low(preset):
    """A preset with its settings for large images: the normals here have low frequencies. Those of
    the Tangent Attack are a radius for the dimension, so it has the ones for small images."""
    return at_side(attack_of(preset), 16 if preset in ("tangent", "a-tangent") else 224)


def presets_at(name, ratio):
    """Those that are run on a boundary at a price."""
    made = tb.presets(KNOWN[name].norm)
    return [preset for preset in made if not (ratio == 1 and preset in (*TWINS, *LONG_WALKS))]


@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("name", KNOWN)
def test_within_a_quarter_of_the_optimum_or_the_reason(name, ratio):
    misses = misses_of(name, ratio)
    attacks = {preset: low(preset) for preset in presets_at(name, ratio)}
    results = runs(KNOWN[name], attacks, ratio, BUDGET)
    assert sorted(results) == sorted(attacks)
    found = distances(KNOWN[name], results)
    assert complaints(found, misses) == []
    far = {preset for preset, distance in found.items() if distance > NEAR}
    blamed = {preset for preset in far if misses[preset][1] == OVERSHOOT}
    assert unproved({preset: pooled(results[preset]) for preset in blamed}, misses) == []


def test_the_record_has_every_case_eight_seeds_and_misses_only():
    assert list(RECORD) == [case(name, ratio) for name in KNOWN for ratio in RATIOS]
    for (name, ratio), found in zip(product(KNOWN, RATIOS), RECORD.values(), strict=True):
        assert set(found) <= set(presets_at(name, ratio))
        for preset, reached in found.items():
            assert len(reached) == len(SEEDS)
            assert max(reached) > NEAR, f"{preset} comes near with every seed"
            assert why(name, ratio, preset), f"{preset}, {name}, c* = {ratio}: no reason"


def test_every_reason_is_needed():
    named = [
        why(name, ratio, preset)
        for name, ratio in product(KNOWN, RATIOS)
        for preset in RECORD[case(name, ratio)]
    ]
    assert [reason for *_, reason in WHY if reason not in named] == []


def test_a_complaint_is_made_where_there_is_one():
    """Of the three ways in which a run may be wrong each is seen."""
    misses = {"far": (2.0, "a reason"), "near": (2.0, "a reason"), "fine": (2.0, "a reason")}
    found = {"ok": 1.2, "bad": 1.3, "far": 2.1, "near": 1.2, "fine": 1.5, "magic": 0.9}
    assert [line.split(":")[0] for line in complaints(found, misses)] == ["bad", "far", "magic"]


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
    attack = low(preset)
    return replace(attack, estimate=replace(attack.estimate, m=FITTING))


@pytest.mark.parametrize("name", SMOOTH)
def test_nothing_but_the_schedule_keeps_agrest_from_a_boundary(name):
    """At c* = 10, for two fifths of the cost at which all of them miss with the published rates."""
    misses = {"a-cgba": (1.5, LAYER)} if name == "slab" else {}
    attacks = {preset: fitting(preset) for preset in ALL_AGREST}
    assert complaints(reached(SMOOTH[name], attacks, 10, 20_000), misses) == []


@pytest.mark.parametrize("preset", ALL_AGREST)
def test_agrest_has_as_many_flagged_answers_as_the_closed_form_says(preset):
    # In whole runs at c* = 10, over some 25 estimates and 6000 answers. At a plane the true cosine
    # is its distance over that of the iterate, and omega_t is worked out here from the paper's
    # formulas. Off by 5 standard errors has probability 6e-7 by chance. An overshoot of 1.2 times
    # the right one shifts the number by 7.8 or more: it is seen with a power of .997.
    boundary, attack, ratio = testing.half_space(factor=4), fitting(preset), 10
    cell = tb.attack.Cell(attack, boundary.source, 0, tb.Prices(ratio, 1), tb.Limits(20_000))
    [result] = tb.attack.run_cells([cell], boundary.model())
    d, low = boundary.source.numel(), attack.estimate.subspace.dimension(SHAPE)
    x, first = caps.optimal_overshoot(ratio, low), caps.initial_cosine(d)
    found = wanted = shifted = variance = 0.0
    for t, (before, step) in enumerate(zip(result.trace, result.trace[1:], strict=False), 1):
        height = x / (1 - (1 - first) / t**FITTING) * boundary.optimum / before.distance
        asked, flagged = step.notes["estimate_queries"], caps.cap_complement(height, low)
        found += (1 - step.notes["share"]) * asked
        wanted += flagged * asked
        shifted += caps.cap_complement(1.2 * height, low) * asked
        variance += flagged * (1 - flagged) * asked
    error = math.sqrt(variance)
    assert wanted - shifted > 7.8 * error
    assert abs(found - wanted) < 5 * error


# -- normals of all frequencies -------------------------------------------------------------------


@pytest.mark.parametrize(("ratio", "budget"), [(1, 5000), (10, 30_000)])
@pytest.mark.parametrize("boundary", testing.boundaries()[:-1], ids=lambda b: b.name)
def test_hsja_draws_in_the_whole_space_and_needs_no_smooth_boundary(boundary, ratio, budget):
    names = PLAIN if ratio > 1 else ["hsja", "hsja+agrest"]  # no overshoot at c* = 1
    found = reached(boundary, {name: low(name) for name in names}, ratio, budget)
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
    attacks = {preset: whole(low(preset)) for preset in names}
    found = reached(WHITE[name], attacks, 1, BUDGET)
    assert not [preset for preset in misses if found[preset] <= NEAR]  # off the list with it
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
    attack = low(preset)
    space = attack.directions.subspace if preset == "surfree" else attack.estimate.subspace
    problem = tb.attack.Problem(boundary.source, 0)
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
    assert complaints(reached(SMOOTH[name], {"frugal": attack}, ratio, budget), {}) == []


@pytest.mark.parametrize("ratio", [1, 10])
def test_frugal_on_a_model_of_8_bits(ratio):
    """The known boundary, asked in 256 levels; what is reported is a picture of 8 bits."""
    boundary = testing.half_space(factor=4)
    attack = replace(tb.preset("frugal"), prior=Dct(4))
    cell = tb.attack.Cell(attack, boundary.source, 0, tb.Prices(ratio, 1), tb.Limits(1500 * ratio))
    [result] = tb.attack.run_cells([cell], boundary.model(quantize=8))
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
    it a little nearer, 5 % for the two last; the median of five seeds.)"""
    boundary = testing.half_space(factor=4)
    normal = testing._unit(0, SHAPE, 4).view(3, -1)
    light = torch.tensor(BRIGHTNESS, dtype=torch.float64)
    light = light / torch.linalg.vector_norm(light)
    bright = torch.outer(light, light @ normal)
    drawn = grey * bright + (1 - grey) / 2 * (normal - bright)
    limit = float(torch.linalg.vector_norm(drawn) / (drawn * normal).sum())
    prior = Spectrum(4.5, grey)
    alone = {"prior": prior, "low_prior": prior, "fallback_prior": prior}
    attack = replace(tb.preset("frugal"), **alone, reweighing_period=0)
    cells = [
        tb.attack.Cell(attack, boundary.source, 0, limits=tb.Limits(4500), seed=seed)
        for seed in range(5)
    ]
    results = tb.attack.run_cells(cells, boundary.model())
    assert median(result.distance for result in results) == pytest.approx(limit, rel=0.07)
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
    attack = low(preset)
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
        tb.attack.Cell(
            attack,
            boundary.source,
            0,
            tb.Prices(10, 1),
            tb.Limits(200_000),
            name=name,
            norm=attack.metrics[0],
        )
        for name, attack in ((name, low(name)) for name in names())
    ]
    for cell, result in zip(cells, tb.attack.run_cells(cells, boundary.model()), strict=True):
        assert result.stop is Stop.NO_START, cell.name
        assert (result.distance, result.adversarial, result.trace) == (math.inf, None, ())
        uniform = ("stealthy-hsja", "stealthy-geoda", "hsja-linf", "a-hsja-linf")
        uniform += ("boundary", "a-boundary", "hsja-original", "tangent", "a-tangent")
        uniform += ("evolutionary", "a-evolutionary", "aha", "a-aha", "sign-flip", "a-sign-flip")
        expected = dict.fromkeys(uniform, 10_000)
        # One ray of each kind, three extreme images, and growing noise.
        expected |= dict.fromkeys(("frugal", "frugal+seri", "frugal+surrogate"), 3 + 3 + 1000)
        expected["frugal-linf"] = 4 + 1000
        expected |= dict.fromkeys(("sqba", "a-sqba"), 1 + 1000)  # the image of signs, which recurs
        expected |= dict.fromkeys(DPATTACK, 1001)  # 40 for the race, one, and pairs of flips
        tries = expected.get(cell.name, 1000)
        assert result.ledger.by_phase == {"clean": 10, "start": 10 * tries}
        assert result.ledger.flagged == tries + 1


# -- the rules ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ratio", "budget"), [(0.1, 100), (1, 350), (10, 2500)])
@pytest.mark.parametrize(
    ("preset", "boundary"),
    [
        pytest.param(preset, boundary, id=f"{preset}-{boundary.norm} {boundary.name}")
        for boundary in (*testing.boundaries(), *testing.boundaries(norm=Metric.LINF))
        for preset in names(boundary.norm)
    ],
)
def test_every_preset_keeps_the_rules_of_attacks(preset, boundary, ratio, budget):
    _, faults = testing.check_attack(
        attack_of(preset), boundary, tb.Prices(ratio, 1), budget=budget
    )
    assert faults == []


def test_the_suite_finds_an_attack_that_breaks_the_rules():
    class Cheat:
        def __call__(self, problem):
            yield tb.attack.Ask(problem.source[None] + 0.01, phase="probe")
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
            yield tb.attack.Ask(Unsteady(), phase="probe")
            return Stop.CONVERGED

    class Scribbler:
        def __call__(self, problem):
            problem.source.mul_(0.9)
            yield tb.attack.Ask(problem.source[None], phase="probe")
            return Stop.CONVERGED

    boundary = testing.half_space()
    _, faults = testing.check_attack(Scribbler(), boundary)
    assert faults == ["changed problem.source, which an attack may only read"]
    assert torch.equal(boundary.source, testing.half_space().source)
    _, faults = testing.check_attack(Cheat(), testing.half_space())
    assert faults == ["accepted a point that was not sent and found adversarial"]
    _, faults = testing.check_attack(Sloppy(), testing.half_space())
    assert faults == ["rows of phase 'probe' depend on the slice they are in"]


# -- the record -----------------------------------------------------------------------------------


def with_seed(name, ratio, seed):
    """What every preset reaches with a seed, to be written down."""
    torch.set_num_threads(1)
    attacks = {preset: low(preset) for preset in presets_at(name, ratio)}
    results = runs(KNOWN[name], attacks, ratio, BUDGET, seed)
    print(f"{case(name, ratio)}, seed {seed}", flush=True)
    return {preset: round(found, 3) for preset, found in distances(KNOWN[name], results).items()}


def renew():
    """Make the record again."""
    keys = list(product(KNOWN, RATIOS, SEEDS))
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
        reached = dict(zip(keys, pool.map(with_seed, *zip(*keys, strict=True)), strict=True))
    lines = []
    for name, ratio in product(KNOWN, RATIOS):
        by_preset = {
            preset: [reached[name, ratio, seed][preset] for seed in SEEDS]
            for preset in presets_at(name, ratio)
        }
        misses = [
            f"  {json.dumps(preset)}: {json.dumps(found)}"
            for preset, found in by_preset.items()
            if max(found) > NEAR
        ]
        inside = ",\n".join(misses)
        lines.append(f" {json.dumps(case(name, ratio))}: {{\n{inside}\n }}")
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    renew()
