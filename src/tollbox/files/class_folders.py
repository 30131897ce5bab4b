"""A folder of classes: each of its folders holds the pictures of one class.

1. The folders are the classes, sorted by name as torchvision's ImageFolder does, or each at the
   place of its name if the names of the model's classes are known (`naming`). A class may have
   folders within; what is hidden is left out.
2. Pictures come one of each class in turn, so that the first so many are of all classes.
3. Names that are numbers are refused where the order of the names is not that of the numbers: 10
   comes before 2.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from pathlib import Path

from ..errors import FileError, InputError, mention
from .folders import image_files
from .naming import in_order, labels_of
from .pictures import SUFFIXES
from .tables import shortened

ENDINGS = ", ".join(sorted(SUFFIXES))


def class_files(
    folder: Path, names: Sequence[str], own: bool = False
) -> tuple[list[tuple[str, int]], list[str]]:
    """Each picture, as its path in the folder, with its label; and the folder's classes. `own`: the
    names are the model's own."""
    entries = sorted(name for name in os.listdir(folder) if not name.startswith("."))
    classes = [name for name in entries if (folder / name).is_dir()]
    beside = [name for name in entries if Path(name).suffix.lower() in SUFFIXES]
    beside = [name for name in beside if name not in classes]
    if beside:
        raise InputError(
            f"{folder} is a folder, and no labels are given; the image {beside[0]} is in no folder "
            "of a class",
            expected="a CSV file with the columns file and label, or a folder for each class",
            remedy=f"give {mention('labels')}, or move the images into such folders",
            input="images",
        )
    if not classes:
        raise FileError(
            f"the folder {folder} has no images",
            expected=f"a folder for each class, with files ending in {ENDINGS}",
        )
    of_class = {name: image_files(folder / name) for name in classes}
    for name, pictures in of_class.items():
        if not pictures:
            raise FileError(
                f"the folder {folder / name} has no images",
                expected=f"each folder in {folder} to be a class, with files ending in {ENDINGS}",
                remedy="move it elsewhere",
            )
    if in_order(classes, names, own):
        _check_numbers(folder, classes)
    labels = dict(zip(classes, labels_of(classes, names, own), strict=True))
    paths = [[(f"{name}/{file}", labels[name]) for file in of_class[name]] for name in classes]
    order = [each for turn in itertools.zip_longest(*paths) for each in turn if each is not None]
    return order, [name.encode("utf-8", "backslashreplace").decode() for name in classes]


def _check_numbers(folder: Path, classes: Sequence[str]) -> None:
    """Raise InputError for classes that are numbers, but not 0, 1, 2, ... in the order of names."""
    if not all(name.isdecimal() for name in classes):
        return
    for place, name in enumerate(classes):
        if name.strip().lstrip("0") != (str(place) if place else ""):
            raise InputError(
                f"the folder {shortened(name)!r} in {folder} would be class {place}, since classes "
                "are the folders sorted by name",
                expected="names that are no numbers, or the numbers of the classes in order",
                remedy=f"give the names of all classes, in the model's order, with "
                f"{mention('names')}",
            )
