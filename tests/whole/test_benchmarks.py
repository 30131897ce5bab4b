"""What the benchmarks measure with: parts of a run that add up, and studies that say what is meant.

They wrap functions of the package by name: one that is renamed shows here.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from small_studies import write_study

import tollbox as tb
from tollbox.attacks.frugal.overshoot_belief import OvershootBelief
from tollbox.engine import cell_run, settling
from tollbox.engine.cell_run import CellRun
from tollbox.report.ranking import COSTS, distance_ratio, log_spaced

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Imports a benchmark by its name."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module


def test_timers_are_exclusive_and_put_back(named: Any) -> None:
    class Work:
        def outer(self) -> None:
            time.sleep(0.02)
            self.inner()
            self.inner()

        def inner(self) -> None:
            time.sleep(0.03)

        def failing(self) -> None:
            raise ValueError("as it does")

    before = dict(vars(Work))
    watch = named("stopwatch").Stopwatch()
    for name in ("outer", "inner", "failing"):
        watch.wrap(Work, name, name)
    began = time.perf_counter()
    watch.start()
    Work().outer()
    with pytest.raises(ValueError, match="as it does"):
        Work().failing()
    assert watch.enter("rest") == "rest"  # a failure does not leave its part open
    passed = time.perf_counter() - began
    assert 0.02 <= watch.seconds["outer"] < passed - 0.06
    assert 0.06 <= watch.seconds["inner"] < passed - 0.02
    assert sum(watch.seconds.values()) == pytest.approx(passed, abs=2e-3)
    watch.unwrap()
    assert dict(vars(Work)) == before


def test_a_function_is_wrapped_wherever_it_was_imported(named: Any) -> None:
    settle = settling.settle
    watch = named("stopwatch").Stopwatch()
    watch.wrap(settling, "settle", "settle")
    assert cell_run.settle is settling.settle is not settle  # type: ignore[attr-defined]
    watch.unwrap()
    assert cell_run.settle is settling.settle is settle  # type: ignore[attr-defined]


def test_where_the_host_spends_its_time(named: Any) -> None:
    found = tb.models.embedded()
    host_time: ModuleType = named("host_time")
    before = dict(vars(CellRun)), dict(vars(OvershootBelief))
    watch = host_time.watch()
    watch.start()
    began = time.perf_counter()
    results = tb.run(
        tb.preset("frugal"), found.model, found.images[:4], found.labels[:4], budget=200
    )
    queries = sum(result.ledger.queries for result in results)
    table = host_time.table(watch, queries)
    seconds = time.perf_counter() - began
    watch.unwrap()
    assert (dict(vars(CellRun)), dict(vars(OvershootBelief))) == before
    assert sum(part["share"] for part in table.values()) == pytest.approx(1, abs=1e-3)
    whole = sum(part["us_per_query"] for part in table.values())
    assert whole == pytest.approx(1e6 * seconds / queries, rel=0.05)
    for part in ("generator", "belief", "settle", "launch", "model"):
        assert table[part]["us_per_query"] > 1, part
    assert table["rest"]["share"] < 0.5
    assert table["store"]["us_per_query"] == 0


@pytest.mark.slow
def test_where_a_study_spends_its_time(tmp_path: Path) -> None:
    study, told = write_study(tmp_path, "timed_net"), tmp_path / "told.json"
    words = ["run", str(study.file), "--out", str(tmp_path / "out")]
    began = time.monotonic()
    command = [sys.executable, str(BENCHMARKS / "study_speed.py"), str(told), *words]
    subprocess.run(command, check=True, capture_output=True)
    passed = time.monotonic() - began
    inside = json.loads(told.read_text())
    parts = inside["seconds"]
    assert began <= inside["began"] <= inside["ended"] <= began + passed
    assert sum(parts.values()) == pytest.approx(inside["ended"] - inside["began"], abs=0.05)
    assert min(parts[part] for part in ("start", "load", "check", "run", "store", "end")) > 0


def test_studies_say_what_is_meant(named: Any, tmp_path: Path) -> None:
    file = named("study_files").write(
        tmp_path,
        "study",
        images="None",
        model="None",
        attacks=["a-cgba", "surfree"],
        delta=0.5,
        settings={"budget": 500.0, "prices": [2.0, 100.0], "batch_size": None, "workers": 2},
        model_settings={"mean": (0.1, 0.2, 0.3), "std": None},
    )
    study = tb.Study.from_toml(file)
    assert [tariff.prices.source for tariff in study.tariffs] == [2, 100]
    assert (study.workers, study.execution.batch_size) == (2, None)
    assert (study.models[0].mean, study.models[0].std) == ((0.1, 0.2, 0.3), None)
    assert study.attacks[0].overrides == {"estimate": {"delta": 0.5}}
    assert study.attacks[1].overrides == {}  # it has no sampling radius


def test_budgets_of_attacks(named: Any, capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--budget", nargs="+", action=named("throughput").Budgets)
    given = parser.parse_args(["--budget", "400", "surfree=90", "hsja+as=70"]).budget
    assert given == {"": 400, "surfree": 90, "hsja+as": 70}
    for wrong in ("surfre=90", "surfree=many"):
        with pytest.raises(SystemExit):
            parser.parse_args(["--budget", wrong])
        assert f"--budget {wrong}" in capsys.readouterr().err


def part_of_a_table(distances: dict[str, list[float | None]], budget: float) -> dict[str, Any]:
    """What `table.py run` writes, of c* = 2."""
    settings = {"net": "resnet50", "images": ["a", "b", "c"], "delta": None, "tf32": False}
    settings |= {"seed": 0, "by": "cost", "max_queries": None}
    entries = [
        {
            "preset": preset,
            "price": 2.0,
            "budget": budget,
            "stop": ["budget"] * 3,
            "at": {str(budget): found},
            "cut": {},
        }
        for preset, found in distances.items()
    ]
    return {"settings": settings, "parts": [], "entries": entries}


def test_a_table_beside_the_paper_s(named: Any) -> None:
    """Its median inside our interval, its ratio outside; an image without a start; no row that the
    paper does not have, nor a budget."""
    found = {"hsja": [2.0, 2.2, 2.5], "a-hsja": [4.0, 4.4, None], "frugal": [1.0, 1.0, 1.0]}
    merged = named("merged")
    told = merged.Table(part_of_a_table(found, 10_000.0)).beside_the_paper().splitlines()
    assert told[0] == "c*=2, 10K:"
    assert told[4] == "| HSJA | VA | 2.24 | 2.20 [2.00, 2.50] |  |  |"
    assert told[5] == (
        "| HSJA | VA+AS+AGREST (A-HSJA) | 2.13 | 4.40 [4.00, ∞] * | 0.95 | 2.00 [2.00, ∞] * |"
    )
    assert len(told) == 6
    assert merged.Table(part_of_a_table(found, 5000.0)).beside_the_paper() == ""


def test_a_table_in_linf_has_steps_of_8_bits(named: Any) -> None:
    part = part_of_a_table({"rays": [3 / 255, 8 / 255, 10 / 255]}, 500.0)
    part["settings"]["norm"] = "linf"
    table = named("merged").Table(part)
    assert table.medians().splitlines()[-1] == "| RayS | VA | 8.00 |"
    assert table.within().splitlines()[-1] == "| RayS | VA | 0.67 |"
    assert table.markdown([]).startswith("Median l∞ distance, in 1/255. ")


def small_part(net: str, found: dict[tuple[str, int], list[float | None]]) -> dict[str, Any]:
    """A report of some presets and prices, the same distances at every mark of the plan."""
    marks = {1: (500, 1000, 2000), 2: (500, 1000, 2000), 100: (1500, 3000, 6000)}
    count = len(next(iter(found.values())))
    entries = [
        {
            "preset": preset,
            "price": price,
            "budget": marks[price][-1],
            "stop": ["budget"] * count,
            "at": {str(mark): distances for mark in marks[price]},
            "phases": {"search": float(count)},
            "cut": {},
        }
        for (preset, price), distances in found.items()
    ]
    settings = {"net": net, "by": "cost", "images": [f"image{n}" for n in range(count)]}
    return {"settings": settings, "parts": [], "entries": entries}


def test_every_preset_of_the_images_that_all_parts_have(named: Any, tmp_path: Path) -> None:
    all_presets, merged = named("all_presets"), named("merged")
    many = small_part("vit", {("cgba", 1): [2.0, 4.0, 9.0], ("cgba", 100): [2.0, 4.0, 9.0]})
    few = small_part("vit", {("cgba+as", 100): [1.0, None], ("a-cgba", 100): [1.0, 2.0]})
    paths = [tmp_path / "many.json", tmp_path / "few.json"]
    for path, part in zip(paths, (many, few), strict=True):
        path.write_text(json.dumps(part))
    table = merged.Table(all_presets.joined(paths))
    told = all_presets.medians("vit", table).splitlines()
    # At c* = 1 asymmetric search is binary search: cgba+as has cgba's figures there, a-cgba, which
    # has AGREST as well, has not. No adversarial point counts as half of the range.
    assert "| `cgba` | 3.00 / 3.00 / 3.00 | 1.00 | – | – | 3.00 / 3.00 / 3.00 | 1.00 |" in told
    assert "| `cgba+as` | 3.00 / 3.00 / 3.00 | 1.00 | – | – | ∞ / ∞ / ∞ | 1.86 |" in told
    assert "| `a-cgba` | – | – | – | – | 1.50 / 1.50 / 1.50 | 0.50 |" in told
    (ratio,) = all_presets.asymmetric(table, (1500, 3000, 6000)).splitlines()[2:]
    assert ratio == "| `a-cgba` / `cgba` | " + " | ".join(["0.50 [0.50, 0.50]"] * 4) + " |"


def test_frugal_is_told_beside_the_nearest_other(named: Any) -> None:
    """Its own variants are no others; where it is behind, that is counted, and beside whom."""
    found = {("frugal", 1): [1.0, 2.0, 3.0], ("frugal+seri", 1): [0.1] * 3}
    found |= {("cgba", 1): [2.0, 4.0, 6.0], ("hsja", 1): [4.0, 8.0, 9.0]}
    found |= {("frugal", 2): [2.0] * 3, ("hsja", 2): [1.0] * 3, ("cgba", 2): [1.0, 1.0, 4.0]}
    found |= {("frugal", 100): [1.0] * 3, ("hsja", 100): [None, None, 1.0]}
    everywhere = named("everywhere")
    told = everywhere.show([small_part("vit", found)]).splitlines()
    assert "| vit | 1 | 500 | `cgba` | 4.00 | 2.00 | 0.50 [0.50, 0.50] | 0%, 33% |" in told
    assert "| vit | 2 | 1K | `hsja` | 1.00 | 2.00 | 2.00 [2.00, 2.00] | 100%, 0% |" in told
    assert "| vit | 100 | 6K | none | ∞ | 1.00 | not counted | 33%, 100% |" in told
    assert "- 9 cells, 6 counted." in told
    assert "- Intervals that lie wholly above 1: 3." in told
    assert "- Beside each of the others, not the best alone: 3 of 15." in told
    assert "- vit: geometric mean of 6 cells 1.00; others that were run: 2, 2, 1, 0." in told
    found = {("frugal", 1): [1.0, 1.0, 8.0], ("cgba", 1): [None, 2.0, 4.0]}
    told = everywhere.show([small_part("vit", found)], each=True).splitlines()
    assert told[2].endswith("| 1.00 [0.50, 2.00] |")  # of the two images that both have
    first = small_part("vit", {("frugal", 1): [0.5, 3.0, 3.0], ("cgba", 1): [6.0, 6.0, 6.0]})
    for entry in first["entries"]:
        entry.update(budget=250, at={str(mark): entry["at"]["500"] for mark in (50, 100, 250)})
    told = everywhere.show([first]).splitlines()
    assert "| vit | 1 | 100 | `cgba` | 6.00 | 3.00 | 0.50 [0.08, 0.50] | 0%, 33% |" in told
    table = named("merged").Table(first)
    said = named("all_presets").first("vit", table).splitlines()
    assert said[0].startswith("| preset | c\\*=1: 50 / 100 / 250 | within 1 | c\\*=100: 500 |")
    assert said[3] == "| `frugal` | 3.00 / 3.00 / 3.00 | 33 % | – | – | – | – |"
    means = "geometric mean of 3 cells 0.50, of the 3 first ones 0.50"
    assert f"- vit: {means}; others that were run: 1, 0, 0, 0." in told


def test_a_curve_has_marks_that_some_rows_lack(named: Any) -> None:
    report = small_part("vit", {("cgba", 2): [2.0, 4.0], ("a-cgba", 2): [1.0, 2.0]})
    del report["entries"][0]["at"]["1000"]
    told = named("merged").Table(report).curves(["cgba", "a-cgba"]).splitlines()
    assert told[0] == "| preset | c*=2, 500 | c*=2, 1K | c*=2, 2K |"
    assert told[2].split("|")[3].strip() == "–"
    assert told[3].split("|")[3].strip().startswith("1.50")


def test_a_radius_that_follows_the_distance_stays(named: Any) -> None:
    common = named("common")
    assert common.with_delta(tb.preset("hsja"), 0.5).estimate.delta == 0.5
    assert common.with_delta(tb.preset("qeba"), 0.5) == tb.preset("qeba")


def test_two_reports_beside_each_other(named: Any) -> None:
    """Paired by image whatever their order, at the marks of both; cut runs are left out."""
    first = part_of_a_table({"hsja": [2.0, 4.0, None], "cgba": [1.0, 1.0, 1.0]}, 500.0)
    second = part_of_a_table({"hsja": [None, 2.0, 1.0], "geoda": [1.0, 1.0, 1.0]}, 500.0)
    second["settings"]["images"] = ["c", "b", "a"]
    beside = named("beside").beside
    told = beside(first, second, None).splitlines()
    assert told[2:5] == ["| hsja | 2 | 500 | 3 | 4.00 | 2.00 | 2.00 |", "", told[4]]
    assert told[-1] == "| hsja | 2 | 1 | 2.000 |"
    second["entries"][0]["cut"] = {"2": ["time", 400.0], "0": ["time", 500.0]}
    assert "| 2 | ∞ | ∞ | – |" in beside(first, second, None)
    assert beside(first, second, ["cgba"]).startswith("The two have no")


def test_differences_are_of_the_presets_and_a_stretched_model_is_the_same(named: Any) -> None:
    differences = named("differences")
    for each in differences.differences():
        assert each.variant != tb.preset(each.preset)
    model = tb.models.from_callable(lambda batch: (batch.sum((1, 2, 3)) > 6.5).long(), classes=2)
    images = torch.rand(50, 3, 2, 2, generator=torch.Generator().manual_seed(0))
    shrunk = (images - 0.5) / 16 + 0.5
    labels = differences.stretched(model, 16.0)(shrunk)
    assert torch.equal(labels, model(images))
    assert 0 < int(labels.sum()) < 50
    assert not torch.equal(labels, model(shrunk))


def test_a_counted_network_ends_a_run_at_the_budget_and_keeps_what_was_near(named: Any) -> None:
    """Of rows past the budget none counts, nor one outside [0,1], nor one of the source's class."""
    peers = named("peers")

    def logits(rows: torch.Tensor) -> torch.Tensor:
        far = rows.flatten(1).sum(1) > 1
        return torch.stack([~far, far], 1).float()

    counted = peers.Counted(logits, torch.zeros(1, 1, 2), 0, 5)
    rows = torch.tensor([[0.9, 0.9], [0.1, 0.1], [0.6, 0.8], [1.1, 0.0]]).view(4, 1, 1, 2)
    counted(rows)
    wanted = [(1, pytest.approx(0.9 * 2**0.5)), (3, pytest.approx(1.0))]
    assert counted.found == wanted
    with pytest.raises(peers.Spent):
        counted(torch.tensor([[0.0, 0.0], [0.55, 0.55]]).view(2, 1, 1, 2))
    assert (counted.asked, counted.found) == (6, wanted)
    distances = [counted.distance(queries) for queries in (0, 2, 3)]
    assert distances == [math.inf, wanted[0][1], wanted[1][1]]


