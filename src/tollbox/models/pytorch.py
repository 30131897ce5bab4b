"""A torch network as a model: normalise, forward, argmax.

Convolutional networks run in `channels_last`, which is the faster layout on CPUs and GPUs alike. A
network in training mode is put into eval mode: the model check would only find it unfit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..core.model import UNDECIDED, Model
from ..errors import InputError, ModelFault
from .graphs import Graphed


def _constants(
    name: str, values: Sequence[float] | float | None, like: torch.dtype, device: torch.device
) -> Tensor | None:
    if values is None:
        return None
    constants = torch.as_tensor(values, dtype=like, device=device).reshape(1, -1, 1, 1)
    if not torch.isfinite(constants).all() or (name == "std" and (constants <= 0).any()):
        wanted = "finite numbers above 0" if name == "std" else "finite numbers"
        raise InputError(f"{name} is {values!r}: expected {wanted}, one or one per channel.")
    return constants


def labels_of(output: object) -> Tensor:
    """Labels from a network's output: logits (n, classes) are decided, labels (n) pass.

    A row of logits with a NaN has no largest one: it is `UNDECIDED`.
    """
    if not isinstance(output, Tensor):
        raise ModelFault(f"the network answered with {type(output).__name__}: expected a tensor")
    if output.ndim == 2 and output.is_floating_point():
        return output.argmax(1).masked_fill_(output.isnan().any(1), UNDECIDED)
    return output


@dataclass(frozen=True)
class _Forward:
    """Normalise, forward, decide; a class, so that it can be sent to another process."""

    network: nn.Module
    centre: Tensor | None
    scale: Tensor | None
    layout: torch.memory_format

    @torch.inference_mode()
    def __call__(self, images: Tensor) -> Tensor:
        laid = torch.empty_like(images, memory_format=self.layout)
        if self.centre is None:
            images = laid.copy_(images)
        else:
            images = torch.sub(images, self.centre, out=laid)
        if self.scale is not None:
            images.div_(self.scale)
        return labels_of(self.network(images))


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
    if device is None:
        device = next((p.device for p in network.parameters()), torch.device("cpu"))
    place = torch.device(device)
    if cuda_graphs and place.type != "cuda":
        raise InputError(f"cuda_graphs is set, and the device is {place}: expected a CUDA device.")
    if channels_last is None:
        channels_last = any(isinstance(module, nn.Conv2d) for module in network.modules())
    layout = torch.channels_last if channels_last else torch.contiguous_format
    network = network.to(place, dtype)
    if channels_last:
        network = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    network = network.eval()
    centre, scale = (_constants(n, v, dtype, place) for n, v in (("mean", mean), ("std", std)))

    predict = _Forward(network, centre, scale, layout)
    forward = Graphed(predict) if cuda_graphs else predict
    return Model(forward, place, dtype, quantize, batch, classes, network)
