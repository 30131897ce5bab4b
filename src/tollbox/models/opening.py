"""A model is opened: its network is loaded, and no image is needed for it.

1. What a file is, is decided by its content, not by its name. A pickle (a state dict, a whole
   module) is refused with what to do instead: it would run code.
2. From then on the model's own configuration is known, so that images can be made ready for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike

import torch

from ..core.preprocessing import Preprocessing
from ..errors import FileError, InputError
from ..files.class_names import class_names
from ..files.functions import with_kind
from .registry import EXPECTED, adapter_of, misspelt
from .source import Network, Source


@dataclass(frozen=True)
class Opened:
    """A model whose network is loaded, and which has not been tried on an image yet."""

    source: Source
    network: Network

    @property
    def names(self) -> tuple[str, ...] | None:
        """Of its classes: the user's, or else those of its own configuration."""
        given = self.source.names
        return self.network.names if given is None else given.names

    @property
    def preprocessing(self) -> Preprocessing | None:
        """What its own configuration says of images."""
        return self.network.preprocessing


def opened(
    source: str,
    *,
    names: str | PathLike[str] | Sequence[str] | None = None,
    device: str | torch.device = "cpu",
    batch_size: int | None = None,
) -> Opened:
    """The first half of `load_model`, which needs no image: its configuration is known then."""
    given = None if names is None else class_names(names)
    found = Source.at(source, torch.device(device), batch_size, given)
    network = network_of(found)
    if batch_size and network.batch not in (None, batch_size):
        raise InputError(
            f"is {batch_size}, and the model {source} takes {network.batch} only",
            input="batch_size",
        )
    return Opened(found, network)


def network_of(source: Source) -> Network:
    """The network that the first adapter which takes the source gives."""
    text = source.text
    if not text.strip():
        raise InputError(f"is {text!r}", expected=EXPECTED, input="model")
    adapter = adapter_of(source)
    if source.kind == "nothing" and (error := misspelt(text)) is not None:
        raise error
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
