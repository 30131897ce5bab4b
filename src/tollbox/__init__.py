"""tollbox: decision-based attacks on image classifiers when queries have a price.

A name is imported when it is used first: `tollbox status`, which needs no torch, does not wait for
it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import models
    from .ask import Answers, Ask, Run, Until, together
    from .attacks.presets import preset, presets
    from .cells import Cell
    from .check import check_model
    from .engine import Engine, Progress
    from .errors import FileError, InputError, ModelFault, Stop, TollboxError, UnknownNameError
    from .ledger import Ledger
    from .prices import Prices
    from .problem import Attack, Problem
    from .results import Improvement, Result, Results, Step
    from .running import ModelWarning, run, run_cells, stream
    from .studies.reading import StudyResults
    from .studies.study import Study
    from .workers import Workers

__version__ = "0.1.0"

__all__ = [
    "Answers",
    "Ask",
    "Attack",
    "Cell",
    "Engine",
    "FileError",
    "Improvement",
    "InputError",
    "Ledger",
    "ModelFault",
    "ModelWarning",
    "Prices",
    "Problem",
    "Progress",
    "Result",
    "Results",
    "Run",
    "Step",
    "Stop",
    "Study",
    "StudyResults",
    "TollboxError",
    "UnknownNameError",
    "Until",
    "Workers",
    "check_model",
    "models",
    "preset",
    "presets",
    "run",
    "run_cells",
    "stream",
    "together",
]

_NAMES = {
    "ask": (
        "Answers",
        "Ask",
        "Run",
        "Until",
        "together",
    ),
    "attacks.presets": (
        "preset",
        "presets",
    ),
    "cells": ("Cell",),
    "check": ("check_model",),
    "engine": (
        "Engine",
        "Progress",
    ),
    "errors": (
        "FileError",
        "InputError",
        "ModelFault",
        "Stop",
        "TollboxError",
        "UnknownNameError",
    ),
    "ledger": ("Ledger",),
    "prices": ("Prices",),
    "problem": (
        "Attack",
        "Problem",
    ),
    "results": (
        "Improvement",
        "Result",
        "Results",
        "Step",
    ),
    "running": (
        "ModelWarning",
        "run",
        "run_cells",
        "stream",
    ),
    "studies.reading": ("StudyResults",),
    "studies.study": ("Study",),
    "workers": ("Workers",),
}
_WHERE = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    try:
        module = importlib.import_module(f".{_WHERE.get(name, name)}", __name__)
    except ModuleNotFoundError as error:
        if error.name != f"{__name__}.{name}":
            raise
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    value = getattr(module, name) if name in _WHERE else module
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
