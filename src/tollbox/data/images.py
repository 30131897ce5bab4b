"""Images with labels: from a folder with a CSV of labels, a folder of classes, or an `.npz` file.

1. Image files are resized and cropped only if the user or the model's configuration sets a size
   (resizing.py). They load with one channel if all are grey, otherwise as RGB.
2. A folder and its subfolders are searched, except hidden ones. The label file is a CSV with the
   columns `file` and `label`, and possibly others. Every image needs a line there, and the images
   are in the order of the lines.
3. In a folder of classes, each subfolder holds the images of one class. Its label is its position
   among the sorted names, as in torchvision's ImageFolder; numeric names must then sort as 0, 1, 2,
   ... (10 sorts before 2). If the model's class names are known, the label is found by name
   (classes.py). Images come from each class in turn, so that the first N are from all classes.
4. An `.npz` file has the arrays `images`, (n, c, h, w), (n, h, w, c) or (n, h, w), and `labels`,
   n integers. The shorter of the axes 1 and 3 holds the channels.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ..core.validation import check_whole
from ..errors import FileError, InputError, mention
from .classes import in_order, labels_of
from .image_files import ENDINGS, SUFFIXES, integer_labels, is_grey, read_images, unit_pixels
from .resizing import ModelConfiguration, Preparation, Resizing
from .tables import LARGEST, check_file, errors_in, in_a_line, kind_of, path_of, rows_of, shortened
from .user_code import named_by_file

ARRAYS = ("images", "labels")
NPZ = "an .npz file with the arrays images and labels"
EXPECTED = "a folder of images or an .npz file"


@dataclass(frozen=True)
class ImageSet:
    """Images with their labels and names, in order."""

    images: Tensor
    """(n, c, h, w), float32 in [0,1]."""
    labels: tuple[int, ...]
    names: tuple[str, ...]
    origins: tuple[str, ...]
    """Origin of each label: a file, with the line for a label file, or a function."""
    class_names: tuple[str, ...] = ()
    """The name of each class, by label; empty if the names are unknown."""
    resizing: Resizing | None = None
    """The resizing that was applied to the images; None if there was none."""

    def __len__(self) -> int:
        return len(self.labels)


def load_images(
    path: str | Path,
    labels: str | Path | None = None,
    limit: int | None = None,
    *,
    resizing: Resizing | None = None,
    names: str | PathLike[str] | Sequence[str] | None = None,
    model: ModelConfiguration | None = None,
) -> ImageSet:
    """Load the first `limit` images of a folder or an `.npz` file.

    A folder needs a label file, or a subfolder for each class.

    resizing: resizes and crops image files to the size that the model takes.
    names: the names of the model's classes in order, or a file with one on each line.
    model: a model whose configuration provides the defaults for both.
    """
    if limit is not None:
        check_whole("limit", limit, 1)
    prepared = Preparation.of(resizing, names, model)
    path = path_of(path, "images")
    labels = None if labels is None else path_of(labels, "labels")
    if labels is not None:
        kind_of(labels, str(labels), input="labels")  # refuses what cannot be a file name
    if check_there(path) == "folder":
        return _load_folder(path, labels, limit, prepared)
    if path.suffix.lower() in SUFFIXES:
        given, remedy = f"{path} is a single image", "put it into a folder, next to a CSV of labels"
        raise FileError(given, expected=EXPECTED, remedy=remedy, input="images")
    if labels is not None:
        given = f"is {labels}, but {path} is not a folder: an .npz file contains its labels"
        raise InputError(given, remedy="leave the label file out", input="labels")
    check_not_resized(resizing, f"{path} has arrays")
    images, classes = read_npz(path, limit)
    count = len(images)
    numbers = tuple(map(str, range(count)))
    return ImageSet(images, classes, numbers, (str(path),) * count, prepared.names)


def check_there(path: Path) -> str:
    """Return the kind of `path`, as `kind_of` does; raise FileError if nothing is there."""
    kind = kind_of(path, str(path), input="images")
    if kind == "nothing":
        if (error := named_by_file(str(path), "images")) is not None:
            raise error
        raise FileError(f"{path} does not exist", expected=EXPECTED, input="images")
    return kind


def check_not_resized(resizing: Resizing | None, reason: str) -> None:
    """Raise InputError if `resizing` is set for arrays; the message includes `reason`."""
    if resizing is not None:
        given, name = f"is given, but {reason}", "crop" if resizing.resize is None else "resize"
        expected = "image files, since only those are resized and cropped"
        remedy = "leave it out, and give arrays of the model's size"
        raise InputError(given, expected=expected, remedy=remedy, input=name)


def read_npz(file: Path, limit: int | None) -> tuple[Tensor, tuple[int, ...]]:
    """Return the first `limit` images, (n, c, h, w) in [0,1], and their labels."""
    pixels, classes = _read_arrays(file)
    with errors_in(file):
        if pixels.ndim not in (3, 4) or pixels.size == 0:
            expected = "at least one image, (n, c, h, w), (n, h, w, c) or (n, h, w)"
            raise InputError(f"images has shape {pixels.shape}", expected=expected)
        labels = integer_labels(classes, len(pixels))
        return unit_pixels(_channels_first(pixels)[:limit]), labels[:limit]


def _read_arrays(file: Path) -> list[NDArray[Any]]:
    check_file(file, NPZ)
    try:
        with open(file, "rb") as raw:
            stored = np.load(raw, allow_pickle=False)
            names = list(getattr(stored, "files", ()))  # a single array has none
            if set(ARRAYS) <= set(names):
                arrays = [stored[name] for name in ARRAYS]
                if all(isinstance(array, np.ndarray) for array in arrays):
                    return arrays
                raise ValueError("its entries are not arrays in the .npy format")
    except Exception as error:  # broken, encrypted or large files raise many types
        raise FileError(f"{file} cannot be read: {in_a_line(error)}", expected=NPZ) from None
    missing = " or ".join(repr(name) for name in ARRAYS if name not in names)
    present = ", ".join(map(repr, names)) or "none by name"
    raise FileError(f"{file} has no array {missing}: it has {present}", expected=NPZ)


def _channels_first(pixels: NDArray[Any]) -> NDArray[Any]:
    if pixels.ndim == 3:
        return pixels[:, None]
    if pixels.shape[1] == pixels.shape[3] and pixels[0].size > 1:
        given = f"images has shape {pixels.shape}, whose axes 1 and 3 have the same length"
        expected = "(n, c, h, w) or (n, h, w, c) with the shorter c"
        raise InputError(f"{given}: it is not clear which has the channels", expected=expected)
    return pixels if pixels.shape[1] <= pixels.shape[3] else pixels.transpose(0, 3, 1, 2)


def _load_folder(
    folder: Path, table: Path | None, limit: int | None, prepared: Preparation
) -> ImageSet:
    class_names = prepared.names
    if table is not None:
        files = _labelled_files(folder, table)
    else:
        files, classes = _class_files(folder, class_names, prepared.own_names)
        class_names = class_names or classes
    grey = all(is_grey(folder / name) for name, _, _ in files)
    names, labels, origins = zip(*files[:limit], strict=True)
    images = read_images(folder, names, grey, prepared.resizing)
    return ImageSet(images, labels, names, origins, class_names, prepared.resizing)


def image_paths(folder: Path) -> list[str]:
    """Return the image files below a folder as relative paths, except hidden ones."""

    def refuse(error: OSError) -> None:
        raise FileError(f"the folder {error.filename} cannot be read: {error.strerror}") from None

    names = []
    for place, folders, files in os.walk(folder, onerror=refuse):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for file in (Path(place, name) for name in files if not name.startswith(".")):
            is_image = file.suffix.lower() in SUFFIXES
            if is_image and kind_of(file, f"the image {file}") == "file":
                names.append(file.relative_to(folder).as_posix())
    return sorted(names)


def _labelled_files(folder: Path, table: Path) -> list[tuple[str, int, str]]:
    """Return the path, the label and its origin for each image, in the order of the label file."""
    files = set(image_paths(folder))
    if not files:
        raise FileError(f"the folder {folder} has no images", expected=f"files ending in {ENDINGS}")
    base, labelled = os.path.abspath(folder), {}
    for where, (file, text) in rows_of(table, ("file", "label")):
        image = f"the image {shortened(file)!r}"
        name = Path(os.path.relpath(os.path.join(base, file), base)).as_posix()
        if name not in files:
            raise FileError(f"{image} {_why_not(folder, name)}", where=where)
        if name in labelled:
            raise FileError(f"{image} has a label already", where=where)
        try:
            label = int(text)
        except ValueError:  # also for too many digits
            label = LARGEST + 1
        if abs(label) > LARGEST:
            raise FileError(f"the label is {shortened(text)!r}", expected="an integer", where=where)
        labelled[name] = (name, label, where)
    if missing := sorted(files - set(labelled)):
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        given = f"{table} has no label for the image {missing[0]}{more}"
        expected, remedy = f"a line for every image in {folder}", "add it, or move the image away"
        raise FileError(given, expected=expected, remedy=remedy)
    return list(labelled.values())


def _why_not(folder: Path, name: str) -> str:
    """Return why a name in a label file is not one of the folder's images."""
    if name == ".." or name.startswith("../"):
        return f"is not in the folder {folder}: expected a path relative to that folder"
    try:
        kind = kind_of(folder / name, "")
    except FileError as error:
        return error.given.strip()
    if kind == "nothing":
        return f"is not in the folder {folder}"
    if kind != "file":
        return "is not a file"
    hidden = any(part.startswith(".") for part in name.split("/"))
    return "is hidden: its name starts with a dot" if hidden else f"does not end in {ENDINGS}"


