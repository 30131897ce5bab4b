"""An attack and a search of one's own, in a few lines each.

    python examples/own_attack.py

`Brighten` is a whole attack. `TenSteps` is a part: put into HSJA in place of its search, it makes a
new attack. Both are held to the rules of attacks by `tollbox.testing.check_attack`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

import tollbox as tb
from tollbox.core.ask import Asking, Iterate
from tollbox.parts.paths import Path
from tollbox.testing import check_attack, half_space


@dataclass(frozen=True)
class Brighten:
    """Tries ever brighter images until one is adversarial."""

    steps: int = 50

    @property
    def rows(self) -> int:
        """The most points it holds at a time."""
        return self.steps

    def __call__(self, problem: tb.attack.Problem) -> Asking[tb.Stop]:
        source = problem.source
        levels = torch.linspace(0, 1, self.steps, dtype=source.dtype, device=source.device)
        points = torch.lerp(source, torch.ones_like(source), levels.view(-1, 1, 1, 1))
        answers = yield tb.attack.Ask(points, until=tb.attack.Until.ADVERSARIAL, phase="brighten")
        if not answers.adversarial[-1]:
            return tb.Stop.NO_START
        problem.accept(points[len(answers) - 1])
        return tb.Stop.CONVERGED


@dataclass(frozen=True)
class TenSteps:
    """Walks towards the source in ten equal steps, and stops before the first that is flagged."""

    def __call__(
        self, problem: tb.attack.Problem, path: Path, scale: float = 1.0
    ) -> Asking[Iterate]:
        points = torch.stack([path(k / 10) for k in range(1, 10)])
        answers = yield tb.attack.Ask(points, until=tb.attack.Until.NOT_ADVERSARIAL, phase="search")
        passed = int(answers.adversarial.sum())
        if not passed:
            return path.start
        return Iterate(points[passed - 1], float(answers.distances[passed - 1]))


def main() -> None:
    boundary = half_space(distance=0.5)
    stepping = replace(tb.preset("hsja"), search=TenSteps())
    for name, attack in (("Brighten", Brighten()), ("HSJA in ten steps", stepping)):
        result, faults = check_attack(attack, boundary, tb.Prices(10, 1), budget=20_000)
        reached = f"l2 {result.distance:.3f} (optimum {boundary.optimum})"
        print(f"{name}: {result.stop}, {reached}, {faults}")


if __name__ == "__main__":
    main()
