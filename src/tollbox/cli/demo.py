"""`tollbox demo`: the embedded model under two attacks and two prices, in one engine run.

Images that the embedded model classifies correctly, `hsja` and `a-hsja`, at c* = 1 and c* = 100: a
study, with a table, a figure of median l2 against cost, a strip of images, results.csv, a line for
each run, and the page of `tollbox report`.
"""

from __future__ import annotations

import contextlib
import csv
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import torch
from cyclopts import Parameter
from rich import box
from rich.table import Table
from rich.text import Text
from torch import Tensor

from ..core.noise import content_hash
from ..core.result import Result
from ..core.stop import Stop
from ..errors import InputError
from ..files.images import ImageSet
from ..files.output import check_free, staged
from ..models.embedded import CLASSES, Embedded, embedded
from ..report.curves import median_curve
from ..studies.beginning import begin
from ..studies.loading import Loaded
from ..studies.reading import StudyResults
from ..studies.shard import Options, Outcome
from ..studies.spec.study import Study
from .choices import whole
from .codes import INTERRUPTED
from .streams import console, say
from .study_run import run_left

if TYPE_CHECKING:
    from ..report import figures

ATTACKS = ("hsja", "a-hsja")
BUDGETS = {1.0: 1600.0, 100.0: 10000.0}
"""By c*; chosen so that the whole takes about a minute on two cores."""
FRACTIONS = (1 / 8, 1 / 4, 1 / 2, 1.0)
TIME_LIMIT = 100.0
BATCH = 128
PICTURES = 6
COLUMNS = ("attack", "price", "image", "stop", "distance", "cost", "queries", "flagged")
IMAGES = "images.npz"
STORE = ("shard-0.sqlite", "shard-0.lock")
FILES = frozenset(
    {"median-l2.png", "median-l2.svg", "images.png", "results.csv", "report.html", IMAGES, *STORE}
)

