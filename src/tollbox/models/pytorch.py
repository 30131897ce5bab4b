"""Models from torch networks: normalise, cast, forward, argmax.

Convolutional networks run in `channels_last`, the faster layout on CPUs and GPUs. `compile` is for
the network alone; a CUDA graph covers everything except the decision.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ..core.device import usable
from ..core.model import Decision, Model
from ..core.validation import check_flag, require
from ..data.user_code import with_kind
from ..errors import InputError, ModelFault
from .compilation import Compiled, Graphed, check_compiler
from .numerics import Normalisation, Numbers, compute_dtype, matrix_products, points_dtype

OPTIONS = ("dtype", "channels_last", "compile", "cuda_graphs", "tf32")
"""The options that do not apply to every kind of model."""


@dataclass(frozen=True)
class Forward:
    """The steps normalise, cast and forward; a class, so that they can be pickled."""

    network: Callable[[Tensor], Any]
    normalise: Normalisation
    dtype: torch.dtype
    tf32: bool = False

    @property
    def notices(self) -> tuple[str, ...]:
        return getattr(self.network, "notices", ())

    @torch.inference_mode()
    def __call__(self, images: Tensor) -> Tensor:
        with matrix_products(self.tf32):
            return tensor_of(self.network(self.normalise(images).to(self.dtype)))


@dataclass(frozen=True)
class Running:
    """The options with which a network is run, as for `from_torch`."""

    mean: Numbers = None
    std: Numbers = None
    quantize: int | None = None
    dtype: torch.dtype | None = None
    channels_last: bool | None = None
    compile: bool = False
    cuda_graphs: bool = False
    tf32: bool = False

    def check(self, device: torch.device) -> None:
        """Raise InputError unless a network can be run in this way on the device."""
        for name in OPTIONS[1:]:
            value = getattr(self, name)
            if value is not None or name != "channels_last":
                check_flag(name, value)
            if value and name in ("cuda_graphs", "tf32") and device.type != "cuda":
                given = f"is set, but the device is {device}"
                raise InputError(given, expected="a CUDA device", input=name)
        if self.compile:
            check_compiler(device)

    def outputs(
        self, network: Callable[[Tensor], Any], normalise: Normalisation, dtype: torch.dtype
    ) -> Callable[[Tensor], Tensor]:
        """Return a function from images to the network's output, compiled and recorded if set."""
        network = Compiled(network) if self.compile else network
        forward = Forward(network, normalise, dtype, self.tf32)
        return Graphed(forward) if self.cuda_graphs else forward

    def words(self, device: torch.device, **values: Any) -> dict[str, str]:
        """Return the options that are set, for a record; `values` replace some of them. TF32 exists
        on CUDA devices only."""
        known = {name: getattr(self, name) for name in OPTIONS}
        known |= {
            "compile": self.compile or None,
            "cuda_graphs": self.cuda_graphs or None,
            "tf32": self.tf32 if device.type == "cuda" else None,
            **values,
        }
        known["dtype"] = str(known["dtype"]).removeprefix("torch.")
        return {name: str(value).lower() for name, value in known.items() if value is not None}


def from_torch(
    network: nn.Module,
    *,
    mean: Numbers = None,
    std: Numbers = None,
    device: str | torch.device | None = None,
    dtype: torch.dtype | None = None,
    quantize: int | None = None,
    batch: int | None = None,
    classes: int | None = None,
    channels_last: bool | None = None,
    compile: bool = False,
    cuda_graphs: bool = False,
    tf32: bool = False,
) -> Model:
    """Return a model from a network that gives logits (n, classes) or labels (n).

    The network itself is never changed: if its device, dtype, layout or mode must change, a copy
    runs instead. Images in [0,1] are normalised to (image - mean) / std.

    `dtype` is the dtype in which the network computes: by default float64 if it has float64
    weights, else float32. Points for a network in bfloat16 or float16 are sent and measured in
    float32. `channels_last` is the default for networks with two-dimensional convolutions.
    `compile` uses torch.compile, and `cuda_graphs` records the launches of networks that allow it,
    both once for each batch shape. `tf32` allows TF32 for this network: it is faster, but rounds
    away steps of the size that many attacks sample at. All options can be combined.
    """
    remedy = "for a function of images use tb.models.from_callable"
    module = isinstance(network, nn.Module)
    require(module, "network", network, "a network (an instance of nn.Module)", remedy)
    if device is None:
        device = next((p.device for p in network.parameters()), torch.device("cpu"))
    device, switches = usable(device), (channels_last, compile, cuda_graphs, tf32)
    running = Running(mean, std, quantize, dtype, *switches)
    running.check(device)
    dtype = compute_dtype(dtype, network)
    convolves = any(isinstance(module, nn.Conv2d) for module in network.modules())
    channels_last = convolves if channels_last is None else channels_last
    layout = torch.channels_last if channels_last else torch.contiguous_format
    points = points_dtype(dtype)
    normalise = Normalisation.checked(mean, std, dtype=points, device=device, layout=layout)
    network = prepared(network, device, dtype, layout)
    outputs = running.outputs(network, normalise, dtype)
    again = vars(running) | {"device": device, "dtype": dtype, "batch": batch, "classes": classes}
    return Model(
        Decision(outputs),
        device,
        points,
        quantize,
        batch,
        classes,
        network,
        outputs=outputs,
        relaid=partial(from_torch, network, **again) if convolves else None,
        running=running.words(device, dtype=dtype, channels_last=channels_last),
    )


