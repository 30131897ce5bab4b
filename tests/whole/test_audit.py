"""`tb.audit` on known boundaries: what it reports is what was recorded, however it was run."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import math
import re
import resource
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tollbox as tb
from tollbox.audits.audit import ANSWERS, IMAGES, PAGE, audit, conclude, settings_of
from tollbox.audits.compare import check_other
from tollbox.audits.costs import AuditRuns
from tollbox.audits.criteria import Criteria
from tollbox.audits.suite import ATTACKS, study_fields
from tollbox.audits.verdict import advice, verdict
from tollbox.core.goal import Goal
from tollbox.core.ledger import Ledger
from tollbox.core.result import Improvement, Result
from tollbox.core.stop import Stop
from tollbox.studies.create import describe
from tollbox.studies.events import CellEnded, Event
from tollbox.studies.grid import Grid
from tollbox.studies.specs import ImagesSpec, ModelSpec
from tollbox.studies.store.record import Environment, ModelRecord
from tollbox.studies.store.store import Store, shard_path
from tollbox.studies.study import Study
from tollbox.testing import half_space

SHAPE = (1, 8, 8)
IMAGES_COUNT = 5
BUDGET = 150


def case(distance: float = 1.0) -> tuple[Any, torch.Tensor, list[int]]:
    """A plane, images at several distances of it, and their labels; the last is wrong."""
    plane = half_space(distance, SHAPE)
    generator = torch.Generator().manual_seed(0)
    images = plane.source[None] + 0.05 * torch.randn((IMAGES_COUNT, *SHAPE), generator=generator)
    return plane, images.clamp(0, 1).float(), [0, 0, 0, 0, 1]


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tb.audits.audit.Audit]:
    plane, images, labels = case()
    out = tmp_path_factory.mktemp("audit") / "out"
    return audit(plane.model(), images, labels, out=out, name="plane", budget=BUDGET, worth=500)


def results_of(found: tb.audits.audit.Audit) -> list[tb.Result]:
    with tb.studies.StudyResults(found.folder) as results:
        return [r for r in results.results() if r.stop.attacked]


def test_costs_are_those_of_the_recorded_points(audited: tb.audits.audit.Audit) -> None:
    """By brute force over all improvements of all results; and the re-priced cost at the price that
    a run planned with is its ledger's own."""
    by_image: dict[str, list[tuple[float, int, int]]] = {}
    for result in results_of(audited):
        for row in result.improvements:
            by_image.setdefault(result.name, []).append((row.distance, row.source, row.queries))
            prices = result.ledger.prices
            assert (
                row.cost == (row.queries - row.source) * prices.other + row.source * prices.source
            )
    found = audited.data
    assert found["images"] == {
        **{"given": 5, "misclassified": 1, "measured": 4, "shape": [1, 8, 8], "values": 64}
    }
    exact = Criteria().levels(np.array([min(p)[0] for p in by_image.values()]), 64)
    assert [level["epsilon"] for level in found["levels"]] == [
        pytest.approx(e, 1e-5) for e in exact
    ]
    for row in found["costs"]:
        price = math.inf if row["price"] == "inf" else row["price"]
        epsilon = exact[row["level"]]
        costs = sorted(
            min(
                (
                    f if math.isinf(price) else q - f + price * f
                    for d, f, q in points
                    if d <= epsilon
                ),
                default=math.inf,
            )
            for points in by_image.values()
        )
        middle = row["quantiles"][1]["value"]
        assert (math.inf if middle is None else middle) == pytest.approx(costs[1])
        assert row["never"] == pytest.approx(np.isinf(costs).mean())


def test_nothing_is_nearer_than_the_plane(audited: tb.audits.audit.Audit) -> None:
    nearest = min(r.distance for r in results_of(audited))
    answer = conclude(audited.folder, Criteria.of(epsilon=str(nearest * 0.999)))
    assert answer.data["levels"][0]["reached"] == 0
    assert answer.data["verdict"][0].startswith(
        "None of the 4 images was attacked successfully within"
    )
    assert "does not prove safety" in answer.data["verdict"][1]
    conclude(audited.folder)