Key = tuple[str, float]
"""(attack, c*)."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class DemoOptions:
    """The options of `tollbox demo`."""

    out: Annotated[Path, Parameter(help="Folder for the figures.")] = Path("demo-output")
    replace: Annotated[bool, Parameter(help="Replace an earlier demo's output.", negative="")] = (
        False
    )
    images: Annotated[int, Parameter(help="How many images.", converter=whole)] = 30
    seed: Annotated[int, Parameter(help="Of the random numbers.", converter=whole)] = 0


def demo(options: DemoOptions = DemoOptions()) -> int:  # noqa: B008
    """Attack the embedded model: a table, figures and a page; about a minute."""
    check_free(options.out, FILES, options.replace)
    ours = embedded()
    loaded = _loaded(ours, _chosen(ours, options.images), options)
    with staged(options.out, FILES if options.replace else frozenset()) as stage:
        try:
            begin(loaded, stage.folder, "demo")
            with _one_thread():
                outcome, interrupted = run_left(
                    stage.folder, Options(time_limit=TIME_LIMIT), loaded
                )
            if interrupted:
                say("interrupted; nothing was saved.")
                return INTERRUPTED
            with stage.writing():
                groups = _groups(stage.folder, outcome)
                _write(stage.folder, groups, ours)
                _report(stage.folder, loaded)
            stage.commit()
            _show(groups, options)
        except KeyboardInterrupt:
            if not stage.committed:
                raise
            say(f"interrupted; all is saved in {options.out}.")
            return INTERRUPTED
    return 0


def _loaded(ours: Embedded, chosen: Tensor, options: DemoOptions) -> Loaded:
    """The study, and its images, of which the names are their numbers."""
    prices = (f"[[prices]]\nratio = {c}\nbudget = {b}" for c, b in BUDGETS.items())
    attacks = (f'[[attacks]]\npreset = "{name}"' for name in ATTACKS)
    head = (
        f'name = "embedded"\nseeds = [{options.seed}]\nbatch_size = {BATCH}\n'
        "one_shape = true\nkeep_images = true\n"  # so that _pictures can ask and hear the same
        f'[images]\npath = "{IMAGES}"\n[[models]]\nname = "embedded"\nsource = "embedded.pt2"'
    )
    text = "\n".join([head, *attacks, *prices])
    study = Study.from_text(text, options.out.resolve(), "tollbox demo", files=False)
    images, labels = ours.images[chosen], ours.labels[chosen].tolist()
    names = tuple(str(number) for number in chosen.tolist())
    given = ImageSet(images, tuple(labels), names, tuple("embedded" for _ in names))
    hashes = tuple(content_hash(image) for image in images)
    starts: list[Tensor | None] = [None] * len(names)
    return Loaded(study, given, hashes, starts, ours.model.device, {"embedded": ours.model})


def _groups(folder: Path, outcome: Outcome) -> dict[Key, list[Result]]:
    """Results by attack and price, in the order of the images; those cut short too."""
    groups: dict[Key, list[Result]] = {}
    with StudyResults(folder) as found:
        for attack, ratio in itertools.product(ATTACKS, BUDGETS):
            results = list(found.results(attack=attack, price=ratio))
            late = [
                result
                for cell, result in outcome.unfinished.items()
                if result is not None
                and found.grid.place(cell).series.attack.name == attack
                and found.grid.place(cell).series.tariff.name == f"{ratio:g}"
            ]
            groups[attack, ratio] = sorted([*results, *late], key=lambda result: result.index)
    return groups


def _report(folder: Path, loaded: Loaded) -> None:
    """The page, and the images that it was made from."""
    from ..report.data import page_data
    from ..report.page import page

    images = loaded.images
    pixels = (images.images * 255).round().to(torch.uint8).permute(0, 2, 3, 1).numpy()
    np.savez(folder / IMAGES, images=pixels, labels=np.array(images.labels))
    with StudyResults(folder, loaded) as found:
        text = page(page_data(found))
    (folder / "report.html").write_text(text, encoding="utf-8")


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """Two threads are a third faster alone, and several times slower on a machine that is busy."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _chosen(ours: Embedded, count: int) -> Tensor:
    """The first `count` images that the model classifies correctly."""
    right = torch.nonzero(ours.model(ours.images.clone()) == ours.labels).flatten()
    if not 1 <= count <= len(right):
        raise InputError(
            f"--images is {count}: expected 1 to {len(right)}, the images that the embedded model "
            "classifies correctly."
        )
    return right[:count]


# -- numbers --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shares:
    """Low-cost answers in the estimates of a group of runs, weighted by queries."""

    realised: float
    planned: float


def shares(results: Sequence[Result]) -> Shares:
    """From the notes of the traces; NaN where no estimate was finished."""
    notes = [step.notes for r in results for step in r.trace if "estimate_queries" in step.notes]
    weights = np.array([note["estimate_queries"] for note in notes], float)
    if weights.sum() == 0:
        return Shares(math.nan, math.nan)
    realised, planned = (
        float(np.average([note[name] for note in notes], weights=weights))
        for name in ("share", "planned_share")
    )
    return Shares(realised, planned)


def _median(results: Sequence[Result], cost: float) -> float:
    return float(median_curve(results, np.array([cost]))[0])


def _show(groups: Mapping[Key, list[Result]], options: DemoOptions) -> None:
    to = console()
    for ratio, budget in BUDGETS.items():
        costs = [budget * fraction for fraction in FRACTIONS]
        table = Table(
            title=Text(f"c* = {ratio:g}: median l2 over {options.images} images at a cost"),
            box=box.SIMPLE_HEAD,
            padding=(0, 1, 0, 0),
            title_justify="left",
        )
        table.add_column("attack")
        for cost in costs:
            table.add_column(f"{cost:,g}", justify="right")
        for name in ("queries", "flagged", "low-cost", "planned"):
            table.add_column(name, justify="right")
        for attack in ATTACKS:
            results = groups[attack, ratio]
            queries = sum(r.ledger.queries for r in results)
            flagged = sum(r.ledger.source for r in results)
            share = shares(results)
            table.add_row(
                attack,
                *(
                    f"{_median(results, cost):.3f}".replace("inf", "∞").replace("nan", "-")
                    for cost in costs
                ),
                f"{queries / len(results):,.0f}",
                f"{flagged / queries:.1%}",
                f"{share.realised:.1%}",
                f"{share.planned:.1%}",
            )
        to.print(table)
    say = [
        "queries: per image; flagged: share of all answers with the source class; low-cost and "
        "planned: share of the other answers within gradient estimates.",
        finding(groups),
    ]
    late = sum(r.stop is Stop.TIME_LIMIT for results in groups.values() for r in results)
    if late:
        say.append(
            f"The limit of {TIME_LIMIT:g} s ended {late} runs before their budget: medians leave "
            "them out beyond what they had spent."
        )
    say.append(f"Saved in {options.out}: {', '.join(sorted(FILES - {*STORE}))}.")
    say.append(f"To look at: {options.out / 'report.html'}.")
    for text in say:
        to.print(text)


