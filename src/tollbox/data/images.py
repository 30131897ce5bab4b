"""Images in an `.npz` file.

It has `images`: uint8, or floats in [0,1]; (n, c, h, w), (n, h, w, c) or, for grey, (n, h, w); and
`labels`: n integers. The channels are on the shorter of the axes 1 and 3.

Images in: a folder with a CSV of labels, a folder of classes, or an `.npz` file.

1. Images come out as float32 in [0,1], (n, c, h, w), all of one shape; 8-bit values are divided by
   255. Pictures are resized and cropped if that is told, by the user or by a model's configuration
   (`preparation`), and nothing else is.
2. Each image knows where its label came from, for messages.
3. The names of the classes are those that are given, else the model's own, else the folders of a
   folder of classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ..core.validation import check_whole
from ..errors import FileError, InputError
from .folders import class_files, labelled_files
from .image_files import SUFFIXES, integer_labels, is_grey, read_pictures, unit_pixels
from .resizing import Configured, Preparation, Resizing
from .tables import in_a_line, kind_of, path_of
from .user_code import named_by_file

ARRAYS = ("images", "labels")
EXPECTED = "an .npz file with the arrays images and labels"


def read_npz(file: Path, limit: int | None) -> tuple[Tensor, tuple[int, ...]]:
    """The first `limit` images, (n, c, h, w) in [0,1], and their labels."""
    arrays = _read_arrays(file)
    pixels = arrays["images"]
    try:
        if pixels.ndim not in (3, 4) or pixels.size == 0:
            raise InputError(
                f"images has shape {pixels.shape}",
                expected="at least one image, (n, c, h, w), (n, h, w, c) or (n, h, w)",
            )
        labels = integer_labels(arrays["labels"], len(pixels))
        images = unit_pixels(_channels_first(pixels)[:limit])
    except InputError as error:
        raise FileError(
            error.given, expected=error.expected, remedy=error.remedy, where=str(file)
        ) from None
    return images, labels[:limit]


def _read_arrays(file: Path) -> dict[str, NDArray[Any]]:
    try:
        with open(file, "rb") as raw:
            stored = np.load(raw, allow_pickle=False)
            names = list(getattr(stored, "files", ()))  # a single array has none
            if set(ARRAYS) <= set(names):
                arrays = {name: stored[name] for name in ARRAYS}
                if all(isinstance(array, np.ndarray) for array in arrays.values()):
                    return arrays
                raise ValueError("what it holds is not in the format of arrays, .npy")
    except Exception as error:  # broken, encrypted, too large: many kinds
        raise FileError(f"{file} cannot be read: {in_a_line(error)}", expected=EXPECTED) from None
    missing = " or ".join(repr(name) for name in ARRAYS if name not in names)
    present = ", ".join(map(repr, names)) or "none by name"
    raise FileError(f"{file} has no array {missing}: it has {present}", expected=EXPECTED)


def _channels_first(pixels: NDArray[Any]) -> NDArray[Any]:
    if pixels.ndim == 3:
        return pixels[:, None]
    if pixels.shape[1] == pixels.shape[3] and pixels[0].size > 1:
        raise InputError(
            f"images has shape {pixels.shape}: the axes 1 and 3 are of one length, so that it is "
            "not clear which has the channels",
            expected="(n, c, h, w) or (n, h, w, c) with the shorter c",
        )
    return pixels if pixels.shape[1] <= pixels.shape[3] else pixels.transpose(0, 3, 1, 2)


@dataclass(frozen=True)
class ImageSet:
    """Images with their labels and names, in order."""

    images: Tensor
    """(n, c, h, w), float32 in [0,1]."""
    labels: tuple[int, ...]
    names: tuple[str, ...]
    origins: tuple[str, ...]
    """Where each label was read: a file, and the line if any."""
    class_names: tuple[str, ...] = ()
    """The names of the classes, by label, if they are known."""
    resizing: Resizing | None = None
    """How pictures got their size; None: as they are."""

    def __len__(self) -> int:
        return len(self.labels)


def load_images(
    path: str | Path,
    labels: str | Path | None = None,
    limit: int | None = None,
    *,
    resizing: Resizing | None = None,
    names: str | PathLike[str] | Sequence[str] | None = None,
    model: Configured | None = None,
) -> ImageSet:
    """The first `limit` images of a folder (with its label file, or with a folder for each class)
    or of an `.npz`.

    resizing: how pictures get the size that the model takes.
    names: of the model's classes, in order, or a file with one on each line.
    model: one whose own configuration says both where they are not given.
    """
    if limit is not None:
        check_whole("limit", limit, 1)
    prepared = Preparation.of(resizing, names, model)
    path = path_of(path, "images")
    labels = None if labels is None else path_of(labels, "labels")
    if labels is not None:
        kind_of(labels, str(labels), input="labels")  # whether it can be the name of a file
    kind = check_there(path)
    if kind == "folder" and labels is None:
        return _load_classes(path, limit, prepared)
    if kind == "folder" and labels is not None:
        return _load_labelled(path, labels, limit, prepared)
    if path.suffix.lower() in SUFFIXES:
        raise FileError(
            f"{path} is a single picture",
            expected="a folder of images or an .npz file",
            remedy="put it into a folder, with a CSV of labels beside it",
            input="images",
        )
    if labels is not None:
        raise InputError(
            f"is {labels}, but {path} is not a folder: an .npz file has its labels inside",
            remedy="leave the label file out",
            input="labels",
        )
    check_pictures(resizing, f"{path} has arrays")
    images, classes = read_npz(path, limit)
    numbers = tuple(str(number) for number in range(len(images)))
    return ImageSet(images, classes, numbers, (f"{path}",) * len(images), prepared.names)


def check_there(path: Path) -> str:
    """What is at the path of images; raises FileError if there is nothing."""
    kind = kind_of(path, str(path), input="images")
    if kind == "nothing":
        if (error := named_by_file(str(path), "images")) is not None:
            raise error
        raise FileError(
            f"{path} does not exist", expected="a folder of images or an .npz file", input="images"
        )
    return kind


def check_pictures(resizing: Resizing | None, what: str) -> None:
    """Raise InputError if arrays, which `what` says there are, were to be resized."""
    if resizing is not None:
        raise InputError(
            f"is given, and {what}",
            expected="pictures, which alone are resized and cropped",
            remedy="leave it out, and make the arrays of the model's size",
            input="crop" if resizing.resize is None else "resize",
        )


def _load_labelled(folder: Path, table: Path, limit: int | None, prepared: Preparation) -> ImageSet:
    files, resizing = labelled_files(folder, table), prepared.resizing
    return ImageSet(
        _pictures(folder, [file.name for file in files], limit, resizing),
        tuple(file.label for file in files[:limit]),
        tuple(file.name for file in files[:limit]),
        tuple(f"{table}, line {file.line}" for file in files[:limit]),
        prepared.names,
        resizing,
    )


def _load_classes(folder: Path, limit: int | None, prepared: Preparation) -> ImageSet:
    files, classes = class_files(folder, prepared.names, prepared.own_names)
    resizing = prepared.resizing
    return ImageSet(
        _pictures(folder, [name for name, _ in files], limit, resizing),
        tuple(label for _, label in files[:limit]),
        tuple(name for name, _ in files[:limit]),
        tuple(f"{folder / name}" for name, _ in files[:limit]),
        prepared.names or tuple(classes),
        resizing,
    )


def _pictures(
    folder: Path, files: list[str], limit: int | None, resizing: Resizing | None
) -> Tensor:
    """The first so many; with one channel if all are grey."""
    grey = all(is_grey(folder / file) for file in files)
    return read_pictures(folder, files[:limit], grey, resizing)
