"""The results of `tollbox attack`: adversarial.npz, PNGs, results.csv, ledger.json, and a table.

All files are rewritten whenever a run stops, and include what unfinished images had reached.

1. `adversarial.npz` is lossless: the points as they were sent, for the images that have one.
2. A PNG holds the point rounded to 8 bits, which may no longer be adversarial. So the rounded
   images are sent to the model, uncharged, and the file name gives the outcome:
   `0007-adversarial.png`, `0007-lost.png`, or `0007-unknown.png` if the model fails or is metered.
3. `results.csv` has a line for each image. `distance` is `inf` if no adversarial point was found,
   and 0 if the model misclassifies the clean image (with a target, `inf` unless it answers the
   target); such an image has `already_misclassified` set, and neither point nor PNG.
4. `ledger.json` has the settings of the run and, for each image, how often each label was answered
   in each phase; costs follow from these counts.
5. If a file cannot be written, the others still are; the numbers come first, the PNGs last.
6. In the printed table, the median and the number of images without an adversarial point cover the
   runs that were not cut short. Runs that the time limit or Ctrl-C stopped have rows of their own.
"""

from __future__ import annotations

import csv
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
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
from ..core.resolution import warnings_of
from ..core.result import Result, Results
from ..core.stop import Stop
from ..data.output import staged
from ..data.tables import flag_text, plain_text
from ..engine.batch import trial_batch_size
from ..studies.events import Outcome
from ..studies.inputs import StudyInputs
from ..studies.results import StudyResults
from .output import console, json_text, page_hint, write
from .status import infinite_median
from .study_run import say_end

PNG = re.compile(r"\d{4,}-(adversarial|lost|unknown)\.png")
FILES = frozenset({"adversarial.npz", "results.csv", "ledger.json"})
MOST_CLASSES = 3
"""Maximum number of classes named in the printed table."""


def finish(folder: Path, outcome: Outcome, interruption: int, loaded: StudyInputs) -> int:
    """Write the files of an attack, print its summary, and return the exit code.

    If `interruption` is not 0, it is the exit code.
    """
    study, metered = loaded.study, loaded.study.execution.metered
    cells = [loaded.cell(loaded.grid.place(number)) for number in range(len(loaded.grid))]
    started = [result for result in outcome.unfinished.values() if result is not None]
    why = started[0].stop if started else Stop.INTERRUPTED  # also for images that did not start
    with StudyResults(folder) as store:
        known = outcome.unfinished | {result.index: result for result in store.results()}
        each = (known.get(n) or Result.of(cell, n, why) for n, cell in enumerate(cells))
        results = Results(tuple(each))
        settings, detector = dict(store.record.settings), store.record.detector
        findings = [finding.rstrip(".") for finding in store.record.findings]
        settings["warnings"] = findings + warnings_of(results)
        settings["exactness"] = store.exactness
        settings["benign"] = detector and asdict(next(iter(detector.benign.values())))
        model = None if metered else loaded.model(study.models[0])  # loading it takes a query
        classes = loaded.images.class_names
        pngs = {path.name for path in folder.iterdir() if PNG.fullmatch(path.name)}
        with staged(folder, FILES | pngs, shared=True) as stage:
            with stage.writing():
                points = find_points(model, cells, results, study.execution.batch_size)
                write_all(stage.folder, cells, results, points, settings, classes)
            stage.commit()
        lost = sum(point.adversarial is False for point in points.values())
        show_summary(results, settings, store, loaded, None if metered else lost)
    return say_end(folder, outcome, interruption, page_hint(folder), table=False)


@dataclass(frozen=True)
class Point:
    """An adversarial point that the attack found."""

    result: Result
    sent: Tensor
    """The point as it was sent."""
    pixels: Tensor
    """(c, h, w), uint8: the point at 8 bits per channel."""
    adversarial: bool | None
    """Whether the pixels are still adversarial; None if the model did not answer."""

    @property
    def png(self) -> str:
        """File name of the PNG; empty unless the point has 1, 3 or 4 channels."""
        kind = {True: "adversarial", False: "lost", None: "unknown"}[self.adversarial]
        return f"{self.result.index:04d}-{kind}.png" if len(self.pixels) in (1, 3, 4) else ""


def find_points(
    model: Model | None, cells: Sequence[Cell], results: Sequence[Result], batch_size: int | None
) -> dict[int, Point]:
    """Return the adversarial points by index; query the model, if any, with them at 8 bits."""
    found = [
        (r, r.adversarial, r.adversarial.mul(255).round().to(torch.uint8))
        for r in results
        if r.adversarial is not None and r.stop.attacked
    ]
    labels: list[int | None] = []
    if model is not None:
        size = trial_batch_size(model, batch_size)
        for first in range(0, len(found), size):
            part = [pixels for _, _, pixels in found[first : first + size]]
            labels += _answers(model, torch.stack(part))
    points = {}
    for (r, sent, pixels), label in zip(found, labels or [None] * len(found), strict=True):
        aim = cells[r.index].aim
        still = None if label is None else bool(aim.is_adversarial(np.array([label]))[0])
        points[r.index] = Point(r, sent, pixels, still)
    return points


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


def write_all(
    folder: Path,
    cells: Sequence[Cell],
    results: Sequence[Result],
    points: Mapping[int, Point],
    settings: Mapping[str, Any],
    classes: Sequence[str] = (),
) -> None:
    """Write every file that can be written into `folder`, then raise any error."""
    rows = [_row(cells[r.index], r, points.get(r.index), classes) for r in results]
    accounts = [_account(cells[r.index], r, classes) for r in results]
    ledger = json_text({"settings": settings, "images": accounts}, indent=1) + "\n"
    with ExitStack() as steps:  # all of them run, the last one first, even if some fail
        steps.callback(_write_pngs, folder, list(points.values()))
        steps.callback((folder / "ledger.json").write_text, ledger, encoding="utf-8")
        steps.callback(_write_table, folder / "results.csv", rows)
        steps.callback(_write_points, folder / "adversarial.npz", cells, list(points.values()))


