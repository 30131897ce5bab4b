"""The gallery: a few images, what they became at several costs, and the difference, amplified.

1. Images are made again from the recorded answers, without the model. Where that cannot be done
   (the images have gone, the study was run on another device) the page says why. Those of an attack
   with a surrogate are left out, since they would need it; the page says so.
2. The same images are shown for every attack and price that there is room for: first the nearest
   attack of each column, then the others. `MOST_WORK` and `MOST_BYTES` bound how long that takes
   and how large the page becomes; the first is always shown.
3. All differences of a page have one amplification, so that they can be compared.
4. The class of an adversarial image is that of the one answer which a run with just its cost has,
   and a run with less does not have. Where answers are free it is not always known.
"""

from __future__ import annotations

import base64
import io
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ..core.goal import class_words
from ..core.result import Result
from ..data.user_code import optional
from ..errors import InputError
from ..studies.grid import Place
from ..studies.results import StudyResults
from .curve_data import key_of
from .paper_table import PaperTable
from .runs import CellCurve, SeriesRuns

IMAGES = 3
PARTS = (1 / 16, 1 / 4, 1.0)
"""Of the budget."""
LARGEST = 160
"""Pixels of a side on the page; larger images are shown smaller."""
MOST_SERIES = 12
MOST_WORK = 3e9
"""Numbers in all the points that are made again, about: a minute's work."""
MOST_BYTES = 8_000_000
FACTORS = (1, 2, 5, 10, 20, 50, 100, 200, 500)


class Shot(NamedTuple):
    """What an image had become when a cost was spent."""

    series: SeriesRuns
    run: CellCurve
    cost: float
    """Up to which it is the nearest."""
    result: Result
    answer: int | None
    """The model's class for it, where it is known."""


def gallery(
    results: StudyResults, all_series: Sequence[SeriesRuns], table: PaperTable
) -> dict[str, Any]:
    """Rows of pictures, or a note that says why there are none."""
    told = dict.fromkeys(s.series.attack.name for s in all_series if s.series.attack.surrogate)
    note = f"Not shown, since it takes a surrogate: {', '.join(told)}." if told else None
    chosen = [s for s in _chosen(all_series, table) if s.series.attack.name not in told]
    if not chosen:
        return {"note": note, "factor": 1, "images": [], "rows": []}
    try:
        return {"note": note, **_pictures(results, chosen)}
    except (InputError, OSError, RuntimeError) as error:
        note = f"The images cannot be shown: {error}"
        return {"note": note, "factor": 1, "images": [], "rows": []}


def _chosen(all_series: Sequence[SeriesRuns], table: PaperTable) -> list[SeriesRuns]:
    """The series to show: the nearest of each column, the last column first, then the others."""
    by_name = {
        (r.series.attack.name, r.series.model.name, r.series.tariff.name): r for r in all_series
    }
    ranked = []
    for number, column in enumerate(table.columns):
        medians = [
            (cell.value, by_name[row.attack, column.model, column.tariff.name])
            for row, cells in zip(table.rows, table.cells, strict=True)
            if (cell := cells[number]) is not None and not math.isnan(cell.value)
        ]
        for rank, (_, runs) in enumerate(sorted(medians, key=lambda pair: pair[0])):
            if any(len(run.distances) for run in runs.runs):
                ranked.append((rank, -number, runs))
    chosen = dict.fromkeys(runs.series for *_, runs in sorted(ranked, key=lambda r: r[:2]))
    series = {runs.series: runs for *_, runs in ranked}
    first = next(iter(chosen), None)  # one model: answers are made again for one at a time
    return [series[s] for s in chosen if first and s.model == first.model][:MOST_SERIES]


def _pictures(results: StudyResults, chosen: Sequence[SeriesRuns]) -> dict[str, Any]:
    pictures, seed = results.pixels, results.study.seeds[0]
    begun = [run.image for run in chosen[0].runs if len(run.distances) and run.seed == seed]
    places = np.linspace(0, len(begun) - 1, min(IMAGES, len(begun))).round().astype(int)
    shown = [begun[place] for place in places]
    shots = _shots(results, list(_affordable(chosen, shown, seed, pictures[0].numel())))
    last = [_difference(pictures, s) for s in shots if s.result.distance <= s.run.distances[-1]]
    factor = amplification(last)
    rows: list[dict[str, Any]] = []
    room = MOST_BYTES
    for runs in chosen:
        if room < 0:
            break
        for number, image in enumerate(shown):
            entries = [
                _entry(results.record.class_names, shot, _difference(pictures, shot), factor)
                for shot in shots
                if shot.series is runs and shot.run.image == image
            ]
            room -= sum(len(each[name]) for each in entries for name in ("image", "difference"))
            rows += [{"image": number, **key_of(runs), "shots": entries}] if entries else []
    images = []
    for image in shown:
        _, label, name = results.images[image]
        original = png(pictures[image].numpy())
        images.append(
            {
                "name": name,
                "label": class_words(label, results.record.class_names),
                "original": original,
            }
        )
    return {"factor": factor, "images": images, "rows": rows}


