"""A study's folder: one store for each shard, made whole or not at all.

`begin` makes it, after everything was loaded and tried once. `opened` gives the study as it was
begun: its text is in the store, so an edited file changes nothing, and is told.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import FileError, InputError
from ...files.tables import kind_of
from .store import Store

if TYPE_CHECKING:
    from ..grid import Grid
    from ..loading import Loaded
    from ..spec.study import Study

NAME = "shard-{}.sqlite"
PATTERN = re.compile(r"shard-(\d+)\.sqlite")


def shard_path(folder: Path, number: int) -> Path:
    """The file of a shard."""
    return folder / NAME.format(number)


def begin(loaded: Loaded, out: Path, made_by: str, **more: Any) -> None:
    """Try every model once, and make the folder of a new study; `more` is kept with it."""
    from ...files.output import check_free, staged
    from ..loading import environment, fingerprint

    study = loaded.study
    if holds(study, out):
        raise InputError(f"{out} has this study already: go on with `tollbox resume {out}`.")
    check_free(out)
    models = {spec.name: fingerprint(loaded, spec, loaded.model(spec)) for spec in study.models}
    about = {
        **description(study, loaded.grid, environment(loaded.device), models),
        "made_by": made_by,
        **more,
    }
    names = (name.encode("utf-8", "backslashreplace").decode() for name in loaded.images.names)
    rows = list(
        zip(range(len(loaded.images)), loaded.hashes, loaded.images.labels, names, strict=True)
    )
    with staged(out) as stage:
        for number in range(study.workers):
            Store.create(shard_path(stage.folder, number), {**about, "shard": number}, rows)
        stage.commit()


def description(
    study: Study, grid: Grid, environment: dict[str, str], models: dict[str, Any]
) -> dict[str, Any]:
    """What is kept of a study with each of its shards: all that is needed to read and resume it."""
    return {
        "text": study.text,
        "where": study.where,
        "folder": str(study.folder.resolve()),
        "name": study.name,
        "lines": [line.named(study) for line in grid.lines],
        "width": grid.width,
        "shards": study.workers,
        "prices": prices_of(study),
        "environment": environment,
        "models": models,
    }


def holds(study: Study, out: Path) -> bool:
    """Whether a folder has this very study; raises InputError if it has another."""
    if not shard_path(out, 0).is_file():
        return False
    with Store.open(shard_path(out, 0), write=False) as store:
        about = store.about
    line = changed_line(about["text"], study.text)
    if line is None:
        return True
    raise InputError(
        f"{out} has another study, begun from {about['where']}; line {line} of {study.where} is "
        f"the first that differs: go on with the study as it was by `tollbox resume {out}`, or "
        "give another folder with --out."
    )


def changed_line(before: str, now: str) -> int | None:
    """The first line that differs, counted from 1."""
    old, new = before.splitlines(), now.splitlines()
    for number, (a, b) in enumerate(zip(old, new, strict=False), 1):
        if a != b:
            return number
    return None if len(old) == len(new) else min(len(old), len(new)) + 1


def prices_of(study: Study) -> list[str]:
    """The prices in words, to tell whether a file of prices has changed."""
    return [f"{tariff.name}: {tariff.prices!r}" for tariff in study.tariffs]


def shards(folder: Path) -> list[Path]:
    """The files of all shards, in order."""
    if kind_of(folder, str(folder)) != "folder":
        raise FileError(f"{folder} is not a folder: expected one that `tollbox run` made.")
    first = shard_path(folder, 0)
    try:
        found = {path.name for path in folder.iterdir() if PATTERN.fullmatch(path.name)}
    except OSError as error:
        raise FileError(f"{folder} cannot be read: {error.strerror}.") from None
    if not found:
        raise FileError(f"{folder} has no study: expected a folder that `tollbox run` made.")
    if first.name not in found:
        raise FileError(f"{first} is missing: bring it back, or begin anew in another folder.")
    with Store.open(first, write=False) as store:
        count = store.about["shards"]
    wanted = [shard_path(folder, number) for number in range(count)]
    missing = [path for path in wanted if path.name not in found]
    if missing:
        raise FileError(f"{missing[0]} is missing: bring it back, or begin anew elsewhere.")
    return wanted


def study_of(about: dict[str, Any], files: bool) -> Study:
    """The study as it was begun; with `files`, what it names must be there."""
    from ..spec.study import Study

    study = Study.from_text(about["text"], Path(about["folder"]), about["where"], files=files)
    now = prices_of(study)
    if now != about["prices"]:
        changed = next(b for a, b in zip(now, about["prices"], strict=True) if a != b)
        raise FileError(
            f"{study.where}: the prices have changed since the study was begun, when there was "
            f"{changed}; bring the file of prices back, or begin a new study."
        )
    return study


def edited(about: dict[str, Any]) -> str | None:
    """A sentence if the study's file is no longer what it was."""
    path = Path(about["folder"]) / Path(about["where"]).name  # wherever one stands now
    try:
        now = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return None
    line = changed_line(about["text"], now.removeprefix("\ufeff"))
    if line is None:
        return None
    return (
        f"{path} was edited since (line {line}): this goes on with the study as it was begun; for "
        "the new one use `tollbox run` with another --out."
    )
