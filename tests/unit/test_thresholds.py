"""A score with a threshold: labels, attacks on it, and scores that are none."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch

import tollbox as tb
from tollbox.core.stop import Stop
from tollbox.errors import InputError, ModelFault

SHAPE = (1, 4, 4)


def brightness(images: torch.Tensor) -> torch.Tensor:
    return images.flatten(1).mean(1)


def levels(*values: float) -> torch.Tensor:
    return torch.tensor(values).view(-1, 1, 1, 1).expand(-1, *SHAPE).clone()


def test_one_is_flagged_from_the_threshold_on():
    model = tb.models.thresholded(brightness, at=0.75)
    assert model(levels(0.5, 0.75, 0.8, 1.0, 0.0)).tolist() == [0, 1, 1, 1, 0]
    assert model.classes == 2
    assert pickle.loads(pickle.dumps(model))(levels(0.75)).tolist() == [1]


@pytest.mark.parametrize("kind", [list, tuple, np.array])
def test_scores_may_be_a_list_or_an_array(kind):
    model = tb.models.thresholded(lambda images: kind(brightness(images).tolist()), at=0.7)
    assert model(levels(0.5, 0.8)).tolist() == [0, 1]


def test_an_attack_ends_below_the_threshold():
    model = tb.models.thresholded(brightness, at=0.7)
    prices = tb.Prices(5, 1)
    results = tb.run(tb.preset("hsja"), model, levels(0.8, 0.6), [1, 1], prices=prices, budget=2000)
    assert results[0].distance == pytest.approx(0.1 * 4, rel=0.05)  # of 16 pixels
    assert float(brightness(results[0].adversarial[None])) < 0.7
    assert results[1].stop is Stop.ALREADY_MISCLASSIFIED


@pytest.mark.parametrize(
    ("scores", "told"),
    [
        (lambda images: images.mean((2, 3)), r"have shape \(2, 1\): expected \(2,\)"),
        (lambda images: brightness(images)[:1], r"have shape \(1,\)"),
        (lambda images: brightness(images) * torch.nan, "a score is nan"),
        (lambda images: brightness(images) + 1, r"a score is 1\.5"),
        (lambda images: -brightness(images), r"a score is -0\.5"),
        (lambda images: brightness(images).long(), "the scores are torch.int64"),
        (lambda images: "high", "the scores are of type str"),
    ],
)
def test_scores_that_are_none_are_a_fault_of_the_model(scores, told):
    model = tb.models.thresholded(scores, at=0.7)
    with pytest.raises(ModelFault, match=told):
        model(levels(0.5, 0.5))
    [result] = tb.run(tb.preset("hsja"), model, levels(0.5), [1], budget=10)
    assert result.stop is Stop.MODEL_ERROR


@pytest.mark.parametrize("at", [0, -0.1, 1.1, float("nan"), "0.5", None, True])
def test_a_bad_threshold_is_refused(at):
    with pytest.raises(InputError, match=r"at is .*expected a number above 0, up to 1"):
        tb.models.thresholded(brightness, at=at)


def test_scores_must_be_a_function():
    with pytest.raises(InputError, match="scores is 3: expected a function of images"):
        tb.models.thresholded(3)
