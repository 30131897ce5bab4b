"""G and O against closed forms: attacks whose distances are known functions of the cost."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tollbox.report.ranking import (
    COSTS,
    Estimate,
    distance_ratio,
    distance_ratios,
    log_spaced,
    mean_logs,
    optimality,
)

INF = math.inf
COST = log_spaced(10_000.0)
CAP = 50.0


def falling(first: float, power: float, images: int = 1) -> np.ndarray:
    """first * (cost / 500)^-power, on every image alike."""
    return np.tile(first * (COST / COST[0]) ** -power, (images, 1))


def numbered(count: int) -> np.ndarray:
    return np.arange(count)


def test_costs_are_equal_ratios_apart_from_a_twentieth_on() -> None:
    assert (len(COST), COST[0], COST[-1]) == (COSTS, 500.0, pytest.approx(10_000))
    assert np.diff(np.log(COST)) == pytest.approx(math.log(20) / (COSTS - 1))


def test_a_constant_factor_is_g_whatever_the_cost_and_the_image() -> None:
    reference = falling(20, 0.7, 8) * np.geomspace(0.1, 2, 8)[:, None]
    assert distance_ratio(0.52 * reference, reference, numbered(8), CAP) == (
        *[pytest.approx(0.52)] * 3,
        8,
    )


def test_powers_of_the_cost_have_the_mean_of_their_logs() -> None:
    """Over log-spaced costs log(c / c0) is log(20) / 2 on average."""
    found = distance_ratio(falling(20, 0.9), falling(20, 0.4), numbered(1), CAP)
    assert found.value == pytest.approx(20 ** (-0.5 / 2))


def test_images_weigh_alike_as_logs() -> None:
    ours = np.concatenate([falling(4, 0), falling(9, 0)])
    found = distance_ratio(ours, np.ones((2, COSTS)), numbered(2), CAP)
    assert found.value == pytest.approx(6.0)
    assert (found.low, found.high) == (pytest.approx(4.0), pytest.approx(9.0))


def test_no_point_and_what_is_farther_count_as_the_cap() -> None:
    reference = np.full((1, COSTS), 5.0)
    none = np.full((1, COSTS), INF)
    assert distance_ratio(none, reference, numbered(1), CAP).value == pytest.approx(10.0)
    half = np.where(np.arange(COSTS) < COSTS // 2, INF, 5.0)[None]
    assert distance_ratio(half, reference, numbered(1), CAP).value == pytest.approx(10**0.5)
    assert distance_ratio(none, none, numbered(1), CAP).value == 1.0
    far = np.full((1, COSTS), 3 * CAP)
    assert distance_ratio(far, reference, numbered(1), CAP).value == pytest.approx(10.0)
    assert distance_ratio(0 * reference, reference, numbered(1), CAP).value > 0


def test_only_runs_that_both_have_count() -> None:
    """The first image is not known to its end for one, the last was not run by the other."""
    ours, theirs = falling(2, 0, 4), falling(4, 0, 4)
    ours[0] *= 1000
    theirs[0, -1] = math.nan
    ours[3] = math.nan
    found = distance_ratio(ours, theirs, numbered(4), CAP)
    assert (found.value, found.images) == (pytest.approx(0.5), 2)
    nothing = distance_ratio(ours[3:], theirs[3:], numbered(1), CAP)
    assert nothing.images == 0
    assert math.isnan(nothing.value)


def test_many_attacks_at_once_are_as_each_alone() -> None:
    rng = np.random.default_rng(0)
    logs = rng.normal(size=(12, 5))
    logs[3, 2] = logs[7, 4] = logs[7, 1] = math.nan
    images = numbered(12) // 2
    found = distance_ratios(logs, 1, images)
    for attack in range(5):
        alone = distance_ratios(logs[:, [attack, 1]], 1, images)[0]
        assert found[attack] == pytest.approx(alone)
    assert found[1] == (1.0, 1.0, 1.0, 6)


def test_an_image_counts_once_however_many_seeds_it_has() -> None:
    logs = np.log([[2.0], [2.0], [2.0], [8.0]])
    both = np.concatenate([np.zeros((4, 1)), logs], axis=1)
    found = distance_ratios(both, 0, np.array([4, 4, 4, 9]))[1]
    assert (found.value, found.images) == (pytest.approx(4.0), 2)


def test_optimality_is_one_at_the_best_and_none_without_a_point() -> None:
    best = np.array([2.0, 3.0])
    there = np.repeat(best[:, None], COSTS, axis=1)
    assert optimality(there, best, numbered(2), CAP) == (1.0, 1.0, 1.0, 2)
    assert optimality(np.full((2, COSTS), INF), best, numbered(2), CAP).value == 0.0
    middle = np.sqrt(best * CAP)[:, None] * np.ones((2, COSTS))
    assert optimality(middle, best, numbered(2), CAP).value == pytest.approx(0.5)
    sooner = np.where(np.arange(COSTS) < COSTS // 4, INF, 2.0)[None]
    assert optimality(sooner, best[:1], numbered(1), CAP).value == pytest.approx(0.75)


def test_images_that_nobody_brings_below_the_cap_tell_nothing_of_optimality() -> None:
    distances = np.array([[2.0] * COSTS, [INF] * COSTS, [CAP] * COSTS])
    found = optimality(distances, np.array([2.0, INF, CAP]), numbered(3), CAP)
    assert found == (1.0, 1.0, 1.0, 1)
    assert optimality(distances[1:], np.array([INF, CAP]), numbered(2), CAP).images == 0


def coverage(repeats: int, images: int, effect: float) -> tuple[float, float]:
    """How often an interval holds the true G, and how often it is below 1."""
    rng = np.random.default_rng(3)
    held = below = 0
    for _ in range(repeats):
        spread = rng.normal(math.log(effect), 0.4, images)[:, None]
        logs = np.concatenate([np.zeros((images, 1)), spread], axis=1)
        found: Estimate = distance_ratios(logs, 0, numbered(images))[1]
        held += found.low <= effect <= found.high
        below += found.high < 1
    return held / repeats, below / repeats


def test_intervals_hold_the_truth_about_as_often_as_they_say() -> None:
    """400 studies of 40 images whose log ratios spread by 0.4 about that of 0.8. A true rate of
    0.90 or of 0.98 would be outside of 0.915 to 0.972 with a power of 0.81 and 0.89; one of 0.94,
    which a percentile interval of 40 has, is outside 1 time in 50. The effect is 3.5 standard
    errors: at alpha 0.05 it is seen in 94 % of the studies, and in 85 % at least, all but surely.
    """
    held, seen = coverage(400, 40, 0.8)
    assert 0.915 <= held <= 0.972
    assert seen >= 0.85


def test_a_cap_is_applied_to_each_distance_and_not_to_the_mean() -> None:
    distances = np.array([[INF, 1.0]])
    assert mean_logs(distances, CAP) == pytest.approx([math.log(CAP) / 2])