def test_the_words_have_the_numbers(audited: tb.audits.audit.Audit) -> None:
    found = json.loads((audited.folder / ANSWERS).read_text())
    assert found == json.loads(json.dumps(audited.data))
    half = next(row["quantiles"][1] for row in found["costs"] if row["level"] == found["headline"])
    assert f"for at most {half['value']:.0f} (95" in found["verdict"][0]
    assert found["verdict"][1].startswith("If a changed image is worth 500, a flagged answer must")
    assert "The model classifies 4 of 5 images correctly" in " ".join(found["notes"])
    assert found["left_out"] == []
    assert [run["attack"] for run in found["runs"]] == [a for a in ATTACKS for _ in range(5)]
    page = (audited.folder / PAGE).read_text()
    assert "data:image/png;base64," in page
    assert "The images cannot be shown" not in page


def test_g_and_o_are_those_of_the_results(audited: tb.audits.audit.Audit) -> None:
    """Worked out from `distance_at`; where flagged answers alone cost something there is none."""
    cap, found = 0.5 * math.sqrt(64), audited.data["ranking"]
    every = results_of(audited)
    best = {r.name: min(s.distance for s in every if s.name == r.name) for r in every}
    assert found["against"] == ATTACKS[0]
    assert [row["price"] for row in found["costs"]] == [1, 10, 100, 1000]
    assert len(found["standings"]) == 4 * len(ATTACKS)
    with tb.studies.StudyResults(audited.folder) as results:
        for row in found["standings"]:
            last = next(each for each in found["costs"] if each["price"] == row["price"])["last"]
            marks = np.geomspace(last / 20, last, 24)
            ours, theirs = (
                {
                    r.name: np.minimum([r.distance_at(cost) for cost in marks], cap)
                    for r in results.results(attack=attack, price=f"{row['price']}")
                    if r.stop.attacked
                }
                for attack in (row["attack"], ATTACKS[0])
            )
            logs = [np.log(ours[name] / theirs[name]).mean() for name in best]
            lags = [np.log(ours[name] / best[name]) / np.log(cap / best[name]) for name in best]
            assert row["G"]["value"] == pytest.approx(math.exp(np.mean(logs)), rel=1e-4)
            assert row["O"]["value"] == pytest.approx(1 - np.mean(lags), rel=1e-4)
            assert row["G"]["low"] <= row["G"]["value"] <= row["G"]["high"]


def test_a_folder_that_was_moved_is_read_without_the_model(
    audited: tb.audits.audit.Audit, tmp_path: Path
) -> None:
    moved = tmp_path / "elsewhere"
    shutil.copytree(audited.folder, moved)
    (moved / PAGE).unlink()
    found = conclude(moved)
    same = {"commands"}
    assert {k: v for k, v in found.data.items() if k not in same} == {
        k: v for k, v in audited.data.items() if k not in same
    }
    assert "data:image/png;base64," in (moved / PAGE).read_text()
    (moved / IMAGES).unlink()
    hidden = (audited.folder / IMAGES).rename(tmp_path / "hidden.npz")
    shown = conclude(moved)  # it says why there are none
    hidden.rename(audited.folder / IMAGES)
    assert shown.data["costs"] == audited.data["costs"]
    assert "The images cannot be shown" in (moved / PAGE).read_text()


def test_what_is_asked_changes_nothing_that_is_run(
    audited: tb.audits.audit.Audit, tmp_path: Path
) -> None:
    policy = tb.Prices.escalating({1: 1.0, 5: 100.0})
    odd = conclude(audited.folder, Criteria.of(worth=1234.56789)).data
    assert "worth 1,235" in odd["verdict"][1]
    found = conclude(audited.folder, Criteria.of(70, "1,2", policy))
    assert [level["epsilon"] for level in found.data["levels"]] == [1, 2]
    assert {row["worth"] for row in found.data["break_even"]} == {70, 100, 1000, 10_000, 100_000}
    assert all("At a worth of 70, " in text for text in found.data["advice"][:1])
    [one, two] = [row["quantiles"][1]["value"] for row in found.data["policy"]]
    assert two is not None
    assert one is None or one >= two
    assert found.data["curves"]["lines"][-1]["policy"] == "policy"
    again = conclude(audited.folder)  # as it was begun
    assert again.data == audited.data