def test_peers_are_compared_on_the_images_that_both_have(named: Any) -> None:
    peers = named("peers")
    one = peers.Record({500: [1.0, 2.0, math.inf, 3.0]}, 1.0, 0, [])
    other = peers.Record({500: [2.0, 1.0, 1.0, math.inf]}, 1.0, 0, [])
    ratio, ours, theirs = peers.compared(one, other, 500)
    assert ratio.value == pytest.approx(1.0)
    assert ratio.low < 1 < ratio.high
    assert (ours, theirs) == (1, 1)


def test_a_reference_is_counted_on_valid_images(named: Any) -> None:
    side = named("references_side")
    image = torch.full((3, 2, 2), 0.25)
    bright = torch.nn.Linear(12, 2, bias=True)
    bright.weight.data = torch.tensor([[0.0], [1 / 12]]).expand(2, 12).clone()
    bright.bias.data = torch.tensor([0.5, 0.0])  # label 1 above a mean of one half
    run = side.Run(Path(), torch.nn.Sequential(torch.nn.Flatten(), bright), image, 0, 4, 2.0)
    run.blank_is_free = True

    def rows(*levels: float) -> torch.Tensor:
        return torch.tensor(levels).view(-1, 1, 1, 1).expand(-1, 3, 2, 2)

    run(rows(0.25, 0.0))
    assert run.count == 0  # the clean image and padding are free
    assert run(rows(7.0)).argmax(1).tolist() == [1]
    assert run.found == [(1, pytest.approx(0.75 * 12**0.5))]  # clipped to 1
    normal = run.normalise(rows(0.75, 0.3))
    run(normal)
    with pytest.raises(side.Spent):
        run(run.normalise(rows(0.625, 0.6)))  # the second is past the last mark
    reached = [run.at(mark) / 12**0.5 for mark in (0, 1, 2, 3, 4)]
    assert reached == pytest.approx([math.inf, 0.75, 0.5, 0.5, 0.375])


