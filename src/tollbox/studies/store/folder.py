"""A study's folder: one store for each shard, made whole or not at all.

A store says which shard of which study it holds; a folder is used only if each file holds the shard
that its name says, and all are of one study.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from ...errors import FileError
from ...files.tables import kind_of
from .record import StudyRecord
from .store import Store

NAME = "shard-{}.sqlite"
PATTERN = re.compile(r"shard-(\d+)\.sqlite")
MADE_BY_RUN = "a folder that `tollbox run` made"
BRING_BACK = "bring it back, or begin anew in another folder"


def shard_path(folder: Path, number: int) -> Path:
    """The file of a shard."""
    return folder / NAME.format(number)


def read_record(folder: Path) -> StudyRecord | None:
    """What a folder's first shard says about its study; None if there is none."""
    first = shard_path(folder, 0)
    if not first.is_file():
        return None
    with Store.open(first, write=False) as store:
        return store.study


def shard_paths(folder: Path) -> list[Path]:
    """The files of all shards, in order; each is the one that its name says."""
    if kind_of(folder, str(folder)) != "folder":
        raise FileError(f"{folder} is not a folder", expected=MADE_BY_RUN)
    try:
        names = {path.name for path in folder.iterdir() if PATTERN.fullmatch(path.name)}
    except OSError as error:
        raise FileError(f"{folder} cannot be read: {error.strerror}") from None
    if not names:
        raise FileError(f"{folder} has no study", expected=MADE_BY_RUN)
    record = read_record(folder)
    paths = [shard_path(folder, number) for number in range(record.shards if record else 1)]
    missing = [path for path in paths if path.name not in names]
    if missing:
        raise FileError(f"{missing[0]} is missing", remedy=BRING_BACK)
    _check_shards(paths)
    return paths


def _check_shards(paths: list[Path]) -> None:
    """Raise FileError unless the files hold the shards of one study, in order."""
    first = None
    for number, path in enumerate(paths):
        with Store.open(path, write=False) as store:
            if store.study.shard != number:
                raise FileError(
                    f"{path} holds shard {store.study.shard} of a study",
                    expected=f"shard {number}",
                    remedy=BRING_BACK,
                )
            content = replace(store.study, shard=0), store.images()
        first = first or content
        if content != first:
            raise FileError(f"{path} is of another study than {paths[0].name}", remedy=BRING_BACK)
