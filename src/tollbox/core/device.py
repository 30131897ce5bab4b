"""Devices: one that torch can use here, or a sentence that says which there are; and how an image
gets there without anyone waiting.

Memory: running out of it, which is an error of many kinds, and keeping what was freed.

An error may have been turned into a sentence for the user on its way; what it came from counts.

On a CPU a network allocates and frees its activations, megabytes each, for every batch. As it is
set up the C library returns them to the system, which has to map and clear them page by page the
next time: for a small network as much time as it takes to compute.

Fused kernels, where there are any: what `kernels.py` has, or None.
"""

from __future__ import annotations

import ctypes
import errno
from functools import lru_cache
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError
from .validation import shown


def usable(device: str | torch.device | None) -> torch.device:
    """A device that works; by default the GPU if there is one, else the CPU."""
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        chosen = torch.device(device)
        if chosen.type == "meta":  # it holds no numbers
            raise RuntimeError
        torch.zeros(1, device=chosen).cpu()
    except (RuntimeError, AssertionError, NotImplementedError, ImportError, TypeError, ValueError):
        raise InputError(
            f"is {shown(str(device) if isinstance(device, torch.device) else device)}, which this "
            "installation of torch cannot use here",
            expected=" or ".join(_present()),
            input="device",
        ) from None
    return chosen


def carried(image: Tensor, device: torch.device, dtype: torch.dtype) -> Tensor:
    """An image on a device, in one piece. The host goes on at once: it would wait for all that a
    GPU has to do before, if the image lay in memory that the system may move."""
    if device.type == "cuda" and image.device.type == "cpu":
        image = image.to(dtype).pin_memory()
    return image.to(device, dtype, non_blocking=True).contiguous()


def _present() -> list[str]:
    """The devices of this machine that torch can use."""
    gpus = [f"cuda:{number}" for number in range(torch.cuda.device_count())]
    apple = ["mps"] if torch.backends.mps.is_available() else []
    return ["cpu", *gpus, *apple]


_WORDS = (
    "can't allocate memory",  # torch on the CPU
    "CUDA error: out of memory",  # where a process cannot even begin to use the GPU
    "_STATUS_ALLOC_FAILED",  # of cuBLAS and cuDNN
)


M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Names of glibc's malloc.h."""
KEPT_AT_MOST, LARGEST_KEPT = 2**31 - 1, 32 * 2**20
"""Bytes: free at the end of the heap, and in one piece; the largest that glibc takes."""


@lru_cache(maxsize=1)
def keep_freed() -> bool:
    """Have this process keep memory that it frees, for the next batch; whether it does from now on.

    With the C library of Linux (glibc) only: elsewhere nothing is done.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(M_TRIM_THRESHOLD, KEPT_AT_MOST) and mallopt(M_MMAP_THRESHOLD, LARGEST_KEPT))


def is_out_of_memory(error: BaseException | None) -> bool:
    """Whether an error, or one that it was raised in place of, is that memory ran out."""
    while error is not None:
        if isinstance(error, torch.OutOfMemoryError | MemoryError):
            return True
        if isinstance(error, RuntimeError) and any(words in str(error) for words in _WORDS):
            return True
        if isinstance(error, OSError) and error.errno == errno.ENOMEM:
            return True
        error = error.__cause__ or error.__context__
    return False


@lru_cache(maxsize=1)
def _kernels() -> Any:
    try:
        return import_module(".kernels", __package__)  # slow: it imports triton
    except ImportError:
        return None


def kernels_for(like: Tensor) -> Any:
    """The module with the kernels, for a tensor on a CUDA device; None elsewhere."""
    return _kernels() if like.is_cuda else None
