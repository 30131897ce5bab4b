"""Attacks and prices as the paper writes them, and what marks an attack that it does not have.

The paper's experiments by name, and the study of each at a scale.

1. `studies/paper/NAME.toml` is the paper's scale: public weights, and the first 500 images that
   each model classifies correctly, of those that a user brings. `studies/paper/small/NAME.toml`
   runs anywhere: a few images, and stand-ins for the models (`tollbox.models.stand_ins`) that say
   so in their names.
2. A study's text is its identity, so what a user gives instead of the file's own images is written
   into the text: the folder can then be resumed without saying it again.
3. Where attacks are compared, `frugal` stands last: an attack of our own, which the paper does not
   have. What is ours is known by its kind (`attacks/preset.py`), and marked wherever it is shown.
4. The three pictures have no study: they are drawn from runs in two dimensions, at any scale alike.
"""

from __future__ import annotations

import enum
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

from ..attacks.preset import Kind
from ..errors import UnknownNameError
from ..studies.specs import AttackSpec, Tariff
from ..studies.study import Study
from ..studies.toml import key_lines

NOT_IN_THE_PAPER = "not in the paper"
OURS = f"ours, {NOT_IN_THE_PAPER}"
"""What the legends of figures say of our own attacks."""
RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def attack_name(spec: AttackSpec) -> str:
    """A-HSJA, Stealthy HSJA, HSJA, Frugal (ours); a name that a study gives stands as it is."""
    name = spec.described.title if spec.name == spec.preset else spec.name
    return f"{name} (ours)" if is_ours(spec) else name


def attack_kind(spec: AttackSpec) -> Kind:
    """Its group in the trade-off figure."""
    return spec.described.method.kind


def is_ours(spec: AttackSpec) -> bool:
    """Whether the attack is one of this package, which the paper does not have."""
    return attack_kind(spec) is Kind.OWN


def price_name(tariff: Tariff) -> str:
    """c* = 5, c* = 10⁴, c* = ∞; a name that a study gives stands as it is."""
    if tariff.name == "inf":
        return "c* = ∞"
    plain = tariff.name == f"{tariff.prices.ratio:g}"
    return f"c* = {number(tariff.prices.ratio) if plain else tariff.name}"


def number(ratio: float) -> str:
    """5, 300, 10⁵."""
    power = math.log10(ratio) if ratio > 0 else math.nan
    if power >= 2 and power == round(power):
        return f"10{str(round(power)).translate(RAISED)}"
    return f"{ratio:g}"


STUDIES = resources.files("tollbox.paper") / "studies"
"""The files: in the repository a link to `studies/paper`, in an installed package a copy."""
SHOWN = "studies/paper"
"""How messages call that folder."""


class Scale(enum.StrEnum):
    """How large a study is."""

    PAPER = "paper"
    SMALL = "small"


@dataclass(frozen=True)
class Experiment:
    """One table or figure of the paper."""

    name: str
    place: str
    about: str
    table: bool = False
    """A table, or else a figure."""
    studied: bool = True
    marks: Mapping[Scale, Mapping[str, tuple[float, ...]]] = field(default_factory=dict, hash=False)
    """At which costs a table is read, by the name of the price; without, at the budgets."""
    level: Mapping[Scale, float] = field(default_factory=dict, hash=False)
    """The distance that is to be reached."""


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
            "flagged against all queries that each attack takes to come within a distance",
            level={Scale.PAPER: 10.0, Scale.SMALL: 1.5},
        ),
        Experiment(
            "concept-picture",
            "Figure 2",
            "how AGREST moves its samples, and three steps of asymmetric search",
            studied=False,
        ),
        Experiment(
            "stealthy",
            "Figure 3",
            "the asymmetric attacks beside Stealthy HSJA at three extreme prices",
        ),
        Experiment(
            "search-cost",
            "Figure 4, left",
            "what the searches of GeoDA have cost after each iteration, binary and asymmetric",
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
            "search-picture",
            "Figure 6",
            "asymmetric search step by step, with tau = 0.1 and c* = 2",
            studied=False,
        ),
        Experiment(
            "clip",
            "Figure 7",
            "the asymmetric attacks beside Stealthy HSJA on CLIP, zero-shot and fine-tuned",
        ),
        Experiment(
            "estimates-picture",
            "Figure 8",
            "the samples of a plain estimate and of AGREST beside each other",
            studied=False,
        ),
    )
}


def experiment(name: str) -> Experiment:
    """The experiment of that name."""
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
    """The study of an experiment, with the images that a user gives instead of the file's own."""
    inside = f"{scale}/{name}.toml" if scale is Scale.SMALL else f"{name}.toml"
    place = STUDIES / inside
    text = place.read_text(encoding="utf-8")
    changes: dict[str, str | None] = {}
    if images is not None:
        changes["path"] = _quoted(images)
        changes["labels"] = None if labels is None else _quoted(labels)
        if not images.is_dir():  # arrays, which are not cropped
            changes["crop"] = None
    if limit is not None:
        changes["limit"] = str(limit)
    text = "\n".join(_changed(text, changes)) + "\n" if changes else text
    return Study.from_text(text, Path(str(place)).parent, f"{SHOWN}/{inside}", files=files)


def _quoted(path: Path) -> str:
    """A path as TOML has it, good from wherever one stands."""
    return json.dumps(str(path.resolve()), ensure_ascii=False)


def _changed(text: str, changes: Mapping[str, str | None]) -> Iterator[str]:
    """The lines of a study file, of which [images] has each key on a line of its own; None leaves
    a key out."""
    lines = {
        line: str(key[1])
        for key, line in key_lines(text).items()
        if key[:1] == ("images",) and len(key) == 2
    }
    for number, line in enumerate(text.splitlines(), 1):
        key = lines.get(number)
        if key is None or key not in changes:
            yield line
        elif (value := changes[key]) is not None:
            yield f"{key} = {value}"
