"""Goals: which labels are flagged and which adversarial, and all that follows from it in a run."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import tollbox as tb
from tollbox.core.goal import Goal, aim, numbered
from tollbox.core.stop import Stop
from tollbox.data.classes import flagged_classes
from tollbox.errors import FileError, InputError
from tollbox.report.summary import goal_sentences
from tollbox.studies.specs import GoalSpec

SHAPE = (3, 6, 6)
LABELS = np.arange(5)


def bands(images: torch.Tensor) -> torch.Tensor:
    """Five classes, by the mean brightness: below 0.3, 0.4, 0.5, 0.6, above."""
    return torch.bucketize(images.flatten(1).mean(1), torch.tensor([0.3, 0.4, 0.5, 0.6]).double())


def net() -> tb.models.Model:
    return tb.models.from_callable(bands, dtype=torch.float64, classes=5)


def grey(*levels: float) -> torch.Tensor:
    shades = torch.tensor(levels, dtype=torch.float64).view(-1, 1, 1, 1)
    return shades.expand(-1, *SHAPE).clone()


def attacked(levels=(0.45,), labels=(2,), **options):
    prices = options.pop("prices", tb.Prices(10, 1))
    return tb.run(
        tb.preset("hsja"), net(), grey(*levels), list(labels), prices=prices, budget=3000, **options
    )


# -- the value ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("goal", "flagged", "adversarial"),
    [
        (tb.Goal(), [2], [0, 1, 3, 4]),
        (tb.Goal.leave({1, 2}), [1, 2], [0, 3, 4]),
        (tb.Goal.leave(range(2, 5)), [2, 3, 4], [0, 1]),
        (tb.Goal.leave(torch.tensor([4, 4])), [4], [0, 1, 2, 3]),
        (tb.Goal.reach(4), [2], [4]),
        (tb.Goal.reach(4, flagged={1, 2}), [1, 2], [4]),
    ],
)
def test_a_goal_tells_labels_apart(goal, flagged, adversarial):
    own = goal.for_label(2)
    assert LABELS[own.is_flagged(LABELS)].tolist() == flagged
    assert [label for label in range(5) if own.flags(label)] == flagged
    assert LABELS[own.is_adversarial(LABELS)].tolist() == adversarial
    assert pickle.loads(pickle.dumps(own)) == own


def test_a_target_is_short_for_a_goal():
    assert aim(2, 4, None) == tb.Goal.reach(4).for_label(2)
    assert aim(2, 4, tb.Goal.leave({1, 2})) == tb.Goal.reach(4, flagged={1, 2})
    problem = tb.attack.Problem(grey(0.45)[0], 2, target=4)
    assert (problem.goal, problem.target) == (tb.Goal.reach(4, flagged={2}), 4)


def test_a_goal_for_no_image_tells_nothing():
    with pytest.raises(RuntimeError, match="for_label"):
        tb.Goal().is_flagged(LABELS)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: tb.Goal.leave([]), "flagged is empty"),
        (lambda: tb.Goal.leave([-1]), "flagged has -1: expected classes as whole numbers"),
        (lambda: tb.Goal.leave([1.5]), r"flagged has 1\.5"),
        (lambda: tb.Goal.leave([True]), "flagged has True"),
        (
            lambda: tb.Goal.leave(range(10**12)),
            "flagged has too many classes: expected at most 1,000,0",
        ),
        (lambda: tb.Goal.leave("dogs"), "flagged is 'dogs'"),
        (lambda: tb.Goal.leave(3), "flagged is 3"),
        (lambda: tb.Goal.reach(-1), "target is -1"),
        (lambda: tb.Goal.reach(3, flagged={3, 4}), "target is 3, which is flagged"),
    ],
)
def test_a_bad_goal_is_refused(make, told):
    with pytest.raises(InputError, match=told):
        make()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"goal": tb.Goal.leave({2, 7})}, "flagged has class 7, but the model has 5 classes"),
        ({"goal": tb.Goal.leave(range(5))}, "flagged has all 5 classes"),
        ({"goal": tb.Goal.reach(4)}, "targets is 4, but starts is not given"),
        ({"goal": tb.Goal.reach(5)}, "the target of image 0 is 5"),
        ({"goal": tb.Goal.reach(2)}, "the target of image 0 is its source class"),
        ({"goal": tb.Goal.reach(4), "targets": 3}, "is 3, and that of its goal 4"),
        ({"goal": tb.Goal.leave({2, 3}), "targets": 3}, "target is 3, which is flagged"),
        ({"goal": {2, 3}}, r"use tb.Goal.leave\(...\)"),
        ({"goal": 2}, "goal is 2: expected a tb.Goal"),
        ({"goal": [{2, 3}]}, r"goal is \{2, 3\}: expected tb.Goal.leave"),
        ({"goal": [tb.Goal(), tb.Goal()]}, "got 1 images but more goals"),
        ({"goal": [None]}, "the goal of image 0 is None"),
    ],
)
def test_a_goal_that_cannot_be_run_is_refused(options, told):
    with pytest.raises(InputError, match=told):
        attacked(**options)


# -- in a run -------------------------------------------------------------------------------------


def test_every_label_of_the_set_is_flagged_and_costs_so():
    [result] = attacked(goal=tb.Goal.leave({1, 2, 3}))
    counts = sum(result.ledger.counts.values(), start=type(result.ledger.counts["clean"])())
    flagged = sum(counts[label] for label in (1, 2, 3))
    assert counts[1] + counts[3] > 0, "the run never met another class of the set"
    assert result.ledger.flagged == flagged
    assert result.ledger.cost == 10 * flagged + (counts.total() - flagged)
    assert int(bands(result.adversarial[None])) in (0, 4)
    assert result.distance >= 0.15 * SHAPE[1] * np.sqrt(3) - 1e-9  # from 0.45 to 0.6 or to 0.3


def test_the_clean_answer_decides_not_the_label():
    """Another class of the set is attacked; a clean answer outside is misclassified."""
    other, outside = attacked((0.35, 0.2), (2, 2), goal=tb.Goal.leave({1, 2}))
    assert other.stop.attacked
    assert other.distance > 0
    assert outside.stop is Stop.ALREADY_MISCLASSIFIED
    assert outside.distance == 0
    without = attacked((0.35,), (2,))
    assert without[0].stop is Stop.ALREADY_MISCLASSIFIED


def test_each_image_may_have_a_goal_of_its_own():
    goals = [tb.Goal.leave({2, 3}), tb.Goal(), tb.Goal.reach(4)]
    starts = grey(0.2, 0.2, 0.9)
    results = attacked((0.45, 0.45, 0.45), (2, 2, 2), goal=goals, starts=starts)
    assert [int(bands(r.adversarial[None])) for r in results] == [1, 1, 4]
    assert [r.ledger.goal for r in results] == [goal.for_label(2) for goal in goals]


def test_a_price_per_class_wins_over_the_set():
    prices = tb.Prices.per_class({1: 3.0, 2: 5.0}, default=1.0)
    [result] = attacked(goal=tb.Goal.leave({1, 2, 3}), prices=prices)
    counts = sum(result.ledger.counts.values(), start=type(result.ledger.counts["clean"])())
    assert counts[1] + counts[3] > 0
    assert result.ledger.cost == 3 * counts[1] + 5 * counts[2] + counts[0] + counts[3] + counts[4]
    assert result.ledger.flagged == counts[1] + counts[2] + counts[3]
    goal = tb.Goal.leave({1, 2})
    assert prices.for_source(2, goal).ratio == 5
    assert prices.for_source(1, goal).ratio == 3
    assert prices.for_source(0, goal).ratio == 5  # not flagged itself: the most expensive that is


def test_a_goal_of_one_label_is_the_usual_run():
    [usual], [goal] = attacked(), attacked(goal=tb.Goal.leave({2}))
    assert usual.ledger == goal.ledger
    assert torch.equal(usual.adversarial, goal.adversarial)


def test_a_surrogate_leads_away_from_the_whole_set():
    """Of a linear network: its gradient is from the strongest flagged class to the best other."""
    linear = nn.Sequential(nn.Flatten(), nn.Linear(108, 4, bias=False))
    image = torch.full(SHAPE, 0.5)
    with torch.no_grad():
        linear[1].weight.copy_(torch.eye(4, 108) * torch.tensor([[4.0], [3.0], [2.0], [1.0]]))
    surrogate = tb.Surrogate(linear)
    for flagged, (source, rival) in {(0,): (0, 1), (0, 1): (0, 2), (1, 2): (1, 0)}.items():
        problem = tb.attack.Problem(image, 0, goal=tb.Goal.leave(flagged))
        [found] = surrogate.margins(problem, image[None])
        direction = found.gradients.flatten()
        assert direction.nonzero().flatten().tolist() == sorted((source, rival))
        assert direction[rival] > 0 > direction[source]


# -- files ----------------------------------------------------------------------------------------


def test_classes_of_a_file(tmp_path):
    file = tmp_path / "dogs.txt"
    file.write_text("151-153  # dogs\n\n# and one more\n7\n7\n 10 - 11\n")
    assert flagged_classes(file) == {151, 152, 153, 7, 10, 11}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "which has no classes"),
        ("# none\n", "which has no classes"),
        ("1\ndog\n", "dogs.txt, line 2: the class is 'dog'"),
        ("-3\n", "line 1: the class is '-3'"),
        ("5-3\n", "line 1: the class is '5-3'"),
        ("0-999999999\n", "line 1"),
        ("1.5\n", "line 1: the class is '1.5'"),
    ],
)
def test_a_bad_file_of_classes_is_refused(tmp_path, text, told):
    file = tmp_path / "dogs.txt"
    file.write_text(text)
    with pytest.raises(FileError, match=told):
        flagged_classes(file)


def test_a_file_of_classes_that_cannot_be_read(tmp_path):
    with pytest.raises(FileError, match="does not exist"):
        flagged_classes(tmp_path / "none.txt")
    with pytest.raises(FileError, match="is not a file"):
        flagged_classes(tmp_path)
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FileError, match="is not UTF-8 text"):
        flagged_classes(tmp_path / "bytes")


def test_classes_of_a_goal_are_shown_with_their_names() -> None:
    names = ("ant", "bee", "cat")
    told = goal_sentences(GoalSpec(flagged=frozenset({0, 2})), names)
    assert told == ["Flagged answers are classes 0 (ant), 2 (cat); any other class is adversarial."]
    start = Path("start.png")
    assert goal_sentences(GoalSpec(1, start), names) == ["Only class 1 (bee) is adversarial."]
    assert goal_sentences(GoalSpec(1, start)) == ["Only class 1 is adversarial."]
    many = Goal.leave(range(9)).flagged_text(lambda label: numbered(label, names))
    assert many == "9 classes from 0 (ant) to 8"
