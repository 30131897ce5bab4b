"""Model files: programs exported with `torch.export`, and TorchScript.

1. The content of a file determines its kind; its name does not matter.
2. torch runs code from these files, so the caller must trust them. `archives.py` checks them first.
3. A pickle (a state dict or a whole module) is not loaded, since it could run code.
4. An exported program has no modes. It computes as in the mode in which it was exported, and
   counts as being in eval mode.
"""

from __future__ import annotations

import contextlib
import os
import warnings
import zipfile
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from ..data.tables import system_errors
from ..data.user_code import with_kind
from ..engine.batch import batch_size_on
from ..errors import FileError, InputError
from .archives import UnsafeArchive, checked_copy
from .network import Network, Source, file_error, without_logs
from .numerics import weights_dtype
from .registry import EXPECTED, SAFE

EXPORTED = frozenset({"archive_format", "serialized_exported_program.json"})
"""Archive entries that only exported programs have; older versions of torch write the second."""
OPTIONS = frozenset({"cuda_graphs", "tf32"})
"""Options for both kinds. The file fixes the dtype and the layout; a script is already compiled."""


def load_file(source: Source) -> Network:
    file = source.text
    entries = _entries(file)
    program = bool(entries & EXPORTED)
    script = "constants.pkl" in entries and any(name.startswith("code/") for name in entries)
    if not (program or script):
        what = "is not a model" if entries else "is neither an exported program nor TorchScript"
        if "data.pkl" in entries:
            what = "is a pickle (a state dict or a whole module), which is not loaded"
        raise file_error(f"{file} {what}", EXPECTED)
    if not source.trust:
        kind = "an exported program" if program else "TorchScript"
        raise FileError(
            f"{file} is {kind}, which can run code",
            expected=f"a model that runs no code ({', '.join(SAFE)})",
            remedy="if you trust the file, set --trust-model (trust=True in Python)",
            input="model",
        )
    try:
        return _exported(source) if program else _script(source)
    except InputError:
        raise
    except UnsafeArchive as error:
        raise file_error(
            f"{file} is not loaded, even though it is trusted: {error}",
            "only what torch.export.save and torch.jit.save write for an image classifier",
        ) from None
    except Exception as error:  # torch raises many types for broken files
        raise file_error(
            f"{file} cannot be loaded ({with_kind(error)})",
            f"a complete file from a version of torch that this one ({torch.__version__}) can read",
        ) from None


def _entries(file: str) -> set[str]:
    """Return a zip archive's names, with and without their first folder; empty for other files."""
    try:
        with (
            system_errors(f"{file} cannot be read", input="model"),
            zipfile.ZipFile(file) as archive,
        ):
            names = archive.namelist()
    except InputError:
        raise
    except Exception:  # a broken directory may raise anything
        return set()
    return {*names, *(name.partition("/")[2] for name in names)}


def _exported(source: Source) -> Network:
    with _tensors_only(), without_logs("torch.export"):
        program = torch.export.load(checked_copy(source.text, program=True))
    names = program.graph_signature.user_inputs
    nodes = program.graph.find_nodes(op="placeholder")
    inputs = [node.meta["val"] for node in nodes if node.name in names]
    if len(inputs) != 1 or not isinstance(inputs[0], Tensor) or inputs[0].ndim != 4:
        raise file_error(f"{source.text} takes {len(inputs)} inputs", "one, images (n, c, h, w)")
    [images] = inputs
    if not images.is_floating_point():
        raise file_error(f"{source.text} takes {images.dtype}", "one that takes floats")
    if images.device != source.device:
        from torch.export.passes import move_to_device_pass  # not in the oldest supported torch

        program = move_to_device_pass(program, source.device)
    rows, *sizes = images.shape
    shape = tuple(size if isinstance(size, int) else None for size in sizes)
    batch, network = _batch(rows, program, source), program.module()
    for module in network.modules():
        module.training = False
    kind = "an exported program"
    return Network(source, network, images.dtype, batch, shape, kind, OPTIONS | {"compile"})


def _batch(rows: Any, program: Any, source: Source) -> int | None:
    """Return the batch size at which to run, or None if any size works."""
    if isinstance(rows, int):
        return rows
    bounds = program.range_constraints.get(rows.node.expr)
    if bounds is None:  # such as 2 n rows: only the exported size is sure to work
        return int(program.example_inputs[0][0].shape[0])
    chosen = source.batch_size
    if chosen is not None and not bounds.lower <= chosen <= bounds.upper:
        only = f"takes only {bounds.lower} to {bounds.upper}"
        raise InputError(f"is {chosen}, but the model {source.text} {only}", input="batch_size")
    if bounds.lower <= 2 and bounds.upper >= 512:
        return None
    return chosen or int(max(bounds.lower, min(bounds.upper, batch_size_on(source.device))))


@contextlib.contextmanager
def _tensors_only() -> Iterator[None]:
    """Let torch.export unpickle only tensors."""
    forced, barred = "TORCH_FORCE_WEIGHTS_ONLY_LOAD", "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"
    before = {name: os.environ.pop(name, None) for name in (forced, barred)}
    os.environ[forced] = "1"
    try:
        yield
    finally:
        os.environ.pop(forced)
        os.environ.update({name: value for name, value in before.items() if value is not None})


def _script(source: Source) -> Network:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"`torch\.jit\.", DeprecationWarning)
        copy = checked_copy(source.text, program=False)
        script = torch.jit.load(copy, map_location=source.device)
    if hasattr(script, "training"):  # a frozen script has no modes
        script.eval()
    dtype = weights_dtype(script)
    return Network(source, script, dtype, kind="TorchScript", options=OPTIONS)
