"""A study in words: its results, notes for the reader, and the commands that repeat it."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from pathlib import Path

from ..attacks.presets import Method
from ..core.goal import numbered
from ..core.stop import Stop
from ..studies.results import StudyResults
from ..studies.specs import GoalSpec
from ..studies.store.record import ModelRecord
from .formatting import confidence, count, counted, distance, percent
from .paper_table import PaperTable
from .runs import CellCurve, SeriesRuns

MOST_NAMED = 3
"""Maximum number of attacks that a sentence names in addition to the first."""


def summary(
    results: StudyResults, all_series: Sequence[SeriesRuns], table: PaperTable
) -> list[str]:
    """Return sentences about the study's size and goal, and the best attack in each column."""
    study = results.study
    counts = {"model": len(study.models), "attack": len(study.attacks), "price": len(study.tariffs)}
    counts |= {"image": results.grid.images, "seed": len(study.seeds)}
    sizes = [counted(n, noun) for noun, n in counts.items() if noun != "seed" or n > 1]
    done = sum(len(runs.runs) + runs.misclassified for runs in all_series)
    sentences = [f"{', '.join(sizes)}; {done:,} of {results.record.cells:,} runs are finished."]
    sentences += goal_sentences(study.goal, results.record.class_names)
    columns = (best_attack(table, number) for number in range(len(table.columns)))
    return sentences + [sentence for sentence in columns if sentence is not None]


def goal_sentences(goal: GoalSpec, names: Sequence[str] = ()) -> list[str]:
    """Return sentences about the flagged and adversarial classes and the mask, if not the default.

    `names` has the class names.
    """
    sentences = []
    if goal.flagged is not None:
        adversarial = "any other class is adversarial" if goal.target is None else "they cost c*"
        flagged = goal.goal.flagged_text(lambda label: numbered(label, names))
        sentences.append(f"Flagged answers are {flagged}; {adversarial}.")
    if goal.target is not None:
        sentences.append(f"Only {numbered(goal.target, names, 'class ')} is adversarial.")
    if goal.mask is not None:
        sentences.append(f"Only pixels within a mask may change ({goal.mask.name}).")
    return sentences


def best_attack(table: PaperTable, number: int) -> str | None:
    """Return a sentence about the attack with the smallest median in a column."""
    column = table.columns[number]
    spent = count(column.mark)
    spent = f"a cost of {spent}" if column.by == "cost" else f"{spent} queries"
    where = f"At {column.head} and {spent}"
    if len({each.model for each in table.columns}) > 1:
        where += f" on {column.model}"
    cells = ((row.cells[number], row) for row in table.rows)
    known = [(cell, row) for cell, row in cells if cell is not None and cell.runs]
    if not known:
        return None
    (least, row), *others = sorted(known, key=lambda pair: pair[0].value)
    if math.isinf(least.value):
        return f"{where}, no attack has an adversarial point for half of the images."
    median = f"median {table.norm.sign} {distance(least.value)}"
    ends = confidence(distance(least.low), distance(least.high))
    if not others:
        return f"{where}, {row.attack} has a {median} ({ends})."
    alike = [f"{other.attack} ({distance(cell.value)})" for cell, other in others if cell.best]
    if alike:
        more = [f"{len(alike) - MOST_NAMED} more"] if len(alike) > MOST_NAMED else []
        *named, last = alike[:MOST_NAMED] + more
        rest = f"{', '.join(named)} and {last}" if named else last
        return (
            f"{where}, {row.attack} ({median}, {ends}) is not significantly different from {rest}."
        )
    sentence = f"{where}, {row.attack} has the smallest distance: {median} ({ends})"
    for cell, other in others:
        vanilla = (other.family, other.method) == (row.family, Method.VANILLA)
        if vanilla and math.isfinite(cell.value):
            less = percent(round(1 - least.value / cell.value, 2))
            return f"{sentence}, {less} less than {other.attack} ({distance(cell.value)})."
    cell, other = others[0]
    return f"{sentence}; the next is {other.attack} ({distance(cell.value)})."


def notes(results: StudyResults, all_series: Sequence[SeriesRuns]) -> list[str]:
    """Return caveats about the numbers as sentences."""
    record = results.record
    sentences = results.kept + results.sizes
    if record.parts > 1:
        sentences.append(f"This is part {record.part_name} of the study.")
    left = record.cells - len(results)
    if left:
        left_out = f"{counted(left, 'run')} of {record.cells:,}"
        sentences.append(f"{left_out} are not finished: the numbers are preliminary.")
    most = max((runs.misclassified for runs in all_series), default=0)
    if misclassified := most // max(1, len(results.study.seeds)):
        images = f"{counted(misclassified, 'image')} that a model misclassifies anyway"
        sentences.append(f"{images} {'is' if misclassified == 1 else 'are'} left out.")
    runs = [run for line in all_series for run in line.runs]
    return sentences + failures(runs) + result_notes(results)


def failures(runs: Sequence[CellCurve]) -> list[str]:
    """Return sentences about runs that failed or did not start."""
    failed = sum(run.stop.failed for run in runs)
    lost = sum(run.stop is Stop.NO_START for run in runs)
    sentences = {
        f"{counted(failed, 'run')} failed; what they reached before counts.": failed,
        f"{counted(lost, 'run')} found no adversarial image to start from.": lost,
    }
    return [sentence for sentence, number in sentences.items() if number]


def result_notes(results: StudyResults) -> list[str]:
    """Return sentences with a study's warnings, and whether its numbers are exact."""
    return [f"{text[:1].upper()}{text[1:]}." for text in results.warnings] + results.exactness


def model_settings(model: ModelRecord) -> str:
    """Return a model's settings as text: dtype float32, quantize 8."""
    how = model.running or {"dtype": model.dtype}
    bits = [] if model.quantize is None else [f"quantize {model.quantize}"]
    return ", ".join([f"{name} {value}" for name, value in how.items()] + bits)


def demo_command(results: StudyResults, folder: str) -> str:
    size = f"--images {len(results.images)} --seed {results.study.seeds[0]}"
    return f"tollbox demo {size} --out {folder}"


def commands(results: StudyResults) -> list[str]:
    record, folder = results.record, shlex.quote(results.folder.name)
    digest = f"# the images: digest {results.digest}"
    if record.made_by == "paper":
        images = "" if record.scale == "small" else " --images ..."
        scale = f"--scale {record.scale}{images}"
        return [f"tollbox paper {record.experiment} {scale} --out {folder}", digest]
    if record.made_by == "demo":
        return [demo_command(results, folder)]
    whole = shlex.quote(str(results.folder))
    if record.made_by == "audit":
        return [f"tollbox audit --out {whole}", f"tollbox resume {whole}", digest]
    if record.made_by == "attack":
        return [f"tollbox resume {whole}"]
    file = shlex.quote(Path(record.where).name)
    return [f"tollbox run {file} --out {folder}", f"tollbox report {folder}", digest]