def test_a_stealthy_reference_is_charged_for_what_it_keeps(named: Any) -> None:
    side = named("references_side")
    run = argparse.Namespace(found=[], last=2)
    start = side.Counter(run)
    batch = torch.tensor([True, False, True]), torch.tensor([3.0, 2.0, 1.0])
    start.increase(None, *batch)  # they discard this one: only the rows up to the flagged are sent
    one = start.increase(None, batch[0][:2], batch[1][:2])
    two = one.increase(None, safe=batch[0][:2], distance=torch.tensor([[1.0], [0.5]]))
    assert (one.flagged, two.flagged) == (1, 2)
    with pytest.raises(side.Spent):
        two.increase(None, *batch)
    assert run.found == [(1, 3.0), (2, 1.0)]


def test_references_are_compared_and_stored(named: Any) -> None:
    side, references = named("references_side"), named("references")
    ours = side.Outcome({200: [2.0, 8.0, 1.0], 500: [1.0, 1.0, 1.0]}, 1.4, [])
    theirs = side.Outcome({200: [1.0, 1.0, math.inf], 500: [1.0, 1.0, 1.0]}, 3.0, ["image 2"])
    entry = json.loads(json.dumps(references.entry_of("ttba", ours, theirs, "abc")))
    assert entry["ratio"]["200"][0] == 4
    assert entry["pairs"] == {"200": 2, "500": 3}
    assert references.stored(entry) == theirs
    shorter = {**entry, "ratio": dict([*entry["ratio"].items()][:1])}
    lines = references.table([entry, shorter]).splitlines()
    assert len({line.count("|") for line in lines}) == 1
    preset, repository, marks, first, *_, pairs, median = references.shown(entry)
    assert (preset, repository, pairs, median) == ("ttba", "BUPTAIOC/TtBA", "2/3", "5/1")
    assert marks == "200/500 queries"
    assert first.startswith("4.00 [2.00, 8.00")
    assert set(side.REFERENCES) <= set(tb.presets())


