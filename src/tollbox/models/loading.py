"""A user's own model, by name: a file, `module:function`, or whatever the registry knows.

1. What a file is, is decided by its content, not by its name. A pickle (a state dict, a whole
   module) is refused with what to do instead: it would run code.
2. The model is tried on one image, uncharged, before a run: that shows whether it takes such
   images, and the number of classes. Whatever it raises, even an exit, is reported in a sentence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn

from ..core.model import Model
from ..errors import FileError, InputError, ModelFault
from ..files.functions import with_kind
from ..files.tables import in_a_line
from .normalise import Normalisation
from .pytorch import Decided, Forward, name_of
from .registry import EXPECTED, adapter_of
from .source import Network, Source


def load_model(
    source: str,
    example: Tensor,
    *,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    device: str | torch.device = "cpu",
    quantize: int | None = None,
    batch_size: int | None = None,
) -> Model:
    """The model that `source` names, tried on `example` (c, h, w), for batches of `batch_size`."""
    device = torch.device(device)
    network = _network(source, device, batch_size)
    if batch_size and network.batch not in (None, batch_size):
        raise InputError(
            f"is {batch_size}, and the model {source} takes {network.batch} only",
            input="batch_size",
        )
    if any(n not in (None, size) for n, size in zip(network.shape, example.shape, strict=True)):
        shape = ", ".join("any" if size is None else str(size) for size in network.shape)
        raise InputError(
            f"{source} takes images of shape ({shape}), but the images are "
            f"{tuple(example.shape)} (channels, height, width)",
            input="model",
        )
    normalise = Normalisation.checked(
        mean,
        std,
        dtype=network.dtype,
        device=device,
        layout=network.layout,
        channels=len(example),
    )
    model = _model(network, normalise, device, quantize)
    return replace(model, classes=_classes(source, model, example))


def _model(
    network: Network, normalise: Normalisation, device: torch.device, quantize: int | None
) -> Model:
    """The network behind the normalisation, which also says in which layout."""
    outputs, inner = Forward(network.forward, normalise).output, None
    ready = network.forward if isinstance(network.forward, Model) else None
    if isinstance(network.forward, nn.Module) and not network.forward.training:
        inner = network.forward  # an exported program has no modes, and seems to be in training
    changes = network.layout == torch.channels_last if ready is None else ready.relaid is not None
    return Model(
        Decided(outputs),
        device,
        network.dtype,
        quantize,
        network.batch,
        network=inner,
        outputs=Forward(ready.outputs, normalise).output if ready and ready.outputs else outputs,
        layout=ready.layout if ready else name_of(normalise.layout),
        relaid=partial(_relaid, network, normalise, device, quantize) if changes else None,
    )


def _relaid(
    network: Network, normalise: Normalisation, device: torch.device, quantize: int | None
) -> Model:
    """The same in the other layout."""
    if isinstance(network.forward, Model) and network.forward.relaid is not None:
        network = replace(network, forward=network.forward.relaid())
    elif normalise.layout == torch.channels_last:
        normalise = replace(normalise, layout=torch.contiguous_format)
    else:
        normalise = replace(normalise, layout=torch.channels_last)
    return _model(network, normalise, device, quantize)


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
    """The number of classes, if the model gives logits; an InputError if it fails."""
    batch = example[None].to(model.device).repeat(model.batch or 1, 1, 1, 1)
    batch = model.sent(batch)
    try:
        output = (model.outputs or model)(batch)
        model(batch)
    except (Exception, SystemExit) as error:  # the user's own code: any kind may come
        what = in_a_line(error) if isinstance(error, ModelFault) else with_kind(error)
        raise InputError(
            f"{source} failed on a batch of {len(batch)} of the given images, of shape "
            f"{tuple(example.shape)} ({what})",
            expected="logits (n, classes) or integer labels (n) from images (n, c, h, w) in [0,1]",
            input="model",
        ) from None
    return output.shape[1] if output.ndim == 2 else None
