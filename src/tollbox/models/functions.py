"""Models that `module:function` names: a network, a function of images, or one that makes either.

It is imported with the current folder first on the path. A function without arguments is called,
and gives the network. A Foolbox model or an ART classifier will do for a network.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ..core.model import Model, from_third_party
from ..core.third_party_models import third_party_model
from ..data.user_code import called, imported, is_function
from ..errors import InputError
from .adapter import Adapter, Network, Source
from .pytorch import RUNNING, tensor_of

NETWORK = "a network (an instance of nn.Module)"


def load(source: Source) -> Network:
    """What the name stands for."""
    model = _ready(imported(source.text, "model"))
    if inspect.isfunction(model) and not inspect.signature(model).parameters:
        model = _ready(called(model, source.text, "model"))
        if not isinstance(model, nn.Module | Model):
            raise InputError(
                f"is {source.text!r}, a function without arguments, and it gave "
                f"{type(model).__name__}",
                expected=f"{NETWORK} from it, or a function of images",
                input="model",
            )
    if isinstance(model, type) or not callable(model):
        what = "a class" if isinstance(model, type) else type(model).__name__
        raise InputError(
            f"is {source.text!r}, which is {what}",
            expected=f"{NETWORK}, a function of images, or one without arguments that gives a "
            "network",
            input="model",
        )
    if isinstance(model, nn.Module):
        return Network(model, kind="a network", options=frozenset(RUNNING))
    if isinstance(model, Model):
        return Network(model, model.dtype, model.batch, kind="a model that is ready to be asked")
    return Network(_answering_with_tensors(model))


def _ready(model: Any) -> Any:
    """The same, as a model if it is a classifier of Foolbox or ART."""
    return model if (other := third_party_model(model)) is None else from_third_party(other)


def _answering_with_tensors(function: Callable[[Tensor], Any]) -> Callable[[Tensor], Tensor]:
    """The function, whose answer may be a list or an array, or have logits in it."""

    def forward(images: Tensor) -> Tensor:
        answer = function(images)
        if isinstance(answer, tuple) and answer and getattr(answer[0], "ndim", 0) == 2:
            return tensor_of(answer)
        try:
            return torch.as_tensor(answer)
        except (TypeError, ValueError, RuntimeError):
            return tensor_of(answer)

    return forward


ADAPTER = Adapter(
    "module:function, which names a network or a function of images",
    lambda source: source.kind == "nothing" and is_function(source.text),
    load,
)
