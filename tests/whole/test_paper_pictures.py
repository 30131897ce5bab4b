"""The paper's figures: what is drawn is what was run, and it can be read."""

from __future__ import annotations

import dataclasses
import itertools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import tollbox as tb
from tollbox.core.stop import Stop
from tollbox.paper import operations
from tollbox.parts.estimates import Agrest, MonteCarlo
from tollbox.report.figures import save
from tollbox.report.statistics import interval
from tollbox.theory import caps, search_costs

sys.path.insert(0, str(Path(__file__).parents[2] / "docs" / "figures"))
import concept_pictures
import draw
import search_picture

STUDIES = Path(__file__).parents[2] / "studies" / "paper"
HEAD = """
batch_size = 16
seeds = [0, 1]
charge_clean = false
[images]
path = "set.npz"
[[models]]
source = "plane:labels"
"""
SEARCHES = (
    """
prices = [50]
max_queries = 100000
"""
    + HEAD
)
ITERATIONS = 3
for _preset in ("hsja", "geoda", "geoda+as"):
    SEARCHES += f'[[attacks]]\npreset = "{_preset}"\niterations = {ITERATIONS}\n'
SHARES = f"""
prices = [2, 50]
max_queries = 400
{HEAD}
[[attacks]]
preset = "hsja+agrest"
iterations = 1
queries = 180
estimate.chunk = 256
estimate.delta = 0.05
[[attacks]]
preset = "hsja"
"""
RATES = {"a-hsja": (0.6, 0.02, 0.2), "a-geoda": (0.06, 0.006)}
SWEEP = "prices = [5]\nbudget = 300\n" + HEAD
for _preset, _rates in RATES.items():
    for _m in _rates:
        SWEEP += f'[[attacks]]\npreset = "{_preset}"\nname = "{_preset} {_m}"\nestimate.m = {_m}\n'


def labels(images: torch.Tensor) -> torch.Tensor:
    weight = torch.linspace(-1, 1, images[0].numel(), dtype=torch.float64)
    score = (images.flatten(1).double() - 0.5) @ weight
    return (score > 0.3).long() + (score < -0.3).long() * 2


PIXELS = np.random.default_rng(0).integers(0, 256, (5, 8, 8, 3)).astype(np.uint8)
IMAGES = torch.from_numpy(PIXELS).permute(0, 3, 1, 2).float() / 255
TRUTH = labels(IMAGES)
TRUTH[4] = (TRUTH[4] + 1) % 3  # misclassified anyway
RIGHT = 4
MODEL = tb.models.from_callable(labels)

Made = Callable[[str], tb.studies.StudyResults]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    open_: dict[str, tb.studies.StudyResults] = {}

    def run(text: str) -> tb.studies.StudyResults:
        if text not in open_:
            folder = tmp_path_factory.mktemp("study")
            np.savez(folder / "set.npz", images=PIXELS, labels=TRUTH.numpy())
            study = tb.Study.from_text(text, folder, str(folder / "study.toml"), files=False)
            open_[text] = tb.run_study(study, folder / "out", models={"labels": MODEL})
        return open_[text]

    yield run
    for found in open_.values():
        found.close()


# -- search cost ----------------------------------------------------------------------------------


def again(preset: str, seed: int, price: float, **changes: float) -> tb.Results:
    """The same attack, run by itself, on the images that count."""
    attack = dataclasses.replace(tb.preset(preset), **changes)
    return tb.run(
        attack,
        MODEL,
        IMAGES[:RIGHT],
        TRUTH[:RIGHT],
        prices=tb.Prices(price),
        limits=tb.Limits(max_queries=100_000),
        seed=seed,
        charge_clean=False,
    )


def test_search_costs_are_those_of_shorter_runs(made: Made) -> None:
    [costs] = operations.search_costs(made(SEARCHES))
    assert (costs.images, costs.pairs, costs.left_out) == (RIGHT, 2 * RIGHT, 0)
    for preset, means in zip(("geoda", "geoda+as"), costs.means, strict=True):
        assert len(means) == ITERATIONS + 1
        for t in range(1, ITERATIONS + 1):
            runs = [r for seed in (0, 1) for r in again(preset, seed, 50, iterations=t)]
            assert all(run.stop is Stop.ITERATIONS for run in runs)
            assert means[t] == pytest.approx(
                np.mean([run.ledger.by_phase["search"] for run in runs])
            )
    assert costs.ratios[0] == pytest.approx(costs.means[0] / costs.means[1])
    assert (costs.ratios[1] <= costs.ratios[0]).all()
    assert (costs.ratios[0] <= costs.ratios[2]).all()
    for means, (low, high) in zip(costs.means, costs.bands, strict=True):
        assert (low <= means).all()
        assert (means <= high).all()
        assert (np.diff(means) >= 0).all()


