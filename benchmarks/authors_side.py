"""The authors' side of `authors.py`: their attacks, counted query by query.

This runs in an environment of its own (see `authors.py`) and imports nothing of tollbox. Of the
checkout it imports the attacks and the model's wrapper as they are, and changes nothing in them:

1. Their pixels are normalised by ImageNet's mean and std; the network behind the wrapper is ours,
   with whatever it expects put between, so that both sides ask about the same pixels.
2. Every row that their code sends is counted, by iteration and phase, which are read off the stack:
   from the names of their functions, and from `iteration` in their loop. White-box gradients, which
   they take for their log, are not queries.
3. Settings are those of their README, and the paper's m. The generator is seeded anew for every
   image, so all attacks on an image have one start.
4. Their loops have no bound; a run that asks `LIMIT` queries, or fails, is told as failed.
5. On a GPU convolutions are in fp32, unless told. PyTorch's default is TF32, where their delta is
   lost.
6. Their minimisation hands arrays of one element to `scipy.integrate.quad`, which newer versions of
   numpy refuse; it is given their numbers.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import json
import math
import sys
import time
from collections import Counter
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import nets
import numpy as np
import torch
from scipy import integrate
from torch import Tensor

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Of the pixels that their code works in."""
PHASES = {
    "random_adversarial": "start",
    "search_in_line": "search",
    "search_in_arc": "search",
    "estimate_gradient": "estimate",
    "get_adversarial_by_direction": "step",
    "get_gradient": None,
}
"""What a query is for, by the innermost of these functions."""
FINISH = -1
"""The iteration of what is asked after the last one."""
LIMIT = 200_000
CLASSES = {
    "hsja": ("src.attacks.hsja", "AsymmetricHSJA"),
    "geoda": ("src.attacks.geoda", "AsymmetricGeoDA"),
    "cgba": ("src.attacks.cgba", "AsymmetricCGBA"),
    "surfree": ("src.attacks.surfree", "AsymmetricSurfree"),
}
M = {"hsja": 0.02, "geoda": 0.06, "cgba": 0.06}
DELTA = 0.02


def asked_by(frame: FrameType | None) -> tuple[int, str] | None:
    """Iteration (0 before the first) and phase of a query; None if it is not one."""
    phase: str | None = ""
    while frame is not None:
        name = frame.f_code.co_name
        if phase == "" and name in PHASES:
            phase = PHASES[name]
        if phase is None:
            return None
        if phase and name == "initialize":
            return 0, phase
        if phase and name == "next":
            return frame.f_locals["iteration"] + 1, phase
        if phase and name == "finish":
            return FINISH, phase
        frame = frame.f_back
    raise RuntimeError("a query from a function of theirs that is not known")


class Counted:
    """A network for normalised pixels that counts what it is asked, by iteration and phase."""

    def __init__(self, name: str, device: str) -> None:
        self._network = nets.network(name, folded=True).requires_grad_(False).to(device)
        mean, std = (torch.tensor(v, dtype=torch.float64) for v in nets.NORMALISATION[name])
        theirs = torch.tensor(MEAN, dtype=torch.float64), torch.tensor(STD, dtype=torch.float64)
        self._scale = (theirs[1] / std).float().view(1, 3, 1, 1).to(device)
        self._shift = ((theirs[0] - mean) / std).float().view(1, 3, 1, 1).to(device)
        self.begin(-1)

    def begin(self, label: int) -> None:
        """Another run, on an image of this class."""
        self._label, self._total = label, 0
        self.queries: Counter[tuple[int, str]] = Counter()
        self.flagged: Counter[tuple[int, str]] = Counter()
        self.start = torch.empty(0)

    def __call__(self, points: Tensor) -> Tensor:
        logits: Tensor = self._network(points * self._scale + self._shift)
        where = asked_by(sys._getframe(1))
        if where is None:
            return logits
        self._total += len(points)
        if self._total > LIMIT:
            raise RuntimeError(f"more than {LIMIT} queries")
        self.queries[where] += len(points)
        self.flagged[where] += int((logits.argmax(1) == self._label).sum())
        if where[1] == "start":
            self.start = points[0].clone()
        return logits


def attack_of(name: str, **settings: Any) -> Any:
    """One of their attacks, with the settings of their README."""
    module, found = CLASSES[name]
    if name != "hsja":
        settings.update(dimension_reduction_mode="Full", dimension_reduction_factor=4.0)
    if name != "surfree":
        settings.update(
            sigma=DELTA,
            initial_gradient_queries=30,
            overshooting_scheduler_init=M[name],
            use_gradient_moment=name == "geoda",
        )
    return getattr(importlib.import_module(module), found)(**settings)


def take_numbers() -> None:
    """Let `quad` take bounds that are arrays of one element."""
    quad = integrate.quad
    integrate.quad = lambda f, *bounds: quad(f, *(float(np.squeeze(bound)) for bound in bounds))


