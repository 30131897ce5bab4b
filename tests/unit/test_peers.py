"""Classifiers that look like those of Foolbox and ART; the packages are in tests/neighbours."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_studies import StudyFolder
from torch import Tensor

import tollbox as tb
from tollbox.core.model import UNDECIDED
from tollbox.core.third_party_models import Pixels
from tollbox.interop.art import NAMES
from tollbox.interop.wrapping import Wrapped
from tollbox.models.loading import load_model

BUDGET = 120


class Bounds(NamedTuple):
    lower: float
    upper: float


BOUNDS = Bounds(0, 255)


def brightness(images: Tensor, low: float, high: float) -> Tensor:
    """Two logits, from images between the two."""
    mean = (images.mean((1, 2, 3)) - low) / (high - low)
    return torch.stack([torch.full_like(mean, 0.4), mean], 1)


@dataclass
class FoolboxLike:
    """Says whether an image is bright."""

    bounds: Bounds = BOUNDS
    data_format: str = "channels_first"
    asked: list[Tensor] = field(default_factory=list)
    answer: Callable[[Tensor], Tensor] | None = None

    def transform_bounds(self, bounds: Bounds) -> FoolboxLike:
        return FoolboxLike(bounds)

    def __call__(self, images: Tensor) -> Any:
        self.asked.append(images.clone())
        return self.answer(images) if self.answer else brightness(images, *self.bounds)


@dataclass
class ArtLike:
    """The same, with arrays whose channels are last."""

    clip_values: Any = (0.0, 255.0)
    nb_classes: int = 2
    answer: Callable[[Any], Any] = np.asarray
    asked: list[Any] = field(default_factory=list)

    def predict(self, images: Any, batch_size: int) -> Any:
        assert batch_size == len(images)
        self.asked.append(images.copy())
        return self.answer(brightness(torch.from_numpy(images), 0, 255).numpy())


IMAGES = torch.rand(4, 3, 5, 6, generator=torch.Generator().manual_seed(1)) * 0.6


def test_points_go_between_the_bounds_and_in_the_layout() -> None:
    first, last, art = FoolboxLike(), FoolboxLike(data_format="channels_last"), ArtLike()
    for model in (first, last, art):
        assert tb.models.as_model(model)(IMAGES).tolist() == [0, 0, 0, 0]
        assert tb.models.as_model(model)(1 - IMAGES).tolist() == [1, 1, 1, 1]
    assert torch.equal(first.asked[0], IMAGES * 255)
    assert torch.equal(last.asked[0], (IMAGES * 255).permute(0, 2, 3, 1))
    assert np.array_equal(art.asked[0], (IMAGES * 255).permute(0, 2, 3, 1).numpy())


def test_a_run_takes_them_as_they_are() -> None:
    def labels_of(points: Tensor) -> Tensor:
        return brightness(points, 0, 1).argmax(1)

    expected = tb.run(tb.preset("a-hsja"), labels_of, IMAGES, [0] * 4, budget=BUDGET)
    for model in (FoolboxLike(Bounds(0, 1)), FoolboxLike(), ArtLike()):
        results = tb.run(
            tb.preset("a-hsja"),
            model,
            IMAGES,
            [0] * 4,
            budget=BUDGET,
            execution=tb.Execution(check=True),
        )
        assert not results.findings
        ours, theirs = ([r.distance for r in found] for found in (results, expected))
        assert max(theirs) < 10
        assert ours == pytest.approx(theirs, rel=1e-3)


def test_what_they_do_not_say_can_be_given() -> None:
    model = tb.models.from_foolbox(
        FoolboxLike(), dtype=torch.float64, quantize=8, batch=4, classes=2, device="cpu"
    )
    assert (model.dtype, model.quantize, model.batch) == (torch.float64, 8, 4)
    assert (model.classes, model.device) == (2, torch.device("cpu"))
    art = ArtLike()
    known = tb.models.from_art(art, channels_first=True, quantize=8)
    assert (known.classes, known.quantize) == (2, 8)
    known(IMAGES)
    assert art.asked[0].shape == (4, 3, 5, 6)
    assert pickle.loads(pickle.dumps(known))(IMAGES).tolist() == [0, 0, 0, 0]


def test_scores_that_are_not_numbers_are_no_answer() -> None:
    nothing = ArtLike(answer=lambda scores: scores * np.nan)
    assert set(tb.models.as_model(nothing)(IMAGES).tolist()) == {UNDECIDED}
    [result] = tb.run(tb.preset("hsja"), nothing, IMAGES[:1], [0], budget=BUDGET)
    assert result.stop is tb.Stop.MODEL_ERROR


def test_one_hot_answers_of_whole_numbers_are_decided() -> None:
    model = ArtLike(answer=lambda scores: np.eye(2, dtype=int)[scores.argmax(1)])
    assert tb.models.as_model(model)(1 - IMAGES).tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize("answer", [lambda scores: scores[:, :1], lambda scores: scores[:, 0]])
def test_a_single_score_is_refused(answer: Callable[[Any], Any]) -> None:
    with pytest.raises(tb.errors.ModelFault, match=r"answered with shape .*: expected scores"):
        tb.models.as_model(ArtLike(answer=answer))(IMAGES)


@pytest.mark.parametrize("bounds", [None, (0,), (1, 0), (0, 0), (0, np.inf), (0, "a"), (0, np.nan)])
def test_bounds_that_are_none_are_told(bounds: Any) -> None:
    with pytest.raises(
        tb.errors.InputError, match=r"clip_values = .*make it with clip_values=\(0, 1\)"
    ):
        tb.run(tb.preset("hsja"), ArtLike(bounds), IMAGES, [0] * 4, budget=BUDGET)


def test_bounds_may_be_arrays_that_are_all_alike() -> None:
    model = ArtLike((np.zeros((5, 6, 3)), np.full((5, 6, 3), 255.0)))
    assert tb.models.as_model(model)(IMAGES).tolist() == [0, 0, 0, 0]
    uneven = ArtLike((np.zeros((5, 6, 3)), np.arange(90).reshape(5, 6, 3) + 1.0))
    with pytest.raises(tb.errors.InputError, match="clip_values that differ from pixel to pixel"):
        tb.models.as_model(uneven)


def test_what_is_neither_is_refused() -> None:
    with pytest.raises(tb.errors.InputError, match=r"model is .*: expected a Foolbox model"):
        tb.models.from_foolbox(ArtLike())
    with pytest.raises(tb.errors.InputError, match=r"classifier is .*: expected an ART classifier"):
        tb.models.from_art(FoolboxLike())
    with pytest.raises(tb.errors.InputError, match=r"model is .*: expected a callable"):
        tb.models.as_model(3)


@pytest.mark.parametrize("name", ["model", "made"])
def test_a_study_names_one_and_is_resumed(study_folder: StudyFolder, name: str) -> None:
    code = study_folder.code.read_text()
    study_folder.code.write_text(f"""{code}