def test_the_same_call_goes_on_and_ends_alike(
    audited: tb.audits.audit.Audit, tmp_path: Path
) -> None:
    plane, images, labels = case()
    out = tmp_path / "out"
    settings: Any = {"name": "plane", "budget": BUDGET, "worth": 500}
    first = audit(plane.model(), images, labels, out=out, time_limit=0.01, **settings)
    assert first.data["left_out"]
    whole = audit(plane.model(), images, labels, out=out, **settings)
    without = {"commands", "environment"}
    assert {k: v for k, v in whole.data.items() if k not in without} == {
        k: v for k, v in audited.data.items() if k not in without
    }
    with pytest.raises(tb.errors.InputError, match="has another study"):
        audit(plane.model(), images, labels, out=out, name="plane", budget=BUDGET + 1)


def test_series_that_are_not_complete_are_left_out(tmp_path: Path) -> None:
    plane, images, labels = case()
    calls = Counter[str]()

    def failing(batch: torch.Tensor) -> torch.Tensor:
        calls["batches"] += 1
        if calls["batches"] > 40:
            raise KeyboardInterrupt
        return plane.labels(batch)

    model = tb.models.from_callable(failing, dtype=torch.float64, classes=3)
    with pytest.raises(KeyboardInterrupt):
        audit(model, images, labels, out=tmp_path / "out", budget=BUDGET)
    found = conclude(tmp_path / "out")
    names = {(row["attack"], str(row["price"])) for row in found.data["left_out"]}
    assert names
    for rows in (found.data["runs"], found.data["ranking"]["standings"]):
        assert not names & {(row["attack"], str(row["price"])) for row in rows}
    assert "Not measured, because not all images are finished" in " ".join(found.data["notes"])
    if not found.data["runs"]:
        assert found.data["verdict"][0].startswith("No result yet")


def test_what_a_partial_audit_says_of_later_costs_is_true(tmp_path: Path) -> None:
    """At one ε they become lower. Without one, ε moves, and they may become higher."""
    plane, images, labels = case()
    cells = itertools.count(1)

    def tell(event: Event) -> None:
        if isinstance(event, CellEnded) and next(cells) == 2 * IMAGES_COUNT:
            raise KeyboardInterrupt

    settings: Any = {"out": tmp_path / "out", "budget": 100, "time_limit": 1e6}
    with pytest.raises(KeyboardInterrupt):
        audit(plane.model(), images, labels, tell=tell, **settings)
    fixed = Criteria.of(epsilon="1.2")
    moving, part = conclude(tmp_path / "out"), conclude(tmp_path / "out", fixed)
    assert part.data["runs"]
    lower = "At the same ε, the costs can only become lower"
    smaller = ", but the verdict may move to a smaller ε, at which costs are higher."
    assert f"{lower}{smaller}" in " ".join(moving.data["notes"])
    assert f"{lower}." in " ".join(part.data["notes"])
    whole = audit(plane.model(), images, labels, **settings)
    assert lower not in " ".join(whole.data["notes"])
    later = {row["price"]: row for row in conclude(tmp_path / "out", fixed).data["costs"]}
    for row in part.data["costs"]:
        assert row["never"] >= later[row["price"]]["never"]
        for before, now in zip(row["quantiles"], later[row["price"]]["quantiles"], strict=True):
            assert before["value"] is None or now["value"] <= before["value"]


