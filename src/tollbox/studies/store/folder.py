"""A study's folder: one store for each shard.

A store says which shard of which study it holds, and whether its folder has all shards or a part of
them. A folder is used only if each file holds the shard that its name says, and all are of one
study.
"""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path

from ...data.tables import kind_of
from ...errors import FileError
from .record import StudyRecord
from .store import Store

PATTERN = re.compile(r"shard-(\d+)\.sqlite")
MADE_BY_RUN = "a folder that `tollbox run` or `tollbox audit` made"
RESTORE = "restore it, or start again in another folder"


def shard_path(folder: Path, number: int) -> Path:
    return folder / f"shard-{number}.sqlite"


def read_record(folder: Path) -> StudyRecord | None:
    """Return the record in a folder's first shard; None if the folder has no study."""
    numbers = _numbers(folder) if folder.is_dir() else []
    if not numbers:
        return None
    with Store.open(shard_path(folder, numbers[0]), write=False) as store:
        return store.study


def open_shards(folder: Path, opened: ExitStack) -> list[Store]:
    """Open all shards of a folder for reading, until `opened` closes them, and check them."""
    if kind_of(folder, str(folder)) != "folder":
        raise FileError(f"{folder} is not a folder", expected=MADE_BY_RUN)
    numbers, stores = _numbers(folder), dict[int, Store]()

    def store_of(number: int) -> Store:
        if number not in stores:
            path = shard_path(folder, number)
            stores[number] = opened.enter_context(Store.open(path, write=False))
        return stores[number]

    if not numbers:
        raise FileError(f"{folder} has no study", expected=MADE_BY_RUN)
    wanted = store_of(numbers[0]).study.folder_shards
    for number in wanted:
        if number not in numbers:
            raise FileError(f"{shard_path(folder, number)} is missing", remedy=RESTORE)
    found = [store_of(number) for number in wanted]
    content = found[0].study.of_study, found[0].images()
    for number, store in zip(wanted, found, strict=True):
        if store.study.shard != number:
            raise FileError(
                f"{store.path} holds shard {store.study.shard} of a study",
                expected=f"shard {number}",
                remedy=RESTORE,
            )
        if (store.study.of_study, store.images()) != content:
            first = found[0].path.name
            raise FileError(f"{store.path} is of another study than {first}", remedy=RESTORE)
    return found


def shard_paths(folder: Path) -> list[Path]:
    """Return the files of all shards of a folder, in order, after checking them."""
    with ExitStack() as opened:
        return [store.path for store in open_shards(folder, opened)]


def _numbers(folder: Path) -> list[int]:
    """Return the numbers of the shards that exist in a folder."""
    try:
        found = [PATTERN.fullmatch(path.name) for path in folder.iterdir()]
    except OSError as error:
        raise FileError(f"{folder} cannot be read: {error.strerror}") from None
    return sorted(int(match[1]) for match in found if match is not None)