def test_what_the_ledger_says_in_the_end(made: Made) -> None:
    found = made(SEARCHES)
    [costs] = operations.search_costs(found)
    for attack, means in zip(("geoda", "geoda+as"), costs.means, strict=True):
        ends = [r.ledger.by_phase["search"] for r in found.results(attack).counted]
        assert means[-1] == pytest.approx(np.mean(ends))


def test_search_costs_need_two_attacks_that_differ_in_the_search_alone(made: Made) -> None:
    with pytest.raises(tb.errors.InputError, match="differ only in their search"):
        operations.search_costs(made(SHARES))


# -- share of low-cost answers --------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Overheard:
    """An attack whose answers to estimates are written down."""

    attack: object
    flagged: list[bool] = dataclasses.field(default_factory=list)

    def __call__(self, problem: tb.attack.Problem):
        asking, answers = self.attack(problem), None
        while True:
            try:
                ask = asking.send(answers)
            except StopIteration as end:
                return end.value
            answers = yield ask
            if ask.phase == "estimate":
                self.flagged.extend(answers.flagged.tolist())


def test_shares_are_those_of_the_answers(made: Made) -> None:
    found = made(SHARES)
    [panel] = operations.share_panels(found)
    attack = found.study.attacks[0].attack
    assert panel.dimension == IMAGES[0].numel()
    whole = cut = 0
    for each in panel.prices:
        wanted, sizes = [], []
        for result in found.results("hsja+agrest", each.ratio).counted:
            image = found.grid.place(result.index).image
            heard = Overheard(attack)
            prices = tb.Prices(each.ratio)
            tb.run(
                heard,
                MODEL,
                IMAGES[image : image + 1],
                TRUTH[image : image + 1],
                prices=prices,
                limits=tb.Limits(max_queries=10_000),
                seed=result.seed,
                charge_clean=False,
            )
            notes = [step.notes for step in result.trace if "share" in step.notes]
            whole, cut = whole + len(notes), cut + 1 - len(notes)
            size = (
                notes[0]["estimate_queries"]
                if notes
                else sum(result.ledger.counts["estimate"].values())
            )
            assert size == len(heard.flagged) if notes else size < len(heard.flagged)
            wanted.append(1 - np.mean(heard.flagged[:size]))
            sizes.append(size)
            if notes:
                planned = operations.optimal(each.ratio, panel.dimension)
                assert notes[0]["planned_share"] == pytest.approx(planned)
        assert each.shares == pytest.approx(np.array(wanted))
        assert each.queries.tolist() == sizes
        assert each.left_out == 0
        assert each.one_sided == pytest.approx(np.mean(np.array(wanted) == 1))
    assert whole  # at c* = 2
    assert cut  # by the cap, at c* = 50


def test_the_optimal_share_by_hand() -> None:
    x = caps.optimal_overshoot(2.0, 784)
    heights = np.random.default_rng(0).standard_normal((20_000, 784))
    heights /= np.linalg.norm(heights, axis=1, keepdims=True)
    assert operations.optimal(2.0, 784) == pytest.approx((heights[:, 0] >= -x).mean(), abs=0.02)


def test_shares_need_agrest(made: Made) -> None:
    with pytest.raises(tb.errors.InputError, match="no attack with AGREST"):
        operations.share_panels(made(SEARCHES))


# -- sweep ----------------------------------------------------------------------------------------


def test_the_sweep_is_in_order_and_its_medians_are_those_of_the_results(made: Made) -> None:
    found = made(SWEEP)
    [panel] = operations.sweep_panels(found)
    assert list(dict.fromkeys(point.preset for point in panel.points)) == list(RATES)
    for name in RATES:
        points = [point for point in panel.points if point.preset == name]
        assert [point.m for point in points] == sorted(RATES[name])
        own = tb.preset(name).estimate.m
        assert [point.published for point in points] == [p.m == own for p in points]
        assert sum(point.published for point in points) == 1
        for point in points:
            results = found.results(f"{name} {point.m}")
            assert point.median.value == results.median_at(300)
            values = np.array([r.distance_at(300) for r in results.counted])
            images = np.array([found.grid.place(r.index).image for r in results.counted])
            assert (point.median.low, point.median.high) == interval(values, images)
            assert point.median.images == RIGHT