def finding(groups: Mapping[Key, list[Result]]) -> str:
    """What this run says of the paper's overshoot schedule at the higher price."""
    ratio, budget = max(BUDGETS.items())
    plain, ours = (_median(groups[attack, ratio], budget) for attack in ATTACKS)
    share = shares(groups["a-hsja", ratio])
    lost, kept = 1 - share.realised, 1 - share.planned
    start = (
        f"At c* = {ratio:g} the overshoot schedule of a-hsja plans for {kept:.1%} flagged answers "
        f"in its estimates, and on this 28×28 model got {lost:.2%}"
    )
    if math.isnan(lost):
        start = f"At c* = {ratio:g} a-hsja finished no estimate"
    elif lost < kept / 2:
        start += ": most of what an estimate could learn from is lost, so a-hsja need not win here"
    end = f"its median l2 at the budget is {ours:.3f}, that of hsja {plain:.3f}."
    return f"{start}; {end}"


# -- files ----------------------------------------------------------------------------------------


def _write(folder: Path, groups: Mapping[Key, list[Result]], ours: Embedded) -> None:
    from ..report import figures

    panels = []
    count = len(groups[ATTACKS[0], 1.0])
    for ratio, budget in BUDGETS.items():
        costs = np.geomspace(ratio + 1, budget, 600)
        panels.append(
            figures.Panel(
                f"c* = {ratio:g}",
                [
                    figures.Curve(attack, costs, median_curve(groups[attack, ratio], costs))
                    for attack in ATTACKS
                ],
            )
        )
    figure = figures.draw_curves(panels, f"Embedded Fashion-MNIST model, {count} images")
    figures.save(figure, folder / "median-l2.png", folder / "median-l2.svg")
    attack, ratio = "a-hsja", 1.0
    figure = figures.draw_pictures(
        _pictures(groups[attack, ratio], ours),
        f"{attack} at c* = {ratio:g}, cost {BUDGETS[ratio]:,g} per image",
    )
    figures.save(figure, folder / "images.png")
    with open(folder / "results.csv", "w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(COLUMNS)
        for (attack, ratio), results in groups.items():
            for r in results:
                counts = (r.ledger.cost, r.ledger.queries, r.ledger.source)
                table.writerow([attack, ratio, r.name, r.stop.value, r.distance, *counts])


def _pictures(results: Sequence[Result], ours: Embedded) -> list[figures.Picture]:
    """A few images, of different classes as far as there are."""
    from ..report import figures

    found = [(r, r.adversarial) for r in results if r.adversarial is not None]
    first = {int(ours.labels[int(r.name)]): i for i, (r, _) in reversed(list(enumerate(found)))}
    order = sorted(range(len(found)), key=lambda i: (i not in first.values(), i))
    pictures = []
    for result, point in (found[i] for i in order[:PICTURES]):
        source = int(result.name)
        answer = int(ours.model(point.repeat(BATCH, 1, 1, 1))[0])
        pictures.append(
            figures.Picture(
                ours.images[source].numpy(),
                point.numpy(),
                CLASSES[int(ours.labels[source])],
                f"{CLASSES[answer]}\nl2 {result.distance:.2f}",
            )
        )
    return pictures