def test_where_time_is_limited_series_end_one_after_the_other(tmp_path: Path) -> None:
    """No more cells are under way than a series has, so that the first attacks are complete first;
    without a limit there would be 64."""
    plane, images, labels = case()
    ended: list[int] = []

    def tell(event: Event) -> None:
        if isinstance(event, CellEnded):
            ended.append(event.cell)

    settings: Any = {"budget": 100, "batch_size": 8, "time_limit": 1e6, "tell": tell}
    audit(plane.model(), images, labels, out=tmp_path / "out", **settings)
    assert sorted(ended) == list(range(100))
    assert all(cell < place + IMAGES_COUNT for place, cell in enumerate(ended))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"surrogate": torch.nn.Flatten()}, "surrogate is Flatten(start_dim=1, end_dim=-1): expec"),
        ({"images": torch.zeros(2, 1, 8)}, "images has shape (2, 1, 8): expected at least one"),
        ({"images": torch.zeros(0, 1, 8, 8)}, "images has shape (0, 1, 8, 8)"),
        (
            {"images": torch.full((5, 1, 8, 8), 2.0)},
            "image 0 has values from 2 to 2: expected [0,1]",
        ),
        ({"images": "pictures"}, "images is 'pictures': expected images (n, c, h, w)"),
        ({"labels": [0, 0]}, "labels has 2 labels for 5 images: expected one for each image"),
        ({"labels": ["cat"] * 5}, "the label of image 0 is 'cat': expected an integer"),
        ({"labels": torch.full((5,), 0.5)}, "the label of image 0 is 0.5: expected an integer"),
        ({"labels": 5}, "labels is 5: expected whole numbers"),
        ({"name": ""}, "name is '': expected a name for the model"),
        ({"seed": 1.5}, "seed is 1.5: expected a whole number"),
        ({"exact": 3}, "exact is 3: expected True or False"),
        ({"tell": 3}, "tell is 3: expected a function, or None"),
        ({"flagged": 3}, "flagged is 3: expected a set of classes"),
        ({"class_names": "abc"}, "class_names is 'abc': expected a list of names"),
        ({"labels": [0, 0, 0, 0, 3]}, "3"),
        ({"budget": 1}, "budget is 1: expected a number from 100"),
        ({"worth": -1}, "worth is -1: expected a number above 0"),
        ({"epsilon": "x"}, "epsilon has 'x'"),
        ({"time_limit": -1}, "time_limit"),
        ({"model": 3}, "model is 3: expected a callable"),
    ],
)
def test_bad_input_writes_nothing(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    plane, images, labels = case()
    given: dict[str, Any] = {"model": plane.model(), "images": images, "labels": labels, **changes}
    with pytest.raises(tb.errors.InputError) as caught:
        audit(
            given.pop("model"),
            given.pop("images"),
            given.pop("labels"),
            out=tmp_path / "o",
            **given,
        )
    assert said in str(caught.value)
    assert not (tmp_path / "o").exists()


def test_another_study_is_no_audit(tmp_path: Path, study_folder: Any) -> None:
    tb.run_study(study_folder.study(), tmp_path / "study").close()
    with pytest.raises(
        tb.errors.InputError, match="has a study that is not an audit: expected a folder"
    ):
        conclude(tmp_path / "study")


# -- two audits ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_audit_beside_itself_and_beside_a_stronger_model(
    audited: tb.audits.audit.Audit, tmp_path: Path
) -> None:
    beside = conclude(audited.folder, other=audited.folder).data["against"]
    known = [row for row in beside["ratios"] if row["ratio"] is not None]
    assert known
    assert {(row["ratio"], row["low"], row["high"]) for row in known} == {(1, 1, 1)}
    assert beside["verdict"][0].startswith("The difference is not significant: at c* = ")
    farther, images, labels = case(1.6)
    hard = audit(farther.model(), images, labels, out=tmp_path / "hard", name="hard", budget=BUDGET)
    against = conclude(hard.folder, other=audited.folder).data["against"]
    assert (against["images"], against["same_suite"]) == (4, True)
    cheap = [row for row in against["ratios"] if row["price"] == 1 and row["ratio"] is not None]
    assert all(row["ratio"] >= 1 for row in cheap)
    page = (hard.folder / PAGE).read_text()
    assert '"against":{' in page
    other = audit(plane_of(3), images[:, :, :4], labels, out=tmp_path / "small", budget=BUDGET)
    with pytest.raises(
        tb.errors.InputError, match="against has images of 1 x 4 x 8, but this audit has"
    ):
        conclude(hard.folder, other=other.folder)
    darker = audit(farther.model(), images * 0.9, [0] * 5, out=tmp_path / "d", budget=BUDGET)
    with pytest.raises(tb.errors.InputError, match="has measured none of the images of"):
        conclude(hard.folder, other=darker.folder)
    conclude(audited.folder)


