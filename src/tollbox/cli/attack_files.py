"""The results of `tollbox attack`: adversarial.npz, PNGs, results.csv, ledger.json, and a table.

They are written again, as a whole, whenever a run ends, and include what unfinished images had
reached. The store in the same folder has all answers, so that an attack can be resumed.

1. `adversarial.npz` is lossless: the points as they were sent, for the images that have one.
2. A PNG is the point rounded to 8 bits, which may lose it. So the model gets the rounded images
   again, uncharged, and the file name says what it answered: `0007-adversarial.png`,
   `0007-lost.png`, or `0007-unknown.png` if the model failed on it, or is metered.
3. `results.csv` has a line for each image. `distance` is `inf` if no adversarial point was found,
   and 0 if the model misclassifies the clean image (with a target, `inf` unless it answers the
   target); such an image has `already_misclassified` and neither a point nor a PNG.
4. `ledger.json` has the settings of the run and, for each image, how often each label was answered
   in each phase; costs follow from these. It is strict JSON: what is not finite is null.
5. A file that cannot be written does not prevent the others; the numbers come first, PNGs last.
6. In the table that is printed, the median and the number of images without an adversarial point
   are over the runs that were not cut short. A run that failed counts as failed, and one that the
   time limit or Ctrl-C stopped as stopped early; what those had reached is a row of its own.
"""

from __future__ import annotations

import csv
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.table import Table
from rich.text import Text
from torch import Tensor

from ..core.cell import Cell
from ..core.goal import class_name, class_words, numbered
from ..core.model import Model
from ..core.noise import content_hash
from ..core.result import Result, Results
from ..core.stop import Stop
from ..data.output import staged
from ..data.tables import flag_text, plain_text
from ..engine.batch import trial_batch_size
from ..studies.events import Outcome
from ..studies.inputs import StudyInputs
from ..studies.results import StudyResults
from . import hints
from .output import FAILED, console, json_text, say

PNG = re.compile(r"\d{4,}-(adversarial|lost|unknown)\.png")
FILES = frozenset({"adversarial.npz", "results.csv", "ledger.json"})


def finish(folder: Path, outcome: Outcome, interruption: int, loaded: StudyInputs) -> int:
    """Write the files of an attack, print its summary, and return the exit code.

    `interruption` is the exit code if it is not 0.
    """
    study, metered = loaded.study, loaded.study.execution.metered
    cells = [loaded.cell(loaded.grid.place(number)) for number in range(len(loaded.grid))]
    started = [result for result in outcome.unfinished.values() if result is not None]
    why = started[0].stop if started else Stop.INTERRUPTED  # also of those that did not start
    with StudyResults(folder) as store:
        finished = {r.index: r for r in store.results()}
        results = Results(
            tuple(
                finished.get(number)
                or outcome.unfinished.get(number)
                or Result.of(cell, number, why)
                for number, cell in enumerate(cells)
            )
        )
        settings, detector = dict(store.record.settings), store.record.detector
        unfinished = {text for r in results for text in r.warnings} - set(store.warnings)
        settings["warnings"] = store.warnings + sorted(unfinished)
        settings["exactness"] = store.exactness
        settings["benign"] = detector and asdict(next(iter(detector.benign.values())))
        model, classes = loaded.model(study.models[0]), loaded.images.class_names
        pngs = {path.name for path in folder.iterdir() if PNG.fullmatch(path.name)}
        with staged(folder, FILES | pngs, shared=True) as stage:
            with stage.writing():
                size = trial_batch_size(model, study.execution.batch_size)
                rounded = round_points(model, results, size, ask=not metered)
                write_all(stage.folder, cells, results, rounded, settings, classes)
            stage.commit()
        lost = sum(still_adversarial(cells[i], point) is False for i, point in rounded.items())
        show_summary(results, settings, store, loaded, None if metered else lost)
    return _exit_code(folder, results, outcome, interruption, classes)


