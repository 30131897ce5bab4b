"""A folder of pictures with a CSV of labels.

1. The folder is searched with its subfolders, hidden ones left out. If all its images are grey (one
   channel, no alpha) they load with one channel; otherwise all load as RGB.
2. A label file is a CSV with a header that has the columns `file` and `label` (any order, any case;
   others are ignored). Its order is the order of the images; each image of the folder has a line.

A folder of classes: each of its folders holds the pictures of one class.

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
from dataclasses import dataclass
from pathlib import Path

from ..errors import FileError, InputError, mention
from .classes import in_order, labels_of
from .image_files import SUFFIXES
from .tables import LARGEST, kind_of, rows_of, shortened


@dataclass(frozen=True)
class Labelled:
    """An image of a folder, by its line in the label file."""

    name: str
    """Its path, relative to the folder."""
    label: int
    line: int


def labelled_files(folder: Path, table: Path) -> list[Labelled]:
    """The images of a folder, in the order of the label file."""
    files = image_files(folder)
    if not files:
        raise FileError(
            f"the folder {folder} has no images",
            expected=f"files ending in {', '.join(sorted(SUFFIXES))}",
        )
    labelled = _read_labels(table, folder, set(files))
    missing = [name for name in files if name not in labelled]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise FileError(
            f"{table} has no label for the image {missing[0]}{more}",
            expected=f"a line for every image in {folder}",
            remedy="add it, or move the image elsewhere",
        )
    return list(labelled.values())


def image_files(folder: Path) -> list[str]:
    """The images below a folder, as paths relative to it; nothing that is hidden."""

    def refuse(error: OSError) -> None:
        raise FileError(f"the folder {error.filename} cannot be read: {error.strerror}") from None

    names = []
    for place, folders, files in os.walk(folder, onerror=refuse):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in files:
            file = Path(place, name)
            if name.startswith(".") or file.suffix.lower() not in SUFFIXES:
                continue
            if kind_of(file, f"the image {file}") == "file":
                names.append(file.relative_to(folder).as_posix())
    return sorted(names)


def _read_labels(table: Path, folder: Path, files: set[str]) -> dict[str, Labelled]:
    labelled: dict[str, Labelled] = {}
    base = os.path.abspath(folder)
    for line, (file, text) in rows_of(table, ("file", "label")):
        where = f"{table}, line {line}"
        image = f"the image {shortened(file)!r}"
        name = Path(os.path.relpath(os.path.join(base, file), base)).as_posix()
        if name not in files:
            raise _not_an_image(folder, name, image).placed(where)
        if name in labelled:
            raise FileError(f"{image} has a label already", where=where)
        try:
            label = int(text)
        except ValueError:  # of too many digits, too
            label = LARGEST + 1
        if abs(label) > LARGEST:
            raise FileError(f"the label is {shortened(text)!r}", expected="an integer", where=where)
        labelled[name] = Labelled(name, label, line)
    return labelled


def _not_an_image(folder: Path, name: str, image: str) -> FileError:
    """Why a name in a label file is none of the folder's images."""
    if name == ".." or name.startswith("../"):
        return FileError(
            f"{image} is not in the folder {folder}", expected="a path relative to that folder"
        )
    try:
        kind = kind_of(folder / name, image)
    except FileError as error:
        return error
    if kind == "nothing":
        return FileError(f"{image} is not in the folder {folder}")
    if kind != "file":
        return FileError(f"{image} is not a file")
    if any(part.startswith(".") for part in name.split("/")):
        return FileError(f"{image} is hidden", expected="names that do not begin with a dot")
    return FileError(f"{image} is not an image ending in {', '.join(sorted(SUFFIXES))}")


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
