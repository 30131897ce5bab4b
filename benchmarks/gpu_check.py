"""The rules on a GPU, where CI never runs: prints a line for each and ends with 1 if one is broken.

    python benchmarks/gpu_check.py
    python benchmarks/gpu_check.py --net resnet50 --images 12 --budget 1500 --out check.json
    python benchmarks/gpu_check.py --rules all
    python benchmarks/gpu_check.py --net resnet20 --device cpu --modes plain --kills 2    # a trial

Rule 4: the same counts and distances at any batch size, order and number of live images in float64,
and in float32 at one shape. Rule 5: 8-bit points. Rule 6: out of memory. Rule 7: no synchronisation
but the one per batch (any other is an error, which ends the cell). Rule 4 also where a detector
watches; what it says is waited for, so there rule 7 does not hold.

Also: kernels (`core/kernels.py`, `frugal/calibrated.py`) make what plain torch makes. A network
that cannot be recorded in a CUDA graph runs without, with a warning, and no later run fails. A
network runs in true float32 by default, and a sampling radius that TF32 hides gives a warning.

Rule 9, with `--net`: a study in fp32 and in TF32, killed again and again with one process and with
two, ends like the unbroken one, bit for bit if it is `exact` (`killed.py`). On a CPU that is all.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import common
import killed
import nets
import torch
from torch import Tensor, nn

import tollbox as tb
from tollbox import testing
from tollbox.attacks.frugal.calibrated import DirectionStream, block_containing
from tollbox.attacks.surrogates import over_flagged
from tollbox.engine.points import LinearPoint, write
from tollbox.parts.paths import Circle
from tollbox.parts.priors import Photo, Reweighed, Spectrum
from tollbox.parts.subspaces import Dct

COUNT = 20
NEAR = testing.NearDuplicates(0.5, window=20, every=5)
"""A detector: every fifth query that is near one of the 20 before it."""


def table(results: tb.Results) -> list[Any]:
    return [
        (
            (r.stop, r.ledger.counts, r.ledger.alarms, r.first_alarm),
            (r.distance, [step.distance for step in r.trace]),
        )
        for r in results
    ]


ATTACKS = ("a-hsja", "frugal", "surfree", "frugal+surrogate")
"""Whose rules are checked where no others are named."""


def norm_of(attack: str) -> str:
    """The metric that a preset is made for."""
    return "linf" if attack in tb.presets("linf") else "l2"


def made(attack: str) -> tb.attack.Attack:
    """A preset, guided by a network of convolutions and a transformer if it needs surrogates."""
    needed = attack in tb.attacks.WITH_SURROGATE
    return tb.preset(attack, surrogate=guides() if needed else None)


def guides() -> tb.Surrogate:
    torch.manual_seed(0)
    cousin = nets.network("embedded")
    for weights in cousin.parameters():
        weights.data += 0.2 * weights.data.std() * torch.randn_like(weights)
    return tb.Surrogate([cousin, nets.network("vit_7")])


def attacked(
    found: tb.models.Embedded,
    attack: str,
    backwards: bool = False,
    detection: tb.Detection | None = None,
    **options: Any,
) -> list[Any]:
    order = range(COUNT)[::-1] if backwards else range(COUNT)
    images, labels = found.images[list(order)], found.labels[list(order)]
    prices = tb.Prices(10, 1)
    results = tb.run(
        made(attack),
        found.model,
        images,
        labels,
        prices=prices,
        budget=600,
        norm=norm_of(attack),
        detection=detection,
        execution=tb.Execution(**options),
    )
    return table(results)[::-1] if backwards else table(results)


class Hungry(nn.Module):
    """Asks for more memory than there is if the batch has more than 20 rows."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        if len(images) > 20:
            torch.empty(10**15, device=images.device)
        logits: Tensor = self.network(images)
        return logits


