"""A study's folder: one store for each shard, made whole or not at all.

A store says which shard of which study it holds, and whether its folder has all shards or a part of
them; a folder is used only if each file holds the shard that its name says, and all are of one
study.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from ...data.tables import kind_of
from ...errors import FileError
from .record import StudyRecord
from .store import Store

NAME = "shard-{}.sqlite"
PATTERN = re.compile(r"shard-(\d+)\.sqlite")
MADE_BY_RUN = "a folder that `tollbox run` or `tollbox audit` made"
BRING_BACK = "bring it back, or begin anew in another folder"


def shard_path(folder: Path, number: int) -> Path:
    """The file of a shard."""
    return folder / NAME.format(number)


def read_record(folder: Path) -> StudyRecord | None:
    """What a folder's first shard says about its study; None if there is none."""
    numbers = _numbers(folder) if folder.is_dir() else []
    if not numbers:
        return None
    with Store.open(shard_path(folder, numbers[0]), write=False) as store:
        return store.study


def _numbers(folder: Path) -> list[int]:
    """The numbers of the shards that are there."""
    try:
        found = [PATTERN.fullmatch(path.name) for path in folder.iterdir()]
    except OSError as error:
        raise FileError(f"{folder} cannot be read: {error.strerror}") from None
    return sorted(int(match[1]) for match in found if match is not None)


def shard_paths(folder: Path) -> list[Path]:
    """The files of all shards, in order; each is the one that its name says."""
    if kind_of(folder, str(folder)) != "folder":
        raise FileError(f"{folder} is not a folder", expected=MADE_BY_RUN)
    record = read_record(folder)
    if record is None:
        raise FileError(f"{folder} has no study", expected=MADE_BY_RUN)
    wanted, there = record.folder_shards, _numbers(folder)
    for number in wanted:
        if number not in there:
            raise FileError(f"{shard_path(folder, number)} is missing", remedy=BRING_BACK)
    paths = [shard_path(folder, number) for number in wanted]
    _check_shards(dict(zip(wanted, paths, strict=True)))
    return paths


def _check_shards(paths: Mapping[int, Path]) -> None:
    """Raise FileError unless the files hold the shards of one study, by their numbers."""
    first = None
    for number, path in paths.items():
        with Store.open(path, write=False) as store:
            if store.study.shard != number:
                raise FileError(
                    f"{path} holds shard {store.study.shard} of a study",
                    expected=f"shard {number}",
                    remedy=BRING_BACK,
                )
            content = store.study.of_study, store.images()
        first = first or (path.name, content)
        if content != first[1]:
            raise FileError(f"{path} is of another study than {first[0]}", remedy=BRING_BACK)
