"""Models by `module:function`: a network, a function of images, or a function that returns either.

The module is imported with the current folder first on the path. A function without arguments is
called and returns the network. A Foolbox model or an ART classifier may take a network's place.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ..core.model import Model, from_third_party
from ..core.third_party_models import third_party_model
from ..data.user_code import called, imported
from .network import Network, Source
from .pytorch import tensor_of

NETWORK = "a network (an instance of nn.Module)"


def load_function(source: Source) -> Network:
    """Import the network or function that a source names."""
    model = _wrapped(imported(source.text, "model"))
    if inspect.isfunction(model) and not inspect.signature(model).parameters:
        model = _wrapped(called(model, source.text, "model"))
        if not isinstance(model, nn.Module | Model):
            raise source.error(
                f", a function without arguments that returned {type(model).__name__}",
                f"{NETWORK} from it, or a function of images",
            )
    if isinstance(model, type) or not callable(model):
        what = "a class" if isinstance(model, type) else type(model).__name__
        either = "a function of images, or one without arguments that returns a network"
        raise source.error(f", which is {what}", f"{NETWORK}, {either}")
    if isinstance(model, nn.Module):
        return Network.of_torch(source, model)
    if isinstance(model, Model):
        ready = "a model that is ready for queries"
        return Network(source, model, model.dtype, model.batch, kind=ready)
    return Network(source, _returning_tensors(model))


def _wrapped(model: Any) -> Any:
    """Return a classifier of Foolbox or ART as a model, and anything else unchanged."""
    return model if (peer := third_party_model(model)) is None else from_third_party(peer)


def _returning_tensors(function: Callable[[Tensor], Any]) -> Callable[[Tensor], Tensor]:
    """Return a function whose answer is a tensor, from one that may return lists or logits."""

    def forward(images: Tensor) -> Tensor:
        answer = function(images)
        if isinstance(answer, tuple) and answer and getattr(answer[0], "ndim", 0) == 2:
            return tensor_of(answer)
        try:
            return torch.as_tensor(answer)
        except (TypeError, ValueError, RuntimeError):
            return tensor_of(answer)

    return forward
