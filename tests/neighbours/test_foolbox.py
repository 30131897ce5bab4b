"""An attack run by Foolbox is the attack itself; a Foolbox model is a model."""

from __future__ import annotations

import pickle
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from counted import CLASSES, Counted, goals, pictures
from torch import Tensor

import tollbox as tb

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of what Foolbox imports
    import foolbox

PRICES = tb.Prices(source=10)
OPTIONS: dict[str, Any] = {"prices": PRICES, "budget": 1500}
BOUNDS = [(0, 1), (0, 255), (-1.5, 2.0)]


def native(attack: str, network: Counted, images: Tensor, labels: Any, **options: Any) -> Any:
    """The same run without Foolbox, and what the network was asked."""
    low, width = network.low, network.high - network.low

    def scores(points: Tensor) -> Tensor:
        with torch.no_grad():
            sent = points if (low, width) == (0, 1) else points * width + low
            return network(sent.clamp(low, network.high))

    labels_of = tb.models.from_callable(lambda points: scores(points).argmax(1))
    model = replace(labels_of, outputs=scores)  # so that the same is asked to check it
    results = tb.run(tb.preset(attack), model, images, labels, **options)
    return results, network.points()


@pytest.mark.parametrize("attack", ["frugal", "a-hsja", "surfree"])
@pytest.mark.parametrize("bounds", BOUNDS)
def test_the_points_of_a_native_run_are_asked(attack: str, bounds: tuple[float, float]) -> None:
    images, labels = pictures()
    low, high = bounds
    network, inputs = Counted(low, high), images * (high - low) + low
    model = foolbox.PyTorchModel(network, bounds=bounds, device="cpu")
    wrapped = tb.interop.foolbox.Attack(attack, **OPTIONS)
    points = wrapped.run(model, inputs, foolbox.criteria.Misclassification(labels))
    asked = network.points()
    scaled = ((inputs - low) / (high - low)).clamp(0, 1)
    results, expected = native(attack, network, scaled, labels, **OPTIONS)
    assert torch.equal(asked, expected)
    assert [r.ledger for r in wrapped.results] == [r.ledger for r in results]
    apart = torch.linalg.vector_norm((points - inputs).flatten(1).double(), dim=1) / (high - low)
    assert apart.tolist() == pytest.approx([r.distance for r in results], abs=1e-6)
    assert (network(points).argmax(1) != labels).all()
    rows = {row.numpy().tobytes() for row in expected}
    assert all(point.numpy().tobytes() in rows for point in points)  # what is given was asked


@pytest.mark.parametrize("bounds", BOUNDS)
def test_a_targeted_run_with_starting_points(bounds: tuple[float, float]) -> None:
    images, labels = pictures()
    targets, starts = goals(images, labels)
    low, high = bounds
    network = Counted(low, high)
    inputs, begun = images * (high - low) + low, starts * (high - low) + low
    model = foolbox.PyTorchModel(network, bounds=bounds, device="cpu")
    wrapped = tb.interop.foolbox.Attack("a-hsja", **OPTIONS)
    criterion = foolbox.criteria.TargetedMisclassification(targets)
    points = wrapped.run(model, inputs, criterion, starting_points=begun)
    asked = network.points()
    results, expected = native(
        "a-hsja",
        network,
        ((inputs - low) / (high - low)).clamp(0, 1),
        labels,
        targets=targets,
        starts=((begun - low) / (high - low)).clamp(0, 1),
        **OPTIONS,
    )
    assert torch.equal(asked[len(images) :], expected)  # before them, the labels
    apart = torch.linalg.vector_norm((points - inputs).flatten(1).double(), dim=1) / (high - low)
    assert apart.tolist() == pytest.approx([r.distance for r in results], abs=1e-6)
    assert network(points).argmax(1).tolist() == targets.tolist()


