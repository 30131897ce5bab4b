"""A limit on flagged answers: the last that it admits is received, and nothing is asked after it.

In closed form: on a line out of a half-space all steps before the plane are flagged, and no other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
import torch

import tollbox as tb
from tollbox import Stop

STEPS, INSIDE = 40, 25
"""Steps of a line, and how many of them are flagged."""
GREY = torch.full((1, 2, 2), 0.5, dtype=torch.float64)


def plane(images: torch.Tensor) -> torch.Tensor:
    """Class 1 where the first pixel is above that of step `INSIDE`."""
    return (images[:, 0, 0, 0] > 0.5 + (INSIDE + 0.5) / 100).long()


@dataclass(frozen=True)
class Lines:
    """The line out of the half-space, so many times side by side in an ask, over and over."""

    until: tb.attack.Until | None = None
    runs: int = 1
    asks: int = 3

    def __call__(self, problem):
        points = problem.source.expand(STEPS, -1, -1, -1).clone()
        points[:, 0, 0, 0] += torch.arange(1, STEPS + 1) / 100
        for _ in range(self.asks):
            yield tb.attack.Ask(
                runs=[tb.attack.Sequential(points, self.until)] * self.runs, phase="line"
            )
        return Stop.CONVERGED


def run(attack, limit, **options):
    cell = tb.attack.Cell(
        attack, GREY, 0, tb.Prices(10), limits=tb.Limits(1e6, max_flagged=limit), charge_clean=False
    )
    [result] = tb.attack.run_cells(
        [cell],
        tb.models.from_callable(plane, dtype=torch.float64),
        execution=tb.Execution(**options),
    )
    return result


@pytest.mark.parametrize("metered", [False, True])
@pytest.mark.parametrize("size", [1, 7, 64])
@pytest.mark.parametrize("runs", [1, 2])
@pytest.mark.parametrize("until", [None, tb.attack.Until.ADVERSARIAL])
@pytest.mark.parametrize("limit", [1, 24, 25, 26, 50, 60, 75, 149, 150, 151])
def test_the_last_flagged_answer_is_received_and_nothing_is_asked_after_it(
    limit, until, runs, size, metered
):
    result = run(Lines(until, runs), limit, batch_size=size, metered=metered)
    others = STEPS - INSIDE if until is None else 1
    lines = 3 * runs
    whole, rest = divmod(min(limit, lines * INSIDE), INSIDE)
    reached = limit <= lines * INSIDE
    if reached and rest == 0:  # it is reached just before the plane, at whose far side nothing is
        whole, rest = whole - 1, INSIDE  # asked
    assert result.ledger.flagged == min(limit, lines * INSIDE)
    assert result.ledger.other == whole * others
    assert result.stop is (Stop.MAX_FLAGGED if reached else Stop.CONVERGED)
    assert result.ledger.cost == result.ledger.flagged * 10 + result.ledger.other


@pytest.mark.parametrize("limit", [1, 25, 26, 60])
def test_distance_at_so_many_flagged_is_that_of_a_run_so_limited(limit):
    long, short = run(Lines(), math.inf), run(Lines(), limit)
    assert short.distance == long.distance_at(limit, by="source")
    assert short.known_up_to("source") == limit
    assert (short.distance < math.inf) == (limit > INSIDE)
    with pytest.raises(tb.errors.InputError, match="source 61 is above 60, where this run stopped"):
        run(Lines(), 60).distance_at(61, by="source")


def test_a_metered_model_is_sent_nothing_beyond_it():
    rows = []

    def counting(images):
        rows.append(len(images))
        return plane(images)

    net = tb.models.from_callable(counting, dtype=torch.float64)
    cell = tb.attack.Cell(Lines(runs=2), GREY, 0, limits=tb.Limits(1e6, max_flagged=30))
    [result] = tb.attack.run_cells([cell], net, execution=tb.Execution(batch_size=16, metered=True))
    assert result.stop is Stop.MAX_FLAGGED
    assert sum(rows) == result.ledger.queries