def rules(record: Callable[[str, bool], None], attacks: list[str]) -> None:
    """Rules 4 to 7, on a small network."""
    double = tb.models.embedded(device="cuda", dtype=torch.float64)
    single = tb.models.embedded(device="cuda")
    eight = tb.models.embedded(device="cuda", quantize=8)
    for attack in attacks:
        wanted = attacked(double, attack, batch_size=64)
        ways: dict[str, dict[str, Any]] = {
            "batches of 7": {"batch_size": 7},
            "batches of 256": {"batch_size": 256},
            "backwards, three live": {"backwards": True, "live": 3},
            "metered": {"metered": True},
        }
        for how, options in ways.items():
            record(f"rule 4: {attack}, {how}", attacked(double, attack, **options) == wanted)
        one = attacked(single, attack, one_shape=True)
        few = attacked(single, attack, one_shape=True, backwards=True, live=3)
        record(f"rule 4: {attack}, float32 at one shape", one == few)

    results = tb.run(
        tb.preset("hsja"),
        eight.model,
        eight.images[:8],
        eight.labels[:8],
        budget=600,
        execution=tb.Execution(check=True),
    )
    record("the model check finds nothing", results.findings == ())
    points = [r.adversarial * 255 for r in results if r.adversarial is not None]
    record("rule 5: 8-bit points", all((p - p.round()).abs().max() < 1e-4 for p in points))

    hungry = tb.models.from_torch(Hungry(single.model.network or nn.Identity()), device="cuda")
    results = tb.run(
        tb.preset("hsja"),
        hungry,
        single.images[:8],
        single.labels[:8],
        budget=300,
        execution=tb.Execution(batch_size=64),
    )
    record("rule 6: out of memory", all("out of memory" in r.warnings[-1] for r in results))
    record("rule 6: and none failed", results.failed == 0)

    known = replace(single.model, classes=10)  # else a trial of the model would find it out
    for attack in attacks:
        if attack in tb.attacks.WITH_SURROGATE:
            continue  # which networks recognise an image is waited for
        torch.cuda.set_sync_debug_mode("error")
        results = tb.run(
            tb.preset(attack),
            known,
            single.images[:COUNT],
            single.labels[:COUNT],
            prices=tb.Prices(10, 1),
            budget=600,
            norm=norm_of(attack),
        )
        torch.cuda.set_sync_debug_mode("default")
        record(f"rule 7: {attack}, one synchronisation per batch", results.failed == 0)


def watched(record: Callable[[str, bool], None], attacks: list[str]) -> None:
    """Rule 4 with a detector, whose alarms cost something and end a run."""
    double = tb.models.embedded(device="cuda", dtype=torch.float64)
    watch: dict[str, Any] = {"detection": tb.Detection(NEAR, alarm_price=5, max_alarms=5)}
    for attack in attacks:
        wanted = attacked(double, attack, batch_size=64, **watch)
        ended = sum(row[0][0] is tb.Stop.ALARM for row in wanted)
        record(f"watched: {attack}, {ended} of {COUNT} runs end by alarms", ended > 0)
        ways: dict[str, dict[str, Any]] = {
            "batches of 7": {"batch_size": 7},
            "backwards, three live": {"backwards": True, "live": 3},
            "metered": {"metered": True},
        }
        for how, options in ways.items():
            same = attacked(double, attack, **options, **watch) == wanted
            record(f"watched, rule 4: {attack}, {how}", same)


def kernels(record: Callable[[str, bool], None]) -> None:
    """What is made in few launches is what plain torch makes."""
    for dtype in (torch.float32, torch.float64):
        pictures = torch.rand(4, 3, 50, 47, dtype=dtype)
        there = pictures.to("cuda")
        problem, twin = tb.attack.Problem(there[0], 0), tb.attack.Problem(pictures[0], 0)
        noise, known = (each.noise("check", 1, 300)[5:200] for each in (problem, twin))
        record(f"{dtype}: noise has the bits of the CPU", torch.equal(noise.cpu(), known))
        batches = []
        for images in (pictures, there):
            some = [LinearPoint(images[0], images[1] - 0.5, 0.7, images[2] - 0.5, -1.3)]
            some += [LinearPoint(images[1], images[3] - 0.5, 1 / 3)]
            batches.append(images.new_zeros(3, *images.shape[1:]))
            write(batches[-1], some, [2, 0])
        record(f"{dtype}: mixtures have the bits of the CPU", batches[1].cpu().equal(batches[0]))
        turn = pictures[3] / torch.linalg.vector_norm(pictures[3])
        circles = [
            Circle.through(images[0], images[1], turn.to(images)) for images in (pictures, there)
        ]
        apart = float((circles[0].side - circles[1].side.cpu()).abs().max())
        record(f"{dtype}: a circle, to rounding", apart < 8 * torch.finfo(dtype).eps)
        for prior in (Photo(), Spectrum(1e5, grey=0.5), Reweighed(), Dct(4)):
            drawing = prior.begin(problem).at(there[1])
            rows = problem.noise("check", 1, 1 << 20, drawing.shape)
            drawn = DirectionStream(drawing, rows)
            parts = torch.cat([drawn[0:8], drawn[8:16], drawn[16:40], drawn[40:300]])
            blocks = sorted({block_containing(row) for row in range(300)})
            plain = [drawing(rows[first : first + size], 1.0) for first, size in blocks]
            same = parts.equal(torch.cat(plain)[:300])
            record(f"{dtype}: {type(prior).__name__}, recorded and plain", same)


