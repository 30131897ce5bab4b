"""A network's weights as one short word: the same for the same numbers under the same names.

A network made ready to be run: on a device, in a dtype and a layout, in eval mode.

The user's own network stays as it is. If something has to change, a copy is changed; if nothing
does, the network is shared.

A torch network as a model: normalise, cast, forward, argmax.

1. The user's network stays as it is (`prepared.py`).
2. Convolutional networks run in `channels_last`, which is the faster layout on CPUs and GPUs alike.
3. Compilation is of the network, a CUDA graph of all but the decision; either may be left out.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ..core.device import usable
from ..core.model import Decision, Model
from ..core.validation import check_flag, shown
from ..data.user_code import with_kind
from ..errors import InputError, ModelFault
from .compiled import Compiled, Graphed, check_compiler
from .normalisation import Normalisation, Normalised
from .precision import check_tf32, inner_dtype, matrix_products, points_dtype


def weights_digest(network: torch.nn.Module) -> str:
    """Of all its parameters and buffers: names, shapes, dtypes and bits."""
    digest = hashlib.blake2b(digest_size=16)
    for name, tensor in sorted(network.state_dict().items()):
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}\n".encode())
        plain = tensor.detach().cpu().contiguous().flatten()
        digest.update(plain.view(torch.uint8).numpy().tobytes() if plain.numel() else b"")
    return digest.hexdigest()


def convolves(network: nn.Module) -> bool:
    """Whether it has two-dimensional convolutions, for which the layout matters."""
    return any(isinstance(module, nn.Conv2d) for module in network.modules())


def prepared(
    network: nn.Module, device: torch.device, dtype: torch.dtype, layout: torch.memory_format
) -> nn.Module:
    """The network itself if it is ready, else a copy that is."""
    tensors = [*network.parameters(), *network.buffers()]
    place = torch.empty(0, device=device).device  # with its number, where there are several
    changes = {
        f"on {device}": any(tensor.device != place for tensor in tensors),
        f"in {dtype}": any(t.is_floating_point() and t.dtype != dtype for t in tensors),
        f"in {layout}": any(
            t.ndim == 4 and not t.is_contiguous(memory_format=layout) for t in tensors
        ),
        "in eval mode": any(getattr(m, "training", False) for m in network.modules()),
    }
    wanted = [state for state, changed in changes.items() if changed]
    if not wanted:
        return network
    try:
        own = copy.deepcopy(network)
    except Exception as error:  # a network may hold anything
        raise InputError(
            f"cannot be copied ({with_kind(error)}), and is not {' and '.join(wanted)}",
            expected="one that can, since it is left as it is",
            remedy="give it in the state in which it is to be run",
            input="network",
        ) from None
    own = own.to(device, dtype).eval()
    return own.to(memory_format=layout)  # type: ignore[call-overload, no-any-return]


RUNNING = ("dtype", "channels_last", "compile", "cuda_graphs", "tf32")
"""The options of how a network is run."""


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


@dataclass(frozen=True)
class Forward:
    """Normalise, cast, forward; a class, so that it can be sent to another process."""

    network: Callable[[Tensor], Any]
    normalise: Normalisation
    dtype: torch.dtype
    """What the network takes."""
    tf32: bool | None = None

    @torch.inference_mode()
    def __call__(self, images: Tensor) -> Tensor:
        """What the network gives: logits (n, classes) or labels (n)."""
        with matrix_products(self.tf32):
            return tensor_of(self.network(self.normalise(images).to(self.dtype)))


def from_torch(
    network: nn.Module,
    *,
    mean: Sequence[float] | float | None = None,
    std: Sequence[float] | float | None = None,
    device: str | torch.device | None = None,
    dtype: torch.dtype | None = None,
    quantize: int | None = None,
    batch: int | None = None,
    classes: int | None = None,
    channels_last: bool | None = None,
    compile: bool = False,
    cuda_graphs: bool = False,
    tf32: bool | None = None,
) -> Model:
    """A model from a network that gives logits (n, classes) or labels (n).

    The network itself is left as it is: what is run on the device, in the dtype and the layout and
    in eval mode is a copy, unless the network is all that already. Images in [0,1] go in as
    (image - mean) / std.

    `dtype` is what the network computes in: by default float64 for a network with float64 weights,
    else float32. Points are sent and measured in float32 for a network in bfloat16 or float16, too.
    `channels_last` is chosen by whether the network has two-dimensional convolutions, unless it is
    given. `compile` runs the network through torch.compile, and `cuda_graphs` records its launches,
    both once for each batch shape, for networks that allow it. `tf32` allows TF32 for this network
    alone, or forbids it; by default torch's own setting holds. All of these go together.
    """
    if not isinstance(network, nn.Module):
        raise InputError(
            f"is {shown(network)}",
            expected="a network (an instance of nn.Module)",
            remedy="for a function of images use tb.models.from_callable",
            input="network",
        )
    if channels_last is not None:
        check_flag("channels_last", channels_last)
    if device is None:
        device = next((p.device for p in network.parameters()), torch.device("cpu"))
    device, dtype = usable(device), inner_dtype(dtype, network)
    if points_dtype(dtype) != dtype and isinstance(network, Normalised) and mean is std is None:
        mean, std = network.numbers()  # what it does by itself would be done in low precision
        network = network.network
    if channels_last is None:
        channels_last = convolves(network)
    layout = torch.channels_last if channels_last else torch.contiguous_format
    normalise = Normalisation.checked(
        mean, std, dtype=points_dtype(dtype), device=device, layout=layout
    )
    check_running(device, compile, cuda_graphs, tf32)
    network = prepared(network, device, dtype, layout)
    how: dict[str, Any] = {"compile": compile, "cuda_graphs": cuda_graphs, "tf32": tf32}
    outputs = outputs_of(network, normalise, dtype, **how)
    about: dict[str, Any] = {"quantize": quantize, "batch": batch, "classes": classes}
    again = {"mean": mean, "std": std, "device": device, "dtype": dtype, **about, **how}
    return Model(
        Decision(outputs),
        device,
        points_dtype(dtype),
        **about,
        network=network,
        outputs=outputs,
        relaid=partial(_relaid, network, again) if convolves(network) else None,
        running=in_words(dtype=dtype, channels_last=channels_last, **how),
    )


def check_running(
    device: torch.device, compile: bool, cuda_graphs: bool, tf32: bool | None
) -> None:
    """Raise InputError unless a network can be run so on the device."""
    check_flag("compile", compile)
    check_flag("cuda_graphs", cuda_graphs)
    if tf32 is not None:
        check_flag("tf32", tf32)
    check_tf32(tf32, device)
    if cuda_graphs and device.type != "cuda":
        raise InputError(
            f"is set, and the device is {device}", expected="a CUDA device", input="cuda_graphs"
        )
    if compile:
        check_compiler(device)


def outputs_of(
    network: Callable[[Tensor], Any],
    normalise: Normalisation,
    dtype: torch.dtype,
    *,
    compile: bool,
    cuda_graphs: bool,
    tf32: bool | None,
) -> Callable[[Tensor], Tensor]:
    """Images to what the network gives, compiled and recorded as told."""
    forward = Forward(Compiled(network) if compile else network, normalise, dtype, tf32)
    return Graphed(forward) if cuda_graphs else forward


def plain(function: Callable[[Tensor], Any]) -> Callable[[Tensor], Any]:
    """The same, neither recorded nor compiled: for a batch of a shape that will not come again."""
    if isinstance(function, Graphed):
        return plain(function.forward)
    if isinstance(function, Compiled):
        return function.network
    if isinstance(function, Forward):
        return replace(function, network=plain(function.network))
    if isinstance(function, Decision):
        return Decision(plain(function.outputs))
    if isinstance(function, Model):
        return replace(function, predict=plain(function.predict))
    return function


def in_words(
    *,
    dtype: torch.dtype,
    channels_last: bool | None = None,
    compile: bool,
    cuda_graphs: bool,
    tf32: bool | None,
) -> dict[str, str]:
    """How a network is run, for a record: what is set, or is not left to torch."""
    values = {
        "dtype": str(dtype).removeprefix("torch."),
        "channels_last": channels_last,
        "compile": compile or None,
        "cuda_graphs": cuda_graphs or None,
        "tf32": tf32,
    }
    return {name: str(value).lower() for name, value in values.items() if value is not None}


def _relaid(network: nn.Module, settings: dict[str, Any], channels_last: bool) -> Model:
    return from_torch(network, channels_last=channels_last, **settings)
