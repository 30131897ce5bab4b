"""Model files of TorchScript."""

from __future__ import annotations

import warnings

import torch

from .adapter import Adapter, Network, Source
from .precision import own_dtype

OPTIONS = frozenset({"cuda_graphs", "tf32"})
"""Its dtype and its layout are those that it was saved with, and it is compiled already."""


def load(source: Source) -> Network:
    """The script in the file, on the device and in eval mode."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"`torch\.jit\.", DeprecationWarning)
        script = torch.jit.load(source.text, map_location=source.device)
    if hasattr(script, "training"):  # a frozen one has no modes
        script.eval()
    return Network(script, own_dtype(script), kind="TorchScript", options=OPTIONS)


def is_script(source: Source) -> bool:
    """Whether the file is an archive with code and its constants."""
    entries = source.entries
    return "constants.pkl" in entries and any(name.startswith("code/") for name in entries)


ADAPTER = Adapter(
    "a file made with torch.jit.save(torch.jit.script(net.eval()), 'model.pt')", is_script, load
)