def test_beside_an_audit_that_is_not_finished(
    audited: tb.audits.audit.Audit, tmp_path: Path
) -> None:
    """Of the same model and images: by what is finished on both, neither costs more."""
    plane, images, labels = case()
    out = tmp_path / "part"
    ended: list[int] = []

    def tell(event: Event) -> None:
        if isinstance(event, CellEnded):
            ended.append(event.cell)
            if len(ended) == 7 * IMAGES_COUNT:
                raise KeyboardInterrupt

    settings: Any = {"budget": BUDGET, "time_limit": 1e6, "tell": tell}
    with pytest.raises(KeyboardInterrupt):
        audit(plane.model(), images, labels, out=out, name="plane", **settings)
    part = conclude(out).data
    assert 1 <= len(part["runs"]) < len(audited.data["runs"])
    for folder, other in ((audited.folder, out), (out, audited.folder)):
        beside = conclude(folder, other=other).data["against"]
        assert {row["ratio"] for row in beside["ratios"]} <= {1, None}
        assert all(row["reached"][0] == row["reached"][1] for row in beside["ratios"])
        assert len(beside["left_out"]) == len(audited.data["runs"]) - len(part["runs"])
        assert "not finished on both, are left out" in beside["verdict"][-1]
    conclude(audited.folder)


def test_what_another_audit_is_checked_for_before_a_run(audited: tb.audits.audit.Audit) -> None:
    with tb.studies.StudyResults(audited.folder) as results:
        known = {(content, label) for content, label, _ in results.images}
    check_other(audited.folder, SHAPE, known)
    with pytest.raises(
        tb.errors.InputError, match="against has images of 1 x 8 x 8, but this audit has"
    ):
        check_other(audited.folder, (3, 8, 8), known)
    with pytest.raises(tb.errors.InputError, match="has measured none of the images of this audit"):
        check_other(audited.folder, SHAPE, {(content, 2) for content, _ in known})


def test_where_all_runs_fail_nothing_is_said(tmp_path: Path) -> None:
    plane, images, labels = case()
    calls = Counter[str]()

    def failing(batch: torch.Tensor) -> torch.Tensor:
        calls["batches"] += 1
        if calls["batches"] > 1:  # the first is that in which a model is tried
            raise ValueError("out of order")
        return plane.labels(batch)

    model = tb.models.from_callable(failing, dtype=torch.float64, classes=3)
    found = audit(model, images, labels, out=tmp_path / "out", budget=BUDGET, worth=500)
    assert found.data["failed"] == 100
    assert found.verdict.startswith("No result: all 100 runs failed.")
    assert found.data["advice"] == []


SEVERAL = re.compile(r"\b(half|nine|ten|all|each|images|CI)\b|\[", re.IGNORECASE)
"""What no sentence about one image says, and the bracket of an interval."""


def words_of_one(found: tb.audits.audit.Audit) -> str:
    """All sentences of an audit of one image, which speak of no other."""
    data = found.data
    beside = [] if data.get("against") is None else data["against"]["verdict"]
    told = [*data["verdict"], *data["advice"], *data["notes"], *beside]
    for sentence in told:
        assert not SEVERAL.search(sentence), sentence
    return " ".join(told)


@pytest.fixture(scope="module")
def one_image(tmp_path_factory: pytest.TempPathFactory) -> tb.audits.audit.Audit:
    plane, images, labels = case()
    out = tmp_path_factory.mktemp("audit") / "one"
    return audit(plane.model(), images[:1], labels[:1], out=out, name="plane", budget=BUDGET)


def test_of_one_image_the_words_speak_of_one(one_image: tb.audits.audit.Audit) -> None:
    words = words_of_one(one_image)
    assert one_image.data["verdict"][0].startswith("The one image was attacked successfully within")
    assert "It needed at most " in words
    assert "would have stopped these attacks. Which queries are related" in words
    assert "There is one image only, so there are no shares and no intervals." in words


