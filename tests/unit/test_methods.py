"""What a preset is stands in its fields: tables, figures and summaries read nothing else."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import pytest

from tollbox.attacks import PRESETS, Kind, Method
from tollbox.core.prices import Prices
from tollbox.paper.names import attack_kind, attack_name
from tollbox.parts.calibrated import Calibrated
from tollbox.parts.estimates import Agrest
from tollbox.parts.searches import AsymmetricSearch
from tollbox.report import words
from tollbox.report.paper_table import PaperTable, TableColumn, TableRow, rows_of
from tollbox.report.statistics import Median
from tollbox.studies.spec.specs import Tariff
from tollbox.studies.spec.study import Study

TEXT = """
budget = 100
prices = [2]
[images]
path = "set.npz"
[[models]]
source = "plane:labels"
"""


def study(*attacks: str) -> Study:
    listed = "".join(f"[[attacks]]\n{attack}\n" for attack in attacks)
    return Study.from_text(TEXT + listed, Path(), "study.toml", files=False)


def named(*presets: str) -> Study:
    return study(*(f'preset = "{preset}"' for preset in presets))


@pytest.mark.parametrize("name", PRESETS)
def test_the_method_of_a_preset_agrees_with_its_parts(name: str) -> None:
    preset = PRESETS[name]
    search, estimate = (getattr(preset.attack, part, None) for part in ("search", "estimate"))
    asymmetric = preset.method in (Method.AS, Method.BOTH)
    assert isinstance(search, AsymmetricSearch) == asymmetric
    assert isinstance(estimate, Agrest) == (preset.method in (Method.AGREST, Method.BOTH))
    assert isinstance(estimate, Calibrated) == (preset.method is Method.CALIBRATED)


def test_a_family_has_one_vanilla_attack_unless_it_is_our_own() -> None:
    vanilla = Counter(p.family for p in PRESETS.values() if p.method is Method.VANILLA)
    assert vanilla == {"SurFree": 1, "HSJA": 1, "GeoDA": 1, "CGBA": 1}
    assert {p.family for p in PRESETS.values()} - set(vanilla) == {"Frugal"}


@pytest.mark.parametrize(
    ("preset", "table", "paper", "kind"),
    [
        ("hsja", "VA", "HSJA", Kind.VANILLA),
        ("hsja+as", "VA+AS", "HSJA+AS", Kind.ASYMMETRIC),
        ("geoda+agrest", "VA+AGREST", "GeoDA+AGREST", Kind.ASYMMETRIC),
        ("a-cgba", "VA+AS+AGREST (A-CGBA)", "A-CGBA", Kind.ASYMMETRIC),
        ("a-surfree", "VA+AS (A-SurFree)", "A-SurFree", Kind.ASYMMETRIC),
        ("hsja+calibrated", "measured overshoot", "HSJA+calibrated", Kind.OWN),
        ("stealthy-hsja", "stealthy", "Stealthy HSJA", Kind.STEALTHY),
        ("cgba-original", "original", "original CGBA", Kind.VANILLA),
        ("frugal", "ours", "Frugal", Kind.OWN),
    ],
)
def test_the_words_for_a_preset(preset: str, table: str, paper: str, kind: Kind) -> None:
    [spec] = named(preset).attacks
    assert (PRESETS[preset].words, attack_name(spec), attack_kind(spec)) == (table, paper, kind)


def test_a_row_has_its_own_name_where_that_says_more() -> None:
    rows = rows_of(
        study(
            'preset = "hsja"',
            'preset = "frugal"',
            'preset = "hsja+calibrated"',
            'preset = "cgba"\nname = "plain"',
            'preset = "a-hsja"\nname = "slow"\nestimate.m = 0.5',
            'preset = "a-hsja"',
        )
    )
    assert rows == [
        ("HSJA", "VA", "hsja", Method.VANILLA, Kind.VANILLA),
        ("HSJA", "measured overshoot", "hsja+calibrated", Method.CALIBRATED, Kind.OWN),
        ("HSJA", "slow", "slow", None, Kind.ASYMMETRIC),
        ("HSJA", "a-hsja", "a-hsja", Method.BOTH, Kind.ASYMMETRIC),
        ("Frugal", "ours", "frugal", Method.OWN, Kind.OWN),
        ("CGBA", "plain", "plain", Method.VANILLA, Kind.VANILLA),
    ]


def table(medians: dict[str, float]) -> PaperTable:
    presets = [PRESETS[name] for name in medians]
    rows = [TableRow(p.family, p.words, p.name, p.method, p.method.kind) for p in presets]
    cells = [[Median(value, value, value, 1.0, 9, 9)] for value in medians.values()]
    return PaperTable([TableColumn("net", Tariff("2", Prices(2), 500, math.inf))], rows, cells)


@pytest.mark.parametrize(
    ("medians", "end"),
    [
        # measured overshoot is no baseline, wherever it stands
        (
            {"hsja+calibrated": 3, "a-hsja": 1, "hsja": 2},
            "a-hsja comes nearest: median l2 1 [1, 1], 50% less than hsja (2).",
        ),
        ({"hsja+calibrated": 1, "hsja": 4, "a-hsja": 2}, "75% less than hsja (4)."),
        ({"cgba": 9, "frugal": 1, "a-hsja": 2}, "; next is a-hsja with 2."),  # no vanilla Frugal
        ({"cgba": 1, "a-cgba": 3, "hsja": 2}, "; next is hsja with 2."),
        ({"cgba": math.inf, "a-cgba": 3, "hsja": 5}, "; next is hsja with 5."),
        ({"cgba": math.inf, "a-cgba": 3}, "; next is cgba with no median."),
        ({"a-cgba": 3}, "a-cgba comes nearest: median l2 3 [3, 3]."),
        ({"cgba": math.inf}, "no attack has an adversarial point for half of the images."),
    ],
)
def test_the_summary_compares_with_the_vanilla_of_the_family_or_the_next(
    medians: dict[str, float], end: str
) -> None:
    sentence = words.nearest(table(medians), 0)
    assert sentence is not None
    assert sentence.startswith("At c* = 2 and a cost of 500 ")
    assert sentence.endswith(end)
