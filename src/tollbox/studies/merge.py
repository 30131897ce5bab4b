"""Merging the parts of a study, each run in its own folder, into one folder.

1. Parts belong together if they have the same text, images, fingerprint, settings, and versions of
   tollbox, torch and numpy. They may be run on different machines, but the models of an exact study
   must give the same bits everywhere.
2. Every part must be given once. If one is missing, given twice, damaged or from another study, the
   error names it, and nothing is written.
3. A part need not be finished: the merged folder can be resumed like any other. A part that is
   running is refused.
4. The folders of the parts are not changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from ..data.output import check_free, staged
from ..data.tables import path_of
from ..errors import FileError, InputError
from .fingerprint import recorded_study
from .results import StudyResults
from .status import StudyStatus
from .store.connection import in_use
from .store.record import difference, first_difference
from .store.store import shard_path

MADE_BY_SHARD = "a folder that `tollbox run --shard` made"
MOST_NAMED = 8
"""Maximum number of missing parts named in the error."""


def merge_parts(out: str | Path, folders: Sequence[str | Path]) -> StudyResults:
    """Merge the parts of a study into one new folder, `out`."""
    final = path_of(out, "out")
    check_free(final)
    if not folders:
        raise InputError("there are no parts", expected=f"at least one, {MADE_BY_SHARD}")
    parts: dict[int, StudyStatus] = {}
    with ExitStack() as opened:
        for folder in folders:
            part = opened.enter_context(StudyStatus(folder))
            record = part.record
            if record.parts == 1:
                raise FileError(f"{folder} has a whole study", expected=MADE_BY_SHARD)
            if part.running:
                raise in_use(part.folder, part.running[0])
            first = next(iter(parts.values()), part)
            found = _difference(first, part)
            if found is not None:
                raise FileError(
                    f"{folder} does not belong to {first.folder}: {found}",
                    remedy="merge parts of one study, started from the same files with the same "
                    "versions",
                )
            if record.part in parts:
                raise FileError(
                    f"part {record.part_name} is given twice, as "
                    f"{parts[record.part].folder} and as {folder}",
                    remedy="leave one of them out",
                )
            parts[record.part] = part
        missing = [f"{n + 1}/{record.parts}" for n in range(record.parts) if n not in parts]
        if missing:
            more = f" and {len(missing) - MOST_NAMED} more" if len(missing) > MOST_NAMED else ""
            raise FileError(
                f"part {', '.join(missing[:MOST_NAMED])}{more} is missing",
                remedy="run it with `tollbox run --shard`, and merge all parts",
            )
        stores = [store for part in parts.values() for store in part.stores]
        for store in stores:
            store.check_whole()
        with staged(final) as stage:
            for store in stores:
                target = shard_path(stage.folder, store.study.shard)
                store.copy_to(target, replace(store.study, parts=1, part=0))
            stage.commit()
    return StudyResults(final)


def _difference(first: StudyStatus, other: StudyStatus) -> str | None:
    """Return the reason why two parts do not belong together; None if they do."""
    one, two = first.record, other.record
    line = first_difference(one.text, two.text)
    if line is not None:
        return f"line {line} of the study differs"
    if one.parts != two.parts:
        return f"it is one of {two.parts} parts, not of {one.parts}"
    versions = one.environment.changes(two.environment, ignore=("python", "device"))
    if versions:
        return f"it was run under other versions ({versions})"
    if first.images != other.images:
        return "its images differ"
    if (change := difference(one.fingerprint, two.fingerprint)) is not None:
        return change
    if recorded_study(one, files=False).execution.exact:
        for name, found in one.exactness.items():
            if found.digest != two.exactness_of(name).digest:
                return f"the study is exact, and the model {name!r} gave other bits there"
    if replace(one.of_study, part=0) != replace(two.of_study, part=0):
        return "it was started with other settings"
    return None
