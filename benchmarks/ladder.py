"""The ladder of exact normals: is it information or curvature that keeps an attack from the floor?

    python benchmarks/ladder.py --net resnet20 --images 20 --cosines 1 0.5 0.2 0.1 --out out.json

`frugal`'s start and circles, with its estimates replaced by what an estimate would give that has a
given cosine with the true normal: the gradient of the margin (which no attack sees), blended with
noise of its own in every turn. A turn's arc is searched to a thousandth. Printed for every cosine,
as medians over the images: distances after so many turns, and how many turns it takes to come
within twice the floor, the smallest distance that any rung found with up to `--turns` turns. On a
plane an exact normal takes one turn; with cosine c, sin^2 of the angle to the normal falls by the
factor 1 - c^2, at best, and that is what curvature and turning normals take away from.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass, field
from typing import Any

import common
import nets
import numpy as np

import tollbox as tb
from tollbox.attacks.frugal.ray_start import RayStart
from tollbox.attacks.surrogates import Surrogate
from tollbox.core.ask import Asking
from tollbox.core.problem import Problem
from tollbox.parts.paths import Arc, Circle
from tollbox.parts.searches import narrow, optimal_rule
from tollbox.parts.vectors import unit

BINS = 1024
MARKS = (1, 2, 5, 10, 20, 50, 100)


@dataclass(frozen=True)
class Ladder:
    """Turns towards directions of a known cosine with the true normal."""

    network: Surrogate = field(repr=False)
    cosine: float
    turns: int

    def __call__(self, problem: Problem) -> Asking[tb.Stop]:
        """Attack one image."""
        iterate = yield from RayStart()(problem)
        if iterate is None:
            return tb.Stop.NO_START
        problem.accept(iterate)
        rule = optimal_rule(1.0, BINS)
        for t in range(1, self.turns + 1):
            (found,) = self.network.margins(problem, iterate.point[None])
            normal = unit(found.gradients[0])
            noise = problem.noise("ladder", t, 1)[0:1][0]
            across = unit(noise - (noise * normal).sum() * normal)
            told = self.cosine * normal + math.sqrt(1 - self.cosine**2) * across
            arc = Arc(Circle.through(problem.source, iterate.point, told), iterate)
            iterate, _ = yield from narrow(arc, BINS, rule)
            problem.accept(iterate)
        return tb.Stop.ITERATIONS


def main() -> None:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").splitlines()[0], parents=[common.options()]
    )
    common.hash_option(parser)
    parser.add_argument("--cosines", type=float, nargs="+", default=[1.0, 0.5, 0.2, 0.1])
    parser.add_argument("--turns", type=int, default=100)
    args = parser.parse_args()
    common.use_tf32(False)
    loaded = common.load(args.net, args.device, args.images, which=args.hash)
    mean, std = nets.NORMALISATION[args.net]
    network = Surrogate(nets.network(args.net, folded=True), mean=mean, std=std)
    distances: dict[float, Any] = {}
    for cosine in args.cosines:
        cells = loaded.cells(Ladder(network, cosine, args.turns), max_queries=10**6, seed=args.seed)
        results = common.run_cells(f"cosine {cosine:g}", cells, loaded.model, args)
        rows = [[step.distance for step in result.trace] for result in results]
        distances[cosine] = np.minimum.accumulate(np.array(rows), axis=1)
    floor = np.min([values[:, -1] for values in distances.values()], axis=0)
    marks = [mark for mark in MARKS if mark <= args.turns]
    report: dict[str, Any] = {
        **common.provenance(args.device),
        "settings": {"net": args.net, "turns": args.turns, "images": loaded.hashes},
        "floor": common.short(float(np.median(floor))),
        "rungs": [],
    }
    print(f"floor {np.median(floor):.3f}; start {np.median(distances[args.cosines[0]][:, 0]):.2f}")
    for cosine, values in distances.items():
        near = values <= 2 * floor[:, None]
        taken = np.where(near.any(axis=1), near.argmax(axis=1), np.inf)
        after = {mark: float(np.median(values[:, mark])) for mark in marks}
        told = ", ".join(f"{mark}: {value:.3f}" for mark, value in after.items())
        print(f"cosine {cosine:g}: {np.median(taken):g} turns to twice the floor; {told}")
        report["rungs"].append(
            {
                "cosine": cosine,
                "turns": common.short(float(np.median(taken))),
                "after": {str(mark): common.short(value) for mark, value in after.items()},
            }
        )
    common.write(args.out, report)


if __name__ == "__main__":
    main()