def test_a_sweep_needs_agrest(made: Made) -> None:
    with pytest.raises(tb.errors.InputError, match=r"estimate\.m"):
        operations.sweep_panels(made(SEARCHES))


# -- the search picture ---------------------------------------------------------------------------


def test_the_search_picture_is_algorithm_1() -> None:
    rounds, result = search_picture.run()
    low, high, cost = 0, 10, 0.0
    for step in rounds:
        assert (step.low, step.high) == (pytest.approx(low / 10), pytest.approx(high / 10))
        middle = low + search_costs.split(high - low, 2.0)
        assert step.asked == pytest.approx(middle / 10)
        assert step.flagged == (middle / 10 > search_picture.BOUNDARY)
        cost += 2.0 if step.flagged else 1.0
        assert step.cost == cost
        low, high = (low, middle) if step.flagged else (middle, high)
    assert high - low == 1
    assert {step.flagged for step in rounds} == {True, False}
    assert result.ledger.cost == cost
    assert result.ledger.queries == len(rounds)


def test_a_part_that_fails_is_not_drawn() -> None:
    def part(problem: tb.attack.Problem):
        yield tb.attack.Ask(problem.source[None], phase="probe")
        raise ZeroDivisionError

    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        search_picture.filmed(
            part, lambda points: points[:, 0].long(), search_picture.pixels(0.5, 0.5), 1.0
        )


# -- the concept pictures -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "part", [MonteCarlo(delta=0.2), Agrest(delta=0.2, chunk=1)], ids=["plain", "agrest"]
)
def test_estimates_are_those_of_the_formula(part: MonteCarlo | Agrest) -> None:
    found = concept_pictures.estimated(part)
    points = np.array([query.point for query in found.queries])
    flagged = np.array([query.flagged for query in found.queries])
    moved = points - found.centre
    assert np.linalg.norm(moved, axis=1) == pytest.approx(0.2)
    below = points[:, 1] <= concept_pictures.height(points[:, 0])
    assert flagged.tolist() == below.tolist()
    share = 1 - flagged.mean()
    g = (1 - share) * moved[~flagged].sum(0) - share * moved[flagged].sum(0)
    assert found.direction == pytest.approx(g / np.linalg.norm(g))
    ledger = found.result.ledger
    assert ledger.cost == 20 * flagged.sum() + (~flagged).sum()
    away = found.point - np.array([0.33, 0.07])
    omega = 0.0
    if isinstance(part, Agrest):
        omega = caps.optimal_overshoot(20.0, 2) * 0.2 / caps.initial_cosine(2)
        assert ledger.queries == np.ceil(caps.optimal_queries(20 * 21 / 2, 20.0, 2))
    assert found.centre == pytest.approx(found.point + omega * away / np.linalg.norm(away))
    assert found.point[1] == pytest.approx(concept_pictures.height(found.point[0]), abs=2e-4)


def test_the_moved_estimate_has_fewer_flagged_answers_and_costs_less() -> None:
    plain = concept_pictures.estimated(MonteCarlo(delta=0.2)).result.ledger
    moved = concept_pictures.estimated(Agrest(delta=0.2, chunk=1)).result.ledger
    assert moved.queries > plain.queries
    assert moved.flagged / moved.queries < 0.5 * plain.flagged / plain.queries
    assert moved.cost < plain.cost


def test_the_normal_is_that_of_the_boundary() -> None:
    for x in (0.1, 0.55, 0.9):
        step = 1e-6
        rise = concept_pictures.height(x + step) - concept_pictures.height(x - step)
        along = np.array([2 * step, rise]) / step
        assert concept_pictures.normal(x) @ along == pytest.approx(0, abs=1e-8)
        assert concept_pictures.normal(x)[1] > 0


def legend_of(axis: Axes | Figure) -> list[str]:
    keys = axis.get_legend() if isinstance(axis, Axes) else axis.legends[0]
    return [text.get_text() for text in keys.get_texts()]