def _exit_code(
    folder: Path, results: Results, outcome: Outcome, interruption: int, classes: tuple[str, ...]
) -> int:
    """Return the exit code; if it is not 0, print why."""
    if interruption:
        finished = sum(r.stop is not Stop.INTERRUPTED for r in results)
        say(
            f"Interrupted: {finished} of {len(results)} images were finished; what the others had "
            f"reached is saved as well, in {folder}. Continue with `tollbox resume {folder}`."
        )
        return interruption
    if outcome.diverged:
        why = next(iter(outcome.diverged.values()))
        say(
            f"{len(outcome.diverged)} images cannot be replayed here: {why}. Restart them with "
            f"`tollbox resume {folder} --rerun`."
        )
        return FAILED
    if all_failed(results):
        say(f"no run succeeded: {failures(results)}")
        return FAILED
    labels = sum((t for r in results for t in r.ledger.counts.values()), Counter[int]())
    unfit = hints.unfit_model("the model", len(results), results.misclassified, labels, classes)
    if unfit:
        say(unfit)
    if results.misclassified == len(results):
        return FAILED
    console().print(hints.page_hint(folder), soft_wrap=True)
    return 0


@dataclass(frozen=True)
class Rounded:
    """An adversarial point at 8 bits per channel."""

    pixels: Tensor
    """(c, h, w), uint8."""
    label: int | None
    """The model's answer to it; None if it has none."""


def round_points(
    model: Model, results: Sequence[Result], batch_size: int, ask: bool
) -> dict[int, Rounded]:
    """Round the adversarial points to 8 bits, by index; with `ask`, get the model's answers."""
    pixels = {
        r.index: point.mul(255).round().to(torch.uint8) for r, point in _adversarial_points(results)
    }
    order = list(pixels)
    labels: dict[int, int | None] = dict.fromkeys(order)
    for first in range(0, len(order) if ask else 0, batch_size):
        part = order[first : first + batch_size]
        answers = _answers(model, torch.stack([pixels[i] for i in part]))
        labels.update(zip(part, answers, strict=True))
    return {i: Rounded(pixels[i], labels[i]) for i in order}


def _adversarial_points(results: Sequence[Result]) -> list[tuple[Result, Tensor]]:
    """Return the results with an adversarial point that the attack found, and the points."""
    return [
        (r, r.adversarial)
        for r in results
        if r.adversarial is not None and r.stop is not Stop.ALREADY_MISCLASSIFIED
    ]


def _answers(model: Model, pixels: Tensor) -> list[int | None]:
    try:
        points = pixels.to(model.device, model.dtype).div_(255)
        missing = (model.batch or len(points)) - len(points)
        padding = points[:1].expand(missing, *points.shape[1:])
        points = torch.cat([points, padding])
        answers: list[int | None] = list(model(model.sent(points))[: len(pixels)].tolist())
        return answers
    except (Exception, SystemExit):  # raised by the user's model: find the images it fails on
        if len(pixels) == 1:
            return [None]
        return [_answers(model, pixels[i : i + 1])[0] for i in range(len(pixels))]


def still_adversarial(cell: Cell, point: Rounded) -> bool | None:
    """Return whether a point is still adversarial at 8 bits; None if the model did not answer."""
    if point.label is None:
        return None
    return bool(cell.aim.is_adversarial(np.array([point.label]))[0])


def write_all(
    folder: Path,
    cells: Sequence[Cell],
    results: Sequence[Result],
    rounded: dict[int, Rounded],
    settings: dict[str, Any],
    classes: Sequence[str] = (),
) -> None:
    """Try to write every file into `folder`, then raise the first error.

    `classes` are the names of the classes, if they are known.
    """
    pngs = {i: _png_name(cells[i], i, point) for i, point in rounded.items()}
    rows = [_row(cells[r.index], r, pngs, rounded, classes) for r in results]
    accounts = [_account(cells[r.index], r, classes) for r in results]
    ledger = {"settings": settings, "images": accounts}
    steps: list[Callable[[], None]] = [
        lambda: _write_points(folder / "adversarial.npz", cells, results),
        lambda: _write_table(folder / "results.csv", rows),
        lambda: _write_ledger(folder / "ledger.json", ledger),
        lambda: _write_pngs(folder, pngs, rounded),
    ]
    errors: list[Exception] = []
    for step in steps:
        try:
            step()
        except Exception as error:  # from the system, or a bug: write the others all the same
            errors.append(error)
    if errors:
        raise errors[0]


def _write_points(file: Path, cells: Sequence[Cell], results: Sequence[Result]) -> None:
    points = _adversarial_points(results)
    none = np.empty((0, *cells[0].image.shape), np.float32)
    np.savez(
        file,
        images=torch.stack([point for _, point in points]).numpy() if points else none,
        index=np.array([r.index for r, _ in points], np.int64),
        labels=np.array([cells[r.index].label for r, _ in points], np.int64),
        distance=np.array([r.distance for r, _ in points], np.float64),
        cost=np.array([r.ledger.cost for r, _ in points], np.float64),
        norm=np.array([str(r.norm) for r, _ in points], "U4"),
    )


