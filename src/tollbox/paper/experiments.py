"""The paper's experiments by name, and the study of each at a scale.

1. `studies/paper/NAME.toml` is the paper's scale: public weights, and the first 500 of the user's
   images that each model classifies correctly. `studies/paper/small/NAME.toml` runs anywhere: a few
   images, and stand-ins for the models (`tollbox.models.stand_ins`) whose names say so.
2. The text of a study is its identity. So images that a user specifies are written into the text:
   the folder can then be resumed without them.
3. Where attacks are compared, `frugal` is last: it is tollbox's own, and the paper does not have
   it.
4. The paper's concept figures (2, 6 and 8) have no study: `docs/figures/draw.py` draws them.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import UnknownNameError
from ..studies.toml import line_of

if TYPE_CHECKING:
    from ..studies.study import Study

STUDIES = resources.files("tollbox.paper") / "studies"
"""Folder of the study files: a link to `studies/paper` in the repository, a copy when installed."""


class Scale(enum.StrEnum):
    PAPER = "paper"
    SMALL = "small"


@dataclass(frozen=True)
class Experiment:
    """One table or figure of the paper."""

    name: str
    place: str
    about: str
    table: bool = False
    """Whether it is a table; otherwise it is a figure."""
    marks: Mapping[Scale, Mapping[str, tuple[float, ...]]] = field(default_factory=dict, hash=False)
    """Costs of the columns of a table by price; the default is the budget."""
    level: Mapping[Scale, float] = field(default_factory=dict, hash=False)
    """Distance to reach."""


COSTS = (1e3, 2e3, 5e3, 1e4, 1.5e4)
SMALL_COSTS = (100.0, 200.0, 500.0, 1000.0, 1500.0)

_ALL = (
    Experiment(
        "table-1",
        "Table 1",
        "median ℓ2 of four attacks, plain, with AS, with AGREST and with both, at four prices",
        table=True,
    ),
    Experiment(
        "vit-b-32",
        "Table 2",
        "the same attacks on ViT-B/32 at five costs for each price, and at two high ones",
        table=True,
        marks={
            Scale.PAPER: dict.fromkeys(("2", "5"), COSTS)
            | {"100": (*COSTS, 1.5e5), "1000": (*COSTS, 2.5e5)},
            Scale.SMALL: dict.fromkeys(("2", "5"), SMALL_COSTS)
            | {"20": (*SMALL_COSTS, 4000.0), "100": (*SMALL_COSTS, 12000.0)},
        },
    ),
    Experiment(
        "vit-b-16",
        "Table 3",
        "the same attacks on ViT-B/16 at five costs for each price",
        table=True,
        marks={
            Scale.PAPER: dict.fromkeys(("2", "5", "100", "1000"), COSTS),
            Scale.SMALL: dict.fromkeys(("2", "5", "20", "100"), SMALL_COSTS),
        },
    ),
    Experiment(
        "tradeoff",
        "Figure 1",
        "flagged queries against all queries that each attack needs to reach a distance",
        level={Scale.PAPER: 10.0, Scale.SMALL: 1.5},
    ),
    Experiment(
        "stealthy", "Figure 3", "the asymmetric attacks and Stealthy HSJA at three extreme prices"
    ),
    Experiment(
        "search-cost",
        "Figure 4, left",
        "cost of the searches of GeoDA after each iteration, binary and asymmetric",
    ),
    Experiment(
        "low-cost-share",
        "Figure 4, right",
        "planned and realised share of low-cost answers in an estimate, by price",
    ),
    Experiment(
        "m-sweep", "Figure 5", "median ℓ2 by the rate m at which the overshoot is scheduled"
    ),
    Experiment(
        "clip",
        "Figure 7",
        "the asymmetric attacks and Stealthy HSJA on CLIP, zero-shot and fine-tuned",
    ),
)
EXPERIMENTS = {each.name: each for each in _ALL}


def experiment(name: str) -> Experiment:
    if name not in EXPERIMENTS:
        raise UnknownNameError("experiment", name, [*EXPERIMENTS, "all"])
    return EXPERIMENTS[name]


def study_at(
    name: str,
    scale: Scale,
    images: Path | None = None,
    labels: Path | None = None,
    limit: int | None = None,
    *,
    files: bool = True,
) -> Study:
    """Return the study of an experiment; `images` replace those of the file."""
    inside = f"{scale}/{name}.toml" if scale is Scale.SMALL else f"{name}.toml"
    place = STUDIES / inside
    text = place.read_text(encoding="utf-8")
    changes: dict[str, str | None] = {}
    if images is not None:
        for key, path in (("path", images), ("labels", labels)):
            # Absolute, so that the study can be resumed from any folder.
            text_of = None if path is None else json.dumps(str(path.resolve()), ensure_ascii=False)
            changes[key] = text_of
        if not images.is_dir():  # arrays, which are not cropped
            changes["crop"] = None
    if limit is not None:
        changes["limit"] = str(limit)
    if changes:
        text = "\n".join(_changed(text, changes)) + "\n"
    from ..studies.study import Study

    return Study.from_text(text, Path(str(place)).parent, f"studies/paper/{inside}", files=files)


def _changed(text: str, changes: Mapping[str, str | None]) -> Iterator[str]:
    """Yield the lines of a study file with changed keys of [images]; None removes a key."""
    lines = {line_of(text, ("images", key)): key for key in changes}
    for number, line in enumerate(text.splitlines(), 1):
        key = lines.get(number)
        if key is None:
            yield line
        elif (value := changes[key]) is not None:
            yield f"{key} = {value}"
