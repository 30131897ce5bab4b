"""The floor: minimal l2 perturbations by white-box attacks, beside what queries alone can find.

    python benchmarks/floor.py --net resnet50 --device cuda --images 50 --hash odd --out floor.json

The nearest that DDN and FMN find (Foolbox; `pip install foolbox`), each with `--steps` gradient
steps, for the images that the tables are made of. They see the network's gradients, no attack here
does: how far a decision-based attack stays above them is how much is left to be gained at most.
"""

from __future__ import annotations

import argparse
from typing import Any

import common
import nets
import numpy as np
import torch


def main() -> None:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").splitlines()[0], parents=[common.options()]
    )
    common.hash_option(parser)
    parser.add_argument("--steps", type=int, default=200)
    args = parser.parse_args()
    common.use_tf32(False)
    import foolbox

    loaded = common.load(args.net, args.device, args.images, which=args.hash)
    mean, std = nets.NORMALISATION[args.net]
    network = nets.network(args.net).to(args.device)
    scale = {"mean": list(mean), "std": list(std), "axis": -3}
    model: Any = foolbox.PyTorchModel(network, (0, 1), device=args.device, preprocessing=scale)
    attacks = [
        foolbox.attacks.DDNAttack(steps=args.steps),
        foolbox.attacks.L2FMNAttack(steps=args.steps),
    ]
    best = np.full(len(loaded.images), np.inf)
    for first in range(0, len(loaded.images), 25):
        images = torch.stack(loaded.images[first : first + 25]).to(args.device)
        labels = torch.tensor(loaded.labels[first : first + 25], device=args.device)
        for attack in attacks:
            _, points, there = attack(model, images, labels, epsilons=None)
            apart = torch.linalg.vector_norm((points - images).flatten(1), dim=1)
            apart = torch.where(there, apart, torch.inf).cpu().numpy()
            best[first : first + 25] = np.minimum(best[first : first + 25], apart)
            print(f"{type(attack).__name__}: median {np.median(apart):.3f}", flush=True)
    print(f"the nearest of both: median {np.median(best):.3f}, {len(best)} images")
    report = {
        **common.provenance(args.device),
        "settings": {"net": args.net, "steps": args.steps, "images": loaded.hashes},
        "distance": [common.short(value) for value in best.tolist()],
    }
    common.write(args.out, report)


if __name__ == "__main__":
    main()
