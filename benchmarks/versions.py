"""Two checkouts of tollbox beside each other: the engine's share of the raw model in each.

    git worktree add ../before REVISION
    python benchmarks/versions.py --before ../before --attacks hsja a-cgba surfree frugal

Runs `benchmarks/throughput.py` of either checkout in turn, `--rounds` times, so that whatever else
the machine does meets both alike, and prints the ratio of shares, after over before, for each
attack: the median over rounds, with the least and the largest.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parents[1]


def shares(checkout: Path, options: list[str]) -> dict[str, float]:
    """The shares that the checkout's own benchmark prints, by attack."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "shares.json"
        command = [sys.executable, str(checkout / "benchmarks" / "throughput.py"), *options]
        environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}
        subprocess.run(
            [*command, "--out", str(out)],
            env=environment,
            cwd=checkout,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        rows = json.loads(out.read_text())["engine"]
    return {row["attack"]: row["share"] for row in rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", type=Path, required=True)
    parser.add_argument("--after", type=Path, default=HERE)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--attacks", nargs="+", default=["hsja", "a-cgba", "surfree", "frugal"])
    ours, options = parser.parse_known_args()
    ours.before, ours.after = ours.before.resolve(), ours.after.resolve()
    options = [*options, "--attacks", *ours.attacks]
    ratios: dict[str, list[float]] = {attack: [] for attack in ours.attacks}
    for _ in range(ours.rounds):
        before, after = shares(ours.before, options), shares(ours.after, options)
        for attack in ours.attacks:
            ratios[attack].append(after[attack] / before[attack])
            print(f"{attack}: {before[attack]:.3f} before, {after[attack]:.3f} after", flush=True)
    for attack, values in ratios.items():
        low, middle, high = min(values), statistics.median(values), max(values)
        print(f"{attack}: after / before {middle:.2f} [{low:.2f}, {high:.2f}]")


if __name__ == "__main__":
    main()
