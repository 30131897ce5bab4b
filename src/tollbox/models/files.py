"""Model files: programs of `torch.export`, and TorchScript.

1. Only tensors are unpickled. Still, open only files that you trust: torch itself interprets them.
2. A pickle (a state dict or a whole module) is not loaded, since it could run code.
3. An exported program knows the batch sizes that it takes. It runs at the chosen one if that is
   among them.
4. An exported program has no modes. It computes what it was exported with, and counts as being in
   eval mode.
"""

from __future__ import annotations

import contextlib
import logging
import os
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from ..engine.batch import batch_size_on
from ..errors import FileError, InputError
from .numerics import weights_dtype
from .registry import Adapter, Network, Source

EXPORTED = frozenset({"archive_format", "serialized_exported_program.json"})
"""Archive entries that only exported programs have; older versions of torch write the second."""
EXPORTED_OPTIONS = frozenset({"compile", "cuda_graphs", "tf32"})
SCRIPT_OPTIONS = frozenset({"cuda_graphs", "tf32"})
"""The options that apply. The file fixes the dtype and the layout; a script is compiled already."""


def load_exported(source: Source) -> Network:
    """Load an exported program onto the device."""
    with _tensors_only(), open(source.text, "rb") as file:
        program = torch.export.load(file)
    names = program.graph_signature.user_inputs
    inputs = [
        n.meta["val"] for n in program.graph.nodes if n.op == "placeholder" and n.name in names
    ]
    if len(inputs) != 1 or not isinstance(inputs[0], Tensor) or inputs[0].ndim != 4:
        raise FileError(
            f"{source.text} takes {len(inputs)} inputs",
            expected="one, images (n, c, h, w)",
            input="model",
        )
    [images] = inputs
    if not images.is_floating_point():
        raise FileError(
            f"{source.text} takes {images.dtype}", expected="one that takes floats", input="model"
        )
    if images.device != source.device:
        from torch.export.passes import move_to_device_pass  # newer than the oldest torch

        program = move_to_device_pass(program, source.device)
    rows, *sizes = images.shape
    shape = tuple(size if isinstance(size, int) else None for size in sizes)
    batch = _batch(rows, program, source)
    network = program.module()
    for module in network.modules():
        module.training = False
    return Network(network, images.dtype, batch, shape, "an exported program", EXPORTED_OPTIONS)


def _batch(rows: Any, program: Any, source: Source) -> int | None:
    """Return the batch size to run at, or None if any will do."""
    if isinstance(rows, int):
        return rows
    bounds = program.range_constraints.get(rows.node.expr)
    if bounds is None:  # a multiple of something: only the exported size is sure to work
        return int(program.example_inputs[0][0].shape[0])
    chosen = source.batch_size
    if chosen is not None and not bounds.lower <= chosen <= bounds.upper:
        raise InputError(
            f"is {chosen}, but the model {source.text} takes only {bounds.lower} to {bounds.upper}",
            input="batch_size",
        )
    if bounds.lower <= 2 and bounds.upper >= 512:
        return None
    return chosen or int(max(bounds.lower, min(bounds.upper, batch_size_on(source.device))))


@contextlib.contextmanager
def _tensors_only() -> Iterator[None]:
    """Let torch.export unpickle only tensors, and silence its log."""
    forced, barred = "TORCH_FORCE_WEIGHTS_ONLY_LOAD", "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"
    before = {name: os.environ.pop(name, None) for name in (forced, barred)}
    log = logging.getLogger("torch.export")
    level = log.level
    os.environ[forced] = "1"
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(level)
        os.environ.pop(forced)
        os.environ.update({name: value for name, value in before.items() if value is not None})


def load_script(source: Source) -> Network:
    """Load TorchScript onto the device, in eval mode."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"`torch\.jit\.", DeprecationWarning)
        script = torch.jit.load(source.text, map_location=source.device)
    if hasattr(script, "training"):  # a frozen script has no modes
        script.eval()
    return Network(script, weights_dtype(script), kind="TorchScript", options=SCRIPT_OPTIONS)


def _is_script(source: Source) -> bool:
    """Return whether the file is an archive of code and its constants."""
    entries = source.entries
    return "constants.pkl" in entries and any(name.startswith("code/") for name in entries)


ADAPTERS = (
    Adapter(
        "a file made with torch.export.save(torch.export.export(net.eval(), (images,)), "
        "'model.pt2')",
        lambda source: bool(source.entries & EXPORTED),
        load_exported,
    ),
    Adapter(
        "a file made with torch.jit.save(torch.jit.script(net.eval()), 'model.pt')",
        _is_script,
        load_script,
    ),
)
