"""A folder of classes: each of its folders holds the pictures of one class.

1. The folders are the classes, sorted by name as torchvision's ImageFolder does, or each at the
   place of its name if the names of the model's classes are known (`classes`). A class may have
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
from .classes import labels_of
from .folders import image_files
from .pictures import SUFFIXES
from .tables import shortened


def class_files(folder: Path, names: Sequence[str]) -> tuple[list[tuple[str, int]], list[str]]:
    """Each picture, as its path in the folder, with its label; and the folder's classes."""
    files = image_files(folder)
    classes = sorted(
        entry.name
        for entry in os.scandir(folder)
        if entry.is_dir() and not entry.name.startswith(".")
    )
    if not files:
        raise FileError(
            f"the folder {folder} has no images",
            expected=f"files ending in {', '.join(sorted(SUFFIXES))}",
        )
    beside = [name for name in files if "/" not in name]
    if beside:
        raise InputError(
            f"{folder} is a folder, and no labels are given; the image {beside[0]} is in no folder "
            "of a class",
            expected="a CSV file with the columns file and label, or a folder for each class",
            remedy=f"give {mention('labels')}, or move the images into such folders",
            input="images",
        )
    of_class: dict[str, list[str]] = {name: [] for name in classes}
    for name in files:
        of_class[name.partition("/")[0]].append(name)
    for name, own in of_class.items():
        if not own:
            raise FileError(
                f"the folder {folder / name} has no images",
                expected=f"each folder in {folder} to be a class, with files ending in "
                f"{', '.join(sorted(SUFFIXES))}",
                remedy="move it elsewhere",
            )
    if not names:
        _check_numbers(folder, classes)
    labels = dict(zip(classes, labels_of(classes, names), strict=True))
    turns = itertools.zip_longest(*of_class.values())
    order = [name for turn in turns for name in turn if name is not None]
    return [(name, labels[name.partition("/")[0]]) for name in order], classes


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
