"""A study in words: its results, what a reader must know, and how to repeat it."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from pathlib import Path

from ..attacks.preset import Method
from ..core.goal import numbered
from ..core.stop import Stop
from ..studies.results import StudyResults
from ..studies.specs import GoalSpec
from ..studies.store.record import ModelRecord
from .numbers import THIN, count, distance, interval, percent
from .paper_table import PaperTable
from .runs import SeriesRuns

MOST_NAMED = 3
"""Attacks that a sentence names beside the first."""


def thousands(value: float) -> str:
    """5000 as 5K."""
    return f"{value / 1000:g}K" if value >= 1000 and value % 100 == 0 else f"{value:g}"


def counted(number: int, one: str, many: str = "") -> str:
    """1 image, 2 images."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def summary(
    results: StudyResults, all_series: Sequence[SeriesRuns], table: PaperTable
) -> list[str]:
    """What was run, and for each column which attack came nearest."""
    study = results.study
    seeds = f", {counted(len(study.seeds), 'seed')}" if len(study.seeds) > 1 else ""
    sizes = [
        counted(len(study.models), "model"),
        counted(len(study.attacks), "attack"),
        counted(len(study.tariffs), "price"),
        counted(results.grid.images, "image"),
    ]
    total = results.record.cells
    done = sum(len(runs.runs) + runs.misclassified for runs in all_series)
    sentences = [f"{', '.join(sizes)}{seeds}; {done:,} of {total:,} runs are finished."]
    sentences += goal_sentences(study.goal, results.record.class_names)
    columns = (nearest(table, number) for number in range(len(table.columns)))
    return sentences + [sentence for sentence in columns if sentence is not None]


def goal_sentences(goal: GoalSpec, names: Sequence[str] = ()) -> list[str]:
    """What is flagged, what adversarial and what may change, where it is not the usual; `names` are
    those of the classes."""
    said = []
    if goal.flagged is not None:
        adversarial = "any other class is adversarial" if goal.target is None else "it costs c*"
        flagged = goal.goal.flagged_text(lambda label: numbered(label, names))
        said.append(f"Flagged is an answer of {flagged}; {adversarial}.")
    if goal.target is not None:
        said.append(f"Adversarial is {numbered(goal.target, names, 'class ')} alone.")
    if goal.mask is not None:
        said.append(f"Only pixels within a mask may change ({goal.mask.name}).")
    return said


def nearest(table: PaperTable, number: int) -> str | None:
    """Which attack came nearest in a column, or which are not told apart."""
    column = table.columns[number]
    spent = count(column.mark)
    spent = f"a cost of {spent}" if column.by == "cost" else f"{spent} queries"
    where = f"At {column.head} and {spent}"
    if len({each.model for each in table.columns}) > 1:
        where += f" on {column.model}"
    known = [
        (cell, row, best[number])
        for row, cells, best in zip(table.rows, table.cells, table.best, strict=True)
        if (cell := cells[number]) is not None and not math.isnan(cell.value)
    ]
    if not known:
        return None
    (least, row, _), *others = sorted(known, key=lambda each: each[0].value)
    if math.isinf(least.value):
        return f"{where} no attack has an adversarial point for half of the images."
    median = f"median {table.norm.sign} {distance(least.value)}, 95{THIN}% interval "
    median += interval(least.low, least.high)
    alike = [f"{other.attack} ({distance(cell.value)})" for cell, other, best in others if best]
    if not others:
        return f"{where} {row.attack} has a {median}."
    if alike:
        named = alike[:MOST_NAMED]
        if len(alike) > MOST_NAMED:
            named.append(f"{len(alike) - MOST_NAMED} more")
        rest = " and ".join(filter(None, (", ".join(named[:-1]), named[-1])))
        return f"{where} {row.attack} ({median}) is not told apart from {rest}."
    sentence = f"{where} {row.attack} comes nearest: {median}"
    for cell, other, _ in others:
        vanilla = (other.family, other.method) == (row.family, Method.VANILLA)
        if vanilla and math.isfinite(cell.value):
            less = percent(round(1 - least.value / cell.value, 2))
            return f"{sentence}; {less} less than {other.attack} ({distance(cell.value)})."
    cell, other, _ = others[0]
    return f"{sentence}; next is {other.attack} ({distance(cell.value)})."


def notes(results: StudyResults, all_series: Sequence[SeriesRuns]) -> list[str]:
    """What a reader of the numbers must know."""
    sentences = results.kept + results.sizes
    record = results.record
    if record.parts > 1:
        sentences.append(f"This is part {record.part_name} of the study.")
    left = record.cells - len(results)
    if left:
        runs_left = f"{counted(left, 'run')} of {record.cells:,}"
        sentences.append(f"{runs_left} are not finished: the numbers are preliminary.")
    misclassified = max((runs.misclassified for runs in all_series), default=0) // max(
        1, len(results.study.seeds)
    )
    if misclassified:
        sentences.append(
            f"{counted(misclassified, 'image')} that a model misclassifies anyway "
            f"{'is' if misclassified == 1 else 'are'} left out."
        )
    runs = [run for line in all_series for run in line.runs]
    failed = sum(run.stop.failed for run in runs)
    if failed:
        sentences.append(f"{counted(failed, 'run')} failed, and count up to where they came.")
    lost = sum(run.stop is Stop.NO_START for run in runs)
    if lost:
        sentences.append(f"{counted(lost, 'run')} found no adversarial point to begin with.")
    sentences += [f"{text[:1].upper()}{text[1:]}." for text in results.warnings]
    return sentences + results.exactness


def running(model: ModelRecord) -> str:
    """How a model is run."""
    how = model.running or {"dtype": model.dtype}
    bits = [] if model.quantize is None else [f"quantize {model.quantize}"]
    return ", ".join([f"{name} {value}" for name, value in how.items()] + bits)


def commands(results: StudyResults) -> list[str]:
    """How to repeat it."""
    record, folder = results.record, shlex.quote(results.folder.name)
    digest = f"# the images: digest {results.digest}"
    if record.made_by == "paper":
        images = "" if record.scale == "small" else " --images ..."
        scale = f"--scale {record.scale}{images}"
        return [f"tollbox paper {record.experiment} {scale} --out {folder}", digest]
    if record.made_by == "demo":
        size = f"--images {len(results.images)} --seed {results.study.seeds[0]}"
        return [f"tollbox demo {size} --out {folder}"]
    if record.made_by == "audit":
        whole = shlex.quote(str(results.folder))
        return [f"tollbox audit --out {whole}", f"tollbox resume {whole}", digest]
    if record.made_by == "attack":
        return [f"tollbox resume {shlex.quote(str(results.folder))}"]
    file = shlex.quote(Path(record.where).name)
    return [f"tollbox run {file} --out {folder}", f"tollbox report {folder}", digest]
