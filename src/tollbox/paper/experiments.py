"""The paper's experiments by name, and the study of each at a scale.

1. `studies/paper/NAME.toml` is the paper's scale: public weights, and the first 500 of the user's
   images that each model classifies correctly. `studies/paper/small/NAME.toml` runs anywhere: a few
   images, and stand-ins for the models (`tollbox.models.stand_ins`) whose names say so.
2. The text of a study is its identity. So images that a user specifies are written into the text:
   the folder can then be resumed without them.
3. Where attacks are compared, `frugal` is last: it is tollbox's own, and the paper does not have
   it. Such attacks are known by their kind (`attacks/presets.py`), and marked wherever they are
   shown.
4. The paper's concept figures (2, 6 and 8) have no study: `docs/figures/draw.py` draws them.
"""

from __future__ import annotations

import enum
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from ..attacks.presets import Kind
from ..errors import UnknownNameError
from ..studies.toml import line_of

if TYPE_CHECKING:
    from ..studies.specs import AttackSpec, Tariff
    from ..studies.study import Study

NOT_IN_THE_PAPER = "not in the paper"
OWN = f"tollbox's own, {NOT_IN_THE_PAPER}"
"""Legend of tollbox's own attacks in figures."""
RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def attack_name(spec: AttackSpec) -> str:
    """Return the paper's name (A-HSJA, Frugal (tollbox)), or the name that the study gives."""
    name = spec.described.title if spec.name == spec.preset else spec.name
    return f"{name} (tollbox)" if is_own(spec) else name


def is_own(spec: AttackSpec) -> bool:
    """Return whether the attack is tollbox's own, which the paper does not have."""
    return spec.described.method.kind is Kind.OWN


def price_name(tariff: Tariff) -> str:
    """Return c* = 5, c* = 10⁴ or c* = ∞, or the name that the study gives."""
    if tariff.name == "inf":
        return "c* = ∞"
    plain = tariff.name == f"{tariff.prices.ratio:g}"
    return f"c* = {number(tariff.prices.ratio) if plain else tariff.name}"


def number(ratio: float) -> str:
    """Return a ratio as text: 5, 300 or 10⁵."""
    power = math.log10(ratio) if ratio > 0 else math.nan
    if power >= 2 and power == round(power):
        return f"10{str(round(power)).translate(RAISED)}"
    return f"{ratio:g}"


STUDIES = resources.files("tollbox.paper") / "studies"
"""The files: in the repository a link to `studies/paper`, in an installed package a copy."""
SHOWN = "studies/paper"
"""Name of that folder in messages."""


class Scale(enum.StrEnum):
    """The size of a study."""

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
"""The total costs of the tables for ViT."""
SMALL_COSTS = (100.0, 200.0, 500.0, 1000.0, 1500.0)

EXPERIMENTS = {
    each.name: each
    for each in (
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
                Scale.PAPER: {
                    "2": COSTS,
                    "5": COSTS,
                    "100": (*COSTS, 1.5e5),
                    "1000": (*COSTS, 2.5e5),
                },
                Scale.SMALL: {
                    "2": SMALL_COSTS,
                    "5": SMALL_COSTS,
                    "20": (*SMALL_COSTS, 4000.0),
                    "100": (*SMALL_COSTS, 12000.0),
                },
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
            "stealthy",
            "Figure 3",
            "the asymmetric attacks and Stealthy HSJA at three extreme prices",
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
}


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
    text = "\n".join(_changed(text, changes)) + "\n" if changes else text
    from ..studies.study import Study

    return Study.from_text(text, Path(str(place)).parent, f"{SHOWN}/{inside}", files=files)


def _changed(text: str, changes: Mapping[str, str | None]) -> Iterator[str]:
    """Yield the lines of a study file with changed keys of [images]; None removes a key."""
    lines = {line_of(text, ("images", key)): key for key in changes}
    for number, line in enumerate(text.splitlines(), 1):
        key = lines.get(number)
        if key is None:
            yield line
        elif (value := changes[key]) is not None:
            yield f"{key} = {value}"
