"""How near the boundary is along kinds of rays, from which a start may choose.

    python benchmarks/rays.py --net robust --images 30 --sets 28,56,14 uniform,56,14

For images of even content hash (settings are chosen on these) and each kind: the share of rays that
are adversarial at their far end, and the median and the geometric mean of the distance at which the
boundary is met, coming from there. A number is noise of frequencies below that cut, added
(`ray_start.py`); `grey` and a number leads to a grey image with such noise, `uniform` to one of
uniform noise. A ray that is not adversarial counts as 0.45 a pixel. With `--sets`, the nearest of
one ray of each kind of the set.

No query is charged, since nothing is attacked: it is asked at fixed steps all along the ray.
"""

from __future__ import annotations

import argparse
import math
from typing import Any

import common
import merged
import numpy as np
import torch
from torch import Tensor

from tollbox.attacks.frugal.ray_start import LARGEST_RADIUS
from tollbox.core.prices import Prices
from tollbox.core.problem import Problem
from tollbox.engine.points import LinearPoint
from tollbox.parts.priors import Spectrum

KINDS = ("28", "56", "14", "112", "8", "grey28", "grey56", "grey14", "uniform")
NEVER = 0.45
"""The distance, per pixel, that a ray counts as which is not adversarial anywhere."""


def ends(kind: str, problem: Problem, number: int) -> tuple[Tensor, float]:
    """The direction of a ray, of length 1, and how far it goes."""
    source = problem.source
    reach = LARGEST_RADIUS * math.sqrt(source.numel())
    generator = torch.Generator().manual_seed(number)
    if kind == "uniform":
        image = torch.rand(source.shape, generator=generator)
    else:
        drawing = Spectrum(float(kind.removeprefix("grey")), grey=1 / 3).begin(problem)
        noise = torch.randn((1, *drawing.shape), generator=generator)
        way = drawing(noise, 1.0).view(source.shape)
        if not kind.startswith("grey"):
            return way, reach
        image = (0.5 + reach * way).clamp(0, 1)
    length = float(torch.linalg.vector_norm(image - source))
    return (image - source) / length, length


def met(model: Any, problem: Problem, kind: str, number: int, steps: int, step: float) -> float:
    """The distance of the last adversarial point, coming from the far end; infinite without one."""
    way, far = ends(kind, problem, number)
    radii = [far * step**each for each in range(steps)]
    points = torch.stack([LinearPoint(problem.source, way, radius).point() for radius in radii])
    flagged = (model(points.to(model.device)).cpu() == problem.label).tolist()
    reached = flagged.index(True) if True in flagged else steps
    if reached == 0:
        return math.inf
    return float(torch.linalg.vector_norm(points[reached - 1] - problem.source))


def told(values: Any, never: float) -> list[str]:
    """Share, median and geometric mean, for a table."""
    finite = np.isfinite(values)
    mean = np.exp(np.log(np.where(finite, values, never)).mean())
    return [f"{finite.mean():.2f}", f"{np.median(values):.2f}", f"{mean:.2f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--net", choices=list(common.CLASSES), required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--images", type=int, default=30)
    parser.add_argument("--rays", type=int, default=2, help="of each kind, for each image")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--step", type=float, default=0.87, help="the next radius over the last")
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), metavar="KIND")
    parser.add_argument("--sets", nargs="+", default=[], metavar="KIND,KIND,...")
    args = parser.parse_args()
    common.use_tf32(False)
    loaded = common.load(args.net, args.device, args.images, which="even")
    kinds = list(dict.fromkeys([*args.kinds, *(k for each in args.sets for k in each.split(","))]))
    found: dict[str, list[float]] = {kind: [] for kind in kinds}
    for image, label in zip(loaded.images, loaded.labels, strict=True):
        problem = Problem(image, label, Prices())
        for kind in kinds:
            found[kind] += [
                met(loaded.model, problem, kind, number, args.steps, args.step)
                for number in range(args.rays)
            ]
    never = NEVER * math.sqrt(loaded.images[0].numel())
    body = [[kind, *told(np.array(found[kind]), never)] for kind in kinds]
    for each in args.sets:
        nearest = np.min([found[kind] for kind in each.split(",")], axis=0)
        body.append([f"nearest of {each}", *told(nearest, never)])
    print(f"{args.net}, {args.images} images, {args.rays} rays of each kind.\n")
    print(merged.grid(["rays", "adversarial far away", "median", "geometric mean"], body))


if __name__ == "__main__":
    main()
