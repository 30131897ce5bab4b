"""For authors of attacks: what an attack yields and receives, cells, the engine, and parts.

An attack is a function of a `Problem` that yields `Ask` objects and receives `Answers`. A class
with the decorator `register` can be named as a part in study files.
"""

from __future__ import annotations

from ._run import run_cells
from .core.ask import Answers, Ask, Asking, Iterate, Rows, Sequential, Until, together
from .core.cell import Cell
from .core.metric import Metric
from .core.problem import Attack, BoundedAttack, Problem
from .core.result import Improvement, Step
from .core.stop import Stop
from .engine.engine import Engine, Progress
from .parts.directions import Directions
from .parts.estimates import Estimate
from .parts.paths import Sweep
from .parts.registry import register
from .parts.searches import Search
from .parts.starts import Start
from .parts.subspaces import Prior, Subspace

__all__ = [
    "Answers",
    "Ask",
    "Asking",
    "Attack",
    "BoundedAttack",
    "Cell",
    "Directions",
    "Engine",
    "Estimate",
    "Improvement",
    "Iterate",
    "Metric",
    "Prior",
    "Problem",
    "Progress",
    "Rows",
    "Search",
    "Sequential",
    "Start",
    "Step",
    "Stop",
    "Subspace",
    "Sweep",
    "Until",
    "register",
    "run_cells",
    "together",
]