def _entry(
    names: tuple[str, ...], shot: Shot, difference: NDArray[Any], factor: int
) -> dict[str, Any]:
    return {
        "cost": float(f"{shot.cost:.5g}"),
        "distance": float(f"{shot.result.distance:.5g}"),
        "label": None if shot.answer is None else class_words(shot.answer, names),
        "image": png(_array(shot.result)),
        "difference": png(np.clip(0.5 + factor * difference, 0, 1)),
    }


def _affordable(
    chosen: Sequence[SeriesRuns], images: Sequence[int], seed: int, values: int
) -> Iterator[tuple[SeriesRuns, CellCurve]]:
    """The runs to make again, series by series, until that is as much work as may be."""
    work = 0.0
    for runs in chosen:
        wanted = [
            run
            for run in runs.runs
            if run.image in images and run.seed == seed and len(run.distances)
        ]
        work += 2 * sum(PARTS) * values * sum(run.spent["queries"] for run in wanted)
        if runs is not chosen[0] and work > MOST_WORK:
            return
        yield from ((runs, run) for run in wanted)


def _shots(results: StudyResults, runs: Sequence[tuple[SeriesRuns, CellCurve]]) -> list[Shot]:
    moments = []
    for series, run in runs:
        needs = run.needs["cost"]
        top = min(series.series.tariff.limits.budget, run.spent["cost"])
        costs = sorted({max(math.floor(part * top), float(needs[0])) for part in PARTS})
        cell = results.grid.cell(Place(series.series, run.seed, run.image))
        for cost in costs:
            place = int(np.searchsorted(needs, cost, side="right")) - 1
            enough = float(needs[place])
            before = math.nextafter(enough, 0.0)
            moments.append((series, run, cost, (cell, enough), (cell, before)))
    asked = [cell for *_, enough, before in moments for cell in (enough, before)]
    replays = results.replays(asked) if asked else []
    target = results.study.goal.target
    return [
        Shot(series, run, cost, replays[2 * i], _answer(replays[2 * i], replays[2 * i + 1], target))
        for i, (series, run, cost, *_) in enumerate(moments)
        if replays[2 * i].adversarial is not None
    ]


def _answer(enough: Result, before: Result, target: int | None) -> int | None:
    """The class of the one answer that the first run has and the second has not."""
    if target is not None:
        return target
    tallies: list[Counter[int]] = []
    for result in (enough, before):
        tallies.append(sum(result.ledger.counts.values(), Counter()))
    more = tallies[0] - tallies[1]
    return next(iter(more)) if more.total() == 1 else None


def _array(result: Result) -> NDArray[Any]:
    if result.adversarial is None:
        raise RuntimeError("a run without an adversarial image has no picture")
    array: NDArray[Any] = result.adversarial.double().numpy()
    return array


def _difference(pictures: Tensor, shot: Shot) -> NDArray[Any]:
    apart: NDArray[Any] = _array(shot.result) - pictures[shot.run.image].double().numpy()
    return apart


def amplification(differences: Sequence[NDArray[Any]]) -> int:
    """One amplification, at which hardly a pixel of the nearest images is cut off."""
    if not differences:
        return 1
    usual = float(np.median([np.quantile(np.abs(each), 0.99) for each in differences]))
    return max((f for f in FACTORS if f * usual <= 0.5), default=1) if usual > 0 else 1


def png(image: NDArray[Any]) -> str:
    """A data URI of an image (c, h, w) in [0,1]."""
    pillow = optional("PIL.Image", "the images of a page are written with it", extra="report")
    planes = image[:3] if len(image) >= 3 else image[:1].repeat(3, axis=0)
    array = np.ascontiguousarray((planes.transpose(1, 2, 0) * 255).round().astype(np.uint8))
    picture = pillow.fromarray(array)
    if max(picture.size) > LARGEST:
        picture.thumbnail((LARGEST, LARGEST))
    file = io.BytesIO()
    picture.save(file, "PNG", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
