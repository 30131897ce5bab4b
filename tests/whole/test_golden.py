"""Golden runs: small whole runs on the CPU in float64 whose numbers must not change by accident.

If a change is meant to change them, renew the file with

    python tests/whole/test_golden.py

and say in the commit why the numbers changed.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tollbox as tb
from tollbox import testing
from tollbox.core.metric import Metric

FILE = Path(__file__).parents[1] / "golden.json"


BOUNDARIES = {boundary.name: boundary for boundary in testing.boundaries()} | {
    f"linf {boundary.name}": boundary for boundary in testing.boundaries(norm=Metric.LINF)
}
RATIOS = (1, 10)


def golden(name: str) -> dict[str, dict[str, object]]:
    """The numbers of every preset on a boundary."""
    boundary = BOUNDARIES[name]
    numbers: dict[str, dict[str, object]] = {}
    for preset in tb.presets(boundary.norm):
        for ratio in RATIOS:
            [result] = tb.run(
                tb.preset(preset),
                boundary.model(),
                boundary.source[None],
                [0],
                prices=tb.Prices(ratio, 1),
                budget=800 * ratio,
                norm=boundary.norm,
            )
            numbers[f"{name} / {preset} / c*={ratio}"] = {
                "stop": str(result.stop),
                "queries": result.ledger.queries,
                "source": result.ledger.flagged,
                "steps": len(result.trace),
                "distance": result.distance,
            }
    return numbers


@pytest.mark.parametrize("name", BOUNDARIES)
def test_golden_runs(name: str) -> None:
    recorded = json.loads(FILE.read_text())
    for run, numbers in golden(name).items():
        for key, value in numbers.items():
            hint = f"{run}: {key}; if this change is meant, run `python tests/whole/test_golden.py`"
            if isinstance(value, float):
                assert value == pytest.approx(recorded[run][key], rel=1e-9), hint
            else:
                assert value == recorded[run][key], hint


def test_every_run_is_recorded() -> None:
    runs = {
        f"{name} / {preset} / c*={ratio}"
        for name, boundary in BOUNDARIES.items()
        for preset in tb.presets(boundary.norm)
        for ratio in RATIOS
    }
    assert set(json.loads(FILE.read_text())) == runs


if __name__ == "__main__":
    runs = {run: n for name in BOUNDARIES for run, n in golden(name).items()}
    FILE.write_text(json.dumps(runs, indent=1) + "\n")
