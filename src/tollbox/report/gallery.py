"""The gallery: a few images, their adversarial images at several costs, and the differences.

1. Adversarial images are recomputed from the recorded answers, without the model. If that is not
   possible (the images are gone, the study ran on another device), the page says why. Attacks with
   a surrogate are left out, since they would need it; the page says so.
2. All attacks and prices show the same images. The attack with the smallest median of each column
   comes first, then the others. `MOST_WORK` and `MOST_BYTES` bound the time and the size of the
   page; the first attack is always shown.
3. All differences of a page have the same amplification, so that they can be compared.
4. Two replays give the class of an adversarial image: it is the one answer that a replay up to its
   cost has, but a replay up to a lower cost lacks. If answers are free, it is not always known.
"""

from __future__ import annotations

import base64
import io
import math
from collections import Counter
from collections.abc import Sequence
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
from .paper_table import PaperTable
from .runs import CellCurve, SeriesRuns

IMAGES = 3
PARTS = (1 / 16, 1 / 4, 1.0)
"""Parts of the budget at which images are shown."""
LARGEST = 160
"""Maximum side of an image on the page, in pixels; larger images are scaled down."""
MOST_SERIES = 12
MOST_WORK = 3e9
"""Maximum number of values in all recomputed points, about a minute's work."""
MOST_BYTES = 8_000_000
FACTORS = (1, 2, 5, 10, 20, 50, 100, 200, 500)


class Snapshot(NamedTuple):
    """The adversarial image of a run at a cost."""

    series: SeriesRuns
    run: CellCurve
    cost: float
    result: Result
    answer: int | None
    """The model's class for it, if known."""

    def difference(self, images: Tensor) -> NDArray[Any]:
        return np.asarray(pixels(self.result.adversarial) - pixels(images[self.run.image]))


def gallery(
    results: StudyResults, all_series: Sequence[SeriesRuns], table: PaperTable
) -> dict[str, Any]:
    """Return rows of images, or a note that says why there are none."""
    needy = dict.fromkeys(s.attack for s in all_series if s.series.attack.surrogate)
    note = f"Not shown, because a surrogate is needed: {', '.join(needy)}." if needy else None
    chosen = [s for s in _chosen(all_series, table) if s.attack not in needy]
    shown: dict[str, Any] = {"factor": 1, "images": [], "rows": []}
    if chosen:
        try:
            shown = _rows(results, chosen)
        except (InputError, OSError, RuntimeError) as error:
            note = f"The images cannot be shown: {error}"
    return {"note": note, **shown}


def _chosen(all_series: Sequence[SeriesRuns], table: PaperTable) -> list[SeriesRuns]:
    """Return the series to show (rule 2); the last column is first."""
    by_name = {(r.attack, r.model, r.price): r for r in all_series}
    ranked = []
    for number, column in enumerate(table.columns):
        medians = [
            (cell.value, by_name[row.attack, column.model, column.tariff.name])
            for row in table.rows
            if (cell := row.cells[number]) is not None and cell.runs
        ]
        for rank, (_, runs) in enumerate(sorted(medians, key=lambda pair: pair[0])):
            if any(len(run.distances) for run in runs.runs):
                ranked.append((rank, -number, runs))
    series = {runs.series: runs for *_, runs in sorted(ranked, key=lambda r: r[:2])}
    first = next(iter(series), None)  # one model only: replays load one at a time
    return [r for s, r in series.items() if first and s.model == first.model][:MOST_SERIES]