@pytest.mark.parametrize(
    ("worth", "second", "advice"),
    [
        (
            9000,
            "a flagged answer must cost more than {} to make these attacks unprofitable;",
            "a flagged answer must cost more than {} to make these attacks unprofitable.",
        ),
        (
            1,
            "these attacks are unprofitable at any price, within their budgets.",
            "these attacks are unprofitable at any price, within their budgets.",
        ),
    ],
)
def test_of_one_image_and_its_worth(
    one_image: tb.audits.audit.Audit, worth: float, second: str, advice: str
) -> None:
    found = conclude(one_image.folder, Criteria(worth=worth))
    [price] = [
        row["quantiles"][1]["value"]
        for row in found.data["break_even"]
        if (row["level"], row["worth"]) == (found.data["headline"], worth)
    ]
    assert (price > 10) == (worth > 1)
    words_of_one(found)
    assert second.format(f"{price:.0f}") in found.data["verdict"][1]
    assert found.data["advice"][0].endswith(advice.format(f"{price:.0f}"))
    conclude(one_image.folder)


def test_of_one_image_that_takes_few_flagged_answers_or_none(
    one_image: tb.audits.audit.Audit,
) -> None:
    """As the numbers of another image would have it."""
    data = json.loads(json.dumps(one_image.data))
    data["criteria"]["worth"] = 10_000.0
    for row in data["break_even"]:
        row["quantiles"] = [dict.fromkeys(("value", "low", "high")) for _ in row["quantiles"]]
    for row in data["flagged"]:
        row["quantiles"] = [{"value": 1, "low": 1, "high": 1} for _ in row["quantiles"]]
    changed = {"verdict": verdict(data), "advice": advice(data), "notes": []}
    words = words_of_one(dataclasses.replace(one_image, data=changed))
    assert "makes these attacks unprofitable: one of them needs no flagged answer." in words
    assert (
        "The image is attacked successfully with a single flagged answer, the one to the image"
        in words
    )


def test_of_one_image_that_is_not_reached(one_image: tb.audits.audit.Audit) -> None:
    words = words_of_one(conclude(one_image.folder, Criteria.of(epsilon="1e-6")))
    assert "The one image was not attacked successfully within " in words
    assert f"with up to {BUDGET} queries at c* = 1." in words


def test_of_one_image_that_is_misclassified(tmp_path: Path) -> None:
    plane, images, _ = case()
    words = words_of_one(audit(plane.model(), images[:1], [1], out=tmp_path / "out", budget=BUDGET))
    assert words.startswith("No result: the model misclassifies the one image. Check ")
    assert "The model misclassifies the one image, which needs no attack." in words


@pytest.mark.parametrize("ended", [0, 1])
def test_of_one_image_that_is_not_finished(tmp_path: Path, ended: int) -> None:
    plane, images, _ = case()
    cells = itertools.count(1)

    def tell(event: Event) -> None:
        if isinstance(event, CellEnded) and next(cells) > ended:
            raise KeyboardInterrupt

    settings: Any = {"budget": BUDGET, "time_limit": 1e6 if ended else 1e-9, "tell": tell}
    with contextlib.suppress(KeyboardInterrupt):
        audit(plane.model(), images[:1], [0], out=tmp_path / "out", **settings)
    words = words_of_one(conclude(tmp_path / "out"))
    assert "Not measured, because the image is not finished: " in words
    yet = "No result yet: no attack is finished on the one image."
    assert words.startswith(yet) == (not ended)


def test_one_image_beside_another_audit(one_image: tb.audits.audit.Audit, tmp_path: Path) -> None:
    farther, images, labels = case(1.1)
    settings: Any = {"name": "hard", "budget": BUDGET}
    hard = audit(farther.model(), images[:1], labels[:1], out=tmp_path / "hard", **settings)
    near, far = (min(r.distance for r in results_of(each)) for each in (one_image, hard))
    assert near < far
    for epsilon, said in (
        (far * 1.01, "not significant: at c* = 100, attacking the one image within "),
        ((near + far) / 2, " on both: on plane only."),
        (near * 0.99, " on both: on neither."),
    ):
        asked = Criteria.of(epsilon=str(epsilon))
        assert said in words_of_one(conclude(hard.folder, asked, other=one_image.folder))


def plane_of(distance: float) -> Any:
    return half_space(distance, (1, 4, 8)).model()


# -- many cells ------------------------------------------------------------------------------------

MANY = 500


