"""What each deliberate difference from the published code is worth, and what was settled otherwise.

    python benchmarks/differences.py --images 48 --out out.json
    python benchmarks/differences.py --only surfree --images 48

For each difference a preset and a variant of it run on the same images (of CIFAR-10, ResNet-20),
and the ratio of their medians is printed, variant over preset, with a 95 % interval (bootstrap,
paired by image), and the same of what is asked: the share of low-cost answers in the first estimate
where there is one.

unclipped     points may leave [0,1], as in the code: images are shrunk towards 0.5, and the input
              of the network is stretched; delta, tau and the start's step are shrunk likewise, and
              distances stretched. Noise goes by the image's content, and so is not the same.
tau           a tolerance of 1e-4 of the path
one-sided     an AGREST estimate whose answers are all alike is refused
frequencies   GeoDA in a third of the frequencies
surfree-*     tanh of the coefficients; half of the frequencies; the last 100 directions; 10^4 cells
              of an arc; nothing taken off the image; all of these but the last
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from typing import Any

import common
import numpy as np
import paired
import torch

import tollbox as tb
from tollbox.parts.searches import BinarySearch
from tollbox.parts.subspaces import Dct

STRETCH = 16.0
"""A power of two, so that nothing is rounded."""


@dataclass(frozen=True)
class Difference:
    """A variant of a preset, at a price and a budget."""

    name: str
    preset: str
    variant: Any
    price: float
    budget: float
    stretch: float = 1.0
    """The model of the variant takes images shrunk by so much."""


def _part(attack: Any, **parts: dict[str, Any]) -> Any:
    """The attack with fields of its parts replaced."""
    return replace(
        attack, **{name: replace(getattr(attack, name), **new) for name, new in parts.items()}
    )


def _unclipped(name: str) -> Difference:
    attack: Any = tb.preset(name)
    shrunk = _part(
        attack,
        start={"step": attack.start.step / STRETCH},
        search={"tau": attack.search.tau / STRETCH},
        estimate={"delta": attack.estimate.delta / STRETCH},
    )
    return Difference("unclipped", name, shrunk, 2, 1200, STRETCH)


def _relative(name: str) -> Difference:
    attack: Any = tb.preset(name)
    coarse = replace(attack, search=BinarySearch(1e-4, relative=True))
    return Difference("tau", name, coarse, 2, 1200)


def differences() -> list[Difference]:
    """All of them."""
    surfree: Any = tb.preset("surfree")
    fine = {"tau": 1e-4}
    variants = {
        "surfree-tanh": _part(surfree, directions={"gamma": 1.0, "centre": 0.0}),
        "surfree-half": _part(surfree, directions={"subspace": Dct(2)}),
        "surfree-100": _part(surfree, directions={"memory": 100}),
        "surfree-cells": _part(surfree, arc_search=fine),
        "surfree-centre": _part(surfree, directions={"centre": 0.0}),
        "surfree-all": _part(
            surfree,
            directions={"gamma": 1.0, "centre": 0.0, "subspace": Dct(2), "memory": 100},
            arc_search=fine,
        ),
    }
    refusing = {"estimate": {"refuse_one_sided": True}}
    agrest = ("hsja+agrest", "geoda+agrest", "cgba+agrest")
    return [
        *(_unclipped(name) for name in ("hsja", "geoda", "cgba")),
        *(_relative(name) for name in ("hsja", "geoda", "cgba")),
        *(
            Difference("one-sided", name, _part(tb.preset(name), **refusing), 10, 2500)
            for name in agrest
        ),
        Difference(
            "frequencies",
            "geoda",
            _part(tb.preset("geoda"), estimate={"subspace": Dct(3)}),
            2,
            1200,
        ),
        *(Difference(name, "surfree", variant, 2, 2000) for name, variant in variants.items()),
    ]


def stretched(model: tb.models.Model, by: float) -> tb.models.Model:
    """A model of images that are shrunk towards 0.5."""
    return tb.models.from_callable(
        lambda batch: model((batch - 0.5) * by + 0.5), device=model.device, classes=model.classes
    )


def first_share(results: tb.Results) -> float | None:
    """Low-cost answers in the first estimates of all images."""
    notes = [
        next((step.notes for step in result.trace if "share" in step.notes), None)
        for result in results
    ]
    asked = sum(note["estimate_queries"] for note in notes if note)
    low = sum(note["share"] * note["estimate_queries"] for note in notes if note)
    return low / asked if asked else None


def distances(results: tb.Results, stretch: float) -> paired.Values:
    return np.array([result.distance * stretch for result in results])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").splitlines()[0], parents=[common.options()]
    )
    parser.add_argument("--only", default="", help="those whose names begin so")
    args = parser.parse_args()
    loaded = common.load(args.net, args.device, args.images, args.compile)
    report: dict[str, Any] = {
        **common.provenance(args.device),
        "net": args.net,
        "images": loaded.hashes,
        "differences": [],
    }
    kept: dict[tuple[str, float, float], tb.Results] = {}
    for each in differences():
        if not each.name.startswith(args.only):
            continue
        settings = {"prices": tb.Prices(each.price, 1), "budget": each.budget, "seed": args.seed}
        key = each.preset, each.price, each.budget
        if key not in kept:
            base = loaded.cells(tb.preset(each.preset), **settings)
            kept[key] = common.run_cells(each.preset, base, loaded.model, args)
        model, images = loaded.model, loaded.images
        if each.stretch != 1:
            model = stretched(model, each.stretch)
            images = [(image - 0.5) / each.stretch + 0.5 for image in images]
        cells = replace(loaded, model=model, images=images).cells(each.variant, **settings)
        results = common.run_cells(f"{each.name} {each.preset}", cells, model, args)
        ratio = paired.ratio(distances(results, each.stretch), distances(kept[key], 1))
        shares = first_share(kept[key]), first_share(results)
        told = "" if None in shares else f"; first share {shares[0]:.3f}, then {shares[1]:.3f}"
        print(f"{each.name}, {each.preset}, c* = {each.price:g}, {each.budget:g}: {ratio}{told}")
        report["differences"].append(
            {
                "name": each.name,
                "preset": each.preset,
                "price": each.price,
                "budget": each.budget,
                "ratio": [common.short(value) for value in ratio],
                "shares": [None if share is None else round(share, 4) for share in shares],
                "variant": repr(each.variant),
            }
        )
        common.write(args.out, report)


if __name__ == "__main__":
    torch.set_grad_enabled(False)
    main()
