"""Fused kernels, where there are any: what `kernels.py` has, or None."""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from typing import Any

from torch import Tensor


@lru_cache(maxsize=1)
def _kernels() -> Any:
    try:
        return import_module(".kernels", __package__)  # slow: it imports triton
    except ImportError:
        return None


def kernels_for(like: Tensor) -> Any:
    """The module with the kernels, for a tensor on a CUDA device; None elsewhere."""
    return _kernels() if like.is_cuda else None