def _class_files(
    folder: Path, names: Sequence[str], from_model: bool
) -> tuple[list[tuple[str, int, str]], tuple[str, ...]]:
    """Return the path, the label and its origin for each image, and the names of the folders."""
    ending = f"files ending in {ENDINGS}"
    entries = sorted(name for name in os.listdir(folder) if not name.startswith("."))
    classes = [name for name in entries if (folder / name).is_dir()]
    for name in entries:
        if Path(name).suffix.lower() in SUFFIXES and name not in classes:
            given = f"the image {name} is not in the folder of a class"
            given = f"{folder} is a folder, and no labels are given, but {given}"
            expected = "a CSV file with the columns file and label, or a folder for each class"
            remedy = f"give {mention('labels')}, or move the images into such folders"
            raise InputError(given, expected=expected, remedy=remedy, input="images")
    if not classes:
        expected = f"a folder for each class, with {ending}"
        raise FileError(f"the folder {folder} has no images", expected=expected)
    files = {name: image_paths(folder / name) for name in classes}
    if empty := [name for name in classes if not files[name]]:
        given = f"the folder {folder / empty[0]} has no images"
        expected = f"each folder in {folder} to be a class, with {ending}"
        raise FileError(given, expected=expected, remedy="move it elsewhere")
    if in_order(classes, names, from_model) and all(name.isdecimal() for name in classes):
        _check_numbers(folder, classes)
    labels = labels_of(classes, names, from_model)
    paths = [
        [(f"{name}/{file}", label, f"{folder / name / file}") for file in files[name]]
        for name, label in zip(classes, labels, strict=True)
    ]
    turns = itertools.chain.from_iterable(itertools.zip_longest(*paths))
    own = (name.encode("utf-8", "backslashreplace").decode() for name in classes)
    return [each for each in turns if each is not None], tuple(own)


def _check_numbers(folder: Path, classes: Sequence[str]) -> None:
    """Raise InputError unless the sorted folder names are the numbers 0, 1, 2, ..."""
    for place, name in enumerate(classes):
        if name.strip().lstrip("0") != (str(place) if place else ""):
            given = f"the folder {shortened(name)!r} in {folder} would be class {place}"
            expected = "names that are not numbers, or the class numbers in order"
            remedy = f"give the names of all classes, in the model's order, with {mention('names')}"
            given = f"{given}, since classes are the folders sorted by name"
            raise InputError(given, expected=expected, remedy=remedy)
