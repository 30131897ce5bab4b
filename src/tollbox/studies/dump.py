"""The text of a study that was made in memory: TOML from which an equal study is read.

Every price, model and attack is a table. Keys with their default values are left out. Paths below
the study's folder are relative to it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from .schema import StudyTable, written

if TYPE_CHECKING:
    from .study import Study


def study_text(study: Study) -> str:
    """Return the TOML text of a study."""
    tables = [
        ("", written(StudyTable, {**vars(study.execution), **vars(study)})),
        ("[images]", study.images.values()),
        ("[goal]", study.goal.values()),
        ("[detector]", {} if study.detector is None else study.detector.values()),
        *(("[[prices]]", tariff.values()) for tariff in study.tariffs),
        *(("[[models]]", model.values()) for model in study.models),
        *(("[[attacks]]", attack.values()) for attack in study.attacks),
    ]
    blocks = (
        "\n".join([*([header] if header else []), *table_lines(values, study.folder)])
        for header, values in tables
        if values
    )
    return "\n\n".join(blocks) + "\n"


def table_lines(values: Mapping[str, Any], folder: Path, prefix: str = "") -> Iterator[str]:
    """Return the lines of a table; tables inside it have dotted keys."""
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from table_lines(value, folder, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key} = {toml_value(value, folder)}"


def toml_value(value: Any, folder: Path) -> str:
    """Return a value as TOML writes it; a path below `folder` is relative to it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple | frozenset):
        parts = sorted(value) if isinstance(value, frozenset) else value
        return f"[{', '.join(toml_value(part, folder) for part in parts)}]"
    if isinstance(value, Path) and value.is_relative_to(folder):
        value = value.relative_to(folder)
    text = str(value).encode("utf-8", "backslashreplace").decode()  # a name that is not UTF-8
    if any(ord(c) < 32 or 127 <= ord(c) < 160 for c in text):
        raise InputError(f"{text!r} has control characters", expected="a name without them")
    return json.dumps(text, ensure_ascii=False)