def surrogates(record: Callable[[str, bool], None]) -> None:
    """Recorded gradients are the plain ones, with masks of classes, targets and odd shapes, and a
    network that cannot be recorded is used without."""
    single = tb.models.embedded(device="cuda")
    plain, odd = guides(), Unrecordable(nets.network("embedded"), odd=True).eval()
    fallback = tb.Surrogate([odd])
    for number, goal in enumerate((tb.Goal(), tb.Goal.leave([0, 3]), tb.Goal.reach(5))):
        problem = tb.attack.Problem(single.images[number].to("cuda"), 0, goal=goal)
        for count in (4, 16, 5):
            points = problem.source + 0.1 * problem.noise("check", count, count)[0:count]
            for _ in range(2):
                recorded = plain.margins(problem, points)
            for member, found in zip(plain._on(points.device), recorded, strict=True):
                flagged = sorted(problem.goal.flagged or ())
                about = plain._outside(0, flagged, problem.target, points)
                with plain._computing():
                    wanted = member.differentiated(over_flagged, points, about)
                same = wanted[:, :-1].view_as(points).equal(found.gradients)
                record(
                    f"surrogates: {goal}, {count} points of {type(member.network).__name__}",
                    same and wanted[:, -1].equal(found.margins),
                )
    fallback.margins(problem, points)
    recordings = list(fallback._graphs.values())
    record(f"surrogates: one that cannot be recorded {recordings}", recordings == [None])


class Unrecordable(nn.Module):
    """Fails while it is recorded: for a tensor on the CPU, or (`odd`) for an error of its own."""

    def __init__(self, network: nn.Module, odd: bool) -> None:
        super().__init__()
        self.network, self.odd = network, odd
        self.constant = [torch.ones(1)]  # in a list, so that .to(device) does not move it

    def forward(self, images: Tensor) -> Tensor:
        if self.odd and torch.cuda.is_current_stream_capturing():
            raise ValueError("not while this is recorded")
        logits: Tensor = self.network(images)
        return logits if self.odd else logits * self.constant[0].to(images.device)


def graphs(record: Callable[[str, bool], None]) -> None:
    """A failed recording stays one failure: the run is that of the plain network, and later graphs,
    random numbers, memory and results are those of a process without the failure."""
    single = tb.models.embedded(device="cuda")
    network = single.model.network or nn.Identity()

    def outcome(
        net: nn.Module, graphs: bool, attack: str = "frugal", check: bool = False
    ) -> tuple[list[Any], tb.Results]:
        results = tb.run(
            attack,
            tb.models.from_torch(net.eval(), device="cuda", cuda_graphs=graphs),
            single.images[:COUNT],
            single.labels[:COUNT],
            prices=tb.Prices(10, 1),
            budget=600,
            execution=tb.Execution(check=check),
        )
        return table(results), results

    for _ in range(2):  # the second time, all graphs of the first are gone
        _, alone = outcome(network, graphs=True, attack="a-hsja")
        record("graphs: of the network alone, no warning", {r.warnings for r in alone} == {()})
        gc.collect()
    plain, _ = outcome(network, graphs=False)
    recorded, first = outcome(network, graphs=True)
    record(
        "graphs: a network that can be recorded, no warning", {r.warnings for r in first} == {()}
    )
    record("graphs: recorded and plain runs agree", recorded == plain)
    _, checked = outcome(network, graphs=True, check=True)
    record(f"graphs: the model check finds nothing {checked.findings}", checked.findings == ())
    for odd in (False, True):
        what = "an error of its own" if odd else "a tensor on the CPU"
        for check in (False, True):
            found, results = outcome(Unrecordable(network, odd), graphs=True, check=check)
            said = {text for r in results for text in r.warnings}
            print(f"        {said}, findings {results.findings}, {results.exactness.sentence}")
            why = "not while this is recorded" if odd else "CPU"
            record(f"graphs: {what}, one warning", len(said) == 1 and why in min(said))
            record(f"graphs: {what}, none failed", results.failed == 0)
            record(f"graphs: {what}, the results of plain launches", found == plain)
        again, after = outcome(network, graphs=True)
        record(f"graphs: after {what}, no warning", {r.warnings for r in after} == {()})
        record(f"graphs: after {what}, as in a fresh process", again == recorded)
        try:
            torch.rand(3, device="cuda")
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
            pool = torch.cuda.MemPool()
            del pool
            clean = True
        except RuntimeError as error:
            print(f"        {error}")
            clean = False
        record(f"graphs: after {what}, random numbers and memory work", clean)


