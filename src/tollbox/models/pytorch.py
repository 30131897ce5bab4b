"""A torch network as a model: normalise, forward, argmax.

Convolutional networks run in `channels_last`, which is the faster layout on CPUs and GPUs alike. A
network in training mode is put into eval mode: the model check would only find it unfit.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..core.arguments import check_flag, shown
from ..core.devices import usable
from ..core.model import UNDECIDED, Model, check_dtype
from ..errors import InputError, ModelFault
from .graphs import Graphed
from .normalise import Normalisation


def tensor_of(output: Any) -> Tensor:
    """The tensor of a network's output: the output itself, its `logits`, or the first of a tuple.

    Networks of transformers answer with an object or a dict that has logits; others with a tuple of
    logits and something else.
    """
    if isinstance(output, Tensor):
        return output
    if isinstance(output, Mapping):
        answer = output.get("logits")
        what = f"{type(output).__name__} of {', '.join(map(str, output)) or 'nothing'}"
    else:
        first = output[0] if isinstance(output, tuple | list) and output else None
        answer, what = getattr(output, "logits", first), type(output).__name__
    if isinstance(answer, Tensor) and answer.ndim > 0:
        return answer
    raise ModelFault(
        f"the network answered with {what}: expected a tensor, an object or a dict with logits, or "
        "a tuple that begins with them"
    )


def labels_of(output: Tensor) -> Tensor:
    """Labels from a network's output: logits (n, classes) are decided, labels (n) pass.

    A row of logits with a NaN has no largest one: it is `UNDECIDED`.
    """
    if output.ndim == 2 and output.is_floating_point():
        return output.argmax(1).masked_fill_(output.isnan().any(1), UNDECIDED)
    return output


@dataclass(frozen=True)
class Forward:
    """Normalise, forward; a class, so that it can be sent to another process."""

    network: Callable[[Tensor], Any]
    normalise: Normalisation

    @torch.inference_mode()
    def output(self, images: Tensor) -> Tensor:
        """What the network gives: logits (n, classes) or labels (n)."""
        return tensor_of(self.network(self.normalise(images)))


@dataclass(frozen=True)
class Decided:
    """The decision on what another function gives; a class for the same reason."""

    outputs: Callable[[Tensor], Tensor]

    @torch.inference_mode()
    def __call__(self, images: Tensor) -> Tensor:
        """Labels (n)."""
        return labels_of(self.outputs(images))


def layout_of(network: nn.Module) -> torch.memory_format:
    """The layout in which a network is fastest."""
    convolves = any(isinstance(module, nn.Conv2d) for module in network.modules())
    return torch.channels_last if convolves else torch.contiguous_format


def name_of(layout: torch.memory_format) -> str:
    """A layout as `Model` has it."""
    return "channels_last" if layout == torch.channels_last else "contiguous"


def from_torch(
    network: nn.Module,
    *,
    mean: Sequence[float] | float | None = None,
    std: Sequence[float] | float | None = None,
    device: str | torch.device | None = None,
    dtype: torch.dtype = torch.float32,
    quantize: int | None = None,
    batch: int | None = None,
    classes: int | None = None,
    channels_last: bool | None = None,
    cuda_graphs: bool = False,
) -> Model:
    """A model from a network that gives logits (n, classes) or labels (n).

    The network itself is moved to the device, dtype and layout, and put into eval mode. Images in
    [0,1] go in as (image - mean) / std. `channels_last` is chosen by whether the network
    has two-dimensional convolutions, unless it is given. `cuda_graphs` records the network's
    launches once for each batch shape, for networks that allow it.
    """
    if not isinstance(network, nn.Module):
        raise InputError(
            f"is {shown(network)}",
            expected="a network (an instance of nn.Module)",
            remedy="for a function of images use tb.models.from_callable",
            input="network",
        )
    check_flag("cuda_graphs", cuda_graphs)
    if channels_last is not None:
        check_flag("channels_last", channels_last)
    if device is None:
        device = next((p.device for p in network.parameters()), torch.device("cpu"))
    device = usable(device)
    check_dtype(dtype)
    if cuda_graphs and device.type != "cuda":
        raise InputError(
            f"is set, and the device is {device}", expected="a CUDA device", input="cuda_graphs"
        )
    layout = layout_of(network)
    if channels_last is not None:
        layout = torch.channels_last if channels_last else torch.contiguous_format
    network = network.to(device, dtype)
    if layout == torch.channels_last:
        network = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    network = network.eval()
    normalise = Normalisation.checked(mean, std, dtype=dtype, device=device, layout=layout)
    forward = Forward(network, normalise)
    outputs = Graphed(forward.output) if cuda_graphs else forward.output
    relaid = functools.partial(
        _relaid,
        network,
        channels_last=layout != torch.channels_last,
        mean=mean,
        std=std,
        device=device,
        dtype=dtype,
        quantize=quantize,
        batch=batch,
        classes=classes,
        cuda_graphs=cuda_graphs,
    )
    return Model(
        Decided(outputs),
        device,
        dtype,
        quantize,
        batch,
        classes,
        network,
        outputs,
        name_of(layout),
        relaid if layout_of(network) == torch.channels_last else None,
    )


def _relaid(network: nn.Module, *, channels_last: bool, **options: Any) -> Model:
    """The model of a copy of the network in another layout; `options` are those of from_torch."""
    layout = torch.channels_last if channels_last else torch.contiguous_format
    copied = copy.deepcopy(network).to(memory_format=layout)  # type: ignore[call-overload]
    return from_torch(copied, channels_last=channels_last, **options)
