"""How much of the boundary's normal falls on a random direction of each prior (priors.py).

    python benchmarks/sensitivity.py --net resnet20 --images 30 --cost 300 1000 --out out.json

`frugal` attacks at c* = 1. At the nearest point it has found at each cost, the gradient of the
margin is taken for the normal g (this looks into the network, no attack does), and E<v, g>^2 is
measured with `--draws` directions v of each prior, in units of 1/d, what uniform directions have.
Also: cos(u, g), of the perturbation with the normal; the share of g's energy along brightness; its
energy per coefficient by frequency (half-waves per image), in units of 1/d; and the share of
adversarial answers at `frugal`'s samples around the boundary on the ray through that point, which
would be a half if the boundary were a plane. All are medians over images; but for the share of
images on which the nearest of the start's rays is a smooth one (ray_start.py).
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from itertools import pairwise
from typing import Any

import common
import nets
import numpy as np
import torch
from torch import Tensor

import tollbox as tb
from tollbox.attacks.frugal.attack import SMALLEST_DELTA, Frugal
from tollbox.parts.priors import BRIGHTNESS, Photo, Reweighed, Spectrum, Texture
from tollbox.parts.subspaces import Dct, Full, cosine_columns

SMOOTH = "share of smooth starts"
PRIORS: dict[str, Any] = {
    "Full()": Full(),
    "Dct(2)": Dct(2),
    "Dct(4)": Dct(4),
    "Dct(8)": Dct(8),
    "Dct(16)": Dct(16),
    "Dct(4), blocks of 4": Dct(4, block=4),
    "Dct(2), blocks of 4": Dct(2, block=4),
    "Dct(4), blocks of 8": Dct(4, block=8),
    "Spectrum(4)": Spectrum(4),
    "Spectrum(8)": Spectrum(8),
    "Spectrum(8), colour": Spectrum(8, grey=1 / 3),
    "Spectrum(14)": Spectrum(14),
    "Spectrum(28)": Spectrum(28),
    "Spectrum(56)": Spectrum(56),
    "Spectrum(56), colour": Spectrum(56, grey=1 / 3),
    "Spectrum(112), grey 0.9": Spectrum(112, grey=0.9),
    "Texture()": Texture(),
    "Photo()": Photo(),
    "Reweighed()": Reweighed(),
}


def normal(network: Any, scale: Any, point: Tensor, label: int) -> Tensor:
    """The gradient of (largest other logit - logit of the label), as a unit vector."""
    moved = point[None].clone().requires_grad_(True)
    logits = network((moved - scale[0]) / scale[1])[0]
    others = torch.cat([logits[:label], logits[label + 1 :]])
    (gradient,) = torch.autograd.grad(others.max() - logits[label], moved)
    unit: Tensor = gradient[0] / gradient.norm()
    return unit


def on_boundary(model: Any, source: Tensor, point: Tensor, label: int) -> Tensor:
    """The boundary on the ray from the source through an adversarial point, by halves."""
    low, high = 0.0, 1.0
    for _ in range(12):
        middle = (low + high) / 2
        moved = source + middle * (point - source)
        low, high = (low, middle) if int(model(moved[None])[0]) != label else (middle, high)
    return source + high * (point - source)


def spectrum(g: Tensor) -> dict[str, float]:
    """The share of brightness, and the energy per coefficient by frequency, in units of 1/d."""
    light = torch.tensor(BRIGHTNESS if len(g) == 3 else (1.0,) * len(g)).to(g)
    light = light / light.norm()
    high, wide = (cosine_columns(side, 1.0, g) for side in g.shape[1:])
    energy = (high.mT @ g @ wide).square().sum(0)
    f = torch.hypot(
        *torch.meshgrid(*(torch.arange(s) + 0.0 for s in g.shape[1:]), indexing="ij")
    ).to(g)
    found = {"share of brightness": float(torch.einsum("chw,c->hw", g, light).square().sum())}
    for low, top in pairwise([0, 4, 8, 16, 32, 64, 128, 160, 320]):
        band = (f >= low) & (f < top)
        if band.any():
            found[f"f {low}-{top}"] = float(energy[band].mean() / len(g) * g.numel())
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").splitlines()[0], parents=[common.options()]
    )
    common.hash_option(parser)
    parser.add_argument("--cost", type=float, nargs="+", default=[300.0, 1000.0])
    parser.add_argument("--draws", type=int, default=512)
    args = parser.parse_args()
    common.use_tf32(False)
    loaded = common.load(args.net, args.device, args.images, which=args.hash)
    network = nets.network(args.net, folded=True).to(args.device)
    mean, std = (torch.tensor(v).view(1, -1, 1, 1) for v in nets.NORMALISATION[args.net])
    scale = (mean.to(args.device), std.to(args.device))
    found: dict[str, dict[str, float]] = {}
    for cost in args.cost:
        cells = loaded.cells(tb.preset("frugal"), budget=cost, seed=args.seed)
        results = common.run_cells(f"cost {cost:g}", cells, loaded.model, args)
        rows: dict[str, list[float]] = defaultdict(list)
        for result, image, label in zip(results, loaded.images, loaded.labels, strict=True):
            if result.adversarial is None:
                continue
            problem = tb.attack.Problem(image.to(args.device), label)
            point = result.adversarial.to(args.device)
            g = normal(network, scale, point, label)
            away = point - problem.source
            rows[SMOOTH].append(float(result.trace[0].notes.get("smooth", 0.0)))
            rows["distance"].append(result.distance)
            rows["cos(u, g)"].append(float((away * g).sum() / away.norm()))
            for name, value in spectrum(g).items():
                rows[name].append(value)
            boundary = on_boundary(loaded.model, problem.source, point, label)
            share, level = Frugal().relative_delta, SMALLEST_DELTA * problem.dimension**0.5
            delta = max(level, share * float(torch.linalg.vector_norm(boundary - problem.source)))
            for name, prior in PRIORS.items():
                drawing = prior.begin(problem).at(point)
                noise = problem.noise("sensitivity", 0, args.draws, drawing.shape)
                drawn = [drawing(noise[n : n + 32], 1.0) for n in range(0, args.draws, 32)]
                heights = torch.cat([(part * g).sum((1, 2, 3)) for part in drawn])
                rows[name].append(float((heights**2).mean()) * g.numel())
                if name == "Photo()":
                    samples = [(boundary + delta * part).clamp(0, 1) for part in drawn]
                    answers = torch.cat([loaded.model(part) for part in samples]) != label
                    rows["share of adversarial"].append(float(answers.float().mean()))
        found[f"{cost:g}"] = {
            name: float((np.mean if name == SMOOTH else np.median)(values))
            for name, values in rows.items()
        }
        print("\n".join(f"{n:24s} {v:8.3f}" for n, v in found[f"{cost:g}"].items()), flush=True)
    report = {
        **common.provenance(args.device),
        "settings": {"net": args.net, "draws": args.draws, "images": loaded.hashes},
        "median": {c: {n: common.short(v) for n, v in row.items()} for c, row in found.items()},
    }
    common.write(args.out, report)


if __name__ == "__main__":
    main()
