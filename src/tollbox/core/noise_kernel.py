"""The numbers of `noise.py` in one launch on a CUDA device.

The same hash, bins and places, one program for a piece of a row. Products and sums are rounded one
by one (no fused multiply-add), so that the bits are those of the CPU. Triton comes with torch where
torch has CUDA; without it `noise.py` makes the same numbers in some thirty launches.
"""

# mypy: ignore-errors
from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

PIECE = 1024
"""Columns of one program."""


@triton.jit
def _mix(x):
    x ^= x >> 16
    x *= 0x7FEB352D
    x ^= x >> 15
    x *= 0x846CA68B
    x ^= x >> 16
    return x


@triton.jit(do_not_specialize=["key", "other_key", "first"])
def _numbers(made, firsts, steps, key, other_key, first, width, piece: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.program_id(1) * piece + tl.arange(0, piece)
    counter = (row + first).to(tl.uint32)
    one = _mix(counter * 0x9E3779B9 + key.to(tl.uint32))
    two = _mix(counter * 0x85EBCA6B + other_key.to(tl.uint32))
    hashed = _mix(_mix(columns.to(tl.uint32) * 0x9E3779B9 + one) ^ two)
    chosen = (((hashed >> 16) + 32768) & 0xFFFF).to(tl.int32)
    kept = columns < width
    step = tl.load(steps + chosen, mask=kept)
    place = (hashed & 0xFFFF).to(tl.int32).to(step.dtype)
    value = place * step + tl.load(firsts + chosen, mask=kept)
    tl.store(made + row.to(tl.int64) * width + columns, value, mask=kept)


def fill(made: Tensor, firsts: Tensor, steps: Tensor, key: tuple[int, int], first: int) -> None:
    """Write the rows from `first` on of the stream `key` into `made`, (rows, width)."""
    rows, width = made.shape
    with torch.cuda.device(made.device):
        _numbers[(rows, triton.cdiv(width, PIECE))](
            made, firsts, steps, *key, first, width, piece=PIECE, enable_fp_fusion=False
        )
