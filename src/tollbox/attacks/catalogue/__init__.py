"""All presets, a file for each place that they are from; `LISTED` has them in that order."""

from ..named import Preset
from .geometric import GEOMETRIC, RESCALED
from .linf import LINF
from .originals import ORIGINALS
from .own import OWN, WITH_SURROGATE
from .paper import TABLE_1
from .ray_search import RAY_SEARCH
from .stealthy import STEALTHY
from .walks import WALKS

LISTED: list[Preset] = [
    *(*TABLE_1, *ORIGINALS, *STEALTHY, *GEOMETRIC, *WALKS, *RAY_SEARCH, *LINF),
    *(*OWN, *RESCALED),
]

__all__ = ["LISTED", "WITH_SURROGATE"]