def precision(record: Callable[[str, bool], None]) -> None:
    """Float32 by default, whatever torch allows, and a warning if TF32 hides a radius."""
    single = tb.models.embedded(device="cuda")
    network = single.model.network or nn.Identity()
    common.use_tf32(True)
    allowed: set[tuple[bool, bool]] = set()

    def seen(*_: Any) -> None:
        allowed.add((torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32))

    def outcome(
        model: tb.models.Model, attack: str = "hsja", delta: float = 1e-3
    ) -> tuple[list[Any], set[tuple[str, ...]]]:
        changed = common.with_delta(tb.preset(attack), delta)
        images, labels = single.images[:COUNT], single.labels[:COUNT]
        results = tb.run(changed, model, images, labels, budget=200)
        return table(results), {result.resolution.warnings for result in results}

    hook = network.register_forward_pre_hook(seen)
    plain, none = outcome(tb.models.from_torch(network, device="cuda"))
    record("precision: float32 by default, though torch allows TF32", allowed == {(False, False)})
    record("precision: float32 resolves what is sampled", none == {()})
    hook.remove()
    exact, _ = outcome(tb.models.from_torch(network, device="cuda", tf32=False))
    record("precision: the default is tf32=False, bit for bit", plain == exact)
    rounded = tb.models.from_torch(network, device="cuda", tf32=True)
    function = tb.models.from_callable(lambda x: network(x).argmax(1), device="cuda")
    for what, model in (("TF32", rounded), ("a function in TF32", function)):
        record(
            f"precision: {what}, a radius that is lost gives a warning", outcome(model)[1] != {()}
        )
        record(f"precision: {what}, a wide one does not", outcome(model, delta=0.1)[1] == {()})
        record(f"precision: {what}, frugal does not warn", outcome(model, "frugal")[1] == {()})
    common.use_tf32(False)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cuda")
    killed.options(parser)
    parser.add_argument("--rules", nargs="*", default=list(ATTACKS), help="presets; all; or none")
    parser.add_argument("--out", type=Path, default=None, help="write the JSON here")
    args = parser.parse_args()
    every = [*tb.presets("l2"), *tb.presets("linf"), *tb.attacks.WITH_SURROGATE]
    attacks = every if args.rules == ["all"] else args.rules
    report: dict[str, Any] = {**common.provenance(args.device), "broken": 0, "rules": []}

    def record(what: str, holds: bool) -> None:
        report["broken"] += not holds
        report["rules"].append({"holds": holds, "what": what})
        print(f"{'holds' if holds else 'BROKEN':>6}  {what}", flush=True)

    if args.device != "cpu" and attacks:
        kernels(record)
        graphs(record)
        surrogates(record)
        precision(record)
        rules(record, attacks)
        watched(record, attacks)
    if args.net is not None:
        report["killed"] = killed.check(args, record)
    print(json.dumps(report, indent=1))
    common.write(args.out, report)
    return int(report["broken"] > 0)


if __name__ == "__main__":
    sys.exit(main())