def _write_points(file: Path, cells: Sequence[Cell], points: Sequence[Point]) -> None:
    results = [point.result for point in points]
    none = np.empty((0, *cells[0].image.shape), np.float32)
    np.savez(
        file,
        images=torch.stack([point.sent for point in points]).numpy() if points else none,
        index=np.array([r.index for r in results], np.int64),
        labels=np.array([cells[r.index].label for r in results], np.int64),
        distance=np.array([r.distance for r in results], np.float64),
        cost=np.array([r.ledger.cost for r in results], np.float64),
        norm=np.array([str(r.norm) for r in results], "U4"),
    )


def _write_table(file: Path, rows: Sequence[dict[str, Any]]) -> None:
    with open(file, "w", newline="", encoding="utf-8", errors="backslashreplace") as text:
        table = csv.DictWriter(text, rows[0])
        table.writeheader()
        table.writerows(rows)


def _write_pngs(folder: Path, points: Sequence[Point]) -> None:
    from PIL import Image

    for point in points:
        if point.png:
            array = point.pixels.permute(1, 2, 0).contiguous().numpy()
            image = Image.fromarray(array[..., 0] if array.shape[2] == 1 else array)
            image.save(folder / point.png)


def _row(cell: Cell, result: Result, point: Point | None, classes: Sequence[str]) -> dict[str, Any]:
    ledger = result.ledger
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
        "png": "" if point is None else point.png,
        "png_adversarial": flag_text(None if point is None else point.adversarial),
        "norm": str(result.norm),
        "class": plain_text(class_name(cell.label, classes)),
        "alarms": ledger.alarms if result.detection is not None else "",
        "first_alarm_queries": first_queries,
        "first_alarm_flagged": first_flagged,
    }


def _account(cell: Cell, result: Result, classes: Sequence[str]) -> dict[str, Any]:
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


def show_summary(
    results: Results,
    settings: Mapping[str, Any],
    store: StudyResults,
    loaded: StudyInputs,
    lost: int | None,
) -> None:
    """Print the summary of an attack; `lost` is the number of points that are no longer
    adversarial at 8 bits, or None if the model was not queried."""
    target, classes = settings["target"], loaded.images.class_names
    title = f"{settings['attack']}, price {settings['price']}"
    answer = "the source class"
    if target is not None:
        title += f", target {numbered(target, classes)}"
    if settings.get("flagged"):
        flagged = results[0].ledger.goal.flagged_text(lambda label: numbered(label, classes))
        title += f", flagged {flagged}"
        answer = "a flagged class"
    if settings.get("mask") is not None:
        title += ", within a mask"
    table = Table("", title=Text(title), show_header=False)
    table.add_column(justify="right")
    for row in _summary(results, store, loaded, lost).items():
        table.add_row(*row)
    console().print(table)
    write(*(f"Note: {warning}." for warning in settings["warnings"]))
    write(*store.sizes, *settings["exactness"], *store.detector)
    ended = [r for r in results.counted if not r.stop.cut_short]
    without_point = Counter(r.stop for r in ended if math.isinf(r.distance))
    hint = infinite_median(len(ended), without_point, results[0].norm)
    if hint:
        write(hint[:1].upper() + hint[1:])
    if lost and settings["quantize"] != 8:
        points = sum(r.adversarial is not None for r in results.counted)
        write(
            f"{lost} of {points} adversarial points are no longer adversarial when rounded to 8 "
            "bits, as in a PNG. With --quantize 8 the attack works on 8-bit images."
        )
    no_start = sum(r.stop is Stop.NO_START for r in results)
    if settings["start"] is not None and no_start:
        if target is not None:
            answer = f"another class than {numbered(target, classes)}"
        write(f"{no_start} images have no start: the model answers {answer} to it.")
    pngs = "PNGs, " if any(Path(store.folder).glob("[0-9]*.png")) else ""
    write(f"Saved in {store.folder}: adversarial.npz, {pngs}results.csv, ledger.json.")


def _summary(
    results: Results, store: StudyResults, loaded: StudyInputs, lost: int | None
) -> dict[str, str]:
    classes, norm = loaded.images.class_names, results[0].norm
    ended = [r for r in results.counted if not r.stop.cut_short]
    early = [r for r in results.counted if r.stop.unfinished]
    queries = sum(r.ledger.queries for r in results)
    flagged = sum(r.ledger.flagged for r in results)
    rows = {"images": f"{len(results)}"}
    if classes:
        labels = Counter(loaded.images.labels)
        named = [f"{class_words(k, classes)} {n}" for k, n in labels.most_common(MOST_CLASSES)]
        if len(labels) > len(named):
            named.append(f"{len(labels) - len(named)} more")
        rows["classes"] = ", ".join(named)
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
    surrogate = loaded.surrogate(loaded.study.attacks[0])
    if surrogate is not None and store.record.shards == 1:  # so its counts are complete
        seconds = f"{surrogate.seconds:.1f} s"
        rows["points sent to the surrogate"] = f"{surrogate.evaluations:,} in {seconds}"
    return rows


def _median(name: str, results: Sequence[Result]) -> dict[str, str]:
    median = f"{np.median([r.distance for r in results]):.4g}" if results else "-"
    return {f"{name} ({len(results)} images)": median}
