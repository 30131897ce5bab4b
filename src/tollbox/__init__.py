"""tollbox: decision-based attacks on image classifiers when queries have a price."""

from . import models
from .ask import Answers, Ask, Run, Until, together
from .attacks import preset, presets
from .cells import Cell
from .check import check_model
from .engine import Engine, Progress
from .errors import FileError, InputError, ModelFault, Stop, TollboxError, UnknownNameError
from .ledger import Ledger
from .prices import Prices
from .problem import Attack, Problem
from .results import Improvement, Result, Results, Step
from .run import ModelWarning, run, run_cells, stream
from .studies import Study, StudyResults
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