def run(job: dict[str, Any], images: Tensor) -> tuple[list[dict[str, Any]], Tensor]:
    """All runs of a job on all images, and the start of each image in [0,1]."""
    device = job["device"]
    mean, std = torch.tensor(MEAN, device=device), torch.tensor(STD, device=device)
    network = Counted(job["net"], device)
    model = importlib.import_module("src.models.model").ModelWrapper(network, mean, std)
    mean, std = mean.view(3, 1, 1), std.view(3, 1, 1)
    starts: dict[int, Tensor] = {}
    entries = []
    for cell in job["cells"]:
        began = time.monotonic()
        settings = {"overshooting": cell["agrest"]} if cell["attack"] != "surfree" else {}
        attack = attack_of(
            cell["attack"],
            model=model,
            total_cost=math.inf,
            query_cost=cell["price"],
            search_cost=cell["price"] if cell["as"] else 1,
            max_iteration=job["iterations"],
            device=device,
            **settings,
        )
        runs: list[dict[str, Any]] = []
        for index, (image, label) in enumerate(zip(images, job["labels"], strict=True)):
            torch.manual_seed(job["seed"] + index)
            network.begin(label)
            source = ((image.to(device) - mean) / std)[None]
            try:
                with contextlib.redirect_stdout(io.StringIO()):
                    attack(source, label)
            except Exception as error:
                runs.append({"failed": f"{type(error).__name__}: {error}"})
                continue
            start = (network.start * std + mean).clamp(0, 1).cpu()
            if not torch.equal(start, starts.setdefault(index, start)):
                raise RuntimeError(f"image {index} has two starts")
            logged = {key: value for entry in attack.logs for key, value in entry.items()}
            names = ["initialization", *(f"iteration {t}" for t in range(job["iterations"]))]
            counts = [[*key, n, network.flagged[key]] for key, n in network.queries.items()]
            runs.append({"counts": counts, "distances": [logged[f"norm,{n}"] for n in names]})
        entries.append({**cell, "runs": runs})
        passed = time.monotonic() - began
        print(f"theirs: {cell['preset']}, c* = {cell['price']:g}, {passed:.1f} s", flush=True)
    missing = [index for index in range(len(images)) if index not in starts]
    if missing:
        raise SystemExit(f"no run of theirs ended on the images {missing}: {entries[0]['runs']}")
    return entries, torch.stack([starts[index] for index in range(len(images))])


# -- numbers --------------------------------------------------------------------------------------


class _Answers:
    """A model that answers every query alike, and counts them."""

    mean, std = torch.tensor(MEAN), torch.tensor(STD)

    def __init__(self, adversarial: bool, price: float) -> None:
        self._adversarial, self._price, self.asked = adversarial, price, 0

    def is_adversarial(self, *_: Any, **__: Any) -> tuple[bool, float]:
        return True, 1.0

    def is_adversarial_batch(self, rows: Tensor, **_: Any) -> tuple[Tensor, Tensor]:
        self.asked += len(rows)
        answers = torch.full((len(rows),), self._adversarial)
        return answers, torch.tensor(len(rows) * (1.0 if self._adversarial else self._price))

    def get_gradient(self, image: Tensor, **_: Any) -> Tensor:
        return torch.ones_like(image).flatten()


def numbers(attack: str, side: int, price: float, steps: list[int]) -> dict[str, Any]:
    """What their code has for a black image of this side.

    omega in units of delta; n*: queries of an estimate whose answers are all adversarial, which end
    it at n*; flagged: those of one whose answers are all flagged, one at a time, which end it at
    c_t; both by t.
    """
    found: dict[str, Any] = {"attack": attack, "side": side, "price": price}
    found.update({"omega": {}, "n*": {}, "flagged": {}})
    for adversarial in (True, False):
        model = _Answers(adversarial, price)
        made = attack_of(
            attack,
            model=model,
            total_cost=1,
            query_cost=price,
            overshooting=True,
            sample_batch_size=128 if adversarial else 1,
        )
        source = torch.zeros(1, 3, side, side)
        with contextlib.redirect_stdout(io.StringIO()):
            made.initialize(source, 0)
        found["x*"], found["1-p"] = made.overshooting_init / DELTA, made.desired_probability
        found["cosine"] = float(made.overshooting_cosine_init)
        for t in range(1, max(steps) + 1):
            model.asked = 0
            if t not in steps:  # the schedule needs the iteration, not its queries
                made.initial_gradient_queries = 1
            made.next(source, source + 1, 0, t - 1)
            made.initial_gradient_queries = 30
            if t in steps:
                found["omega"][t] = float(made.overshooting_value) / DELTA
                found["n*" if adversarial else "flagged"][t] = model.asked
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--code", type=Path, required=True, help="the authors' checkout")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--job", type=Path, help="a folder with job.json and images.npy")
    what.add_argument("--numbers", action="store_true", help="what tests/unit compares with")
    args = parser.parse_args()
    sys.path.insert(0, str(args.code.resolve()))
    if importlib.util.find_spec("pandas") is None:  # they read lists of images with it: not here
        sys.modules["pandas"] = ModuleType("pandas")
    take_numbers()
    if args.numbers:
        for attack, side in (("hsja", 224), ("cgba", 224), ("hsja", 32), ("cgba", 32)):
            for price in (2.0, 5.0, 100.0, 1000.0):
                print(json.dumps(numbers(attack, side, price, [1, 2, 3, 10])), flush=True)
        return
    job = json.loads((args.job / "job.json").read_text())
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = job["tf32"]
    entries, starts = run(job, torch.from_numpy(np.load(args.job / "images.npy")))
    np.save(args.job / "starts.npy", starts.numpy())
    (args.job / "theirs.json").write_text(json.dumps(entries))


if __name__ == "__main__":
    main()