def invented(image: int, series: int, price: float) -> Result:
    """A run of thirty points that come nearer and cost more."""
    random = np.random.default_rng((image, series))
    distances = 4 * 0.85 ** np.arange(30) * random.uniform(0.5, 2)
    source = 1 + np.cumsum(random.integers(0, 5, 30))
    queries = source + 1 + np.cumsum(random.integers(1, 60, 30))
    prices = tb.Prices.flagged_only() if math.isinf(price) else tb.Prices(price)
    cost = source * prices.source + (queries - source) * prices.other
    points = tuple(
        Improvement(float(c), int(s), int(q), float(d), float(c) - prices.other)
        for c, s, q, d in zip(cost, source, queries, distances, strict=True)
    )
    counts = {
        "search": Counter({0: int(source[-1]), 1: 7}),
        "estimate": Counter({1: int(queries[-1] - source[-1]) - 7}),
    }
    ledger = Ledger(prices, Goal().for_label(0), counts)
    return Result(
        index=0,
        name=str(image),
        stop=Stop.BUDGET,
        ledger=ledger,
        improvements=points,
        limits=tb.Limits(),
    )


@pytest.mark.slow
def test_a_page_of_ten_thousand_cells(tmp_path: Path) -> None:
    """Under 30 s, 1 GB and 15 MB."""
    images = torch.rand(MANY, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    study = Study(
        name="many",
        folder=tmp_path,
        images=ImagesSpec(tmp_path / IMAGES),
        models=[ModelSpec(source="model", name="model", resolved="model")],
        **{**study_fields(2000, images.numel()), "keep_images": False},
    )
    grid = Grid(study, MANY, None)
    environment = Environment("0.1.0", "2", "2", "3", "cpu")
    record = describe(study, grid, environment, {"model": ModelRecord("float32", None)}, "audit")
    settings = settings_of(2000, images, Criteria())
    record = dataclasses.replace(record, settings=settings, shape=(3, 32, 32))
    rows = [(n, f"{n:064x}", 0, f"image {n}") for n in range(MANY)]
    out = tmp_path / "out"
    out.mkdir()
    Store.create(shard_path(out, 0), record, rows)
    with Store(shard_path(out, 0), write=True) as store:
        store._connection.execute("PRAGMA synchronous = OFF")
        for cell in range(len(grid)):
            series, image = divmod(cell, MANY)
            price = grid.series[series].tariff.prices.true_ratio
            store.save(cell, invented(image, series, price))
    assert len(grid) == 10_000
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    found = conclude(out)
    assert time.process_time() - began < 30
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1e6  # kilobytes
    assert (out / PAGE).stat().st_size < 15e6
    assert found.data["images"]["measured"] == MANY
    with tb.studies.StudyResults(out) as results:
        assert len(AuditRuns.of(results).runs) == 10_000


def test_an_attacker_with_a_network(tmp_path: Path) -> None:
    """The same call finds the audit complete; another network is refused."""
    plane, images, labels = case()
    given = plane.model(), images[:2], labels[:2]
    options: dict[str, Any] = {"out": tmp_path / "out", "budget": 100}
    network = "tollbox.models.stand_ins:vit_7"  # for images of 28 x 28
    with pytest.raises(tb.errors.InputError, match="surrogate cannot be differentiated at"):
        audit(*given, surrogate=network, **options)
    sized = tmp_path / "sized_for_audits.py"
    sized.write_text(
        "import torch\n"
        "net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 7))\n"
        "torch.nn.init.constant_(net[1].bias, 0.5)\n"
        "net[1].weight.data = torch.randn(7, 64, generator=torch.Generator().manual_seed(0))\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(tmp_path)
        options["surrogate"] = ["sized_for_audits:net"]
        found = audit(*given, **options)
        assert found.data["suite"]["attacks"] == [ATTACKS[0], "frugal+surrogate", *ATTACKS[1:]]
        assert len(found.data["runs"]) == 5 * 5
        says = "The attacker of frugal+surrogate has the surrogate sized_for_audits:net."
        assert says in found.data["notes"]
        assert audit(*given, **options).data == found.data
    with pytest.raises(tb.errors.InputError, match="has another study"):
        audit(*given, **{**options, "surrogate": network})
