"""Loading a user's model: a file, a name such as `hf:microsoft/resnet-50`, or `module:function`.

First the network is loaded, so that its configuration is known and images can be prepared for it.
Then it is fitted to images of one shape (`network`).
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from dataclasses import replace
from os import PathLike

import torch
from torch import Tensor, nn

from ..core.cell import check_image
from ..core.device import usable
from ..core.execution import LARGEST_BATCH
from ..core.model import Model
from ..core.validation import check_flag, or_none, require, whole
from ..data.classes import class_names
from ..data.tables import kind_of
from ..data.user_code import is_function
from ..errors import InputError
from .files import load_file
from .functions import load_function
from .network import Network, Source, file_error
from .pytorch import Running
from .registry import EXPECTED, FORMS, misspelt, prefixed, split


def load_model(
    source: str | PathLike[str],
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
    tf32: bool = False,
    trust: bool = False,
) -> Model:
    """Load the model that `source` names, and try it on `example` (c, h, w).

    Without an example, a grey image is used if the model's image size is known. `names` are the
    names of the classes in order, or a file with one per line; for `clip:` they are also the
    prompts. Exported programs and TorchScript can run code when torch reads them, and need `trust`.
    The other options are those of `from_torch`, as far as they apply to the kind of model.
    """
    if example is not None:
        check_image(example, "the example")
    network = open_network(source, names=names, device=device, batch_size=batch_size, trust=trust)
    switches = channels_last, compile, cuda_graphs, tf32
    return network.fit(example, Running(mean, std, quantize, dtype, *switches))


def load_network(
    source: str, device: str | torch.device = "cpu", *, trust: bool = False
) -> Network:
    """Load a torch network with its configuration, for its gradients."""
    loaded = open_network(source, device=device, trust=trust)
    if not isinstance(loaded.forward, nn.Module):
        kinds = "an instance of nn.Module, an exported program or TorchScript"
        expected = f"a network that can be differentiated: {kinds}"
        raise InputError(f"{source} is {loaded.kind}", expected=expected, input="model")
    if loaded.batch not in (None, 1):
        given = f"{source} takes only batches of {loaded.batch}"
        raise InputError(given, expected="one that takes a single image", input="model")
    return loaded


def open_network(
    source: str | PathLike[str],
    *,
    names: str | PathLike[str] | Sequence[str] | None = None,
    device: str | torch.device = "cpu",
    batch_size: int | None = None,
    trust: bool = False,
) -> Network:
    """Load the network that `source` names; arguments as for `load_model`."""
    require(isinstance(source, str | PathLike), "model", source, EXPECTED)
    check_flag("trust", trust)
    allowed = or_none(whole(1, LARGEST_BATCH))
    require(allowed.holds(batch_size), "batch_size", batch_size, allowed.words)
    given = None if names is None else class_names(names)
    network = _load(Source(os.fspath(source), usable(device), batch_size, given, trust))
    if batch_size and network.batch not in (None, batch_size):
        given_size = f"is {batch_size}, but the model {source} takes only {network.batch}"
        raise InputError(given_size, input="batch_size")
    return network if given is None else replace(network, names=given.names)


def _load(source: Source) -> Network:
    text = source.text
    kind = kind_of(text, text, input="model")
    if not text.strip():
        raise source.error("", EXPECTED)
    if kind == "file" and (named := prefixed(text)) != text:
        source, text, kind = replace(source, text=named), named, "nothing"
    if kind == "file":
        return load_file(source)
    if kind == "nothing":
        prefix, name = split(text)
        if prefix is not None:
            if not name.strip():
                raise source.error("", FORMS[text.partition(":")[0]])
            module, _, function = prefix.loader.partition(":")
            loader = getattr(importlib.import_module(f".{module}", __package__), function)
            network: Network = loader(source)
            return network
        if (error := misspelt(text)) is not None:
            raise error
        if is_function(text):
            return load_function(source)
    kinds = {"nothing": "does not exist", "folder": "is a folder", "other": "is not a regular file"}
    raise file_error(f"{text} {kinds[kind]}", EXPECTED)
