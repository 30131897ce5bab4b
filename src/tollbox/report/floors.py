"""Floors: a CSV file of distances that are known to suffice, as a white-box attack finds them.

It has the columns image (the hash of its content, as in `cells.csv` and `images.txt`) and distance,
and model where the study has several. Images that the study has not are passed over.
"""

from __future__ import annotations

import math
from pathlib import Path

from ..errors import FileError
from ..files.tables import rows_of, shortened
from ..studies.reading import StudyResults


def read_floors(file: Path, results: StudyResults) -> dict[tuple[str, int], float]:
    """By model and image."""
    models = [model.name for model in results.study.models]
    numbers = {content: number for number, (content, _, _) in enumerate(results.images)}
    columns = ("image", "distance", "model") if len(models) > 1 else ("image", "distance")
    floors: dict[tuple[str, int], float] = {}
    for line, (image, text, *model) in rows_of(file, columns):
        where = f"{file}, line {line}"
        try:
            distance = float(text)
        except ValueError:
            distance = math.nan
        if not 0 < distance < math.inf:
            raise FileError(
                f"the distance is {shortened(text)!r}", expected="a number above 0", where=where
            )
        if model and model[0] not in models:
            raise FileError(
                f"the model is {shortened(model[0])!r}",
                expected=f"one of {', '.join(models)}",
                where=where,
            )
        if image in numbers:
            key = (model[0] if model else models[0]), numbers[image]
            floors[key] = min(distance, floors.get(key, math.inf))
    if not floors:
        raise FileError(
            f"{file} has no image of this study",
            expected="hashes of images, as `tollbox export` writes them",
        )
    return floors
