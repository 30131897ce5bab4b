"""Random streams: standard normal rows that are a function of their key only.

1. A stream's key is (seed, content of the image, purpose, step). The number at (row, column) is a
   function of (key, row, column): neither the batch, nor the order, nor the slice can change it.
   Prices and parts are not in the key, so variants of an attack see the same start and the same
   noise, and comparisons are paired.
2. Counters are hashed with 32-bit integers: two rounds of a multiply-xorshift mix, keyed for every
   row by 64 bits from the stream's key. Sixteen bits of the hash choose a bin of the normal
   distribution's quantile function, and sixteen a position in the bin, linearly. Each product and
   sum is rounded separately, so that all devices compute the same bits: NumPy on the CPU, a kernel
   on CUDA devices (kernels.py; without it, numbers are computed on the CPU and copied).
3. The linear bins give a variance of 1 + 4e-6, a kurtosis of 3 + 7e-6, and no number beyond 4.61.
4. `NOISE_VERSION` changes with the numbers: a study with another version cannot be resumed.
"""

from __future__ import annotations

import hashlib
import math
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import ndtri
from torch import Tensor

from .device import kernels_for

Key = tuple[int, int]
"""A key of 64 bits, as two signed 32-bit integers."""
Hashes = NDArray[np.uint32]
NOISE_VERSION = 2
BINS = 1 << 16
STEP, OTHER_STEP = np.uint32(0x9E3779B9), np.uint32(0x85EBCA6B)
FACTORS = np.uint32(0x7FEB352D), np.uint32(0x846CA68B)
AT_ONCE = 1 << 16
"""Count of numbers generated at a time, chosen to fit into a cache."""


def content_hash(image: Tensor) -> str:
    """Return a hash of an image's shape and float32 pixels, the same for every device and dtype."""
    pixels = image.detach().to("cpu", torch.float32).contiguous().numpy()
    digest = hashlib.blake2b(repr(pixels.shape).encode(), digest_size=16)
    digest.update(pixels.data)
    return digest.hexdigest()


def quantiles() -> NDArray[np.float64]:
    """Return the edges of the bins: quantiles of the normal distribution. The outermost edges are
    chosen so that the mean of a linear last bin is that of the tail."""
    ends = np.empty(BINS + 1)
    ends[1:-1] = ndtri(np.arange(1, BINS) / BINS)
    density = math.exp(-(ends[1] ** 2) / 2) / math.sqrt(2 * math.pi)
    ends[0] = -2 * density * BINS - ends[1]
    ends[-1] = -ends[0]
    return ends


@lru_cache(maxsize=4)
def _bins(dtype: torch.dtype) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return, for each bin, the number at its first position and the step to the next one."""
    ends, kind = quantiles(), np.float64 if dtype == torch.float64 else np.float32
    steps = np.diff(ends) / BINS
    return (ends[:-1] + steps / 2).astype(kind), steps.astype(kind)


@lru_cache(maxsize=8)
def _bins_on(dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    first, step = (torch.from_numpy(part).to(device) for part in _bins(dtype))
    return first, step


def _mix(hashed: Hashes, room: Hashes) -> None:
    """Apply one round of shifts and multiplications in place; `room` is scratch of equal size."""
    for shift, factor in ((16, FACTORS[0]), (15, FACTORS[1]), (16, None)):
        np.right_shift(hashed, shift, out=room)
        hashed ^= room
        if factor is not None:
            hashed *= factor


def _row_keys(first: int, last: int, key: Key) -> list[Hashes]:
    """Return two arrays (n, 1), each with a key for every row."""
    rows = np.arange(first, last, dtype=np.uint32)[:, None]
    keys = []
    for part, factor in zip(key, (STEP, OTHER_STEP), strict=True):
        hashed = rows * factor + np.uint32(part % (1 << 32))
        _mix(hashed, np.empty_like(hashed))
        keys.append(hashed)
    return keys


def _made(key: Key, first: int, last: int, width: int, dtype: torch.dtype) -> NDArray[Any]:
    firsts, steps = _bins(dtype)
    columns = np.arange(width, dtype=np.uint32) * STEP
    keys = _row_keys(first, last, key)
    made = np.empty((last - first, width), firsts.dtype)
    some = max(1, AT_ONCE // width)
    for row in range(0, last - first, some):
        one, two = (part[row : row + some] for part in keys)
        hashed = columns + one
        room = np.empty_like(hashed)
        _mix(hashed, room)
        hashed ^= two
        _mix(hashed, room)
        np.right_shift(hashed, 16, out=room)
        room ^= BINS // 2  # adds half of the bins, modulo 2^16
        bins = room.astype(np.intp)
        hashed &= BINS - 1
        numbers = made[row : row + some]
        np.multiply(hashed, steps.take(bins), out=numbers, dtype=made.dtype, casting="unsafe")
        numbers += firsts.take(bins)
    return made


class Noise:
    """Rows of standard normal numbers, generated when sliced."""

    def __init__(
        self, key: str, rows: int, shape: tuple[int, ...], like: Tensor, mask: Tensor | None = None
    ) -> None:
        """With a mask of `shape`, rows are 0 where the mask is False."""
        digest = hashlib.blake2b(key.encode(), digest_size=8).digest()
        one, two = np.frombuffer(digest, "<i4").tolist()
        self._key: Key = (one, two)
        self._rows, self._shape, self._like, self._mask = rows, shape, like, mask

    def __len__(self) -> int:
        return self._rows

    @property
    def is_cuda(self) -> bool:
        return self._like.is_cuda

    def __getitem__(self, rows: slice) -> Tensor:
        first, last, _ = rows.indices(self._rows)
        width, like = math.prod(self._shape), self._like
        if (kernels := kernels_for(like)) is not None:
            flat = like.new_empty(last - first, width)
            kernels.fill_noise(flat, *_bins_on(like.dtype, like.device), self._key, first)
        else:
            flat = torch.from_numpy(_made(self._key, first, last, width, like.dtype)).to(like)
        made = flat.view(last - first, *self._shape)
        return made if self._mask is None else made.mul_(self._mask)
