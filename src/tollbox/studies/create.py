"""Beginning a study: everything is loaded and tried once, and then its folder is made whole."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from ..core.execution import MOST_WORKERS
from ..core.noise import NOISE_VERSION
from ..core.validation import shown
from ..data.output import check_free, staged
from ..data.tables import shortened
from ..errors import InputError
from ..workers.executors import within_cores
from .fingerprint import attack_parts, current_environment, flagged_labels, price_texts
from .grid import Grid
from .inputs import Loaded
from .store.folder import read_record, shard_path
from .store.record import Environment, ModelFingerprint, StudyRecord, first_difference
from .store.store import Store
from .study import Study


class Part(NamedTuple):
    """Part `number` (from 0) of `total`, each of which is run in a folder of its own."""

    number: int
    total: int

    def __str__(self) -> str:
        return f"{self.number + 1}/{self.total}"

    @classmethod
    def parse(cls, text: str) -> Part:
        """K/N, with K from 1 to N; an InputError if it is not that."""
        match = re.fullmatch(r"(\d{1,9})/(\d{1,9})", str(text).strip())
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            raise InputError(
                f"is {shown(text)}", expected="K/N with K from 1 to N, such as 3/16", input="shard"
            )
        return cls(int(match[1]) - 1, int(match[2]))


WHOLE = Part(0, 1)


def _words(part: Part) -> str:
    return "the whole" if part == WHOLE else f"part {part}"


def begin(
    loaded: Loaded,
    out: Path,
    made_by: str,
    *,
    force_workers: bool = False,
    settings: Mapping[str, Any] | None = None,
    experiment: str | None = None,
    scale: str | None = None,
    part: Part = WHOLE,
) -> list[str]:
    """Try every model and every surrogate once, and make the folder of a new study, or of a part of
    it.

    Gives what the check of the models found, if the study asks for it; the store keeps it, too.
    """
    study, images = loaded.study, loaded.images
    check_new(study, out, part)
    shards = shard_count(study, len(loaded.grid), force_workers, part)
    examined = {spec.name: loaded.check_model(spec, shards) for spec in study.models}
    findings = [
        f"the model {name!r}: {finding}"
        for name, found in examined.items()
        for finding in found.findings
    ]
    models = {spec.name: loaded.fingerprint(spec) for spec in study.models}
    surrogates = loaded.surrogate_digests()
    record = replace(
        describe(study, loaded.grid, current_environment(loaded.device), models, made_by),
        shards=shards,
        parts=part.total,
        part=part.number,
        settings=settings or {},
        findings=tuple(findings),
        exactness={name: found.exactness for name, found in examined.items()},
        experiment=experiment,
        scale=scale,
        kept=loaded.kept,
        surrogates=surrogates,
        masks=loaded.masks_digest,
        class_names=images.class_names,
        own_names=loaded.own_names,
        resizing=images.resizing,
        shape=tuple(images.images.shape[1:]),
        watch=loaded.watch_record(),
    )
    names = (name.encode("utf-8", "backslashreplace").decode() for name in images.names)
    rows = list(zip(range(len(images)), loaded.hashes, images.labels, names, strict=True))
    with staged(out) as stage:
        for number in record.folder_shards:
            Store.create(shard_path(stage.folder, number), replace(record, shard=number), rows)
        stage.commit()
    return findings


def check_new(study: Study, out: Path, part: Part = WHOLE) -> None:
    """Raise InputError unless a study, or a part of it, can be begun in a folder."""
    if holds(study, out, part):
        raise InputError(f"{out} has this study already: go on with `tollbox resume {out}`.")
    check_free(out)


def describe(
    study: Study,
    grid: Grid,
    environment: Environment,
    models: Mapping[str, ModelFingerprint],
    made_by: str,
) -> StudyRecord:
    """What is recorded of a study that is begun now, in one shard."""
    return StudyRecord(
        text=study.text,
        where=study.where,
        folder=study.folder.resolve(),
        name=study.name,
        series=tuple(series.named(study) for series in grid.series),
        width=grid.width,
        shards=1,
        prices=price_texts(study),
        environment=environment,
        models=models,
        made_by=made_by,
        attacks=attack_parts(study),
        noise=NOISE_VERSION,
        flagged=flagged_labels(study),
        norm=study.norm,
    )


def shard_count(study: Study, cells: int, force: bool, part: Part = WHOLE) -> int:
    """A shard for each of the study's workers, but none without a cell, and no more than cores
    unless they are forced. Of parts each has as many, whatever cores there are: all parts must
    have the same number of shards."""
    if part.total > cells:
        raise InputError(
            f"is {part}, and the study has {cells} cells",
            expected=f"at most {cells} parts",
            input="shard",
        )
    if part.total > 1:
        return part.total * min(study.workers, cells // part.total, MOST_WORKERS)
    count = within_cores(min(study.workers, cells), force)
    if count > MOST_WORKERS:
        raise study.about(
            InputError(f"is {study.workers}", expected=f"at most {MOST_WORKERS}", input="workers")
        )
    return count


def holds(study: Study, out: Path, part: Part = WHOLE) -> bool:
    """Whether a folder has this very study, or part of it; raises InputError if it has another."""
    record = read_record(out)
    if record is None:
        return False
    line = first_difference(record.text, study.text)
    if line is None and (record.part, record.parts) == part:
        return True
    if line is None:
        raise InputError(
            f"{out} has {_words(Part(record.part, record.parts))} of this study, not "
            f"{_words(part)}: give another folder."
        )
    there, here = (_line(text, line) for text in (record.text, study.text))
    raise InputError(
        f"{out} has another study, begun from {record.where}; line {line} of {study.where} is the "
        f"first that differs ({there} there, {here} here): go on with the study as it was by "
        f"`tollbox resume {out}`, or give another folder."
    )


def _line(text: str, number: int) -> str:
    """A line of a study's text, counted from 1, as an error shows it."""
    lines = [line.strip() for line in text.splitlines()[number - 1 : number]]
    return shortened("".join(lines)) or "nothing"
