"""A user's own model, by name: a file, `module:function`, or whatever the registry knows.

1. What a file is, is decided by its content, not by its name. A pickle (a state dict, a whole
   module) is refused with what to do instead: it would run code.
2. The model is tried on one image, uncharged, before a run: that shows whether it takes such
   images, and the number of classes. Whatever it raises, even an exit, is reported in a sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ..core.model import Decision, Model
from ..errors import FileError, InputError, ModelFault
from ..files.functions import with_kind
from ..files.tables import in_a_line
from .normalise import Normalisation
from .precision import points_dtype
from .pytorch import (
    RUNNING,
    Forward,
    check_running,
    from_torch,
    in_words,
    outputs_of,
    plain,
)
from .registry import EXPECTED, adapter_of
from .source import Network, Source

_MODULES = "networks that module:function names"
_WITH = {
    "dtype": _MODULES,
    "channels_last": _MODULES,
    "compile": f"{_MODULES} and exported programs",
    "cuda_graphs": f"{_MODULES} and model files",
    "tf32": f"{_MODULES} and model files",
}
"""Which kinds of model each option of how a network is run applies to."""


def load_model(
    source: str,
    example: Tensor,
    *,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    device: str | torch.device = "cpu",
    quantize: int | None = None,
    batch_size: int | None = None,
    dtype: torch.dtype | None = None,
    channels_last: bool | None = None,
    compile: bool = False,
    cuda_graphs: bool = False,
    tf32: bool | None = None,
) -> Model:
    """The model that `source` names, tried on `example` (c, h, w), for batches of `batch_size`.

    How it is run is told as for `from_torch`, as far as that applies to its kind.
    """
    device = torch.device(device)
    network = _network(source, device, batch_size)
    if batch_size and network.batch not in (None, batch_size):
        raise InputError(
            f"is {batch_size}, and the model {source} takes {network.batch} only",
            input="batch_size",
        )
    _check_shape(source, network, example)
    how: dict[str, Any] = {"compile": compile, "cuda_graphs": cuda_graphs, "tf32": tf32}
    _check_options(source, network, dtype=dtype, channels_last=channels_last, **how)
    normalise = Normalisation.checked(
        mean,
        std,
        dtype=points_dtype(network.dtype),
        device=device,
        layout=torch.contiguous_format,
        channels=len(example),
    )
    if isinstance(network.forward, nn.Module) and network.options >= frozenset(RUNNING):
        model = from_torch(
            network.forward,
            mean=mean,
            std=std,
            device=device,
            dtype=dtype,
            quantize=quantize,
            channels_last=channels_last,
            **how,
        )
    elif isinstance(network.forward, Model):
        model = _behind(normalise, {"device": device, "quantize": quantize}, network.forward)
    else:
        check_running(device, **how)
        outputs = outputs_of(network.forward, normalise, network.dtype, **how)
        inner = network.forward if isinstance(network.forward, nn.Module) else None
        model = Model(
            Decision(outputs),
            device,
            points_dtype(network.dtype),
            quantize,
            network.batch,
            network=inner,
            outputs=outputs,
            running=in_words(dtype=network.dtype, **how) if network.options else {},
        )
    return replace(model, classes=_classes(source, model, example))


def load_network(source: str, example: Tensor, device: str | torch.device = "cpu") -> nn.Module:
    """The torch network that `source` names, which takes an image like `example` (c, h, w) alone.

    It is for its gradients: what can only be asked is refused.
    """
    found = _network(source, torch.device(device), None)
    _check_shape(source, found, example)
    if not isinstance(found.forward, nn.Module):
        raise InputError(
            f"{source} is {found.kind}",
            expected="a network that can be differentiated: an instance of nn.Module, an exported "
            "program or TorchScript",
            input="model",
        )
    if found.batch not in (None, 1):
        raise InputError(
            f"{source} takes batches of {found.batch} only",
            expected="one that takes a single image",
            input="model",
        )
    return found.forward


def _check_shape(source: str, network: Network, example: Tensor) -> None:
    """Raise InputError unless it takes such images, as far as that is known."""
    if any(n not in (None, size) for n, size in zip(network.shape, example.shape, strict=True)):
        shape = ", ".join("any" if size is None else str(size) for size in network.shape)
        raise InputError(
            f"{source} takes images of shape ({shape}), but the images are "
            f"{tuple(example.shape)} (channels, height, width)",
            input="model",
        )


def _behind(normalise: Normalisation, told: dict[str, Any], model: Model) -> Model:
    """A model that is ready to be asked, behind a normalisation, with the fields that are told."""
    outputs, relaid = model.outputs, model.relaid
    return replace(
        model,
        predict=Forward(model, normalise, model.dtype),
        outputs=None if outputs is None else Forward(outputs, normalise, model.dtype),
        relaid=None if relaid is None else partial(_relaid, normalise, told, relaid),
        **told,
    )


def _relaid(
    normalise: Normalisation,
    told: dict[str, Any],
    relaid: Callable[[bool], Model],
    channels_last: bool,
) -> Model:
    return _behind(normalise, told, relaid(channels_last))


def _check_options(source: str, network: Network, **options: Any) -> None:
    """Raise InputError for an option that is given and that the model's kind does not have."""
    for name, value in options.items():
        given = bool(value) if name in ("compile", "cuda_graphs") else value is not None
        if given and name not in network.options:
            raise InputError(
                f"is given, and {source} is {network.kind}",
                expected=f"it for {_WITH[name]} only",
                remedy="leave it out",
                input=name,
            )


def _network(text: str, device: torch.device, batch_size: int | None) -> Network:
    """The network that the first adapter which takes the text gives."""
    if not text.strip():
        raise InputError(f"is {text!r}", expected=EXPECTED, input="model")
    source = Source.at(text, device, batch_size)
    adapter = adapter_of(source)
    if adapter is None:
        raise FileError(f"{text} {_why_not(source)}", expected=EXPECTED, input="model")
    if source.path is None:
        return adapter.load(source)
    try:
        return adapter.load(source)
    except InputError:
        raise
    except Exception as error:  # torch raises many kinds for broken files
        raise FileError(
            f"{text} cannot be loaded ({with_kind(error)})",
            expected=f"a file that was saved whole, by a version of torch that this one "
            f"({torch.__version__}) can read",
            input="model",
        ) from None


def _why_not(source: Source) -> str:
    """Why no adapter takes a source."""
    if source.kind == "nothing":
        return "does not exist"
    if source.kind != "file":
        return "is a folder" if source.kind == "folder" else "is not a regular file"
    if not source.entries:
        return "is neither an exported program nor TorchScript"
    if "data.pkl" in source.entries:
        return "is a pickle (a state dict or a whole module), which is not loaded"
    return "is not a model"


def _classes(source: str, model: Model, example: Tensor) -> int | None:
    """The number of classes, if the model gives logits; an InputError if it fails.

    For one image nothing is compiled or recorded.
    """
    batch = example[None].to(model.device).repeat(model.batch or 1, 1, 1, 1)
    batch = model.sent(batch)
    try:
        output = plain(model.outputs or model)(batch)
        plain(model)(batch)
    except (Exception, SystemExit) as error:  # the user's own code: any kind may come
        what = in_a_line(error) if isinstance(error, ModelFault) else with_kind(error)
        raise InputError(
            f"{source} failed on a batch of {len(batch)} of the given images, of shape "
            f"{tuple(example.shape)} ({what})",
            expected="logits (n, classes) or integer labels (n) from images (n, c, h, w) in [0,1]",
            input="model",
        ) from None
    return output.shape[1] if output.ndim == 2 else None
