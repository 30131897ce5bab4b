"""Pictures of the weakest images: each as it was, what the cheapest run made of it, and the
difference, amplified alike for all.

1. The adversarial image is the nearest one that the run found. It is the one that was kept; where
   none was, it is made again from the recorded answers, as in a report's gallery.
2. The images are those in the audit's own folder, if it has them, so that a folder may be looked at
   anywhere; else those that the study names. They must be the ones that were attacked.
3. Where that cannot be done, the page says why.

The page of an audit: one HTML file that holds all it needs and reaches out to nothing.

It is put together as a report's page is (`report/page.py`), with a script of its own. Beside the
answers it has, for each ε and image, the accounts that are cheapest at some price, so that a reader
may ask for any price and any worth: the page computes what `answers.py` would.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ..core.noise import content_hash
from ..data.images import read_npz
from ..errors import InputError
from ..report.gallery import amplification, png
from ..report.page import assembled, packaged
from ..report.words import counted, running
from ..studies.grid import Place
from ..studies.inputs import load
from ..studies.results import StudyResults
from .data import accounts, times
from .evidence import Evidence
from .questions import Questions

IMAGES = "images.npz"
MOST_WORK = 3e9
"""Numbers in all the points that are made again, about: a minute's work."""


def pictures(evidence: Evidence, weakest: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Pictures of the weakest images, or a note that says why there are none."""
    if not weakest:
        return {"note": None, "factor": 1, "images": []}
    try:
        return {"note": None, **_pictures(evidence, weakest)}
    except (InputError, OSError, RuntimeError) as error:
        note = f"The images cannot be shown: {error}"
        return {"note": note, "factor": 1, "images": []}


def _pictures(evidence: Evidence, weakest: Sequence[dict[str, Any]]) -> dict[str, Any]:
    results = evidence.results
    sources = _sources(results)
    pairs = []
    for each, changed in zip(weakest, _changed(evidence, weakest), strict=True):
        source = sources[each["image"]]
        if content_hash(source) != each["content"]:
            raise InputError(f"image {each['name']} is not the one that was attacked")
        if changed is not None:
            pairs.append((each, _array(source), _array(changed)))
    factor = amplification([changed - source for _, source, changed in pairs])
    return {
        "factor": factor,
        "images": [
            {
                "place": each["image"],
                "original": png(source),
                "changed": png(changed),
                "difference": png(np.clip(0.5 + factor * (changed - source), 0, 1)),
            }
            for each, source, changed in pairs
        ],
    }


def _changed(evidence: Evidence, weakest: Sequence[dict[str, Any]]) -> list[Tensor | None]:
    """What the cheapest run made of each image."""
    results, [seed] = evidence.results, evidence.results.study.seeds
    series = results.grid.series
    cells = [results.grid.cell(Place(series[w["series"]], seed, w["image"])) for w in weakest]
    kept = [results.kept_image(cell) for cell in cells]
    if any(image is not None for image in kept):
        return kept
    spent = {
        (runs.series.number, run.image): run.spent["queries"]
        for runs in evidence.complete
        for run in runs.runs
    }
    work = 0.0
    affordable: list[tuple[int, float | None]] = []
    for each, cell in zip(weakest, cells, strict=True):
        work += 2 * evidence.values * spent[each["series"], each["image"]]
        if work <= MOST_WORK or not affordable:
            affordable.append((cell, None))
    made = [result.adversarial for result in results.replays(affordable)]
    return [*made, *([None] * (len(weakest) - len(made)))]


def _sources(results: StudyResults) -> Tensor:
    """The images that were attacked."""
    own = Path(results.folder) / IMAGES
    if own.exists():
        return read_npz(own, None)[0]
    if results.given_inputs is not None:
        return results.pixels
    return load(replace(results.study, device="cpu"), record=results.record).images.images


def _array(image: Tensor) -> NDArray[Any]:
    array: NDArray[Any] = image.double().numpy()
    return array


MOST_ACCOUNTS = 2000
"""Images of which the page has accounts; of more, it cannot be asked for other prices."""


def page_data(evidence: Evidence, data: dict[str, Any]) -> dict[str, Any]:
    """What the page shows: the answers, and what only a page has."""
    record = evidence.results.record
    [model] = record.models.values()
    levels = Questions.from_json(data["questions"]).levels(evidence.nearest, evidence.values)
    reached = evidence.reached(levels)
    few = len(reached.images) <= MOST_ACCOUNTS
    measured = counted(data["images"]["measured"], "image")
    runs = counted(sum(row["runs"] for row in data["runs"]), "run")
    return data | {
        "title": f"What it costs to attack {evidence.name}",
        "made": f"{measured}, {runs}; tollbox {record.environment.tollbox}",
        "accounts": [accounts(reached.at(n)) for n in range(len(levels))] if few else [],
        "times": times(evidence),
        "pictures": pictures(evidence, data["weakest"]),
        "environment": data["environment"] | {"model": running(model)},
    }


def page(evidence: Evidence, data: dict[str, Any]) -> str:
    """The whole page as text, to be written as UTF-8."""
    script, css = (packaged(name, __package__) for name in ("audit.js", "audit.css"))
    return assembled(page_data(evidence, data), script, css)
