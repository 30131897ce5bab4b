"""The creation of a study: every input is loaded and tried once, then the folder is written."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from ..core.validation import require
from ..data.output import check_free, staged
from ..data.tables import shortened, utf8
from ..errors import InputError
from ..workers.executors import within_cores
from .fingerprint import (
    attack_fingerprint,
    current_environment,
    price_fingerprint,
    recorded_study,
)
from .grid import Grid
from .inputs import StudyInputs
from .store.record import Environment, ModelRecord, StudyRecord, first_difference
from .store.store import Store, read_record, shard_path
from .study import Study


class Part(NamedTuple):
    """Part `number` (from 0) of `total`; each part is run in its own folder."""

    number: int
    total: int

    def __str__(self) -> str:
        return f"{self.number + 1}/{self.total}"

    @classmethod
    def parse(cls, text: str) -> Part:
        """Parse a part of the form K/N, with K from 1 to N; raise InputError if it is invalid."""
        match = re.fullmatch(r"(\d{1,9})/(\d{1,9})", str(text).strip())
        part = cls(int(match[1]) - 1, int(match[2])) if match else cls(0, 0)
        expected = "K/N with K from 1 to N, such as 3/16"
        require(0 <= part.number < part.total, "shard", text, expected)
        return part


WHOLE = Part(0, 1)


def create(
    inputs: StudyInputs,
    out: Path,
    made_by: str,
    *,
    force_workers: bool = False,
    settings: Mapping[str, Any] | None = None,
    experiment: str | None = None,
    scale: str | None = None,
    part: Part = WHOLE,
) -> list[str]:
    """Try every model and surrogate once, and write the folder of a new study, or of a part of it.

    Returns the findings about the models and surrogates, if there are any.
    """
    study, images = inputs.study, inputs.images
    check_new(study, out, part)
    shards = shard_count(study, len(inputs.grid), force_workers, part)
    examined = {spec.name: inputs.examine(spec, shards) for spec in study.models}
    each = [(name, finding) for name, found in examined.items() for finding in found.findings]
    findings = [f"the model {name!r}: {finding}" for name, finding in each]
    models = {spec.name: inputs.model_record(spec) for spec in study.models}
    findings += inputs.check_surrogates()
    record = describe(study, inputs.grid, current_environment(inputs.device), models, made_by)
    fingerprint = {**record.fingerprint, **inputs.fingerprint()}
    for spec in study.models:
        fingerprint |= inputs.model_fingerprint(spec)
    record = replace(
        record,
        fingerprint=fingerprint,
        shards=shards,
        parts=part.total,
        part=part.number,
        settings=settings or {},
        findings=tuple(findings),
        exactness={name: found.exactness for name, found in examined.items()},
        experiment=experiment,
        scale=scale,
        kept=inputs.kept,
        class_names=images.class_names,
        own_names=inputs.own_names,
        resizing=images.resizing,
        shape=tuple(images.images.shape[1:]),
        detector=inputs.detector_record(),
    )
    recorded_study(record, files=False)  # raises if what is written could not be read
    columns = inputs.hashes, images.labels, map(utf8, images.names)
    rows = list(zip(range(len(images)), *columns, strict=True))
    with staged(out) as stage:
        for number in record.folder_shards:
            Store.create(shard_path(stage.folder, number), replace(record, shard=number), rows)
        stage.commit()
    return findings


def check_new(study: Study, out: Path, part: Part = WHOLE) -> None:
    """Raise InputError unless a study, or a part of it, can be created in a folder."""
    if holds(study, out, part):
        raise InputError(f"{out} already has this study: resume it with `tollbox resume {out}`.")
    check_free(out)


def describe(
    study: Study,
    grid: Grid,
    environment: Environment,
    models: Mapping[str, ModelRecord],
    made_by: str,
) -> StudyRecord:
    """Return the record of a new study in one shard, without the fields that need loaded inputs."""
    return StudyRecord(
        text=study.text,
        where=study.where,
        folder=study.folder.resolve(),
        name=study.name,
        series=tuple(series.named(study) for series in grid.series),
        width=grid.width,
        shards=1,
        environment=environment,
        models=models,
        attacks=tuple(spec.name for spec in study.attacks),
        made_by=made_by,
        fingerprint={**attack_fingerprint(study), **price_fingerprint(study)},
        norm=study.norm,
    )


def shard_count(study: Study, cells: int, force: bool, part: Part = WHOLE) -> int:
    """Return the number of shards: one for each worker, each with at least one cell.

    Without `force`, there is at most one for each core, except that all parts of a study have the
    same number of shards.
    """
    if part.total > cells:
        given = f"is {part}, and the study has {cells} cells"
        raise InputError(given, expected=f"at most {cells} parts", input="shard")
    if part.total > 1:
        return part.total * min(study.workers, cells // part.total)
    return within_cores(min(study.workers, cells), force)


def holds(study: Study, out: Path, part: Part = WHOLE) -> bool:
    """Return whether a folder has this part of this study; raise InputError if it has another."""
    record = read_record(out)
    if record is None:
        return False
    line = first_difference(record.text, study.text)
    if line is not None:
        there_line, here_line = (
            shortened("".join(text.splitlines()[line - 1 : line]).strip()) or "nothing"
            for text in (record.text, study.text)
        )
        raise InputError(
            f"{out} has another study, started from {record.where}; line {line} of {study.where} "
            f"is the first that differs ({there_line} there, {here_line} here): resume the study "
            f"as it was with `tollbox resume {out}`, or choose another folder."
        )
    if (there := Part(record.part, record.parts)) != part:
        has, wanted = ("all" if each == WHOLE else f"part {each}" for each in (there, part))
        raise InputError(f"{out} has {has} of this study, not {wanted}: choose another folder.")
    return True