def test_epsilons_and_labels_as_a_criterion() -> None:
    images, labels = pictures()
    model = foolbox.PyTorchModel(Counted(), bounds=(0, 1), device="cpu")
    attack = tb.interop.foolbox.Attack("frugal", **OPTIONS)
    distances = sorted(
        r.distance for r in tb.run(tb.preset("frugal"), model, images, labels, **OPTIONS)
    )
    middle = (distances[1] + distances[2]) / 2
    raw, clipped, success = attack(model, images, labels, epsilons=[0.0, middle, None])
    assert success.sum(1).tolist() == [0, 2, 4]
    assert all(torch.equal(points, raw[0]) for points in (*raw, clipped[2]))
    assert torch.linalg.vector_norm((clipped[1] - images).flatten(1), dim=1).max() < middle + 1e-5
    raw, _, success = attack(model, images, labels, epsilons=None)
    assert success.all()
    assert raw.shape == images.shape
    assert sorted(r.distance for r in attack.results) == distances


def test_the_metric_is_the_distance_of_foolbox() -> None:
    images, labels = pictures()
    model = foolbox.PyTorchModel(Counted(0, 255), bounds=(0, 255), device="cpu")
    attack = tb.interop.foolbox.Attack("rays", budget=300, norm="linf")
    assert attack.distance is foolbox.distances.linf
    raw, _, success = attack(model, images * 255, labels, epsilons=None)
    apart = foolbox.distances.linf(images * 255, raw) / 255
    assert success.all()
    assert apart.tolist() == pytest.approx([r.distance for r in attack.results], abs=1e-6)
    assert tb.interop.foolbox.Attack("frugal", **OPTIONS).distance is foolbox.distances.l2


def test_an_image_without_a_point_comes_back() -> None:
    images, labels = pictures()
    model = foolbox.PyTorchModel(Counted(0, 255), bounds=(0, 255), device="cpu")
    wrong = (labels + torch.tensor([0, 0, 0, 1])) % CLASSES
    attack = tb.interop.foolbox.Attack("hsja", **OPTIONS)
    given = images * 255
    raw, _, success = attack(model, given, wrong, epsilons=None, starting_points=given)
    assert torch.equal(raw, given)
    assert success.tolist() == [False, False, False, True]
    kinds = [tb.Stop.NO_START] * 3 + [tb.Stop.ALREADY_MISCLASSIFIED]
    assert [result.stop for result in attack.results] == kinds


def test_an_image_that_has_the_target_class_already() -> None:
    images, labels = pictures()
    targets, starts = goals(images, labels)
    targets[2] = labels[2]
    model = foolbox.PyTorchModel(Counted(), bounds=(0, 1), device="cpu")
    attack = tb.interop.foolbox.Attack("hsja", **OPTIONS)
    criterion = foolbox.criteria.TargetedMisclassification(targets)
    raw, _, success = attack(model, images, criterion, epsilons=None, starting_points=starts)
    assert success.all()
    assert torch.equal(raw[2], images[2])
    assert (attack.results[2].stop, attack.results[2].distance) == (
        tb.Stop.ALREADY_MISCLASSIFIED,
        0,
    )
    assert attack.results.misclassified == 1


def test_it_is_an_attack_of_foolbox() -> None:
    attack = tb.interop.foolbox.Attack("frugal", **OPTIONS)
    assert isinstance(attack, foolbox.attacks.base.MinimizationAttack)
    assert isinstance(attack, tb.interop.foolbox.Attack)
    images, labels = pictures()
    model = foolbox.PyTorchModel(Counted(), bounds=(0, 1), device="cpu")
    twice = attack.repeat(2)(model, images, labels, epsilons=None)[0]
    assert torch.equal(twice, attack(model, images, labels, epsilons=None)[0])
    again = pickle.loads(pickle.dumps(tb.interop.foolbox.Attack(tb.preset("hsja"), budget=50)))
    assert again.run(model, images, labels).shape == images.shape


@pytest.mark.parametrize("bounds", BOUNDS)
def test_a_foolbox_model_is_a_model(bounds: tuple[float, float]) -> None:
    images, _ = pictures()
    low, high = bounds
    preprocessing = {"mean": [0.1, 0.2, 0.3], "std": [0.5, 0.6, 0.7], "axis": -3}
    network = Counted()
    model = foolbox.PyTorchModel(network, bounds=bounds, device="cpu", preprocessing=preprocessing)
    theirs = model(images * (high - low) + low).argmax(1)
    ours = tb.models.from_foolbox(model)
    assert ours(images).tolist() == tb.models.as_model(model)(images).tolist() == theirs.tolist()
    results = tb.run(
        tb.preset("a-hsja"), model, images, theirs, budget=200, execution=tb.Execution(check=True)
    )
    assert not results.findings
    assert results.exactness.sentence
    points = torch.stack([r.adversarial for r in results])
    assert (model(points * (high - low) + low).argmax(1) != theirs).all()
    shifted = model.transform_bounds((0, 1), wrapper=True)  # a wrapper, without a device
    assert tb.models.from_foolbox(shifted)(images).tolist() == theirs.tolist()