def prepared(
    network: nn.Module, device: torch.device, dtype: torch.dtype, layout: torch.memory_format
) -> nn.Module:
    """Return the network itself if nothing must change, else a changed copy."""
    tensors = [*network.parameters(), *network.buffers()]
    place = torch.empty(0, device=device).device  # with its index, where there are several
    images = [tensor for tensor in tensors if tensor.ndim == 4]
    changes = {
        f"on {device}": any(tensor.device != place for tensor in tensors),
        f"in {dtype}": any(t.is_floating_point() and t.dtype != dtype for t in tensors),
        f"in {layout}": not all(t.is_contiguous(memory_format=layout) for t in images),
        "in eval mode": any(getattr(m, "training", False) for m in network.modules()),
    }
    wanted = [state for state, changed in changes.items() if changed]
    if not wanted:
        return network
    try:
        own = copy.deepcopy(network)
    except Exception as error:  # a network may hold anything
        given = f"cannot be copied ({with_kind(error)}), and is not {' and '.join(wanted)}"
        expected = "a network that can be copied, since yours is never changed"
        remedy = "give it in the state in which it is to run"
        raise InputError(given, expected=expected, remedy=remedy, input="network") from None
    own = own.to(device, dtype).eval()
    return own.to(memory_format=layout)  # type: ignore[call-overload, no-any-return]


def tensor_of(output: Any) -> Tensor:
    """Return an output's tensor: itself, its `logits`, its first entry, or a list as a tensor."""
    if isinstance(output, Tensor):
        return output
    if isinstance(output, Mapping):
        answer = output.get("logits")
        what = f"{type(output).__name__} of {', '.join(map(str, output)) or 'nothing'}"
    else:
        first = output[0] if isinstance(output, tuple | list) and output else None
        answer, what = getattr(output, "logits", first), type(output).__name__
        if not isinstance(answer, Tensor) or answer.ndim == 0:
            with contextlib.suppress(TypeError, ValueError, RuntimeError):
                answer = torch.as_tensor(output)
    if isinstance(answer, Tensor) and answer.ndim > 0 and answer.numel() > 0:
        return answer
    expected = "a tensor, an object or a dict with logits, or a tuple that starts with them"
    raise ModelFault(f"the network answered with {what}: expected {expected}")


def uncompiled(function: Callable[[Tensor], Any]) -> Callable[[Tensor], Any]:
    """Return a function without its compilation and recording, for a shape that occurs once."""
    if isinstance(function, Graphed):
        return uncompiled(function.forward)
    if isinstance(function, Compiled):
        return function.network
    if isinstance(function, Forward):
        return replace(function, network=uncompiled(function.network))
    if isinstance(function, Decision):
        return Decision(uncompiled(function.outputs))
    if isinstance(function, Model):
        return replace(function, predict=uncompiled(function.predict))
    return function


def weights_digest(network: nn.Module) -> str:
    """Return a digest of all parameters and buffers: names, shapes, dtypes and bits."""
    digest = hashlib.blake2b(digest_size=16)
    for name, tensor in sorted(network.state_dict().items()):
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}\n".encode())
        plain = tensor.detach().cpu().contiguous().flatten()
        digest.update(plain.view(torch.uint8).numpy().tobytes() if plain.numel() else b"")
    return digest.hexdigest()
