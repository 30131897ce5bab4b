"""What a preset is stands in its fields: tables, figures and summaries read nothing else."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import pytest

import tollbox as tb
from tollbox.attacks import PRESETS, WITH_SURROGATE, Kind, Method, Preset
from tollbox.attacks.frugal.calibrated import Calibrated
from tollbox.core.limits import Limits
from tollbox.core.prices import Prices
from tollbox.paper.outputs import attack_name
from tollbox.parts.estimates import Agrest
from tollbox.parts.searches import AsymmetricSearch
from tollbox.report import summary
from tollbox.report.page import attack_styles
from tollbox.report.paper_table import PaperTable, TableColumn, TableRow, price_label, rows_of
from tollbox.report.statistics import Median
from tollbox.studies.specs import Tariff
from tollbox.studies.study import Study

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


@pytest.mark.parametrize("preset", [*PRESETS.values(), *WITH_SURROGATE.values()])
def test_the_method_of_a_preset_agrees_with_its_parts(preset: Preset) -> None:
    search, estimate = (getattr(preset.attack, part, None) for part in ("search", "estimate"))
    estimate = getattr(estimate, "inner", estimate)
    asymmetric = preset.method in (Method.AS, Method.BOTH)
    assert isinstance(search, AsymmetricSearch) == asymmetric
    assert isinstance(estimate, Agrest) == (preset.method in (Method.AGREST, Method.BOTH))
    assert isinstance(estimate, Calibrated) == (preset.method is Method.CALIBRATED)


def test_a_family_has_one_vanilla_attack_unless_it_is_our_own() -> None:
    every = [*PRESETS.values(), *WITH_SURROGATE.values()]
    vanilla = Counter(p.family for p in every if p.method is Method.VANILLA)
    assert set(vanilla.values()) == {1}
    assert {"SurFree", "HSJA", "GeoDA", "CGBA", "Boundary"} <= set(vanilla)
    assert {p.family for p in every} - set(vanilla) == {"Frugal", "Frugal-linf"}


@pytest.mark.parametrize(
    ("preset", "table", "paper", "kind"),
    [
        ("hsja", "VA", "HSJA", Kind.VANILLA),
        ("hsja+as", "VA+AS", "HSJA+AS", Kind.ASYMMETRIC),
        ("geoda+agrest", "VA+AGREST", "GeoDA+AGREST", Kind.ASYMMETRIC),
        ("a-cgba", "VA+AS+AGREST (A-CGBA)", "A-CGBA", Kind.ASYMMETRIC),
        ("a-surfree", "VA+AS (A-SurFree)", "A-SurFree", Kind.ASYMMETRIC),
        ("hsja+calibrated", "measured overshoot", "HSJA+calibrated (tollbox)", Kind.OWN),
        ("stealthy-hsja", "stealthy", "Stealthy HSJA", Kind.STEALTHY),
        ("a-sign-opt", "VA+AS (A-Sign-OPT)", "A-Sign-OPT", Kind.ASYMMETRIC),
        ("stealthy-opt", "stealthy", "Stealthy OPT", Kind.STEALTHY),
        ("cgba-original", "original", "original CGBA", Kind.VANILLA),
        ("a-cgba-h", "VA+AS+AGREST (A-CGBA-H)", "A-CGBA-H", Kind.ASYMMETRIC),
        ("a-tria", "VA+AS (A-TriA)", "A-TriA", Kind.ASYMMETRIC),
        ("cgba+seri", "with SeRI's rescaling", "CGBA+SeRI (tollbox)", Kind.OWN),
        ("cgba+sar", "with SAR's rescaling", "CGBA+SAR (tollbox)", Kind.OWN),
        ("frugal", "built-in", "Frugal (tollbox)", Kind.OWN),
        (
            'a-sqba"\nsurrogate = "nets:one',
            "VA+AS+AGREST (A-SQBA)",
            "A-SQBA",
            Kind.ASYMMETRIC,
        ),
        (
            'frugal+surrogate"\nsurrogate = "nets:one',
            "with a surrogate",
            "Frugal+surrogate (tollbox)",
            Kind.OWN,
        ),
    ],
)
def test_the_words_for_a_preset(preset: str, table: str, paper: str, kind: Kind) -> None:
    [spec] = named(preset).attacks
    assert (spec.described.words, attack_name(spec), spec.described.method.kind) == (
        table,
        paper,
        kind,
    )


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
    assert [row[:5] for row in rows] == [
        ("HSJA", "VA", "hsja", Method.VANILLA, Kind.VANILLA),
        ("HSJA", "measured overshoot", "hsja+calibrated", Method.CALIBRATED, Kind.OWN),
        ("HSJA", "slow", "slow", None, Kind.ASYMMETRIC),
        ("HSJA", "a-hsja", "a-hsja", Method.BOTH, Kind.ASYMMETRIC),
        ("Frugal", "built-in", "frugal", Method.OWN, Kind.OWN),
        ("CGBA", "plain", "plain", Method.VANILLA, Kind.VANILLA),
    ]


def table(medians: dict[str, float], alike: tuple[str, ...] = ()) -> PaperTable:
    """One column; the least median differs significantly from all except the `alike`."""
    presets = [PRESETS[name] for name in medians]
    best = {*alike, min(medians, key=lambda name: medians[name])}
    cells = [Median(v, v, v, 1.0, 9, 9, name in best) for name, v in medians.items()]
    rows = [
        TableRow(p.family, p.words, p.name, p.method, p.method.kind, [cell])
        for p, cell in zip(presets, cells, strict=True)
    ]
    column = TableColumn("net", Tariff("2", Prices(2), Limits(500)))
    return PaperTable([column], rows)


@pytest.mark.parametrize(
    ("medians", "end"),
    [
        # measured overshoot is no baseline, wherever it stands
        (
            {"hsja+calibrated": 3, "a-hsja": 1, "hsja": 2},
            "a-hsja has the smallest distance: median ℓ2 1.00 (95\u202f% CI 1.00–1.00), "
            "50\u202f% less than hsja (2.00).",
        ),
        ({"hsja+calibrated": 1, "hsja": 4, "a-hsja": 2}, "75\u202f% less than hsja (4.00)."),
        (
            {"cgba": 9, "frugal": 1, "a-hsja": 2},
            "; the next is a-hsja (2.00).",
        ),  # no vanilla
        ({"cgba": 1, "a-cgba": 3, "hsja": 2}, "; the next is hsja (2.00)."),
        ({"cgba": math.inf, "a-cgba": 3, "hsja": 5}, "; the next is hsja (5.00)."),
        ({"cgba": math.inf, "a-cgba": 3}, "; the next is cgba (∞)."),
        ({"a-cgba": 3}, "a-cgba has a median ℓ2 3.00 (95\u202f% CI 3.00–3.00)."),
        ({"cgba": math.inf}, "no attack has an adversarial point for half of the images."),
    ],
)
def test_the_summary_compares_with_the_vanilla_of_the_family_or_the_next(
    medians: dict[str, float], end: str
) -> None:
    sentence = summary.best_attack(table(medians), 0)
    assert sentence is not None
    assert sentence.startswith("At c* = 2 and a cost of 500, ")
    assert sentence.endswith(end)


def test_the_summary_names_what_is_not_significantly_different() -> None:
    medians = {"hsja": 4.0, "cgba": 3.0, "frugal": 2.0, "geoda": 2.5, "surfree": 3.5, "a-hsja": 9.0}
    pair = summary.best_attack(table(medians, ("geoda",)), 0)
    assert pair is not None
    assert "smallest" not in pair
    assert pair.endswith("CI 2.00–2.00) is not significantly different from geoda (2.50).")
    more = summary.best_attack(table(medians, ("geoda", "cgba", "surfree", "hsja")), 0)
    assert more is not None
    end = "frugal (median ℓ2 2.00, 95\u202f% CI 2.00–2.00) is not significantly different from "
    assert more.endswith(end + "geoda (2.50), cgba (3.00), surfree (3.50) and 1 more.")


@pytest.mark.parametrize(
    ("tariff", "label"),
    [
        (Tariff.of(100.0, budget=1e4), "c* = 100"),
        (Tariff.of(math.inf, max_queries=50), "c* = ∞"),
        (Tariff.of(100.0, budget=1e4, name="dear"), "dear: c* = 100"),
        (
            Tariff("fees", Prices.per_class({1: 5, 4: 20}), Limits(1e4)),
            "fees: per class (2 listed)",
        ),
    ],
)
def test_a_price_is_named(tariff: Tariff, label: str) -> None:
    assert price_label(tariff) == label
    assert TableColumn("net", tariff).head == label


def test_attacks_of_a_family_are_drawn_apart_and_methods_alike() -> None:
    attacks = [f'preset = "{name}"' for name in tb.presets("l2")]
    attacks += [f'preset = "hsja"\nname = "own {n}"\nsearch.tau = 0.0{n}' for n in (1, 2)]
    styles = {a["name"]: a["style"] for a in attack_styles(rows_of(study(*attacks)))}
    hsja = [styles[name] for name, preset in PRESETS.items() if preset.family == "HSJA"]
    assert len({*hsja, styles["own 1"], styles["own 2"]}) == len(hsja) + 2
    assert styles["hsja"] == styles["cgba"] == styles["geoda"] == 0
    assert styles["a-hsja"] == styles["a-cgba"]
    few = attack_styles(rows_of(named("hsja", "a-hsja", "frugal")))
    assert few[-1]["style"] == 0  # alone in its family


def test_the_summary_counts_queries_where_there_is_no_budget() -> None:
    capped = table({"hsja": 2.0, "cgba": 1.0})
    column = TableColumn("net", Tariff.of(math.inf, max_queries=5000))
    sentence = summary.best_attack(PaperTable([column], capped.rows), 0)
    assert sentence is not None
    assert sentence.startswith("At c* = ∞ and 5,000 queries, cgba has the smallest distance")
