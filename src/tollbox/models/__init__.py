"""Models: adapters from what a user has to "images in [0,1] in, labels out"."""

from ..core.model import Model, as_model, from_callable
from ..core.preprocessing import Preprocessing
from .embedded import Embedded, embedded
from .loading import load_model as load
from .pytorch import from_torch
from .third_party import from_art, from_foolbox
from .thresholds import thresholded

__all__ = [
    "Embedded",
    "Model",
    "Preprocessing",
    "as_model",
    "embedded",
    "from_art",
    "from_callable",
    "from_foolbox",
    "from_torch",
    "load",
    "thresholded",
]
