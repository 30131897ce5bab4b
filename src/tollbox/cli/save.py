"""What `attack` writes: adversarial.npz, PNGs, results.csv, ledger.json.

1. `adversarial.npz` is lossless: the points as they were sent, with `index`, `labels`, `distance`,
   `cost` and `norm`; only images that have one.
2. A PNG is the point rounded to 8 bits. Rounding may lose it, so the model is asked again about the
   rounded images, uncharged, and the file name says what it answered: `0007-adversarial.png`,
   `0007-lost.png`, or `0007-unknown.png` if the model failed on it, or is metered and was not
   asked. Adversarial is what the goal says: with a target, that class; with a set of flagged
   classes, any outside it.
3. `results.csv` has a line for each image; distance `inf` where no adversarial point was found, and
   0 where the clean image is misclassified anyway (which makes neither a point nor a PNG; with a
   target it is `inf` unless it has that class); `already_misclassified` marks these. `target`
   is empty where any other class will do. `class` is the name of the label, if the names of the
   classes are known. `alarms`, and the queries and flagged answers up to the first, are empty where
   nobody watched, or none came.
4. `ledger.json` has the settings of the run and, for each image, how often each label was answered
   in each phase; costs follow from these. It is strict JSON: what is not finite is null.
5. What fails to be written does not keep the rest from it: the numbers come first, PNGs last.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..core.cell import Cell
from ..core.goal import class_name
from ..core.model import Model
from ..core.noise import content_hash
from ..core.result import Result
from ..core.stop import Stop
from ..data.tables import flag_text, plain_text
from .output import json_text

COLUMNS = (
    "index",
    "name",
    "label",
    "target",
    "stop",
    "already_misclassified",
    "reason",
    "distance",
    "cost",
    "queries",
    "flagged",
    "other",
    "png",
    "png_adversarial",
    "norm",
    "class",
    "alarms",
    "first_alarm_queries",
    "first_alarm_flagged",
)


@dataclass(frozen=True)
class Rounded:
    """An adversarial point at 8 bits a channel; `label` is the model's, None if it has none."""

    pixels: Tensor
    """(c, h, w), uint8."""
    label: int | None


def round_points(
    model: Model, results: Sequence[Result], batch_size: int, ask: bool
) -> dict[int, Rounded]:
    """By index: the adversarial points rounded to 8 bits, and, with `ask`, the model's answers."""
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
    """Those with an adversarial point that an attack made."""
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
    except (Exception, SystemExit):  # the model's own: find out which images it fails on
        if len(pixels) == 1:
            return [None]
        return [_answers(model, pixels[i : i + 1])[0] for i in range(len(pixels))]


def write_all(
    folder: Path,
    cells: Sequence[Cell],
    results: Sequence[Result],
    rounded: dict[int, Rounded],
    settings: dict[str, Any],
    classes: Sequence[str] = (),
) -> None:
    """Write all files into `folder`; the first error is raised after all was tried. `classes` are
    the names of the classes, if they are known."""
    names = {i: _picture_name(cells[i], i, picture) for i, picture in rounded.items()}
    steps: list[Callable[[], None]] = [
        lambda: _write_points(folder / "adversarial.npz", cells, results),
        lambda: _write_table(folder / "results.csv", cells, results, names, rounded, classes),
        lambda: _write_ledger(folder / "ledger.json", cells, results, settings, classes),
        lambda: _write_pictures(folder, names, rounded),
    ]
    errors: list[Exception] = []
    for step in steps:
        try:
            step()
        except Exception as error:  # of the system, or a bug: the others are written all the same
            errors.append(error)
    if errors:
        raise errors[0]


