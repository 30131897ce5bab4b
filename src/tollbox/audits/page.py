"""The page of an audit: one HTML file that contains everything it needs.

1. It is assembled like a report's page (`report/page.py`), but with its own script. For each ε and
   image it has the accounts that can be cheapest at some price, so that a reader can enter any
   price and worth: the script computes what `costs.py` would.
2. The weakest images are shown with the adversarial image of the cheapest run and the difference,
   equally amplified for all. The adversarial image is the run's closest one: the image that was
   kept, or else one recomputed from the recorded answers.
3. The originals come from the audit's folder if it has them, so that the page can be made anywhere;
   otherwise from the study's inputs. They must be the images that were attacked. If the images
   cannot be shown, the page says why.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from ..core.noise import content_hash
from ..data.images import read_npz
from ..errors import InputError
from ..report.formatting import counted
from ..report.gallery import MOST_WORK, amplification, pixels, png
from ..report.page import assemble, packaged
from ..report.summary import model_settings
from ..studies.grid import Place
from ..studies.results import StudyResults
from .costs import AuditRuns
from .criteria import Criteria
from .data import price_fronts, times

IMAGES = "images.npz"
MOST_ACCOUNTS = 2000
"""Maximum number of images with accounts on the page; beyond it, readers cannot enter prices."""


def page(runs: AuditRuns, data: dict[str, Any]) -> str:
    """Return the page as text, to be written as UTF-8."""
    record = runs.results.record
    [model] = record.models.values()
    levels = Criteria.from_json(data["criteria"]).levels(runs.smallest, runs.values)
    few = data["images"]["measured"] <= MOST_ACCOUNTS
    measured = counted(data["images"]["measured"], "image")
    number = counted(sum(row["runs"] for row in data["runs"]), "run")
    shown = {
        "title": f"What it costs to attack {runs.results.study.name}",
        "made": f"{measured}, {number}; tollbox {record.environment.tollbox}",
        "accounts": [price_fronts(at) for at in runs.accounts(levels)] if few else [],
        "times": times(runs),
        "weakest_images": _images(runs, data["weakest"]),
        "environment": data["environment"] | {"model": model_settings(model)},
    }
    script, css = (packaged(name, __package__) for name in ("audit.js", "audit.css"))
    return assemble(data | shown, script, css)


def _images(runs: AuditRuns, weakest: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the weakest images, or a note that says why they cannot be shown."""
    pairs = []
    try:
        sources = _sources(runs.results) if weakest else ()
        for each, changed in zip(weakest, _changed(runs, weakest), strict=True):
            source = sources[each["image"]]
            if content_hash(source) != each["content"]:
                raise InputError(f"image {each['name']} is not the one that was attacked")
            if changed is not None:
                pairs.append((each["image"], pixels(source), pixels(changed)))
        factor = amplification([changed - source for _, source, changed in pairs])
        images = [
            {
                "place": image,
                "original": png(source),
                "changed": png(changed),
                "difference": png(np.clip(0.5 + factor * (changed - source), 0, 1)),
            }
            for image, source, changed in pairs
        ]
    except (InputError, OSError, RuntimeError) as error:
        return {"note": f"The images cannot be shown: {error}", "factor": 1, "images": []}
    return {"note": None, "factor": factor, "images": images}


def _changed(runs: AuditRuns, weakest: Sequence[dict[str, Any]]) -> list[Tensor | None]:
    """Return the adversarial image of each cheapest run; None if it is not available."""
    results, [seed] = runs.results, runs.results.study.seeds
    series = results.grid.series
    cells = [results.grid.cell(Place(series[w["series"]], seed, w["image"])) for w in weakest]
    kept = [results.kept_image(cell) for cell in cells]
    if not cells or any(image is not None for image in kept):
        return kept
    queries = {end.cell: end.queries for end in results.finished()}
    work = 2 * runs.values * np.cumsum([queries[cell] for cell in cells])
    affordable = max(1, int((work <= MOST_WORK).sum()))
    made = [
        result.adversarial for result in results.replays([(c, None) for c in cells[:affordable]])
    ]
    return [*made, *([None] * (len(weakest) - len(made)))]


def _sources(results: StudyResults) -> Tensor:
    own = Path(results.folder) / IMAGES
    if own.exists():
        return read_npz(own, None)[0]
    if results.given_inputs is not None:
        return results.pixels
    return results.load_inputs(replace(results.study, device="cpu")).images.images
