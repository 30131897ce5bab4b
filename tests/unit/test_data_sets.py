"""Data sets that a function gives: sequences of (image, label), as torchvision and Hugging Face
have them; every mistake in one sentence."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from tollbox.data.data_sets import images_from
from tollbox.data.images import ImageSet
from tollbox.data.resizing import Resizing
from tollbox.errors import InputError

NUMBERS = itertools.count()


def picture(width: int, height: int, seed: int = 0, mode: str = "RGB") -> Image.Image:
    values = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(values).convert(mode)


class Lazy:
    """Like a data set of torchvision: items are made when they are asked for."""

    classes = ("cat", "dog")

    def __init__(self, items: list[Any]) -> None:
        self.items = items
        self.asked: list[int] = []

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, number: int) -> Any:
        self.asked.append(number)
        if isinstance(self.items[number], Exception):
            raise self.items[number]
        return self.items[number]


class Labels:
    names = ("cat", "dog")


class HuggingFace(Lazy):
    features = {"img": None, "label": Labels()}  # noqa: RUF012
    classes = None  # type: ignore[assignment]


@pytest.fixture
def give(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """The images of a function that gives a value."""

    def given(value: Any, limit: int | None = None, **settings: Any) -> Any:
        name = f"data_{next(NUMBERS)}"
        (tmp_path / f"{name}.py").write_text("value = None\ndef data():\n    return value\n")
        monkeypatch.syspath_prepend(str(tmp_path))
        module = __import__(name)
        module.value = value
        return images_from(f"{name}:data", limit, **settings)

    return given


def test_pairs_of_pictures_and_labels(give: Any) -> None:
    data = Lazy([(picture(5, 4, n), n % 2) for n in range(6)])
    found = give(data, limit=3)
    assert found.labels == (0, 1, 0)
    assert found.names == ("0", "1", "2")
    assert found.class_names == ("cat", "dog")
    assert max(data.asked) == 2
    wanted = np.asarray(picture(5, 4, 1)).transpose(2, 0, 1).astype(np.float32) / 255
    assert np.array_equal(found.images[1].numpy(), wanted)


def test_mappings_arrays_tensors_and_grey(give: Any) -> None:
    keyed = HuggingFace([{"img": picture(5, 4, n), "label": 1, "more": 0} for n in range(2)])
    assert (give(keyed).labels, give(keyed).class_names) == ((1, 1), ("cat", "dog"))
    arrays = [(np.asarray(picture(5, 4)), np.int64(3)), (np.asarray(picture(5, 4)), 3)]
    assert torch.equal(give(arrays).images, give([(picture(5, 4), 3)] * 2).images)
    tensors = [(torch.full((2, 4, 5), n / 4), torch.tensor(n)) for n in range(3)]
    found = give(tensors)
    assert (found.images.shape, found.labels) == ((3, 2, 4, 5), (0, 1, 2))
    bytes_ = [(torch.full((1, 4, 5), 51, dtype=torch.uint8), 0)] * 3
    assert torch.equal(give(bytes_).images, torch.full((3, 1, 4, 5), 0.2))
    grey = [(picture(5, 4, mode="L"), 0), (picture(5, 4, mode="1"), 0)]
    assert give(grey).images.shape == (2, 1, 4, 5)
    assert give([*grey, (picture(5, 4), 0)]).images.shape == (3, 3, 4, 5)


def test_pictures_of_a_data_set_are_resized(give: Any) -> None:
    data = [(picture(50, 40), 0), (picture(30, 60), 1), (np.asarray(picture(9, 9)), 0)]
    found = give(data, resizing=Resizing(16, 8, "bicubic"))
    assert found.images.shape == (3, 3, 8, 8)
    wanted = picture(50, 40).resize((20, 16), Image.Resampling.BICUBIC).crop((6, 4, 14, 12))
    assert np.array_equal(
        found.images[0].mul(255).round().byte().permute(1, 2, 0).numpy(), np.asarray(wanted)
    )


def test_labels_go_by_name_if_both_are_named(give: Any) -> None:
    data = Lazy([(picture(5, 4), n) for n in (0, 1, 1)])
    found = give(data, names=("dog", "horse", "cat"))
    assert (found.labels, found.class_names) == ((2, 0, 0), ("dog", "horse", "cat"))
    assert give(list(data), names=("dog", "horse", "cat")).labels == (0, 1, 1)
    with pytest.raises(InputError, match="the class 'dog' is none of the 2 class names"):
        give(data, names=("horse", "cat"))
    with pytest.raises(InputError, match="a label is 2, but the data set has 2 class names"):
        give(Lazy([(picture(5, 4), 2)]), names=("dog", "cat"))


ALPHA = Image.new("RGBA", (5, 4), (1, 1, 1, 9))


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ([(picture(5, 4), 0), (picture(6, 4), 0)], "image 1 is 6x4, but 0 is 5x4"),
        ([(picture(5, 4), 0), 7], "item 1 is int: expected (image, label), or a mapping"),
        ([(picture(5, 4), "cat")] * 2, "the label of item 0 is 'cat': expected an integer"),
        ([(picture(5, 4), True)] * 4, "the label of item 0 is True"),
        ([(picture(5, 4), 0), ("cat.png", 0)], "the image of item 1 is str"),
        ([(np.zeros((4, 5, 7)), 0)], "is an array of float64 of shape (4, 5, 7)"),
        ([(torch.zeros(4, 5), 0)] * 4, "the image of item 0 is of shape (4, 5)"),
        ([(torch.zeros(3, 4, 5), 0), (picture(5, 4), 0)], "item 1 is no tensor"),
        ([(torch.zeros(3, 4, 5), 0), (torch.zeros(1, 4, 5), 0)], "item 1 has 1 channels"),
        ([(torch.full((3, 4, 5), -2.1), 0)], "image 0 has values from -2.1"),
        ([{"image": picture(5, 4)}] * 2, "item 0 has no label"),
        ([(ALPHA, 0)], "the image 0 is transparent in places"),
        (Lazy([(picture(5, 4), 0), OSError("no disk")]), "calling it failed: OSError: no disk"),
        (Lazy([OSError("no disk")]), "calling it failed: OSError: no disk"),
        (iter([(picture(5, 4), 0)]), "it returned list_iterator"),
        ([], "it returned list: expected images (n, c, h, w) with labels"),
    ],
)
def test_mistakes(give: Any, data: Any, told: str) -> None:
    with pytest.raises(InputError) as error:
        give(data)
    assert told in str(error.value)
    assert str(error.value).startswith("images is 'data_")
    assert str(error.value).count("images is 'data_") == 1


@pytest.mark.filterwarnings("ignore:Creating a tensor from a list:UserWarning")  # it is slow
def test_two_arrays_and_their_labels_are_no_data_set(give: Any) -> None:
    arrays = [np.full((3, 4, 5), value, np.float32) for value in (0.25, 0.5)]
    found = give((arrays, [7, 8]))
    assert (found.images.shape, found.labels) == ((2, 3, 4, 5), (7, 8))


def test_labels_of_an_image_set_go_by_name_too(give: Any) -> None:
    given = ImageSet(torch.zeros(2, 1, 4, 5), (0, 1), ("x", "y"), ("here",) * 2, ("cat", "dog"))
    assert give(given).class_names == ("cat", "dog")
    found = give(given, names=("dog", "cow", "cat"))
    assert (found.labels, found.class_names) == ((2, 0), ("dog", "cow", "cat"))


def test_arrays_are_not_resized(give: Any) -> None:
    for data, told in (
        ([(torch.zeros(3, 4, 5), 0)], "resize is given, but the data set has tensors"),
        ((torch.zeros(1, 3, 4, 5), [0]), "resize is given, but the function returns arrays"),
    ):
        with pytest.raises(InputError) as error:
            give(data, resizing=Resizing(4))
        assert told in str(error.value)
