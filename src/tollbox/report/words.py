"""A study in words: what was found, what a reader must know, and how to repeat it."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from pathlib import Path

from ..attacks.methods import Method
from ..core.stop import Stop
from ..studies.reading import StudyResults
from .paper_table import PaperTable
from .runs import SeriesRuns
from .statistics import Median


def thousands(value: float) -> str:
    """5000 as 5K."""
    return f"{value / 1000:g}K" if value >= 1000 and value % 100 == 0 else f"{value:g}"


def counted(number: int, one: str, many: str = "") -> str:
    """1 image, 2 images."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def summary(found: StudyResults, every: Sequence[SeriesRuns], table: PaperTable) -> list[str]:
    """What was run, and for each column which attack came nearest."""
    study = found.study
    seeds = f", {counted(len(study.seeds), 'seed')}" if len(study.seeds) > 1 else ""
    sizes = [
        counted(len(study.models), "model"),
        counted(len(study.attacks), "attack"),
        counted(len(study.tariffs), "price"),
        counted(len(found.images), "image"),
    ]
    done = sum(len(runs.runs) + runs.misclassified for runs in every)
    told = [f"{', '.join(sizes)}{seeds}; {done:,} of {len(found.grid):,} runs are finished."]
    columns = (nearest(table, number) for number in range(len(table.columns)))
    return told + [sentence for sentence in columns if sentence is not None]


def nearest(table: PaperTable, number: int) -> str | None:
    """Which attack came nearest in a column, beside the vanilla one of its family or the next."""
    column = table.columns[number]
    where = f"At {column.head} and a {column.by} of {thousands(column.mark)}"
    if len({each.model for each in table.columns}) > 1:
        where += f" on {column.model}"
    known = [
        (cell, row)
        for row, cells in zip(table.rows, table.cells, strict=True)
        if (cell := cells[number]) is not None and not math.isnan(cell.value)
    ]
    if not known:
        return None
    (best, row), *others = sorted(known, key=lambda pair: pair[0].value)
    if math.isinf(best.value):
        return f"{where} no attack has an adversarial point for half of the images."
    sentence = f"{where} {row.attack} comes nearest: median l2 {_median(best)}"
    vanilla = [
        (cell, other)
        for cell, other in others
        if other.family == row.family and other.method is Method.VANILLA
    ]
    if vanilla and math.isfinite(vanilla[0][0].value):
        cell, other = vanilla[0]
        less = 1 - best.value / cell.value
        sentence += f", {less:.0%} less than {other.attack} ({cell.value:.3g})"
    elif others:
        second, other = others[0]
        reached = f"{second.value:.3g}" if math.isfinite(second.value) else "no median"
        sentence += f"; next is {other.attack} with {reached}"
    return f"{sentence}."


def _median(cell: Median) -> str:
    interval = (
        f" [{cell.low:.3g}, {cell.high:.3g}]"
        if math.isfinite(cell.high)
        else f" [{cell.low:.3g}, ∞]"
    )
    return f"{cell.value:.3g}{interval}"


def notes(found: StudyResults, every: Sequence[SeriesRuns]) -> list[str]:
    """What a reader of the numbers must know."""
    told = []
    left = len(found.grid) - len(found)
    if left:
        told.append(
            f"{counted(left, 'run')} of {len(found.grid):,} are not finished: all is so far."
        )
    misclassified = max((runs.misclassified for runs in every), default=0) // max(
        1, len(found.study.seeds)
    )
    if misclassified:
        told.append(
            f"{counted(misclassified, 'image')} that a model misclassifies anyway "
            f"{'is' if misclassified == 1 else 'are'} left out."
        )
    runs = [run for line in every for run in line.runs]
    failed = sum(run.stop.failed for run in runs)
    if failed:
        told.append(f"{counted(failed, 'run')} failed, and count up to where they came.")
    lost = sum(run.stop is Stop.NO_START for run in runs)
    if lost:
        told.append(f"{counted(lost, 'run')} found no adversarial point to begin with.")
    told += [f"{text[:1].upper()}{text[1:]}." for text in found.warnings]
    return told


def commands(found: StudyResults) -> list[str]:
    """How to repeat it."""
    record = found.record
    where = Path(record.where).name
    if record.made_by == "paper":
        name, scale = record.experiment, record.scale
        images = "" if scale == "small" else " --images ..."
        return [
            f"tollbox paper {name} --scale {scale}{images} --out {shlex.quote(found.folder.name)}",
            f"# the images: digest {found.digest}",
        ]
    if record.made_by == "demo":
        size = f"--images {len(found.images)} --seed {found.study.seeds[0]}"
        return [f"tollbox demo {size} --out {shlex.quote(found.folder.name)}"]
    if record.made_by == "attack":
        return [f"tollbox resume {shlex.quote(str(found.folder))}"]
    return [
        f"tollbox run {shlex.quote(where)} --out {shlex.quote(found.folder.name)}",
        f"tollbox report {shlex.quote(found.folder.name)}",
        f"# the images: digest {found.digest}",
    ]
