"""A folder of pictures with a CSV of labels.

1. The folder is searched with its subfolders, hidden ones left out. If all its images are grey (one
   channel, no alpha) they load with one channel; otherwise all load as RGB.
2. A label file is a CSV with a header that has the columns `file` and `label` (any order, any case;
   others are ignored). Its order is the order of the images; each image of the folder has a line.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from ..errors import FileError
from .pictures import SUFFIXES
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
