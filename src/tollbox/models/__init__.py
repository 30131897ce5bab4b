"""Models: adapters from a user's network, file or function to a map from images to labels."""

from ..core.model import Model, as_model, from_callable
from ..core.preprocessing import Preprocessing
from .embedded import Embedded, embedded
from .functions import from_art, from_foolbox, thresholded
from .loading import load_model as load
from .pytorch import from_torch

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
