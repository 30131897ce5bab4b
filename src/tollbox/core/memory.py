"""Running out of memory, which is an error of many kinds.

An error may have been turned into a sentence for the user on its way; what it came from counts.
"""

from __future__ import annotations

import errno

import torch

_WORDS = (
    "can't allocate memory",  # torch on the CPU
    "CUDA error: out of memory",  # where a process cannot even begin to use the GPU
    "_STATUS_ALLOC_FAILED",  # of cuBLAS and cuDNN
)


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
