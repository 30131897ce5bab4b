"""Options of `tb.run` and `Cell` given flat, as tests vary them: one dict of fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import tollbox as tb

KINDS = {"limits": tb.Limits, "detection": tb.Detection, "execution": tb.Execution}


def grouped(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options, with fields of `Limits`, `Detection` and `Execution` put into these."""
    plain = dict(options)
    for argument, kind in KINDS.items():
        names = {field.name for field in fields(kind)}
        if given := {name: plain.pop(name) for name in list(plain) if name in names}:
            plain[argument] = kind(**given)
    return plain


def changed(cell: Any, **options: Any) -> Any:
    """The cell with other fields, or with other fields of its limits and detection."""
    for argument, kind in KINDS.items():
        names = {field.name for field in fields(kind)}
        given = {name: options.pop(name) for name in list(options) if name in names}
        before = getattr(cell, argument, None)
        if given and before is None:
            options[argument] = kind(**given)
        elif given:
            options[argument] = replace(before, **given)
    return replace(cell, **options)