def test_the_legends_of_the_pictures_are_complete(made: Made) -> None:
    left, right = concept_pictures.draw_agrest_and_search().axes
    estimate = [
        "$x_t$",
        "$x'_t$: ",
        "$x^{*}$: ",
        "δ",
        "boundary",
        "true normal",
        "estimated normal",
    ]
    for axis, words in ((left, estimate), (right, ["$x$: ", "$x^{*}$: ", "interval", "boundary"])):
        for word in [*words, "flagged", "not flagged"]:
            assert any(word in key for key in legend_of(axis)), word
    vanilla, _ = concept_pictures.draw_estimates().axes
    assert not any("$x'_t$" in key for key in legend_of(vanilla))
    assert "interval in the end" in legend_of(search_picture.draw())
    [shares] = operations.draw_shares(made(SHARES)).axes
    assert "median (across) and quartiles (upright)" in legend_of(shares)
    [sweep] = operations.draw_sweep(made(SWEEP)).axes
    assert "95 % interval" in legend_of(sweep)


def test_rounds_are_numbered_in_their_markers_and_at_their_intervals() -> None:
    _, axis = concept_pictures.draw_agrest_and_search().axes
    numbers = [text for text in axis.texts if text.get_text().isdigit()]
    assert sorted(text.get_text() for text in numbers) == ["1", "1", "2", "2", "3", "3"]
    markers = np.concatenate(
        [np.reshape(line.get_xydata(), (-1, 2)) for line in axis.lines if line.get_marker() in "oD"]
    )
    for text in (text for text in numbers if text.get_color() == "white"):
        assert np.abs(markers - text.get_position()).sum(axis=1).min() < 1e-9


# -- files ----------------------------------------------------------------------------------------


def drawn_within(figure: Figure) -> bool:
    """Whether all that is drawn, texts too, is within the figure; to a pixel."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    box = figure.get_tightbbox(canvas.get_renderer())
    wide, tall = figure.get_size_inches()
    return min(box.x0, box.y0, wide - box.x1, tall - box.y1) > -1 / figure.dpi


FIGURES: dict[str, Callable[[Made], Figure]] = {
    "search-cost": lambda made: operations.draw_search_costs(made(SEARCHES)),
    "low-cost-share": lambda made: operations.draw_shares(made(SHARES)),
    "m-sweep": lambda made: operations.draw_sweep(made(SWEEP)),
    "search-picture": lambda made: search_picture.draw(),
    "concept-picture": lambda made: concept_pictures.draw_agrest_and_search(),
    "estimates-picture": lambda made: concept_pictures.draw_estimates(),
}


@pytest.mark.parametrize("name", FIGURES)
def test_figures_are_saved_whole(made: Made, name: str, tmp_path: Path) -> None:
    figure = FIGURES[name](made)
    files = [tmp_path / f"{name}.{kind}" for kind in ("png", "svg", "pdf")]
    save(figure, *files)
    assert all(file.stat().st_size > 1000 for file in files)
    assert drawn_within(figure)


def test_the_script_draws_the_concept_figures(tmp_path: Path) -> None:
    draw.main(tmp_path)
    wanted = {f"{name}.{kind}" for name in draw.FIGURES for kind in ("svg", "png")}
    assert {file.name for file in tmp_path.iterdir()} == wanted
    assert draw.FIGURES.keys() == {"concept-picture", "search-picture", "estimates-picture"}


# -- the study files ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("folder", "name"),
    list(itertools.product(("", "small"), ("search-cost", "low-cost-share", "m-sweep"))),
)
def test_the_study_files_are_what_the_figures_need(folder: str, name: str) -> None:
    study = tb.Study.from_toml(STUDIES / folder / f"{name}.toml", files=False)
    assert not study.charge_clean
    if name == "search-cost":
        assert [spec.preset for spec in study.attacks] == ["geoda", "geoda+as"]
        assert [t.prices.ratio for t in study.tariffs] == [1000.0]
        assert len({spec.attack.iterations for spec in study.attacks}) == 1
    elif name == "low-cost-share":
        [spec] = study.attacks
        assert spec.attack.iterations == 1
        d = 150_528 if not folder else 784
        planned = caps.optimal_queries(spec.attack.queries * 3 / 2, 2.0, d)
        assert np.ceil(planned) == 500
    else:
        assert {spec.preset for spec in study.attacks} == {"a-hsja", "a-geoda", "a-cgba"}
        for preset in ("a-hsja", "a-geoda", "a-cgba"):
            rates = [s.attack.estimate.m for s in study.attacks if s.preset == preset]
            assert tb.preset(preset).estimate.m in rates
            assert rates == sorted(rates)