def test_a_model_of_arrays_with_channels_last() -> None:
    images, labels = pictures()
    network = Counted(0, 255, channels_last=True)

    def logits(array: Any) -> Any:
        with torch.no_grad():
            return network(torch.from_numpy(np.array(array))).numpy()

    model = foolbox.NumPyModel(logits, bounds=(0, 255), data_format="channels_last")
    assert tb.models.from_foolbox(model, dtype=torch.float32)(images).tolist() == labels.tolist()
    attack = tb.interop.foolbox.Attack("a-hsja", **OPTIONS)
    given = images.permute(0, 2, 3, 1).numpy() * 255
    raw, _, success = attack(model, given, labels.numpy(), epsilons=None)
    assert isinstance(raw, np.ndarray)
    assert (raw.shape, bool(success.all())) == (given.shape, True)
    apart = np.linalg.norm((raw - given).reshape(len(raw), -1), axis=1) / 255
    assert apart.tolist() == pytest.approx([r.distance for r in attack.results], abs=1e-6)
    assert network.points().shape[1:] == (6, 7, 3)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: tb.interop.foolbox.Attack("frugl", budget=1), "did you mean 'frugal"),
        (lambda: tb.interop.foolbox.Attack("frugal"), "neither budget nor max_queries is set"),
        (lambda: tb.interop.foolbox.Attack("frugal", budget=9, norm="linf"), "norm is linf"),
        (
            lambda: run(inputs=pictures()[0] * 3),
            "inputs has values from .*: expected 0 to 1, the b",
        ),
        (lambda: run(inputs=pictures()[0][0]), r"inputs has shape .*: expected \(n, c, h, w\)"),
        (lambda: run(inputs=torch.ones(1, 3, 6, 7).int()), "inputs is of torch.int32: expected f"),
        (lambda: run(criterion=torch.zeros(4)), "criterion is of torch.float32: expected a whole"),
        (lambda: run(criterion=torch.tensor([1])), r"criterion has shape \(1,\): expected a whole"),
        (lambda: run(criterion=[0, 1]), r"criterion is \[0, 1\]: expected labels, Misclassif"),
        (lambda: run(inputs="x"), "inputs is 'x': expected floats, in a tensor"),
        (lambda: run(criterion=both()), "criterion is .*: expected labels, Misclassification or T"),
        (lambda: run(starting_points=torch.rand(4, 3, 6, 6)), "has shape .*: expected that of the"),
        (lambda: tb.models.from_foolbox(Counted()), r"model is Counted\(\): expected a Foolbox m"),
    ],
)
def test_bad_input_is_told_in_a_sentence(call: Any, sentence: str) -> None:
    with pytest.raises(tb.errors.InputError, match=sentence):
        call()


def run(inputs: Any = None, criterion: Any = None, **options: Any) -> Any:
    images, labels = pictures()
    model = foolbox.PyTorchModel(Counted(), bounds=(0, 1), device="cpu")
    return tb.interop.foolbox.Attack("hsja", **OPTIONS).run(
        model,
        images if inputs is None else inputs,
        labels if criterion is None else criterion,
        **options,
    )


def both() -> Any:
    targeted = foolbox.criteria.TargetedMisclassification(torch.zeros(4, dtype=torch.long))
    return targeted & foolbox.criteria.Misclassification(pictures()[1])


def test_an_unknown_option_is_told() -> None:
    with pytest.raises(TypeError, match="'bugdet': did you mean 'budget'"):
        tb.interop.foolbox.Attack("frugal", bugdet=3)
    with pytest.raises(TypeError, match="'targets'"):
        tb.interop.foolbox.Attack("frugal", budget=30, targets=[3])