def _rows(results: StudyResults, chosen: Sequence[SeriesRuns]) -> dict[str, Any]:
    images, seed = results.pixels, results.study.seeds[0]
    names = results.record.class_names
    started = [run.image for run in chosen[0].runs if len(run.distances) and run.seed == seed]
    places = np.linspace(0, len(started) - 1, min(IMAGES, len(started))).round().astype(int)
    shown = [started[place] for place in places]
    found = _snapshots(results, chosen, shown)
    final = (s for s in found if s.result.distance <= s.run.distances[-1])
    factor = amplification([each.difference(images) for each in final])
    rows: list[dict[str, Any]] = []
    room = MOST_BYTES
    for runs in chosen:
        if room < 0:
            break
        for number, image in enumerate(shown):
            entries = [
                {
                    "cost": each.cost,
                    "distance": each.result.distance,
                    "label": None if each.answer is None else class_words(each.answer, names),
                    "image": png(pixels(each.result.adversarial)),
                    "difference": png(np.clip(0.5 + factor * each.difference(images), 0, 1)),
                }
                for each in found
                if each.series is runs and each.run.image == image
            ]
            room -= sum(len(str(each[key])) for each in entries for key in ("image", "difference"))
            rows += [{"image": number, **runs.key, "shots": entries}] if entries else []
    originals = []
    for image in shown:
        _, label, name = results.images[image]
        original = png(images[image].numpy())
        originals.append({"name": name, "label": class_words(label, names), "original": original})
    return {"factor": factor, "images": originals, "rows": rows}


def _snapshots(
    results: StudyResults, chosen: Sequence[SeriesRuns], images: Sequence[int]
) -> list[Snapshot]:
    """Replay the runs on these images with the first seed, series by series up to `MOST_WORK`."""
    seed, work = results.study.seeds[0], 0.0
    moments, wanted = [], []
    for series in chosen:
        started = [run for run in series.runs if run.seed == seed and len(run.distances)]
        runs = [run for run in started if run.image in images]
        queries = sum(run.spent["queries"] for run in runs)
        work += 2 * sum(PARTS) * results.pixels[0].numel() * queries
        if series is not chosen[0] and work > MOST_WORK:
            break
        for run in runs:
            needs = run.needs["cost"]
            top = min(series.series.tariff.limits.budget, run.spent["cost"])
            cell = results.grid.cell(Place(series.series, run.seed, run.image))
            for cost in sorted({max(math.floor(part * top), float(needs[0])) for part in PARTS}):
                least = float(needs[needs <= cost][-1])
                moments.append((series, run, cost))
                wanted += [(cell, least), (cell, math.nextafter(least, 0.0))]
    replays = results.replays(wanted) if wanted else []
    found = []
    for moment, enough, before in zip(moments, replays[::2], replays[1::2], strict=True):
        answer = results.study.goal.target
        if answer is None:  # it is the one answer that only the first replay has
            counts = (sum(r.ledger.counts.values(), Counter[int]()) for r in (enough, before))
            more = next(counts) - next(counts)
            answer = next(iter(more)) if more.total() == 1 else None
        if enough.adversarial is not None:
            found.append(Snapshot(*moment, enough, answer))
    return found


def pixels(image: Tensor | None) -> NDArray[Any]:
    if image is None:
        raise RuntimeError("the run has no adversarial image")
    array: NDArray[Any] = image.double().numpy()
    return array


def amplification(differences: Sequence[NDArray[Any]]) -> int:
    """Return a factor at which hardly any pixel of these differences is clipped."""
    if not differences:
        return 1
    usual = float(np.median([np.quantile(np.abs(each), 0.99) for each in differences]))
    return max((f for f in FACTORS if f * usual <= 0.5), default=1) if usual > 0 else 1


def png(image: NDArray[Any]) -> str:
    """Return a data URI of an image (c, h, w) in [0,1]."""
    pillow = optional("PIL.Image", "the images of a page are written with it", extra="report")
    planes = image[:3] if len(image) >= 3 else image[:1].repeat(3, axis=0)
    array = np.ascontiguousarray((planes.transpose(1, 2, 0) * 255).round().astype(np.uint8))
    scaled = pillow.fromarray(array)
    if max(scaled.size) > LARGEST:
        scaled.thumbnail((LARGEST, LARGEST))
    file = io.BytesIO()
    scaled.save(file, "PNG", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
