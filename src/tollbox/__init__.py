"""tollbox: decision-based attacks on image classifiers when queries have a price.

A name is imported when it is used first: `tollbox status`, which needs no torch, does not wait for
it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import models
    from ._run import run, run_cells, stream
    from .attacks.presets import preset, presets
    from .attacks.surrogates import Surrogate
    from .audits.audit import Audit, audit
    from .core.ask import Answers, Ask, Sequential, Until, together
    from .core.cell import Cell
    from .core.detector import Detector
    from .core.goal import Goal
    from .core.ledger import Ledger
    from .core.metric import Metric
    from .core.prices import Prices
    from .core.problem import Attack, Problem
    from .core.result import Improvement, Result, Results, Step
    from .core.stop import Stop
    from .data.images import ImageSet, load_images
    from .data.resizing import Resizing
    from .engine.engine import Engine
    from .engine.progress import Progress
    from .errors import FileError, InputError, ModelFault, TollboxError, UnknownNameError
    from .model_check import ModelWarning, check_model
    from .studies.merge import merge_parts
    from .studies.ray import RayWorkers
    from .studies.results import StudyResults
    from .studies.run import run_study
    from .studies.study import Study
    from .workers.pool import Workers

__version__ = "0.1.0"

__all__ = [
    "Answers",
    "Ask",
    "Attack",
    "Audit",
    "Cell",
    "Detector",
    "Engine",
    "FileError",
    "Goal",
    "ImageSet",
    "Improvement",
    "InputError",
    "Ledger",
    "Metric",
    "ModelFault",
    "ModelWarning",
    "Prices",
    "Problem",
    "Progress",
    "RayWorkers",
    "Resizing",
    "Result",
    "Results",
    "Sequential",
    "Step",
    "Stop",
    "Study",
    "StudyResults",
    "Surrogate",
    "TollboxError",
    "UnknownNameError",
    "Until",
    "Workers",
    "audit",
    "check_model",
    "load_images",
    "merge_parts",
    "models",
    "preset",
    "presets",
    "run",
    "run_cells",
    "run_study",
    "stream",
    "together",
]

_NAMES = {
    "core.ask": (
        "Answers",
        "Ask",
        "Sequential",
        "Until",
        "together",
    ),
    "attacks.presets": (
        "preset",
        "presets",
    ),
    "attacks.surrogates": ("Surrogate",),
    "audits.audit": (
        "Audit",
        "audit",
    ),
    "core.cell": ("Cell",),
    "model_check": (
        "ModelWarning",
        "check_model",
    ),
    "core.stop": ("Stop",),
    "core.detector": ("Detector",),
    "engine.engine": ("Engine",),
    "engine.progress": ("Progress",),
    "errors": (
        "FileError",
        "InputError",
        "ModelFault",
        "TollboxError",
        "UnknownNameError",
    ),
    "core.goal": ("Goal",),
    "data.images": (
        "ImageSet",
        "load_images",
    ),
    "data.resizing": ("Resizing",),
    "core.ledger": ("Ledger",),
    "core.metric": ("Metric",),
    "core.prices": ("Prices",),
    "core.problem": (
        "Attack",
        "Problem",
    ),
    "core.result": (
        "Improvement",
        "Result",
        "Results",
        "Step",
    ),
    "_run": (
        "run",
        "run_cells",
        "stream",
    ),
    "studies.merge": ("merge_parts",),
    "studies.results": ("StudyResults",),
    "studies.ray": ("RayWorkers",),
    "studies.run": ("run_study",),
    "studies.study": ("Study",),
    "workers.pool": ("Workers",),
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
