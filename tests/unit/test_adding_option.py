"""One more option touches few files: each field of the value objects occurs in few of them.

A field that is carried inside its object is named where it is defined and where it is used. `MOST`
is the largest number of files of src/tollbox that name a field of a kind. The numbers are those
that were reached; lower them whenever the code allows it.
"""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

import tollbox as tb

SOURCE = Path(tb.__file__).parent
STUDY_SIDE = ("studies", "cli", "audits", "report", "paper")
"""Packages whose options come from study files and command lines."""
COMMON = {"detector", "check"}
"""Names that have other meanings as well."""
MOST = 7
"""Files outside of the study side that name a field."""
MORE = {"budget": 9, "batch_size": 10, "metered": 9}
"""Fields that more files name."""


def files_with(name: str) -> list[str]:
    word = re.compile(rf"(?<![\w-]){name}\b")
    found = []
    for file in sorted(SOURCE.rglob("*.py")):
        path = file.relative_to(SOURCE)
        code = re.sub(r'"""(?:.|\n)*?"""|#.*', "", file.read_text())
        if path.parts[0] not in STUDY_SIDE and word.search(code):
            found.append(str(path))
    return found


NAMES = [
    field.name
    for kind in (tb.Limits, tb.Detection, tb.Execution)
    for field in fields(kind)
    if field.name not in COMMON
]


@pytest.mark.parametrize("name", NAMES)
def test_an_option_is_named_in_few_files(name: str) -> None:
    found = files_with(name)
    assert 1 <= len(found) <= MORE.get(name, MOST), found
