"""JSON for programs that read what tollbox says: `--json` of a command, and the ledger.

1. With `--json` stdout is one JSON object and nothing else; mistakes are sentences on stderr, with
   their exit codes, as ever.
2. It is strict: numbers are numbers, and what is not finite is null. What null means where, an
   infinite median or one of nothing, a key beside it says.
3. Keys are documented (docs/studies.md), and stay; a later version may add some.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from cyclopts import Parameter

from ..files.tables import utf8
from .streams import console

JSON = Parameter(help="Print one JSON object instead, for programs.", negative="")


def strict(value: Any) -> Any:
    """What JSON can hold: null for what is not finite, and text that is UTF-8."""
    if isinstance(value, Mapping):
        return {strict(key): strict(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [strict(part) for part in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return utf8(value)


def json_text(value: Mapping[str, Any], indent: int = 2) -> str:
    """An object as strict JSON."""
    return json.dumps(strict(value), indent=indent, allow_nan=False)


def print_json(value: Mapping[str, Any]) -> None:
    """An object on stdout."""
    console().print(json_text(value), soft_wrap=True)