def _write_table(file: Path, rows: Sequence[dict[str, Any]]) -> None:
    with open(file, "w", newline="", encoding="utf-8", errors="backslashreplace") as text:
        table = csv.DictWriter(text, rows[0])
        table.writeheader()
        table.writerows(rows)


def _write_ledger(file: Path, values: dict[str, Any]) -> None:
    file.write_text(json_text(values, indent=1) + "\n", encoding="utf-8")


def _write_pngs(folder: Path, names: dict[int, str], rounded: dict[int, Rounded]) -> None:
    from PIL import Image

    for index, name in names.items():
        if name:
            array = rounded[index].pixels.permute(1, 2, 0).contiguous().numpy()
            Image.fromarray(array[..., 0] if array.shape[2] == 1 else array).save(folder / name)


def _png_name(cell: Cell, index: int, point: Rounded) -> str:
    """Return the name of a point's PNG; empty unless it has 1, 3 or 4 channels."""
    if len(point.pixels) not in (1, 3, 4):
        return ""
    kind = {True: "adversarial", False: "lost", None: "unknown"}[still_adversarial(cell, point)]
    return f"{index:04d}-{kind}.png"


def _row(
    cell: Cell,
    result: Result,
    pngs: dict[int, str],
    rounded: dict[int, Rounded],
    classes: Sequence[str],
) -> dict[str, Any]:
    """Return a line of results.csv by column."""
    ledger, point = result.ledger, rounded.get(result.index)
    first_queries, first_flagged = result.first_alarm or ("", "")
    return {
        "index": result.index,
        "name": plain_text(cell.name),
        "label": cell.label,
        "target": "" if cell.aim.target is None else cell.aim.target,
        "stop": result.stop.value,
        "already_misclassified": flag_text(not result.stop.attacked),
        "reason": plain_text(result.reason),
        "distance": repr(result.distance),
        "cost": repr(ledger.cost),
        "queries": ledger.queries,
        "flagged": ledger.flagged,
        "other": ledger.other,
        "png": pngs.get(result.index, ""),
        "png_adversarial": flag_text(None if point is None else still_adversarial(cell, point)),
        "norm": str(result.norm),
        "class": plain_text(class_name(cell.label, classes)),
        "alarms": ledger.alarms if result.detection is not None else "",
        "first_alarm_queries": first_queries,
        "first_alarm_flagged": first_flagged,
    }


def _account(cell: Cell, result: Result, classes: Sequence[str]) -> dict[str, Any]:
    """Return the entry of an image in ledger.json."""
    ledger, flagged = result.ledger, cell.goal.flagged
    return {
        "index": result.index,
        "name": cell.name,
        "label": cell.label,
        "class": class_name(cell.label, classes) or None,
        "target": cell.aim.target,
        "flagged_labels": None if flagged is None else sorted(flagged),
        "content": content_hash(cell.image),
        "start_content": None if cell.start is None else content_hash(cell.start),
        "stop": result.stop.value,
        "cost": ledger.cost,
        "queries": ledger.queries,
        "flagged": ledger.flagged,
        "alarms": dict(ledger.alarms_in) if result.detection is not None else None,
        "first_alarm": None if result.first_alarm is None else result.first_alarm._asdict(),
        "by_phase": ledger.by_phase,
        "counts": {
            phase: {str(label): count for label, count in sorted(tally.items())}
            for phase, tally in ledger.counts.items()
        },
    }


MOST_CLASSES = 3
"""Maximum number of classes that are named."""


