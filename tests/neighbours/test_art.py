"""An attack run by ART is the attack itself; an ART classifier is a model."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from counted import CLASSES, Counted, goals, pictures
from torch import Tensor, nn

import tollbox as tb

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of what ART imports
    import art
    from art.estimators import classification

OPTIONS: dict[str, Any] = {"prices": tb.Prices(source=10), "budget": 1500}
CASES = [(0, 1, False), (0, 255, False), (-1.5, 2.0, False), (0, 255, True), (0, 1, True)]
"""Clip values, and whether channels are last."""


class Case:
    """A classifier, images as it takes them, and what a native run asks."""

    def __init__(self, low: float, high: float, last: bool) -> None:
        self.low, self.high, self.last = low, high, last
        self.network = Counted(low, high, channels_last=last)
        shape = (6, 7, 3) if last else (3, 6, 7)
        self.classifier: Any
        if last:  # of ART's classifiers for PyTorch none has its channels last
            self.classifier = classification.BlackBoxClassifierNeuralNetwork(
                self.scores, shape, CLASSES, channels_first=False, clip_values=(low, high)
            )
        else:
            self.classifier = classification.PyTorchClassifier(
                self.network, nn.CrossEntropyLoss(), shape, CLASSES, clip_values=(low, high)
            )
        self.images, self.labels = pictures()
        self.x = self.theirs(self.images)

    def scores(self, array: Any) -> Any:
        with torch.no_grad():
            return self.network(torch.from_numpy(np.array(array, np.float32))).numpy()

    def theirs(self, images: Tensor) -> Any:
        rows = (images * (self.high - self.low) + self.low).numpy()
        return rows.transpose(0, 2, 3, 1).copy() if self.last else rows

    def ours(self, array: Any) -> Tensor:
        rows = torch.from_numpy(array.transpose(0, 3, 1, 2).copy() if self.last else array)
        if (self.low, self.high) == (0, 1):
            return rows
        return ((rows - self.low) / (self.high - self.low)).clamp(0, 1)

    def native(self, attack: str, **options: Any) -> tuple[tb.Results, Tensor]:
        """The same run without ART, and what the network was asked."""
        low, width = self.low, self.high - self.low

        def scores(points: Tensor) -> Tensor:
            sent = points if (low, width) == (0, 1) else points * width + low
            sent = sent.clamp(low, self.high)
            with torch.no_grad():
                return self.network(sent.permute(0, 2, 3, 1) if self.last else sent)

        images = self.ours(self.x)
        labels_of = tb.models.from_callable(lambda points: scores(points).argmax(1))
        model = replace(labels_of, outputs=scores)  # so that the same is asked to check it
        results = tb.run(tb.preset(attack), model, images, self.labels, **options)
        return results, self.network.points()

    def distances(self, points: Any) -> list[float]:
        apart = (points.astype(np.float64) - self.x).reshape(len(points), -1)
        return list(np.linalg.norm(apart, axis=1) / (self.high - self.low))

    def answers(self, points: Any) -> list[int]:
        return self.classifier.predict(points).argmax(1).tolist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("attack", ["frugal", "a-hsja"])
@pytest.mark.parametrize(("low", "high", "last"), CASES)
def test_the_points_of_a_native_run_are_asked(
    attack: str, low: float, high: float, last: bool
) -> None:
    case = Case(low, high, last)
    wrapped = tb.interop.art.Attack(attack, case.classifier, **OPTIONS)
    points = wrapped.generate(case.x, case.labels.numpy())
    asked = case.network.points()
    results, expected = case.native(attack, **OPTIONS)
    assert torch.equal(asked, expected)
    assert [r.ledger for r in wrapped.results] == [r.ledger for r in results]
    assert case.distances(points) == pytest.approx([r.distance for r in results], abs=1e-6)
    assert (points.dtype, points.shape) == (np.float32, case.x.shape)
    answers = case.answers(points)
    assert all(a != b for a, b in zip(answers, case.labels.tolist(), strict=True))
    rows = {row.numpy().tobytes() for row in expected}
    assert all(point.tobytes() in rows for point in points)  # what is given was asked


@pytest.mark.parametrize(("low", "high", "last"), CASES)
def test_a_targeted_run_with_points_to_begin_from(low: float, high: float, last: bool) -> None:
    case = Case(low, high, last)
    targets, starts = goals(case.images, case.labels)
    begun = case.theirs(starts)
    wrapped = tb.interop.art.Attack("a-hsja", case.classifier, targeted=True, **OPTIONS)
    points = wrapped.generate(case.x, targets.numpy(), x_adv_init=begun)
    asked = case.network.points()
    results, expected = case.native("a-hsja", targets=targets, starts=case.ours(begun), **OPTIONS)
    assert torch.equal(asked[len(points) :], expected)  # before them, the labels
    assert case.distances(points) == pytest.approx([r.distance for r in results], abs=1e-6)
    assert case.answers(points) == targets.tolist()


def test_labels_as_numbers_one_hot_or_none() -> None:
    case = Case(0, 255, False)
    attack = tb.interop.art.Attack("a-hsja", case.classifier, **OPTIONS)
    numbers = case.labels.numpy()
    first = attack.generate(case.x, numbers)
    for y in (np.eye(CLASSES)[numbers], numbers[:, None], numbers.tolist(), None):
        assert np.array_equal(attack.generate(x=case.x, y=y), first)
    rounded = case.x.round().astype(np.uint8)
    assert np.array_equal(
        attack.generate(rounded, numbers), attack.generate(rounded.astype(np.float32), numbers)
    )


def test_an_image_without_a_point_comes_back() -> None:
    case = Case(0, 255, True)
    wrong = (case.labels.numpy() + np.array([0, 0, 0, 1])) % CLASSES
    attack = tb.interop.art.Attack("hsja", case.classifier, **OPTIONS)
    points = attack.generate(case.x, wrong, x_adv_init=case.x)
    assert np.array_equal(points, case.x)
    kinds = [tb.Stop.NO_START] * 3 + [tb.Stop.ALREADY_MISCLASSIFIED]
    assert [result.stop for result in attack.results] == kinds


def test_it_is_an_attack_of_art() -> None:
    case = Case(0, 1, False)
    attack = tb.interop.art.Attack("frugal", case.classifier, **OPTIONS)
    assert isinstance(attack, art.attacks.EvasionAttack)
    assert isinstance(attack, tb.interop.art.Attack)
    assert not attack.targeted
    assert "attack=frugal" in repr(attack)
    attack.set_params(attack="hsja", options={"budget": 30})
    attack.generate(case.x)
    assert {result.limits.budget for result in attack.results} == {30}
    with pytest.raises(tb.errors.InputError, match="budget is 0"):
        attack.set_params(options={"budget": 0})
    with pytest.raises(art.exceptions.EstimatorError):
        tb.interop.art.Attack("hsja", case.network, budget=30)


@pytest.mark.parametrize(("low", "high", "last"), CASES)
def test_an_art_classifier_is_a_model(low: float, high: float, last: bool) -> None:
    case = Case(low, high, last)
    expected = case.classifier.predict(case.x).argmax(1).tolist()
    assert expected == case.labels.tolist()
    assert tb.models.from_art(case.classifier)(case.images).tolist() == expected
    results = tb.run(
        tb.preset("a-hsja"),
        case.classifier,
        case.images,
        case.labels,
        budget=300,
        execution=tb.Execution(check=True),
    )
    assert not results.findings
    points = case.theirs(torch.stack([r.adversarial for r in results]))
    answers = case.answers(points)
    assert all(a != b for a, b in zip(answers, expected, strict=True))
    with pytest.raises(tb.errors.InputError, match="the label of image 0 is 5: expected 0 to 4"):
        tb.run(tb.preset("hsja"), case.classifier, case.images, [5, 0, 0, 0], budget=30)


def test_a_classifier_that_does_not_say_where_its_channels_are() -> None:
    case = Case(0, 255, False)
    shown: list[tuple[int, ...]] = []

    def scores(array: Any) -> Any:
        shown.append(array.shape[1:])
        return case.scores(array) if array.shape[1] == 3 else np.eye(CLASSES)[[0] * len(array)]

    silent = classification.BlackBoxClassifier(scores, (3, 6, 7), CLASSES, clip_values=(0, 255))
    assert tb.models.from_art(silent, channels_first=True)(case.images).tolist() == (
        case.labels.tolist()
    )
    tb.models.from_art(silent)(case.images)
    assert shown == [(3, 6, 7), (6, 7, 3)]
    attack = tb.interop.art.Attack("a-hsja", silent, channels_first=True, **OPTIONS)
    ours = tb.interop.art.Attack("a-hsja", case.classifier, **OPTIONS)
    assert np.array_equal(attack.generate(case.x), ours.generate(case.x))


def classifier(**options: Any) -> Any:
    loss = nn.CrossEntropyLoss()
    return classification.PyTorchClassifier(Counted(), loss, (3, 6, 7), CLASSES, **options)


def generate(x: Any = None, y: Any = None, targeted: bool = False, **options: Any) -> Any:
    known = classifier(clip_values=(0, 1))
    attack = tb.interop.art.Attack("hsja", known, targeted=targeted, **OPTIONS)
    return attack.generate(pictures()[0].numpy() if x is None else x, y, **options)


PAIRS = (np.zeros((3, 6, 7)), np.arange(126).reshape(3, 6, 7) + 1.0)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda: tb.interop.art.Attack("hsja", classifier(), **OPTIONS),
            "clip_values = None: expected the",
        ),
        (lambda: tb.models.from_art(classifier(clip_values=PAIRS)), "differ from pixel to pixel"),
        (lambda: tb.models.from_art(Counted()), "classifier is Counted.*: expected an ART class"),
        (lambda: generate(x=np.ones((2, 3))), r"x has shape \(2, 3\): expected \(n, c, h, w\)"),
        (lambda: generate(x=np.full((1, 3, 6, 7), 2.0)), "x has values from 2 to 2: expected 0 to"),
        (lambda: generate(x=np.full((1, 3, 6, 7), np.nan)), "x has values from nan to nan"),
        (lambda: generate(x=np.full((1, 3, 6, 7), "a")), "x is .*: expected an array of numbers"),
        (lambda: generate(y=[1, 2]), r"y has shape \(2,\): expected a whole number for each image"),
        (lambda: generate(y=[0.5] * 4), "y is of float64: expected a whole number for each"),
        (lambda: generate(targeted=True), "y is not given, and the attack is targeted"),
        (lambda: generate(y=[9] * 4), "the label of image 0 is 9: expected 0 to 4"),
        (lambda: generate(targeted=3), "targeted is 3: expected True or False"),
        (
            lambda: generate(x_adv_init=np.ones((4, 3, 6, 6))),
            r"the start of image 0 has shape \(3, 6, 6\)",
        ),
    ],
)
def test_bad_input_is_told_in_a_sentence(call: Any, sentence: str) -> None:
    with pytest.raises(tb.errors.InputError, match=sentence):
        call()
