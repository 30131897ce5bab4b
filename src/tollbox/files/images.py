"""Images in: a folder with a CSV of labels, or an `.npz` file.

1. Images come out as float32 in [0,1], (n, c, h, w), all of one shape; 8-bit values are divided by
   255. Nothing is resized or cropped.
2. Each image knows where its label came from, for messages.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from ..errors import FileError, InputError
from .folders import labelled_files
from .npz import read_npz
from .pictures import SUFFIXES, is_grey, read_pictures
from .tables import kind_of


@dataclass(frozen=True)
class ImageSet:
    """Images with their labels and names, in order."""

    images: Tensor
    """(n, c, h, w), float32 in [0,1]."""
    labels: tuple[int, ...]
    names: tuple[str, ...]
    origins: tuple[str, ...]
    """Where each label was read: a file, and the line if any."""

    def __len__(self) -> int:
        return len(self.labels)


def load_images(path: Path, labels: Path | None = None, limit: int | None = None) -> ImageSet:
    """The first `limit` images of a folder (with its label file) or of an `.npz`."""
    if limit is not None and limit < 1:
        raise InputError(f"is {limit}", expected="1 or more", input="limit")
    kind = kind_of(path, str(path), input="images")
    if kind == "folder":
        if labels is None:
            raise InputError(
                f"{path} is a folder, and no labels are given",
                expected="a CSV file with the columns file and label",
                input="images",
            )
        return _load_folder(path, labels, limit)
    if kind == "nothing":
        raise FileError(
            f"{path} does not exist", expected="a folder of images or an .npz file", input="images"
        )
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
    images, classes = read_npz(path, limit)
    names = tuple(str(number) for number in range(len(images)))
    return ImageSet(images, classes, names, (f"{path}",) * len(images))


def _load_folder(folder: Path, table: Path, limit: int | None) -> ImageSet:
    files = labelled_files(folder, table)
    grey = all(is_grey(folder / file.name) for file in files)
    files = files[:limit]
    return ImageSet(
        read_pictures(folder, [file.name for file in files], grey),
        tuple(file.label for file in files),
        tuple(file.name for file in files),
        tuple(f"{table}, line {file.line}" for file in files),
    )
