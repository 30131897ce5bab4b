"""Medians, intervals, step functions and success rates against cases worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tollbox.core.stop import Stop
from tollbox.report import DistanceRule, formatting
from tollbox.report import statistics as medians
from tollbox.report.runs import CellCurve

INF = math.inf


def run(
    steps: list[tuple[float, float]],
    image: int = 0,
    seed: int = 0,
    known: float = INF,
    iterates: list[tuple[float, float]] | None = None,
    rule: DistanceRule = DistanceRule.HARD,
) -> CellCurve:
    """A run that reaches distances from costs on; flagged queries are half of them."""
    costs = np.array([cost for cost, _ in steps], float)
    accepted = iterates or []
    places = np.array([cost for cost, _ in accepted])
    return CellCurve(
        image,
        seed,
        Stop.BUDGET,
        {"cost": costs, "source": costs / 2 + 1, "queries": costs},
        np.array([distance for _, distance in steps]),
        {"cost": places, "source": places / 2, "queries": places},
        np.array([distance for _, distance in accepted]),
        {"cost": 100.0, "source": 50.0, "queries": 100.0},
        {"cost": known, "source": INF, "queries": INF},
        {},
        np.empty((0, 2)),
        rule,
    )


def at(one: CellCurve, *marks: float) -> list[float]:
    return one.at(np.array(marks, float), "cost").tolist()


def test_a_run_is_a_step_function():
    one = run([(10, 4.0), (20, 3.0)])
    assert at(one, 9.99, 10, 19.99, 20, 1e9) == [INF, 4.0, 4.0, 3.0, 3.0]
    assert one.at(np.array([6.0, 5.99]), "source").tolist() == [4.0, INF]


def test_beyond_what_is_known_is_nothing():
    found = at(run([(10, 4.0)], known=50), 50, 50.1)
    assert found[0] == 4.0
    assert math.isnan(found[1])


def test_the_papers_rule_interpolates_between_iterates():
    one = run([(5, 9.0), (10, 1.0)], iterates=[(10, 8.0), (20, 4.0)], rule=DistanceRule.PAPER)
    assert at(one, 9, 10, 15, 20, 30) == [INF, 8.0, 6.0, 4.0, 4.0]
    assert at(run([(5, 9.0)], rule=DistanceRule.PAPER), 7) == [INF]


def test_the_median_counts_infinities_and_leaves_out_what_is_not_known():
    values = np.array([3.0, INF, 1.0, math.nan, 2.0])
    assert medians.median(values) == 2.5
    assert medians.median(np.array([1.0, INF, INF])) == INF
    assert medians.median(np.array([1.0, INF])) == INF
    assert math.isnan(medians.median(np.array([math.nan])))
    assert math.isnan(medians.median(np.array([])))


def test_a_curve_of_medians():
    runs = [run([(10, 4.0), (20, 2.0)]), run([(15, 1.0)], image=1), run([], image=2)]
    table = medians.distances_at(runs, np.array([5.0, 10.0, 15.0, 20.0]), "cost")
    assert [medians.median(column) for column in table.T] == [INF, INF, 4.0, 2.0]
    nothing = medians.distances_at([], np.array([1.0]), "cost")
    assert nothing.shape == (0, 1)


def test_success_is_of_those_that_are_known():
    runs = [run([(10, 4.0), (20, 2.0)]), run([(15, 1.0)], image=1, known=18), run([], image=2)]
    found = medians.success(runs, 3.0, np.array([10.0, 15.0, 20.0]), "cost")
    assert found.tolist() == [0.0, pytest.approx(1 / 3), 0.5]
    assert medians.success(runs, 2.0, np.array([20.0]), "cost").tolist() == [0.0]


def test_a_median_at_a_mark_with_what_it_stands_on():
    runs = [run([(1, float(i))], image=i, seed=s) for i in range(1, 4) for s in (0, 1)]
    found = medians.median_at(runs, 5.0, "cost")
    assert (found.value, found.success, found.runs, found.images) == (2.0, 1.0, 6, 3)
    assert (found.low, found.high) == (1.0, 3.0)
    cut = medians.median_at([run([(1, 2.0)], known=3)], 5.0, "cost")
    assert cut.runs == 0
    assert math.isnan(cut.value)


def test_an_interval_is_over_images_not_over_seeds():
    """A hundred seeds on each of three images say no more about images than three images do."""
    rng = np.random.default_rng(1)
    centres, seeds = np.array([1.0, 5.0, 9.0]), 100
    images = np.repeat(np.arange(3), seeds)
    values = centres[images] + 0.01 * rng.standard_normal(3 * seeds)
    low, high = medians.interval(values, images)
    assert low == pytest.approx(1.0, abs=0.1)
    assert high == pytest.approx(9.0, abs=0.1)
    as_if = medians.interval(values, np.arange(3 * seeds))
    assert as_if[1] - as_if[0] < 1.0


@pytest.mark.parametrize("images", [[4, 4, 7, 7, 9, 9], [4, 7, 7, 7, 9, 9]])
def test_a_sample_has_images_with_all_their_runs(images: list[int]):
    """As many images as there are, whatever blocks the samples are made in."""
    samples: list[list[int]] = []

    def note(rows: np.ndarray) -> np.ndarray:
        samples.extend(rows.tolist())
        return rows[:, 0]

    found = medians.bootstrap(note, np.array(images), draws=2 * medians.BLOCK + 7)
    assert len(samples) == len(found) == 2 * medians.BLOCK + 7
    for sample in samples:
        times = [sample.count(row) for row in range(6)]
        alike = {
            image: {n for i, n in zip(images, times, strict=True) if i == image} for image in images
        }
        assert all(len(numbers) == 1 for numbers in alike.values())
        assert sum(min(numbers) for numbers in alike.values()) == 3
    assert len({tuple(sample) for sample in samples}) > 10


def test_runs_of_images_need_not_be_equally_many():
    """The second image weighs twice as much in a draw, being there with two runs."""
    rng = np.random.default_rng(0)
    drawn = rng.integers(2, size=(2000, 2))
    groups = [np.array([1.0]), np.array([5.0, 6.0])]
    wanted = [np.median(np.concatenate([groups[i] for i in row])) for row in drawn]
    low, high = medians.interval(np.array([1.0, 5.0, 6.0]), np.array([0, 1, 1]))
    assert (low, high) == tuple(np.percentile(wanted, [2.5, 97.5], method="nearest"))


def test_an_interval_with_infinities():
    values = np.array([1.0, 2.0, 3.0, INF, INF])
    low, high = medians.interval(values, np.arange(5))
    assert low < 3.0
    assert high == INF
    assert medians.interval(np.array([7.0]), np.array([0])) == (7.0, 7.0)


def test_the_interval_covers_the_median_about_as_often_as_it_says():
    """400 samples of 25 from a normal law: 95 % of the intervals hold 0. With n = 400 the count is
    within 360 to 395 unless the true rate is below 0.92 or above 0.98 (power 0.95 or so)."""
    rng = np.random.default_rng(2)
    held = 0
    for _ in range(400):
        low, high = medians.interval(rng.standard_normal(25), np.arange(25), draws=300)
        held += low <= 0 <= high
    assert 360 <= held <= 395


def test_effort_to_reach_a_distance():
    runs = [run([(10, 4.0), (20, 2.0)]), run([(30, 1.0)], image=1), run([], image=2)]
    found = medians.effort(runs, 3.0)
    assert found == (15.0, 30.0, pytest.approx(2 / 3))
    assert medians.effort(runs, 1.0) == (INF, INF, 0.0)
    assert math.isnan(medians.effort([], 1.0).share)


MARK = (10.0, "cost")


def attack(distances: list[float]) -> list[CellCurve]:
    return [run([(1, value)], image=image) for image, value in enumerate(distances)]


def test_attacks_are_significantly_different_on_the_same_images():
    far = [1.0, 10.0, 3.0, 30.0, 5.0, 50.0, 7.0, 70.0]  # of intervals that overlap almost wholly
    near = [0.8 * value for value in far]
    assert medians.significantly_different(attack(near), attack(far), *MARK)
    assert not medians.significantly_different(attack(far), attack(near), *MARK)
    mixed = [0.8 * value if image % 2 else 1.25 * value for image, value in enumerate(far)]
    assert not medians.significantly_different(attack(mixed), attack(far), *MARK)


def test_few_images_and_unknown_runs_are_never_significantly_different():
    far, near = [9.0] * 6, [1.0] * 6
    assert medians.significantly_different(attack(near), attack(far), *MARK)
    assert not medians.significantly_different(attack(near[:5]), attack(far), *MARK)
    cut = [run([(1, 9.0)], image=image, known=5.0) for image in range(6)]
    assert not medians.significantly_different(attack(near), cut, *MARK)
    seeds = [run([(1, 1.0)], image=image, seed=seed) for image in range(3) for seed in (0, 1)]
    others = [run([(1, 9.0)], image=image, seed=seed) for image in range(3) for seed in (0, 1)]
    assert not medians.significantly_different(seeds, others, *MARK)


def test_no_adversarial_point_is_larger_than_any_distance_and_not_different_from_itself():
    nothing = [run([], image=image) for image in range(8)]
    assert medians.significantly_different(attack([1.0] * 8), nothing, *MARK)
    assert not medians.significantly_different(nothing, nothing, *MARK)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (9.6, "9.60"),
        (12.345, "12.3"),
        (123.4, "123"),
        (999.6, "1,000"),
        (12345.0, "12,300"),
        (0.0, "0"),
        (0.00012, "1.20e-4"),
        (2.5e8, "2.50e8"),
        (INF, "∞"),
        (math.nan, "–"),
    ],
)
def test_distances_have_three_digits(value: float, text: str):
    assert formatting.distance(value) == text


def test_counts_and_shares():
    assert formatting.count(8000) == "8,000"
    assert formatting.count(2.5) == "2.50"
    assert [formatting.percent(share) for share in (0.8667, 1.0, 0.125)] == [
        f"{text}\u202f%" for text in ("86.7", "100", "12.5")
    ]
