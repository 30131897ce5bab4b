"""How close the boundary is along kinds of rays, from which a start may choose.

    python benchmarks/rays.py --net robust --images 30 --prices 1 100 1000

For images of even content hash (settings are chosen on these) and each kind of ray: the share of
rays that are adversarial at their far end, and the median and the geometric mean of the distance of
the first boundary on the way in from there. `rings`, `checkers` and `coarse` are the patterns of
`frugal`'s start, `closest` is the closest of these three, and `half`, `blend` and `spotlight` are
changes of it (patterns.py). A number stands for noise of frequencies below that number; `uniform`
leads towards an image of uniform noise. In the geometric mean, a ray that is not adversarial at its
far end counts as 0.45 sqrt(d), for d pixel values. Nothing is attacked: every ray is queried at
fixed radii, and these queries are not counted.

With `--prices`, the start itself then runs at each c*: the distance at which it ends, and its cost.
"""

from __future__ import annotations

import argparse
import math
from typing import Any, NamedTuple

import common
import merged
import numpy as np
import torch
from torch import Tensor

import tollbox as tb
from tollbox.attacks.frugal.patterns import blend, half, spotlight
from tollbox.attacks.frugal.ray_start import KINDS, LARGEST_RADIUS, RayStart
from tollbox.core.ask import Asking
from tollbox.core.prices import Prices
from tollbox.core.problem import Problem
from tollbox.engine.points import LinearPoint
from tollbox.parts.priors import Spectrum
from tollbox.parts.vectors import unit

PATTERNS = ("rings", "checkers", "coarse")
CHANGES = ("half", "blend", "spotlight")
NOISE = ("14", "28", "56", "uniform")
NEVER = 0.45
"""The distance, per pixel value, that a ray counts as which is not adversarial anywhere."""


class Boundary(NamedTuple):
    """Where a ray meets the boundary; infinite if it is not adversarial at its far end."""

    distance: float
    way: Tensor


class StartAlone:
    """The start, and nothing after it."""

    def __call__(self, problem: Problem) -> Asking[tb.Stop]:
        """Attack one image."""
        iterate = yield from RayStart()(problem)
        if iterate is None:
            return tb.Stop.NO_START
        problem.accept(iterate)
        return tb.Stop.ITERATIONS


def noise(kind: str, problem: Problem, number: int) -> Tensor:
    """The direction of a ray of noise."""
    generator = torch.Generator().manual_seed(number)
    if kind == "uniform":
        return unit(torch.rand(problem.source.shape, generator=generator) - problem.source)
    drawing = Spectrum(float(kind), grey=1 / 3).begin(problem)
    drawn = torch.randn((1, *drawing.shape), generator=generator)
    return drawing(drawn, 1.0).view(problem.source.shape)


def met(model: Any, problem: Problem, way: Tensor, steps: int, step: float) -> Boundary:
    """Where a ray meets the boundary, coming from its far end."""
    far = LARGEST_RADIUS * math.sqrt(problem.dimension)
    radii = [far * step**each for each in range(steps)]
    points = torch.stack([LinearPoint(problem.source, way, radius).point() for radius in radii])
    flagged = (model(points.to(model.device)).cpu() == problem.label).tolist()
    reached = flagged.index(True) if True in flagged else steps
    if reached == 0:
        return Boundary(math.inf, way)
    return Boundary(float(torch.linalg.vector_norm(points[reached - 1] - problem.source)), way)


def columns(values: Any, never: float) -> list[str]:
    """Share, median and geometric mean, for a table."""
    finite = np.isfinite(values)
    mean = np.exp(np.log(np.where(finite, values, never)).mean())
    return [f"{finite.mean():.2f}", f"{np.median(values):.2f}", f"{mean:.2f}"]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").splitlines()[0], parents=[common.options()]
    )
    parser.add_argument("--rays", type=int, default=2, help="of each kind, for each image")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--step", type=float, default=0.87, help="the next radius over the last")
    parser.add_argument("--prices", nargs="+", type=float, default=[])
    args = parser.parse_args()
    common.use_tf32(False)
    loaded = common.load(args.net, args.device, args.images, which="even")
    kinds = (*PATTERNS, "closest", *CHANGES, *NOISE)
    found: dict[str, list[float]] = {kind: [] for kind in kinds}
    for image, label in zip(loaded.images, loaded.labels, strict=True):
        problem = Problem(image, label, Prices(), seed=args.seed)
        for number in range(args.rays):

            def measured(kind: str, way: Tensor, problem: Problem = problem) -> Boundary:
                boundary = met(loaded.model, problem, way, args.steps, args.step)
                found[kind].append(boundary.distance)
                return boundary

            first = [
                measured(name, kind.ray(problem, number))
                for name, kind in zip(PATTERNS, KINDS, strict=True)
            ]
            closest = min(range(len(first)), key=lambda kind: first[kind].distance)
            found["closest"].append(first[closest].distance)
            way, fresh = first[closest].way, KINDS[closest].ray(problem, args.rays + number)
            measured("half", half(problem, way, number))
            measured("blend", blend(way, fresh))
            measured("spotlight", spotlight(problem, way, number))
            for kind in NOISE:
                measured(kind, noise(kind, problem, number))
    never = NEVER * math.sqrt(loaded.images[0].numel())
    body = [[kind, *columns(np.array(found[kind]), never)] for kind in kinds]
    print(f"{args.net}, {args.images} images, {args.rays} rays of each kind.\n")
    print(merged.grid(["rays", "adversarial far away", "median", "geometric mean"], body))
    body = []
    for price in args.prices:
        cells = loaded.cells(
            StartAlone(), prices=tb.Prices(price, 1), max_queries=10_000, seed=args.seed
        )
        results = common.run_cells(f"start at c* = {price:g}", cells, loaded.model, args)
        cost = np.median([result.ledger.cost for result in results])
        body.append([f"{price:g}", *columns(np.array([r.distance for r in results]), never)])
        body[-1].append(f"{cost:g}")
    if body:
        print(merged.grid(["c*", "found", "median", "geometric mean", "median cost"], body))


if __name__ == "__main__":
    main()
