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

FILE = Path(__file__).parents[1] / "golden.json"


def golden() -> dict[str, dict[str, object]]:
    found = {}
    for boundary in testing.boundaries():
        for preset in tb.presets():
            for ratio in (1, 10):
                [result] = tb.run(
                    tb.preset(preset),
                    boundary.model(),
                    boundary.source[None],
                    [0],
                    prices=tb.Prices(ratio, 1),
                    budget=800 * ratio,
                )
                found[f"{boundary.name} / {preset} / c*={ratio}"] = {
                    "stop": str(result.stop),
                    "queries": result.ledger.queries,
                    "source": result.ledger.source,
                    "steps": len(result.trace),
                    "distance": result.distance,
                }
    return found


def test_golden_runs():
    wanted, found = json.loads(FILE.read_text()), golden()
    assert found.keys() == wanted.keys()
    for name, numbers in found.items():
        for key, value in numbers.items():
            hint = (
                f"{name}: {key}; if this change is meant, run `python tests/whole/test_golden.py`"
            )
            if isinstance(value, float):
                assert value == pytest.approx(wanted[name][key], rel=1e-9), hint
            else:
                assert value == wanted[name][key], hint


if __name__ == "__main__":
    FILE.write_text(json.dumps(golden(), indent=1) + "\n")