def show_summary(
    results: Results,
    settings: Mapping[str, Any],
    store: StudyResults,
    loaded: StudyInputs,
    lost: int | None,
) -> None:
    """Print the summary of an attack; `lost` points are no longer adversarial at 8 bits, None if
    the model was not asked."""
    target, norm, classes = settings["target"], results[0].norm, loaded.images.class_names
    flagged_set = ""
    if settings.get("flagged"):
        flagged_set = results[0].ledger.goal.flagged_text(lambda label: numbered(label, classes))
    goal = "" if target is None else f", target {numbered(target, classes)}"
    goal += f", flagged {flagged_set}" if flagged_set else ""
    goal += "" if settings.get("mask") is None else ", within a mask"
    ended = [r for r in results.counted if not r.stop.cut_short]
    early = [r for r in results.counted if r.stop.unfinished]
    queries = sum(r.ledger.queries for r in results)
    flagged = sum(r.ledger.flagged for r in results)
    rows = {"images": f"{len(results)}"}
    if classes:
        labels = Counter(loaded.images.labels)
        named = [f"{class_words(k, classes)} {n}" for k, n in labels.most_common(MOST_CLASSES)]
        more = len(labels) - len(named)
        rows["classes"] = ", ".join([*named, *([f"{more} more"] if more else [])])
    rows["misclassified anyway"] = f"{results.misclassified}"
    rows["no adversarial point"] = f"{sum(math.isinf(r.distance) for r in ended)}"
    rows["failed"] = f"{results.failed}"
    rows |= _median(f"median {norm}", ended)
    if early:
        rows["stopped early"] = f"{len(early)}"
        rows |= _median(f"median {norm} reached early", [r for r in early if r.ledger.queries > 0])
    rows["no longer adversarial at 8 bits"] = "not asked" if lost is None else f"{lost}"
    rows["queries"] = f"{queries:,}"
    rows["flagged share"] = f"{flagged / queries:.1%}" if queries else "-"
    if (detector := store.record.detector) is not None:
        firsts = [r.first_alarm for r in results if r.first_alarm is not None]
        medians = np.median(firsts, axis=0) if firsts else ()
        first_query, first_flagged = [f"{median:g}" for median in medians] or ["-", "-"]
        [panel] = detector.benign.values()
        rows["alarms"] = f"{results.alarms:,}"
        rows["images with an alarm"] = f"{len(firsts)}"
        rows["first alarm, median query"] = first_query
        rows["flagged answers until then"] = first_flagged
        rows["benign sessions with an alarm"] = f"{panel.all.rate:.1%}"
    surrogate = loaded.surrogate(loaded.study.attacks[0]) if store.record.shards == 1 else None
    if surrogate is not None:  # the one that this process used
        gradients = f"{surrogate.gradients:,} in {surrogate.seconds:.1f} s"
        rows["gradients of the surrogate"] = gradients
    title = f"{settings['attack']}, price {settings['price']}{goal}"
    table = Table(title=Text(title), show_header=False)
    table.add_column()
    table.add_column(justify="right")
    for row in rows.items():
        table.add_row(*row)
    to = console()
    to.print(table)
    said = [f"Note: {warning}." for warning in settings["warnings"]]
    said += [*store.sizes, *settings["exactness"], *store.detector]
    without_point = Counter(r.stop for r in ended if math.isinf(r.distance))
    points = sum(r.adversarial is not None for r in results.counted)
    for hint in (
        hints.infinite_median(len(ended), without_point, norm),
        hints.lost_by_rounding(lost or 0, points, settings["quantize"]),
    ):
        said += [hint[:1].upper() + hint[1:]] if hint else []
    no_start = sum(r.stop is Stop.NO_START for r in results)
    if settings["start"] is not None and no_start:
        answer = "a flagged class" if flagged_set else "the source class"
        if target is not None:
            answer = f"another class than {numbered(target, classes)}"
        said.append(f"{no_start} images have no start: the model answers {answer} to it.")
    if results.failed and not all_failed(results):
        said.append(failures(results))
    pngs = "PNGs, " if any(Path(store.folder).glob("[0-9]*.png")) else ""
    said.append(f"Saved in {store.folder}: adversarial.npz, {pngs}results.csv, ledger.json.")
    for sentence in said:
        to.print(sentence, soft_wrap=True)


def _median(name: str, results: Sequence[Result]) -> dict[str, str]:
    median = f"{np.median([r.distance for r in results]):.4g}" if results else "-"
    return {f"{name} ({len(results)} images)": median}


def all_failed(results: Results) -> bool:
    """Return whether runs started, and all of those failed."""
    return results.failed > 0 and not any(
        r.ledger.queries > 0 for r in results.counted if not r.stop.failed
    )


def failures(results: Results) -> str:
    """Return a sentence on how many runs failed, and why the first did."""
    first = next(r for r in results if r.stop.failed)
    return f"{results.failed} runs failed; the first, image {first.name}: {first.reason}"