class Model:
    bounds = (0, 255)

    def transform_bounds(self, bounds):
        raise NotImplementedError

    def __call__(self, images):
        assert images.max() > 1
        return net(images / 255)


model = Model()


def made():
    return model
""")
    text = study_folder.file.read_text()
    study_folder.file.write_text(text.replace(":net", f":{name}"))
    image = torch.rand(3, 8, 8)
    assert load_model(f"{study_folder.module}:{name}", image).outputs is not None
    results = tb.run_study(study_folder.study(), "out")
    rows = list(results.rows())
    results.close()
    assert {row["stop"] for row in rows} == {"budget"}
    with tb.run_study(study_folder.study(), "out") as again:
        assert list(again.rows()) == rows


@given(
    low=st.floats(-300, 300),
    width=st.floats(0.01, 1000),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
def test_images_come_back_within_a_rounding(low: float, width: float, dtype: torch.dtype) -> None:
    pixels = Pixels(low, low + width, channels_first=False)
    images = torch.cat([IMAGES, torch.ones_like(IMAGES), torch.zeros_like(IMAGES)]).to(dtype)
    theirs = pixels.encode(images)
    assert ((theirs >= pixels.low) & (theirs <= pixels.high)).all()
    ours = pixels.decode(theirs, "x")
    assert ((ours >= 0) & (ours <= 1)).all()
    error = torch.finfo(dtype).eps * (2 + 2 * (abs(low) + width) / width)
    assert (ours - images).abs().max() <= error


def wrapped(**options: Any) -> Wrapped:
    return Wrapped("a-hsja", {"budget": BUDGET, **options}, NAMES)


def test_labels_that_are_not_given_are_asked_for() -> None:
    model, pixels = tb.models.as_model(FoolboxLike()), Pixels(0, 255)
    given, results = wrapped().run(model, pixels, IMAGES * 255, labels=[0] * 4)
    found, again = wrapped(execution=tb.Execution(batch_size=3)).run(model, pixels, IMAGES * 255)
    assert torch.equal(given, found)
    assert [r.ledger for r in results] == [r.ledger for r in again]
    assert (brightness(found, 0, 255).argmax(1) == 1).all()


def test_an_image_without_an_answer_does_not_spoil_the_others() -> None:
    def scores(images: Tensor) -> Tensor:
        return brightness(images, 0, 255) + torch.where(images[:, :1, 0, 0] == 51, torch.nan, 0)

    model = FoolboxLike(answer=scores)
    inputs = IMAGES * 255
    inputs[2, 0, 0, 0] = 51
    points, results = wrapped().run(tb.models.as_model(model), Pixels(0, 255), inputs)
    assert [r.stop.failed for r in results] == [False, False, True, False]
    assert [torch.equal(a, b) for a, b in zip(points, inputs, strict=True)] == [
        r.stop.failed for r in results
    ]


def test_an_image_with_its_target_class_is_no_attack() -> None:
    bounds = Bounds(0.3, 7.7)
    model, pixels = tb.models.as_model(FoolboxLike(bounds)), Pixels(*bounds)
    inputs = torch.cat([IMAGES[:1], 1 - IMAGES[:1]]) * 7.4 + 0.3
    starts = (1 - IMAGES[:2]) * 7.4 + 0.3
    points, results = wrapped().run(model, pixels, inputs, targets=[1, 1], starts=starts)
    assert torch.equal(points[1], inputs[1])
    back = pixels.encode(pixels.decode(inputs, "x"))
    assert not torch.equal(back[1], inputs[1])  # it is the image itself, not what was made of it
    assert (results[1].stop, results[1].distance) == (tb.Stop.ALREADY_MISCLASSIFIED, 0)
    assert (results[1].ledger.queries, results[1].ledger.flagged) == (1, 0)
    assert results[0].stop is tb.Stop.BUDGET
    assert (brightness(points, *bounds).argmax(1) == 1).all()


def test_errors_speak_of_the_arguments_of_the_other_package() -> None:
    model, pixels = tb.models.as_model(FoolboxLike()), Pixels()
    for arguments, sentence in (
        ({"labels": [0]}, r"y is \[0\]: expected a whole number for each image, 4 in all"),
        ({"labels": "abcd"}, "y is 'abcd': expected a whole number"),
        ({"labels": [0] * 4, "starts": IMAGES * 2}, "x_adv_init has values from .*: expected 0 to"),
        ({"labels": [0] * 4, "starts": IMAGES[0]}, "x_adv_init has shape .*: expected"),
    ):
        with pytest.raises(tb.errors.InputError, match=sentence):
            wrapped().run(model, pixels, IMAGES, **arguments)
