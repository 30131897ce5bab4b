"""Our presets beside independent implementations: same network, images and number of queries.

    make bench-peers    # in an environment of its own: build/peers

Foolbox's and ART's attacks, with their own defaults, on one image at a time (c* = 1: every query
costs 1). Their own limits on queries, where they have any, are set to the budget. ART 1.20.1 does
not run with NumPy 2 (`np.mat`, and points that become float64), hence the environment.

1. Every row that reaches the network is counted, the clean image too, and the nearest adversarial
   point in [0,1] is kept with the number of its query. At the budget the run is ended: `over` is
   how many runs asked for more (ours cannot).
2. Told: the geometric mean of the paired ratios, ours over theirs, after so many queries, with a
   95 % interval over images, of the images on which both have found a point by then; on how many
   there is none; seconds for all images. Theirs are of one image at a time, ours of all at once. A
   run that fails counts with what it had found; how many did is told, too.
3. A pair whose preset is not there is left out, with a line.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import logging
import math
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import common
import merged
import nets
import numpy as np
import paired
import torch
from torch import Tensor, nn

import tollbox as tb

MARKS = (500, 1000, 2000)
OUTSIDE = 1e-6
"""A point farther outside [0,1] than this is a query, but not an image."""
PAIRS = (
    ("boundary", "Foolbox BoundaryAttack"),
    ("boundary", "ART BoundaryAttack"),
    ("hsja-original", "Foolbox HopSkipJumpAttack"),
    ("hsja-original", "ART HopSkipJump"),
    ("hsja", "Foolbox HopSkipJumpAttack"),
    ("hsja", "ART HopSkipJump"),
    ("sign-opt", "ART SignOPTAttack"),
    ("geoda-original", "ART GeoDA"),
    ("geoda", "ART GeoDA"),
)


class Spent(Exception):
    """The budget has ended."""


class Counted(nn.Module):
    """A network that counts its rows, keeps how near the adversarial ones are, and ends a run."""

    def __init__(
        self, network: Callable[[Tensor], Tensor], source: Tensor, label: int, budget: int
    ) -> None:
        super().__init__()
        self.network, self.source, self.label, self.budget = network, source, label, budget
        self.asked = 0
        self.found: list[tuple[int, float]] = []
        """(query, distance) of each point that is nearer than all before."""

    def forward(self, rows: Tensor) -> Tensor:
        left = self.budget - self.asked
        self.asked += len(rows)
        logits: Tensor = self.network(rows)
        apart = torch.linalg.vector_norm((rows - self.source).flatten(1).double(), dim=1)
        outside = ((rows < -OUTSIDE) | (rows > 1 + OUTSIDE)).flatten(1).any(1)
        good = (logits.argmax(1) != self.label) & ~outside
        for row, distance in enumerate(torch.where(good, apart, math.inf)[:left].tolist()):
            if distance < self.distance():
                self.found.append((self.asked - len(rows) + row + 1, distance))
        if self.asked > self.budget:
            raise Spent
        return logits

    def distance(self, queries: float = math.inf) -> float:
        """How near it has come after so many queries."""
        return min((d for query, d in self.found if query <= queries), default=math.inf)


class Record(NamedTuple):
    """What one side has done on all images."""

    at: dict[int, list[float]]
    """Distances after so many queries, image by image."""
    seconds: float
    over: int
    """Runs that asked for more than the budget."""
    failed: list[str]
    """What runs ended with that raised something else."""


def foolbox_attack(name: str, steps: int) -> Callable[[Counted, Tensor, int], None]:
    """An attack of Foolbox, with as many steps as could ever be needed."""
    import foolbox

    def run(network: Counted, image: Tensor, label: int) -> None:
        model: Any = foolbox.PyTorchModel(network, bounds=(0, 1), device=image.device)
        criterion = foolbox.criteria.Misclassification(torch.tensor([label], device=image.device))
        getattr(foolbox.attacks, name)(steps=steps).run(model, image[None], criterion)

    return run


def art_attack(name: str, **settings: Any) -> Callable[[Counted, Tensor, int], None]:
    """An attack of ART."""
    from art.attacks import evasion
    from art.estimators.classification import PyTorchClassifier

    def run(network: Counted, image: Tensor, label: int) -> None:
        classifier = PyTorchClassifier(
            network,
            nn.CrossEntropyLoss(),
            tuple(image.shape),
            10,
            clip_values=(0, 1),
            device_type="cpu" if image.device.type == "cpu" else "gpu",
        )
        attack = getattr(evasion, name)(classifier, verbose=False, **settings)
        attack.generate(image[None].cpu().numpy(), np.array([label]))

    return run


def peers(budget: int) -> dict[str, Callable[[Counted, Tensor, int], None]]:
    """The attacks of both packages by name."""
    return {
        "Foolbox BoundaryAttack": foolbox_attack("BoundaryAttack", steps=25_000),
        "Foolbox HopSkipJumpAttack": foolbox_attack("HopSkipJumpAttack", steps=64),
        "ART BoundaryAttack": art_attack("BoundaryAttack", targeted=False),
        "ART HopSkipJump": art_attack("HopSkipJump"),
        "ART SignOPTAttack": art_attack("SignOPTAttack", targeted=False, query_limit=budget),
        "ART GeoDA": art_attack("GeoDA", max_iter=budget),
    }


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without what they print, and in a folder of its own: ART's GeoDA leaves a file there."""
    here = os.getcwd()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        os.chdir(folder)
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                yield
        finally:
            os.chdir(here)


