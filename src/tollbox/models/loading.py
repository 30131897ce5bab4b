"""A user's own model: a file, a name such as `hf:microsoft/resnet-50`, or `module:function`.

1. It is opened first (`opening.py`): from then on its own configuration is known.
2. The model is tried on one image, uncharged, before a run: that shows whether it takes such
   images, and the number of classes. Whatever it raises, even an exit, is reported in a sentence.
3. Mean and std are the user's if given, else those of the model's own configuration, which also has
   the names of the classes and how pictures are resized and cropped for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import Any

import torch
from torch import Tensor, nn

from ..core.model import Decision, Model
from ..core.preprocessing import Preprocessing
from ..errors import InputError, ModelFault
from ..files.functions import with_kind
from ..files.tables import in_a_line
from .configured import grey, normalisation, normalised_in_words, numbers
from .normalise import Normalisation, Normalised
from .opening import Opened, network_of, opened
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
from .source import Network, Source

_MODULES = "networks by name or module:function"
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
    example: Tensor | None = None,
    *,
    names: str | PathLike[str] | Sequence[str] | None = None,
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

    Without an example it is tried on a grey image, if its size is known. `names` are those of the
    classes, in order, or a file with one on each line, and for `clip:` what it is asked with. How
    the model is run is told as for `from_torch`, as far as that applies to its kind.
    """
    return fitted(
        opened(source, names=names, device=device, batch_size=batch_size),
        example,
        mean=mean,
        std=std,
        quantize=quantize,
        dtype=dtype,
        channels_last=channels_last,
        compile=compile,
        cuda_graphs=cuda_graphs,
        tf32=tf32,
    )


def fitted(
    opened: Opened,
    example: Tensor | None,
    *,
    mean: Sequence[float] | None,
    std: Sequence[float] | None,
    quantize: int | None,
    dtype: torch.dtype | None,
    channels_last: bool | None,
    compile: bool,
    cuda_graphs: bool,
    tf32: bool | None,
) -> Model:
    """The second half of `load_model`: ready for images like `example`."""
    network, given = opened.network, opened.source.names
    source, device = opened.source.text, opened.source.device
    example = grey(network) if example is None else example
    if example is not None:
        _check_shape(source, network, example)
    mean, std = normalisation(source, network, mean, std)
    how: dict[str, Any] = {"compile": compile, "cuda_graphs": cuda_graphs, "tf32": tf32}
    _check_options(source, network, dtype=dtype, channels_last=channels_last, **how)
    normalise = Normalisation.checked(
        mean,
        std,
        dtype=points_dtype(network.dtype),
        device=device,
        layout=torch.contiguous_format,
        channels=None if example is None else len(example),
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
    own = network.preprocessing
    model = replace(
        model,
        classes=None if example is None else _classes(source, model, example, own),
        running={**model.running, **normalised_in_words(network, mean, std)},
        names=opened.names,
        preprocessing=None if own is None else replace(own, mean=numbers(mean), std=numbers(std)),
    )
    if model.names is not None and model.classes not in (None, len(model.names)):
        if given is None:  # the configuration's own mistake
            return replace(model, names=None)
        raise InputError(
            f"has {len(model.names)} names, and {source} has {model.classes} classes",
            expected="one for each class, in order",
            input="names",
        )
    return model


def load_network(
    source: str,
    example: Tensor | None = None,
    device: str | torch.device = "cpu",
    *,
    normalised: bool = True,
) -> nn.Module:
    """The torch network that `source` names, which takes an image like `example` (c, h, w) alone.

    It is for its gradients: what can only be asked is refused. `normalised`: with the mean and std
    of its own configuration before it, if it has any.
    """
    found = network_of(Source.at(source, torch.device(device), None))
    if example is not None:
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
    own = found.preprocessing
    if not normalised or own is None or own.mean is None or own.std is None:
        return found.forward
    return Normalised(found.forward, own.mean, own.std).to(device).eval()


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


def _classes(source: str, model: Model, example: Tensor, own: Preprocessing | None) -> int | None:
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
        made_for = ""
        if own is not None and own.size not in (None, tuple(example.shape[1:])):
            made_for = ", {} x {} as its configuration says,".format(*own.size)
        raise InputError(
            f"{source} failed on a batch of {len(batch)} of the given images, of shape "
            f"{tuple(example.shape)} ({what})",
            expected="logits (n, classes) or integer labels (n) from images (n, c, h, w)"
            f"{made_for} in [0,1]",
            input="model",
        ) from None
    return output.shape[1] if output.ndim == 2 else None
