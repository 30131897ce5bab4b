"""Claims of the paper, and of ours, each by one command; prints a line for each figure, then JSON.

    python benchmarks/claims.py search-cost --net resnet50 --device cuda --tf32 --delta 0.5 \\
        --family geoda --price 1000 --budget 250000 --max-queries 20000
    python benchmarks/claims.py share --net resnet50 --device cuda --tf32 --delta 0.5 \\
        --preset cgba+agrest --queries 500
    python benchmarks/claims.py precision --net resnet50 --device cuda --images 20
    python benchmarks/claims.py folding --net resnet50

search-cost  mean cost of searches up to iteration t, binary against asymmetric, over the images
             that came to t in both (the paper, on GeoDA at c* = 1000: about 2.5 times). Iteration 0
             is the search after the start
share        share of low-cost answers in the first AGREST estimate, of about `--queries` queries,
             against the share that is planned (the paper: close, above all at large c*). By a
             preset with binary search: asymmetric search takes very many steps at large c*
precision    the published sampling radius in fp32 against a wide one in fp32 and in TF32: median
             distances, and ratios with 95 % intervals, paired by image
folding      the largest difference of logits, relative to the largest logit, that folding batch
             norm into the convolutions makes
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from dataclasses import dataclass, replace
from typing import Any

import common
import nets
import numpy as np
import paired
import torch

import tollbox as tb
from tollbox.theory import caps

SHOWN = (0, 1, 2, 5, 10, 20, 30, 50, 75, 100, 150, 200, 300, 500)
"""Iterations at which search costs are told."""


def finish(report: dict[str, Any], args: argparse.Namespace) -> None:
    whole = {**common.provenance(args.device), **report}
    common.write(args.out, whole)
    print(json.dumps(whole))


def _usable(tf32: bool, args: argparse.Namespace) -> bool:
    return tf32 and args.device != "cpu"


def search_cost(args: argparse.Namespace) -> None:
    """Mean cumulative search cost by iteration, binary against asymmetric."""
    loaded = common.load(
        args.net, args.device, args.images, args.compile, tf32=_usable(args.tf32, args)
    )
    limits = {"budget": args.budget, "max_queries": args.max_queries, "seed": args.seed}
    cells = [
        cell
        for name in (args.family, f"{args.family}+as")
        for cell in loaded.cells(
            common.with_delta(tb.preset(name), args.delta),
            prices=tb.Prices(args.price, 1),
            **limits,
        )
    ]
    results = common.run_cells("search-cost", cells, loaded.model, args)
    count = len(loaded.images)
    spent = [[step.by_phase.get("search", 0.0) for step in result.trace] for result in results]
    pairs = list(zip(spent[:count], spent[count:], strict=True))
    rows = []
    for t in SHOWN:
        both = [(ours[t], theirs[t]) for ours, theirs in pairs if min(len(ours), len(theirs)) > t]
        if len(both) < 2:
            break
        binary, asymmetric = np.array(both).T
        found = paired.ratio(binary, asymmetric, statistic=np.mean)
        rows.append(
            {
                "iteration": t,
                "images": len(both),
                "binary": common.short(binary.mean()),
                "asymmetric": common.short(asymmetric.mean()),
                "ratio": [common.short(value, 4) for value in found],
            }
        )
        print(
            f"iteration {t}, {len(both)} images: binary {binary.mean():.0f}, "
            f"asymmetric {asymmetric.mean():.0f}, ratio {found}"
        )
    finish({"images": count, "rows": rows}, args)


@dataclass(frozen=True)
class OneEstimate:
    """An estimate that has about `queries` queries at the optimal overshoot, whatever n_0, and asks
    them at once, so that its cost cannot end it early."""

    estimate: Any
    queries: int

    @property
    def rows(self) -> int:
        """The most points held at a time."""
        return 2 * self.queries

    def tolerance_scale(self, problem: tb.attack.Problem) -> float:
        """As the estimate has it."""
        scale: float = self.estimate.tolerance_scale(problem)
        return scale

    def begin(self, problem: tb.attack.Problem) -> Any:
        """For one image; the vanilla n'_t, a fraction at large c*, is such that n* is `queries`."""
        ratio = problem.prices.ratio
        a_query = 1 / caps.optimal_queries(1.0, ratio, problem.dimension)
        vanilla = 2 * self.queries * a_query / (ratio + 1)
        whole = replace(self.estimate, chunk=self.rows).begin(problem)
        return lambda t, found, _: whole(t, found, vanilla)


def share(args: argparse.Namespace) -> None:
    """Share of low-cost answers in the first estimate, empirical against planned."""
    loaded = common.load(
        args.net, args.device, args.images, args.compile, tf32=_usable(args.tf32, args)
    )
    attack: Any = common.with_delta(tb.preset(args.preset), args.delta)
    attack = replace(attack, iterations=1, estimate=OneEstimate(attack.estimate, args.queries))
    cells = [
        cell
        for price in args.prices
        for cell in loaded.cells(
            attack, prices=tb.Prices(price, 1), max_queries=args.max_queries, seed=args.seed
        )
    ]
    results = common.run_cells("share", cells, loaded.model, args)
    count, rows = len(loaded.images), []
    for number, price in enumerate(args.prices):
        part = results[number * count : (number + 1) * count]
        last = [result.trace[-1].notes for result in part if result.trace]
        notes = [note for note in last if "share" in note]
        if not notes:
            print(f"c* = {price:g}: no image came to an estimate")
            continue
        found = np.array([note["share"] for note in notes])
        asked = np.mean([note["estimate_queries"] for note in notes])
        low, middle, high = np.percentile(found, [25, 50, 75])
        planned = notes[0]["planned_share"]
        rows.append(
            {
                "price": price,
                "images": len(notes),
                "queries": common.short(float(asked)),
                "planned": common.short(planned, 7),
                "mean": common.short(found.mean(), 7),
                "quartiles": [common.short(value, 7) for value in (low, middle, high)],
                "one_sided": int(((found == 0) | (found == 1)).sum()),
            }
        )
        print(
            f"c* = {price:g}, {len(notes)} images, {asked:.0f} queries: planned {planned:.4f}, "
            f"mean {found.mean():.4f}, quartiles {low:.4f} {middle:.4f} {high:.4f}, "
            f"{rows[-1]['one_sided']} one-sided"
        )
    finish({"rows": rows}, args)


