"""Merging: the parts of a study, each run in a folder of its own, become one folder.

1. Parts belong together if they are of one study: its text, its images, models, surrogates, attacks
   and noise, under the same versions of tollbox, torch and numpy. Where they were run may differ,
   but for an exact study, whose models must have given the same bits everywhere.
2. Every part is there once. What is missing, double, foreign or damaged is named, and nothing is
   written.
3. A part need not be finished: the folder of all is resumed like any other. A part that is being
   run is not merged.
4. The parts themselves are left as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from ..data.output import check_free, staged
from ..data.tables import path_of
from ..errors import FileError, InputError
from .fingerprint import recorded_study
from .results import StudyResults
from .store.connection import lock_holder
from .store.folder import shard_path, shard_paths
from .store.record import StudyRecord, difference, first_difference
from .store.store import Store

MADE_BY_SHARD = "a folder that `tollbox run --shard` made"
MOST_NAMED = 8
"""Missing parts that are named."""


@dataclass(frozen=True)
class _PartFolder:
    """A part: its folder, its record, its images, and its stores."""

    folder: Path
    record: StudyRecord
    images: list[tuple[str, int, str]]
    stores: list[Store]


def merge_parts(out: str | Path, folders: Sequence[str | Path]) -> StudyResults:
    """Make one folder, `out`, of the parts of a study."""
    final = path_of(out, "out")
    check_free(final)
    if not folders:
        raise InputError("there are no parts", expected=f"at least one, {MADE_BY_SHARD}")
    with ExitStack() as opened:
        parts = [_read(path_of(folder, "folder"), opened) for folder in folders]
        for part in parts[1:]:
            _check_same(parts[0], part)
        _check_complete(parts)
        for part in parts:
            for store in part.stores:
                store.check_whole()
        with staged(final) as stage:
            for part in parts:
                for store in part.stores:
                    target = shard_path(stage.folder, store.study.shard)
                    store.copy_to(target, replace(store.study, parts=1, part=0))
            stage.commit()
    return StudyResults(final)


def _read(folder: Path, opened: ExitStack) -> _PartFolder:
    paths = shard_paths(folder)
    stores = [opened.enter_context(Store.open(path, write=False)) for path in paths]
    record = stores[0].study
    if record.parts == 1:
        raise FileError(f"{folder} has a whole study", expected=MADE_BY_SHARD)
    for path in paths:
        if (holder := lock_holder(path)) is not None:
            raise FileError(
                f"{folder} is in use by another process ({holder})",
                remedy="wait until it ends, or end it",
            )
    return _PartFolder(folder, record, stores[0].images(), stores)


def _check_same(first: _PartFolder, part: _PartFolder) -> None:
    """Raise FileError unless two parts are of one study."""
    difference = _difference(first, part)
    if difference is not None:
        raise FileError(
            f"{part.folder} does not belong to {first.folder}: {difference}",
            remedy="merge parts of one study, begun from the same files with the same versions",
        )


def _difference(first: _PartFolder, part: _PartFolder) -> str | None:
    """What keeps two parts from being of one study, in words."""
    one, other = first.record, part.record
    line = first_difference(one.text, other.text)
    if line is not None:
        return f"line {line} of the study is another"
    if one.parts != other.parts:
        return f"it is one of {other.parts} parts, not of {one.parts}"
    versions = one.environment.changes(other.environment, but=("python", "device"))
    if versions:
        return f"it was run under other versions ({versions})"
    if first.images != part.images:
        return "its images are others"
    if (obstacle := one.resume_obstacle(other.attacks or {}, other.noise)) is not None:
        return obstacle
    for name, model in one.models.items():
        if (change := model.change(other.models[name])) is not None:
            return f"of the model {name!r} {change} differs"
    if one.surrogates != other.surrogates:
        return "the weights of a surrogate differ"
    begun, now = (None if each.watch is None else each.watch.parts for each in (one, other))
    if begun != now:
        return f"its detector is another: the first was begun {difference(begun or {}, now or {})}"
    if recorded_study(one, files=False).execution.exact:
        for name, found in one.exactness.items():
            if found.digest != other.exactness_of(name).digest:
                return f"the study is exact, and the model {name!r} gave other bits there"
    if replace(one.of_study, part=0) != replace(other.of_study, part=0):
        return "it was begun with other settings"
    return None


def _check_complete(parts: Sequence[_PartFolder]) -> None:
    """Raise FileError unless every part is there once."""
    seen: dict[int, Path] = {}
    for part in parts:
        number = part.record.part
        if number in seen:
            raise FileError(
                f"part {part.record.part_name} is there twice, in {seen[number]} and in "
                f"{part.folder}",
                remedy="leave one of them out",
            )
        seen[number] = part.folder
    count = parts[0].record.parts
    missing = [f"{n + 1}/{count}" for n in range(count) if n not in seen]
    if missing:
        more = f" and {len(missing) - MOST_NAMED} more" if len(missing) > MOST_NAMED else ""
        raise FileError(
            f"part {', '.join(missing[:MOST_NAMED])}{more} is missing",
            remedy="run what is missing with `tollbox run --shard`, and merge all",
        )