class Normalised(nn.Module):
    """A network of `nets` for pixels in [0,1]."""

    mean: Tensor
    std: Tensor

    def __init__(self, name: str) -> None:
        super().__init__()
        mean, std = nets.NORMALISATION[name]
        self.network = nets.network(name, folded=True)
        self.register_buffer("mean", torch.tensor(mean).view(-1, 1, 1))
        self.register_buffer("std", torch.tensor(std).view(-1, 1, 1))

    def forward(self, rows: Tensor) -> Tensor:
        logits: Tensor = self.network((rows - self.mean) / self.std)
        return logits


def theirs(
    attack: Callable[[Counted, Tensor, int], None],
    network: nn.Module,
    loaded: common.Loaded,
    seed: int,
) -> Record:
    """One image after another."""
    budget, runs, failed = MARKS[-1], [], []
    began = time.monotonic()
    for image, label in zip(loaded.images, loaded.labels, strict=True):
        torch.manual_seed(seed)
        np.random.seed(seed)
        counted = Counted(network, image.to(loaded.model.device), label, budget).eval()
        runs.append(counted)
        try:
            with quiet(), torch.no_grad():
                attack(counted, counted.source, label)
        except Spent:
            pass
        except Exception as error:
            failed.append(f"{type(error).__name__}: {error}")
    seconds = time.monotonic() - began
    at = {mark: [run.distance(mark) for run in runs] for mark in MARKS}
    return Record(at, seconds, sum(run.asked > budget for run in runs), failed)


def ours(preset: str, loaded: common.Loaded, args: argparse.Namespace) -> Record:
    """All images at once."""
    cells = loaded.cells(tb.preset(preset), budget=MARKS[-1], seed=args.seed, name=preset)
    began = time.monotonic()
    results = common.run_cells(preset, cells, loaded.model, args)
    seconds = time.monotonic() - began
    at = {mark: [result.distance_at(mark) for result in results] for mark in MARKS}
    over = sum(result.ledger.queries > MARKS[-1] for result in results)
    return Record(at, seconds, over, [r.reason for r in results if r.stop.failed])


def compared(one: Record, other: Record, mark: int) -> tuple[paired.Ratio, int, int]:
    """The ratio of geometric means over the images that both have, and how many each has not."""
    values, base = np.array(one.at[mark]), np.array(other.at[mark])
    both = np.isfinite(values) & np.isfinite(base)
    ratio = paired.ratio(values[both], base[both], paired.geometric_mean)
    return ratio, int(np.isinf(values).sum()), int(np.isinf(base).sum())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").splitlines()[0], parents=[common.options()]
    )
    parser.add_argument("--only", nargs="+", default=[""], help="words of the peers to run")
    args = parser.parse_args()
    logging.disable(logging.WARNING)
    try:
        attacks = peers(MARKS[-1])
    except ImportError as error:
        sys.exit(f"{error}: `make bench-peers` makes an environment that has it.")
    pairs = [pair for pair in PAIRS if any(word in pair[1] for word in args.only)]
    for preset in dict.fromkeys(preset for preset, _ in pairs if preset not in tb.presets()):
        print(f"{preset} is not among the presets: its pairs are left out.")
    pairs = [pair for pair in pairs if pair[0] in tb.presets()]
    loaded = common.load(args.net, args.device, args.images, args.compile)
    network = Normalised(args.net).to(args.device).eval()
    records: dict[str, Record] = {}
    for preset, peer in pairs:
        if preset not in records:
            records[preset] = ours(preset, loaded, args)
        if peer not in records:
            records[peer] = theirs(attacks[peer], network, loaded, args.seed)
            said = records[peer]
            print(f"{peer}: {said.seconds:.1f} s, over {said.over}, failed {said.failed[:1]}")
    body, entries = [], []
    for preset, peer in pairs:
        one, other = records[preset], records[peer]
        found = {mark: compared(one, other, mark) for mark in MARKS}
        none = " ".join(f"{ours_}/{theirs_}" for _, ours_, theirs_ in found.values())
        seconds = f"{one.seconds:.0f}/{other.seconds:.0f}"
        cells = [str(ratio) for ratio, _, _ in found.values()]
        ends = [f"{one.over}/{other.over}", f"{len(one.failed)}/{len(other.failed)}"]
        body.append([preset, peer, *cells, none, seconds, *ends])
        ratios = {str(m): [common.short(v) for v in ratio] for m, (ratio, _, _) in found.items()}
        entries.append({"preset": preset, "peer": peer, "ratio": ratios})
    head = [
        "preset",
        "peer",
        *(f"at {m}" for m in MARKS),
        "none found",
        "seconds",
        "over",
        "failed",
    ]
    print(merged.grid(head, body))
    listed = [
        {
            "name": name,
            "seconds": common.short(record.seconds, 3),
            "over": record.over,
            "failed": record.failed,
            "at": {str(m): [common.short(d) for d in record.at[m]] for m in MARKS},
        }
        for name, record in records.items()
    ]
    settings = {"net": args.net, "images": loaded.hashes, "seed": args.seed, "marks": MARKS}
    report = {**common.provenance(args.device), "settings": settings, "pairs": entries}
    common.write(args.out, {**report, "records": listed})


if __name__ == "__main__":
    main()
