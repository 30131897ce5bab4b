"""Models: adapters from what a user has to "images in [0,1] in, labels out"."""

from ..core.model import Model, as_model, from_callable
from .embedded import Embedded, embedded
from .peers import from_art, from_foolbox
from .pytorch import from_torch

__all__ = [
    "Embedded",
    "Model",
    "as_model",
    "embedded",
    "from_art",
    "from_callable",
    "from_foolbox",
    "from_torch",
]
