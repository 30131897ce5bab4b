"""The interface for attack authors: queries, answers, cells, the engine, and parts.

An attack is a function of a `Problem` that yields `Ask` objects and receives `Answers`. Study files
can name any class decorated with `register` as a part.
"""

from __future__ import annotations

from ._run import run_cells as run_cells
from .core.ask import Answers as Answers
from .core.ask import Ask as Ask
from .core.ask import Asking as Asking
from .core.ask import Iterate as Iterate
from .core.ask import Rows as Rows
from .core.ask import Sequential as Sequential
from .core.ask import Until as Until
from .core.ask import together as together
from .core.by_side import by_side as by_side
from .core.cell import Cell as Cell
from .core.metric import Metric as Metric
from .core.problem import Attack as Attack
from .core.problem import BoundedAttack as BoundedAttack
from .core.problem import Problem as Problem
from .core.result import Improvement as Improvement
from .core.result import Step as Step
from .core.stop import Stop as Stop
from .engine.engine import Engine as Engine
from .engine.engine import Progress as Progress
from .parts.blocks import Blocks as Blocks
from .parts.comparisons import Comparison as Comparison
from .parts.directions import Directions as Directions
from .parts.estimates import Estimate as Estimate
from .parts.paths import Sweep as Sweep
from .parts.registry import register as register
from .parts.searches import Search as Search
from .parts.starts import Start as Start
from .parts.subspaces import Prior as Prior
from .parts.subspaces import Subspace as Subspace