def ranked(values: dict[str, Any]) -> dict[str, Any]:
    """A report of presets on nine images: their distances by cost and image."""
    return {
        "settings": {"net": "vit", "by": "cost", "images": list(range(9))},
        "parts": [],
        "entries": [
            {
                "preset": name,
                "price": 1.0,
                "budget": 1000.0,
                "at": {
                    str(mark): [None if math.isinf(d) else d for d in row]
                    for mark, row in zip(log_spaced(1000.0), distances, strict=True)
                },
                "stop": ["budget"] * 9,
                "cut": {},
            }
            for name, distances in values.items()
        ],
    }


def test_the_ranking_is_that_of_a_report(named: Any) -> None:
    """G of a table of benchmarks, and of `tollbox report`: one definition, with one cap where there
    is no adversarial point yet; what else is in the table has no part in it."""
    rng = np.random.default_rng(0)
    values = {name: rng.lognormal(size=(COSTS, 9)) for name in ("cgba", "a-cgba")}
    values["cgba"][:5, 3:] = math.inf
    values["a-cgba"][:2] = math.inf
    told = named("merged").Table(ranked(values)).rankings("cgba")["a-cgba", 1.0]
    cap = 0.5 * math.sqrt(3 * 32 * 32)
    found = distance_ratio(values["a-cgba"].T, values["cgba"].T, np.arange(9), cap)
    assert told == f"{found.value:.2f} [{found.low:.2f}, {found.high:.2f}]"
    far = {**values, "boundary": np.full((COSTS, 9), 25.0)}
    assert named("merged").Table(ranked(far)).rankings("cgba")["a-cgba", 1.0] == told