def precision(args: argparse.Namespace) -> None:
    """Published radius in fp32 against a wide one in fp32 and TF32."""
    settings = [(args.narrow, False), (args.wide, False), (args.wide, True)]
    loaded, faster = (
        common.load(args.net, args.device, args.images, args.compile, tf32=_usable(tf32, args))
        for tf32 in (False, True)
    )
    keys = [(name, price, budget) for name in args.presets for price, budget in args.prices]
    found: list[list[list[tb.Result]]] = []
    for delta, tf32 in settings:
        model = faster.model if tf32 else loaded.model
        cells = [
            cell
            for name, price, budget in keys
            for cell in loaded.cells(
                common.with_delta(tb.preset(name), delta),
                prices=tb.Prices(price, 1),
                budget=budget,
                seed=args.seed,
            )
        ]
        what = f"delta {delta:g}, {'TF32' if tf32 else 'fp32'}"
        results, count = common.run_cells(what, cells, model, args), len(loaded.images)
        found.append([list(results[k * count : (k + 1) * count]) for k in range(len(keys))])
    rows = []
    for k, (name, price, budget) in enumerate(keys):
        kept = [
            all(runs[k][n].known_up_to() >= budget and runs[k][n].distance > 0 for runs in found)
            for n in range(len(loaded.images))
        ]
        base: paired.Values | None = None
        for (delta, tf32), runs in zip(settings, found, strict=True):
            chosen = [result for result, keep in zip(runs[k], kept, strict=True) if keep]
            values = np.array([result.distance_at(budget) for result in chosen])
            base = values if base is None else base
            ratio = paired.ratio(values, base)
            rows.append(
                {
                    **{"preset": name, "price": price, "budget": budget},
                    **{"delta": delta, "tf32": tf32, "images": len(values)},
                    "median": common.short(paired.median(values)),
                    "ratio": [common.short(value, 4) for value in ratio],
                }
            )
            print(
                f"{name}, c* = {price:g}, budget {budget:g}, delta {delta:g}, "
                f"{'TF32' if tf32 else 'fp32'}: median {paired.told(paired.median(values))}, "
                f"ratio to the first {ratio}"
            )
    finish({"rows": rows}, args)


@torch.inference_mode()
def folding(args: argparse.Namespace) -> None:
    """The largest relative difference of logits that folding makes."""
    common.use_tf32(False)
    pictures, _ = nets.images(args.net, args.images)
    mean, std = (torch.tensor(v).view(1, -1, 1, 1) for v in nets.NORMALISATION[args.net])
    batch = ((pictures - mean) / std).to(args.device)
    plain, folded = (
        nets.network(args.net, folded=on).to(args.device)(batch) for on in (False, True)
    )
    difference = float((plain - folded).abs().max() / plain.abs().max())
    same = int((plain.argmax(1) == folded.argmax(1)).sum())
    print(f"folding: logits differ by {difference:.1e}, {same} of {len(batch)} labels are the same")
    finish({"difference": common.short(difference, 3), "same": same, "images": len(batch)}, args)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(required=True)

    def command(name: str, do: Any) -> argparse.ArgumentParser:
        found = commands.add_parser(name, parents=[common.options()], help=do.__doc__)
        found.set_defaults(do=do)
        return found

    searching = command("search-cost", search_cost)
    common.precision_options(searching)
    searching.add_argument("--family", choices=["geoda", "hsja", "cgba"], default="geoda")
    searching.add_argument("--price", type=float, default=1000.0)
    searching.add_argument("--budget", type=float, default=250_000.0)
    searching.add_argument("--max-queries", type=float, default=math.inf)
    sharing = command("share", share)
    common.precision_options(sharing)
    sharing.add_argument("--preset", default="cgba+agrest")
    sharing.add_argument("--queries", type=int, default=500)
    sharing.add_argument("--max-queries", type=float, default=5000)
    sharing.add_argument(
        "--prices", nargs="+", type=float, default=[2.0, 5.0, 10.0, 100.0, 1e3, 1e4, 1e5]
    )
    deciding = command("precision", precision)
    deciding.add_argument("--presets", nargs="+", default=["cgba", "a-cgba"])
    deciding.add_argument(
        "--prices", nargs="+", type=common.priced, default=[(2.0, 4000.0), (100.0, 10_000.0)]
    )
    deciding.add_argument("--narrow", type=float, default=0.0045, help="the published radius")
    deciding.add_argument("--wide", type=float, default=0.5)
    command("folding", folding)
    args = parser.parse_args()
    try:
        args.do(args)
    except tb.errors.InputError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
