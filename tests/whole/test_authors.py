"""The differential test against the authors' code: what it counts, and what it makes of it.

Their code is not here: functions with the names of theirs stand in for it.
"""

from __future__ import annotations

import importlib
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import tollbox as tb

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
FOUR = torch.zeros(4, 3, 2, 2)


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Imports a benchmark by its name."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module


class Attack:
    """Asks as theirs do: by functions of these names, from loops of these names."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def initialize(self) -> None:
        self.random_adversarial()
        self.search_in_line()

    def next(self, iteration: int) -> None:
        self.estimate_gradient()
        self.get_gradient()
        self.get_adversarial_by_direction()

    def finish(self) -> None:
        self.search_in_line()

    def random_adversarial(self) -> None:
        self.model(FOUR[:1] + 7)

    def search_in_line(self) -> None:
        for _ in range(3):
            self.model(FOUR[:1])

    def estimate_gradient(self) -> None:
        self.model(FOUR)

    def get_gradient(self) -> None:
        self.model(FOUR[:1])

    def get_adversarial_by_direction(self) -> None:
        self.model(FOUR[:2])
        self.search_in_line()


@pytest.fixture
def counted(named: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A network of class 0 for rows below 0 and else 1, which is told apart in its own pixels."""
    side = named("authors_side")

    class Network(torch.nn.Module):
        def forward(self, points: torch.Tensor) -> torch.Tensor:
            seen.append(points)
            return torch.stack([-points[:, 0, 0, 0], points[:, 0, 0, 0]], 1)

    seen: list[torch.Tensor] = []
    stand_in = SimpleNamespace(
        network=lambda name, folded: Network(),
        NORMALISATION={"some": ((0.5,) * 3, (0.25,) * 3)},
    )
    monkeypatch.setattr(side, "nets", stand_in)
    return side.Counted("some", "cpu"), seen


def test_queries_are_counted_by_iteration_and_phase(named: Any, counted: Any) -> None:
    network, seen = counted
    network.begin(0)
    attack = Attack(network)
    attack.initialize()
    attack.next(iteration=0)
    attack.next(iteration=1)
    attack.finish()
    steps = {"estimate": 4, "step": 2, "search": 3}
    wanted = {(0, "start"): 1, (0, "search"): 3, (-1, "search"): 3}
    wanted |= {(t, phase): n for t in (1, 2) for phase, n in steps.items()}
    assert network.queries == wanted  # the white-box gradient is not a query
    # a normalised 0 is the mean 0.485, which the network's own pixels have below 0: flagged
    assert network.flagged == {**wanted, (0, "start"): 0}
    assert seen[1].flatten(2)[0, :, 0].tolist() == pytest.approx([-0.06, -0.176, -0.376])
    assert network.start.unique().tolist() == [7]


def test_a_query_from_elsewhere_is_refused(counted: Any) -> None:
    with pytest.raises(RuntimeError, match="not known"):
        counted[0](FOUR)


