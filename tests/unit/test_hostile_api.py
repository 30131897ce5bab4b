"""Wrong values for every argument of the public functions: one sentence each, no raw error.

1. Each argument in turn gets each of `WRONG`, the others being right.
2. It is taken, where it happens to be right, or it ends in an `InputError`.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from test_peers import ArtLike, FoolboxLike

import tollbox as tb
from tollbox.errors import InputError


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError


WRONG: dict[str, Any] = {
    "None": None,
    "3": 3,
    "-1": -1,
    "2.5": 2.5,
    "True": True,
    "'x'": "x",
    "nan": math.nan,
    "inf": math.inf,
    "[]": [],
    "{}": {},
    "['x']": ["x"],
    "[None]": [None],
    "{'x': 'y'}": {"x": "y"},
    "object": object(),
    "a long number": 2**70,
    "tensor": torch.zeros(2),
    "bytes": b"\xff\0",
    "NUL": "\0",
    "5000 digits": -(10**5000),
    "no repr": Unprintable(),
    "array without dimensions": np.array(2.5),
    "complex tensor": torch.tensor(1j),
    "tensor without values": torch.empty(2, device="meta"),
    "[tensor]": [torch.tensor(2.5)] * 2,
}

IMAGES = torch.full((2, 1, 4, 4), 0.5)


def labels(images: torch.Tensor) -> torch.Tensor:
    return (images.flatten(1).mean(1) > 0.5).long()


MODEL = tb.models.from_callable(labels, classes=10)
RUN = {
    "attack": tb.preset("hsja"),
    "model": MODEL,
    "images": IMAGES,
    "labels": [0, 0],
    "budget": 20,
}


def consumed(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda **call: list(function(**call))


def cell(**call: Any) -> Any:
    return tb.attack.run_cells([tb.attack.Cell(**call)], MODEL)


def audit(**call: Any) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tollbox.audits.audit.run_folder", lambda *_: None)
        patch.setattr("tollbox.audits.audit.conclude", lambda *_: None)
        return tb.audit(**call)


def workers(**call: Any) -> Any:
    tb.workers.Workers(**call).close()


AUDIT = {"model": MODEL, "images": IMAGES, "labels": [0, 0], "out": "audit", "budget": 100}
CALLS: dict[str, tuple[Callable[..., Any], Callable[..., Any], dict[str, Any]]] = {
    "run": (tb.run, tb.run, RUN),
    "stream": (tb.stream, consumed(tb.stream), RUN),
    "run_cells": (
        tb.attack.run_cells,
        tb.attack.run_cells,
        {
            "cells": [tb.attack.Cell(tb.preset("hsja"), IMAGES[0], 0, limits=tb.Limits(20))],
            "model": MODEL,
        },
    ),
    "Cell": (
        tb.attack.Cell,
        cell,
        {"attack": tb.preset("hsja"), "image": IMAGES[0], "label": 0, "limits": tb.Limits(20)},
    ),
    "audit": (tb.audit, audit, AUDIT),
    "Goal": (tb.Goal, tb.Goal, {}),
    "reach": (tb.Goal.reach, tb.Goal.reach, {"target": 1}),
    "Surrogate": (tb.Surrogate, tb.Surrogate, {"networks": torch.nn.Flatten()}),
    "load": (
        tb.models.load,
        tb.models.load,
        {"source": "tollbox.models.stand_ins:vit_7"},
    ),
    "check_attack": (
        tb.testing.check_attack,
        tb.testing.check_attack,
        {"attack": tb.preset("hsja"), "boundary": tb.testing.sphere(), "budget": 20},
    ),
    "check_detector": (
        tb.testing.check_detector,
        tb.testing.check_detector,
        {"detector": tb.testing.NearDuplicates(1.0), "rows": IMAGES},
    ),
    "Prices": (tb.Prices, tb.Prices, {}),
    "Limits": (tb.Limits, tb.Limits, {}),
    "Detection": (tb.Detection, tb.Detection, {"detector": tb.testing.NearDuplicates(1.0)}),
    "Execution": (tb.Execution, tb.Execution, {}),
    "per_class": (tb.Prices.per_class, tb.Prices.per_class, {"prices": {1: 2}}),
    "preset": (tb.preset, tb.preset, {"name": "hsja"}),
    "from_callable": (tb.models.from_callable, tb.models.from_callable, {"predict": labels}),
    "from_torch": (
        tb.models.from_torch,
        tb.models.from_torch,
        {"network": torch.nn.Flatten()},
    ),
    "from_foolbox": (tb.models.from_foolbox, tb.models.from_foolbox, {"model": FoolboxLike()}),
    "from_art": (tb.models.from_art, tb.models.from_art, {"classifier": ArtLike()}),
    "benign_panel": (
        tb.detection.benign_panel,
        tb.detection.benign_panel,
        {"detector": tb.testing.NearDuplicates(1.0), "images": IMAGES, "model": MODEL},
    ),
    "as_model": (tb.models.as_model, tb.models.as_model, {"model": MODEL}),
    "embedded": (tb.models.embedded, tb.models.embedded, {}),
    "check_model": (
        tb.testing.check_model,
        tb.testing.check_model,
        {"model": MODEL, "images": IMAGES, "batch_size": 4},
    ),
    "Engine": (tb.attack.Engine, tb.attack.Engine, {"model": MODEL}),
    "Workers": (tb.workers.Workers, workers, {"model": MODEL, "count": 1}),
    "Study.from_toml": (tb.Study.from_toml, tb.Study.from_toml, {"path": "study.toml"}),
    "StudyResults": (tb.studies.StudyResults, tb.studies.StudyResults, {"folder": "study"}),
    "load_images": (tb.load_images, tb.load_images, {"path": "set"}),
    "Resizing": (tb.data.Resizing, tb.data.Resizing, {}),
    "run_study": (tb.run_study, tb.run_study, {"study": None, "out": "out"}),
}
INTERNAL = frozenset({"journal", "shuffle", "memory"})
"""Arguments of the engine that are for stores and tests."""
SLOW = {("budget", "a long number"), ("workers", "3"), ("count", "3")}
"""Right, and long to wait for."""


def sentence_of(call: Callable[[], Any]) -> str:
    """The sentence that a call is refused with; any other error passes."""
    try:
        call()
    except InputError as error:
        return str(error)
    return ""


@pytest.mark.slow
@pytest.mark.parametrize("function", CALLS)
def test_a_wrong_value_is_taken_or_refused_in_a_sentence(function, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for number in range(2):
        (tmp_path / "set" / f"class {number}").mkdir(parents=True)
        Image.new("RGB", (9, 8)).save(tmp_path / "set" / f"class {number}" / "x.png")
    signature, call, right = CALLS[function]
    taken, refused = [], []
    for argument in inspect.signature(signature).parameters:
        for shown, wrong in WRONG.items():
            if argument in INTERNAL or (argument, shown) in SLOW:
                continue
            sentence = sentence_of(lambda: call(**{**right, argument: wrong}))  # noqa: B023
            (refused if sentence else taken).append((argument, shown))
            assert len(sentence) < 1000
            assert "\n" not in sentence
    assert len(refused) > 2 * len(taken), taken


@pytest.mark.parametrize(
    "call",
    [
        lambda: tb.Limits(10**5000),
        lambda: tb.Goal.leave(torch.zeros(2, device="meta")),
        lambda: tb.Goal.leave([2**63]),
        lambda: tb.Goal.leave(b"x"),
        lambda: tb.Prices.per_class({2**63: 1.0}),
        lambda: tb.Execution(workers="x"),
        lambda: tb.run(**RUN | {"model": type(MODEL)}),
        lambda: tb.run(**RUN | {"labels": [torch.tensor(0.5)] * 2}),
        lambda: tb.run(**RUN | {"labels": [torch.tensor(False)] * 2}),
        lambda: tb.run(**RUN | {"model": labels, "labels": [2**63] * 2}),
        lambda: tb.run(**RUN | {"images": np.array(0.5)}),
        lambda: tb.run(**RUN | {"images": IMAGES.to(torch.float8_e4m3fn)}),
        lambda: tb.run(**RUN | {"goal": torch.tensor(1)}),
        lambda: tb.attack.run_cells(torch.tensor(1), MODEL),
        lambda: tb.models.from_torch(torch.nn.Flatten(), mean=torch.tensor(1j)),
        lambda: tb.models.from_torch(torch.nn.Flatten(), mean=10**400),
        lambda: tb.models.load(None),
        lambda: tb.models.load("x", device="nonsense"),
        lambda: tb.models.load("tollbox.models.stand_ins:vit_7", batch_size="x"),
        lambda: tb.models.load("tollbox.models.stand_ins:vit_7", example=3),
        lambda: tb.testing.check_attack(3, tb.testing.sphere()),
        lambda: tb.testing.check_attack(tb.preset("hsja"), 3),
        lambda: audit(**AUDIT | {"images": IMAGES.to(torch.complex64)}),
        lambda: audit(**AUDIT | {"images": IMAGES.to_sparse()}),
        lambda: audit(**AUDIT | {"flagged": [[1]]}),
        lambda: audit(**AUDIT | {"class_names": [1, 2]}),
        lambda: audit(**AUDIT | {"policy": 3}),
        lambda: audit(**AUDIT | {"epsilon": 10**5000}),
    ],
)
def test_what_could_be_misread_is_refused_in_a_sentence(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert sentence_of(call)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", [np.uint8, np.float16, Fraction])
def test_numbers_of_any_kind_count_like_pythons(kind):
    whole = np.uint8 if kind is np.float16 else kind
    detector = tb.testing.NearDuplicates(1.0)

    def costs(of, count):
        detection = tb.Detection(detector, alarm_price=of(200))
        call = {**RUN, "budget": of(250), "limits": tb.Limits(max_queries=of(20))}
        execution = tb.Execution(time_limit=of(60), **count)
        return [r.ledger.cost for r in tb.run(**call, detection=detection, execution=execution)]

    count = {} if kind is Fraction else {"workers": whole(1), "batch_size": whole(200)}
    assert costs(kind, count) == costs(float, {}) != [20, 20]


def test_an_audit_takes_numbers_of_numpy(tmp_path):
    audit(**AUDIT | {"out": tmp_path / "audit", "worth": np.int64(5), "seed": np.int64(3)})


RESULTS = tb.run(**RUN)


@pytest.mark.parametrize("method", ["distance_at", "median_at", "success_at", "unknown_at"])
def test_results_are_asked_for_at_numbers(method):
    ask = getattr(RESULTS[0] if method == "distance_at" else RESULTS, method)
    for shown, wrong in WRONG.items():
        if shown not in ("3", "2.5", "inf", "a long number"):
            assert sentence_of(lambda: ask(wrong)).startswith("value is "), shown  # noqa: B023
        assert sentence_of(lambda: ask(5, wrong)).startswith("by is "), shown  # noqa: B023


class Unprintable(Exception):
    def __str__(self):
        raise ValueError


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (GeneratorExit("now"), "the model raised GeneratorExit: now (test_hostile_api.py:"),
        (type("Odd", (BaseException,), {})("x"), "the model raised Odd: x (test_hostile_api.py:"),
        (Unprintable(), "Unprintable: a message that cannot be printed (test_hostile_api.py:"),
        (
            torch.zeros(1, device="meta"),
            "answered with a tensor on the meta device, without values",
        ),
        (
            torch.zeros(1).to_sparse(),
            "answered with a tensor with layout torch.sparse_coo: expected a dense",
        ),
    ],
)
def test_a_model_may_raise_or_answer_anything(answer, reason):
    def model(images):
        if isinstance(answer, BaseException):
            raise answer
        return answer.expand(len(images)) if answer.layout == torch.strided else answer

    [result] = tb.run("hsja", model, IMAGES[:1], [0], budget=20)
    assert result.stop is tb.Stop.MODEL_ERROR
    assert reason in result.reason


@pytest.mark.parametrize("error", [SystemExit(3), GeneratorExit(), Unprintable()])
def test_what_users_code_raises_ends_no_other_code(error):
    def model(images):
        raise error

    def attack(problem):
        yield tb.attack.Ask(problem.source[None], phase="probe")
        raise error

    class Raises:
        def begin(self, image):
            raise error

    with pytest.warns(tb.errors.ModelWarning, match=type(error).__name__):
        tb.run("hsja", model, IMAGES, [0, 0], budget=20, execution=tb.Execution(check=True))
    results = tb.run(attack, MODEL, IMAGES, [0, 0], budget=20)
    assert {result.stop for result in results} == {tb.Stop.ATTACK_ERROR}
    results = tb.run("hsja", MODEL, IMAGES, [0, 0], budget=20, detection=tb.Detection(Raises()))
    assert {result.stop for result in results} == {tb.Stop.DETECTOR_ERROR}


@pytest.mark.parametrize("alarms", [{"device": "meta"}, {"layout": torch.sparse_coo}])
def test_alarms_without_values_are_a_failure_of_the_detector(alarms):
    class Detector:
        def begin(self, image):
            return lambda rows: torch.zeros(len(rows), dtype=torch.bool, **alarms)

    [result] = tb.run("hsja", MODEL, IMAGES[:1], [0], budget=20, detection=tb.Detection(Detector()))
    assert result.stop is tb.Stop.DETECTOR_ERROR


def test_labels_that_floats_do_not_hold_are_refused():
    [result] = tb.run("hsja", lambda x: [2**53 + 1] * len(x), IMAGES[:1], [0], budget=20)
    assert "a label beyond 2^53" in result.reason


def test_rows_of_an_attack_are_a_number():
    def attack(problem):
        yield tb.attack.Ask(problem.source[None], phase="probe")

    attack.rows = "x"
    assert sentence_of(lambda: tb.run(attack, MODEL, IMAGES, [0, 0], budget=20)) == (
        "attack declares 'x' rows: expected a finite number of 0 or more."
    )


def test_the_images_of_the_caller_are_not_changed():
    def scribble(problem):
        problem.source.zero_()
        problem.start_image.zero_()
        yield tb.attack.Ask(problem.source[None], phase="probe")
        return tb.Stop.CONVERGED

    images, starts = IMAGES.clone(), IMAGES.clone()
    tb.run(scribble, labels, images, [0, 0], starts=starts, budget=20)
    assert torch.equal(images, IMAGES)
    assert torch.equal(starts, IMAGES)
