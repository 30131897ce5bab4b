"""All presets, a file for each place that they are from; `LISTED` has them in that order."""

from ..named import Preset
from .geometric import GEOMETRIC, RESCALED
from .originals import ORIGINALS
from .own import OWN, WITH_SURROGATE
from .paper import TABLE_1
from .stealthy import STEALTHY

LISTED: list[Preset] = [*TABLE_1, *ORIGINALS, *STEALTHY, *GEOMETRIC, *OWN, *RESCALED]

__all__ = ["LISTED", "WITH_SURROGATE"]
