"""Model files of `torch.export`.

1. Nothing is unpickled but tensors, whatever the file holds. Still, open model files only from
   those you trust: torch itself interprets what is in them.
2. An exported program knows the batch sizes it takes: it is run at the chosen one if that is among
   them.
3. It has no modes: it computes what it was exported with, and is marked as in eval mode.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from ..engine.batch import batch_size_on
from ..errors import FileError, InputError
from .adapter import Adapter, Network, Source

MARKS = frozenset({"archive_format", "serialized_exported_program.json"})
"""Entries of the archive that tell it from others; the second is of older versions of torch."""
OPTIONS = frozenset({"compile", "cuda_graphs", "tf32"})
"""Its dtype and its layout are those that it was exported with."""


def load(source: Source) -> Network:
    """The program in the file, on the device."""
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
    return Network(network, images.dtype, batch, shape, "an exported program", OPTIONS)


def _batch(rows: Any, program: Any, source: Source) -> int | None:
    """The batch size to run at; None if any will do."""
    if isinstance(rows, int):
        return rows
    bounds = program.range_constraints.get(rows.node.expr)
    if bounds is None:  # a multiple of something: what it was exported with is sure to be right
        return int(program.example_inputs[0][0].shape[0])
    chosen = source.batch_size
    if chosen is not None and not bounds.lower <= chosen <= bounds.upper:
        raise InputError(
            f"is {chosen}, and the model {source.text} takes {bounds.lower} to {bounds.upper} only",
            input="batch_size",
        )
    if bounds.lower <= 2 and bounds.upper >= 512:
        return None
    return chosen or int(max(bounds.lower, min(bounds.upper, batch_size_on(source.device))))


@contextlib.contextmanager
def _tensors_only() -> Iterator[None]:
    """While torch.export loads: let it unpickle tensors only, and silence its log."""
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


ADAPTER = Adapter(
    "a file made with torch.export.save(torch.export.export(net.eval(), (images,)), 'model.pt2')",
    lambda source: bool(source.entries & MARKS),
    load,
)
