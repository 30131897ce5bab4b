"""Memory: running out of it, which is an error of many kinds, and keeping what was freed.

An error may have been turned into a sentence for the user on its way; what it came from counts.

On a CPU a network allocates and frees its activations, megabytes each, for every batch. As it is
set up the C library returns them to the system, which has to map and clear them page by page the
next time: for a small network as much time as it takes to compute.
"""

from __future__ import annotations

import ctypes
import errno
from functools import lru_cache

import torch

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