def _write_table(
    path: Path,
    cells: Sequence[Cell],
    results: Sequence[Result],
    names: dict[int, str],
    rounded: dict[int, Rounded],
    classes: Sequence[str],
) -> None:
    with open(path, "w", newline="", encoding="utf-8", errors="backslashreplace") as file:
        table = csv.writer(file)
        table.writerow(COLUMNS)
        table.writerows(
            [
                *_row(cells[r.index], r, names, rounded),
                plain_text(_name(cells[r.index], classes)),
                r.ledger.alarms if r.detection else "",
                *(r.first_alarm or ("", "")),
            ]
            for r in results
        )


def _write_ledger(
    path: Path,
    cells: Sequence[Cell],
    results: Sequence[Result],
    settings: dict[str, Any],
    classes: Sequence[str],
) -> None:
    images = [_account(cells[result.index], result, classes) for result in results]
    text = json_text({"settings": settings, "images": images}, indent=1)
    path.write_text(text + "\n", encoding="utf-8")


def _write_points(file: Path, cells: Sequence[Cell], results: Sequence[Result]) -> None:
    points = _adversarial_points(results)
    shape = tuple(cells[0].image.shape)
    images = (
        torch.stack([point for _, point in points]).numpy()
        if points
        else np.empty((0, *shape), np.float32)
    )
    np.savez(
        file,
        images=images,
        index=np.array([r.index for r, _ in points], np.int64),
        labels=np.array([cells[r.index].label for r, _ in points], np.int64),
        distance=np.array([r.distance for r, _ in points], np.float64),
        cost=np.array([r.ledger.cost for r, _ in points], np.float64),
        norm=np.array([str(r.norm) for r, _ in points], "U4"),
    )


def _picture_name(cell: Cell, index: int, picture: Rounded) -> str:
    """The name of the PNG; none, and no PNG, unless it has 1, 3 or 4 channels."""
    if len(picture.pixels) not in (1, 3, 4):
        return ""
    kind = {True: "adversarial", False: "lost", None: "unknown"}[still_adversarial(cell, picture)]
    return f"{index:04d}-{kind}.png"


def _write_pictures(folder: Path, names: dict[int, str], rounded: dict[int, Rounded]) -> None:
    from PIL import Image

    for index, name in names.items():
        if name:
            array = rounded[index].pixels.permute(1, 2, 0).contiguous().numpy()
            Image.fromarray(array[..., 0] if array.shape[2] == 1 else array).save(folder / name)


def still_adversarial(cell: Cell, picture: Rounded) -> bool | None:
    """Whether a point is still adversarial at 8 bits; None if the model did not answer."""
    if picture.label is None:
        return None
    return bool(cell.aim.is_adversarial(np.array([picture.label]))[0])


def _row(
    cell: Cell, result: Result, pictures: dict[int, str], rounded: dict[int, Rounded]
) -> list[Any]:
    ledger = result.ledger
    picture = rounded.get(result.index)
    still = None if picture is None else still_adversarial(cell, picture)
    return [
        result.index,
        plain_text(cell.name),
        cell.label,
        "" if cell.aim.target is None else cell.aim.target,
        result.stop.value,
        flag_text(not result.stop.attacked),
        plain_text(result.reason),
        repr(result.distance),
        repr(ledger.cost),
        ledger.queries,
        ledger.flagged,
        ledger.other,
        pictures.get(result.index, ""),
        flag_text(still),
        str(result.norm),
    ]


def _flagged_labels(cell: Cell) -> list[int] | None:
    """The set of flagged labels, if the goal has one."""
    return None if cell.goal.flagged is None else sorted(cell.goal.flagged)


def _name(cell: Cell, classes: Sequence[str]) -> str:
    """What the class of an image is called; empty if that is not known."""
    return class_name(cell.label, classes)


def _account(cell: Cell, result: Result, classes: Sequence[str]) -> dict[str, Any]:
    ledger = result.ledger
    return {
        "index": result.index,
        "name": cell.name,
        "label": cell.label,
        "class": _name(cell, classes) or None,
        "target": cell.aim.target,
        "flagged_labels": _flagged_labels(cell),
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