def test_a_loop_without_end_is_ended(named: Any, counted: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(named("authors_side"), "LIMIT", 3)
    with pytest.raises(RuntimeError, match="more than 3"):
        Attack(counted[0]).initialize()


def test_a_run_of_theirs_by_iterations(named: Any) -> None:
    authors = named("authors")
    counts = [
        [0, "start", 9, 8],
        [0, "search", 10, 4],
        [1, "estimate", 30, 12],
        [1, "step", 2, 1],
        [1, "search", 11, 5],
        [-1, "search", 5, 5],
    ]
    run = authors.their_run({"counts": counts, "distances": [2.0, 1.5]}, 100.0)
    first = authors.Iteration(10, 4, 6 + 400, 0, 0, 2.0)
    assert run == [first, authors.Iteration(43, 18, 6 + 500, 30, 18, 1.5)]
    assert authors.their_run({"failed": "as it does"}, 2.0) is None


@pytest.mark.parametrize("preset", ["a-hsja", "surfree"])
def test_runs_of_ours_by_iterations_add_up(named: Any, preset: str) -> None:
    """All that was charged but the start, from the start that was given; and but SurFree's last
    search, after its iterations."""
    authors, common = named("authors"), named("common")
    found = tb.models.embedded()
    images, labels = list(found.images[:3]), found.labels[:3].tolist()
    loaded = common.Loaded(found.model, images, labels)
    starts = torch.stack([images[labels.index(other)] for other in _others(labels)])
    args = SimpleNamespace(iterations=3, seed=0)
    runs = authors.run_ours(args, loaded, starts, preset, 5.0)
    for run, image, label, start in zip(runs, images, labels, starts, strict=True):
        attack: Any = tb.preset(preset)
        limited = replace(attack, iterations=3)
        settings = {
            "prices": tb.Prices(5, 1),
            "limits": tb.Limits(max_queries=10_000),
            "charge_clean": False,
        }
        cell = tb.attack.Cell(limited, image, label, start=start, **settings)
        [result] = tb.attack.run_cells([cell], found.model)
        if preset == "surfree":
            whole, short = result, replace(limited, search=authors.FirstOnly(attack.search))
            [result] = tb.attack.run_cells([replace(cell, attack=short)], found.model)
            assert result.ledger.queries + 10 < whole.ledger.queries
        assert len(run) == 4
        assert sum(each.queries for each in run) == result.ledger.queries - 1
        assert sum(each.flagged for each in run) == result.ledger.flagged
        assert sum(e.search_cost for e in run) == pytest.approx(result.ledger.by_phase["search"])
        assert run[-1].distance == result.trace[-1].distance
        tally = result.ledger.counts.get("estimate", {})
        assert sum(each.estimate for each in run) == sum(tally.values())
        assert sum(each.low for each in run) == sum(n for k, n in tally.items() if k != label)


def _others(labels: list[int]) -> list[int]:
    """For each label another one of the list."""
    return [next(other for other in labels if other != label) for label in labels]


def test_shares_are_compared_image_by_image(named: Any) -> None:
    authors = named("authors")

    def run(*low: int) -> Any:
        pairs = [(0, 0), *zip((10, 20), low, strict=True)]
        return [authors.Iteration(10, 5, 200.0, n, k, 1.0) for n, k in pairs]

    ours, theirs = [run(5, 10), run(9, 20)], [run(4, 10), run(9, 18)]
    first = authors.compare_shares(ours, theirs, 1)
    assert first == pytest.approx((0.7, 0.65, 0.05, 0.1))
    assert first.agrees
    everything = authors.compare_shares(ours, theirs, 2)
    assert everything == pytest.approx((22 / 30, 20.5 / 30, 0.05, 1 / 30))
    one = authors.compare_shares(ours[:1], theirs[:1], 1)
    assert one.two_errors == pytest.approx(2 * math.sqrt((0.25 + 0.24) / 10))
    assert not authors.Difference(0.6, 0.5, 0.1, 0.09).agrees
    assert authors.Difference(0.6, 0.5, 0.1, 0.11).agrees
    assert authors.search_ratio(ours, theirs) == (1, 0)
    dearer = [[replace(ours[0][0], search_cost=cost)] for cost in (240.0, 260.0)]
    assert authors.search_ratio(dearer, theirs) == pytest.approx((1.25, 2 * 10 / 200))
    assert authors.within(1.029)
    assert not authors.within(0.96)


def test_all_rows_of_table_1_are_presets(named: Any) -> None:
    found = named("authors").cells(["hsja", "geoda", "cgba", "surfree"], [2.0])
    assert len({cell["preset"] for cell in found}) == 14
    for cell in found:
        attack: Any = tb.preset(cell["preset"])
        assert type(attack.search).__name__.startswith("Asymmetric") is cell["as"]
        estimate = getattr(attack, "estimate", None)
        assert (type(estimate).__name__ == "Agrest") is cell["agrest"]


@pytest.mark.slow
def test_networks_are_there_without_tollbox() -> None:
    """The environment of the authors' code has its packages, and not this one."""
    code = "import sys; sys.modules['tollbox'] = None; import nets; nets.ResNet20()"
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=BENCHMARKS, capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stderr
