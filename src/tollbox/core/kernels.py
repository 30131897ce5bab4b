"""Kernels for CUDA devices: what would take many launches, in one or two.

1. Each has a twin in torch or numpy, beside the idea that it belongs to, which every other device
   runs; what both make is the same up to the order of sums, and of noise and mixtures, where
   nothing is summed, bit for bit: products and sums are rounded one by one (no fused multiply-add).
2. A sum has one order, whatever else the device does: no atomics.
3. Written in triton, which comes with torch where torch has CUDA. This file is loaded where it is
   there (`fused.py`), and nothing is lost but speed where it is not.
"""

# mypy: ignore-errors
from __future__ import annotations

import contextlib

import torch
import triton
import triton.language as tl
from torch import Tensor

PIECE = 1024
"""Numbers of one program."""
PIECES, ROW_PIECES = 64, 16
"""Programs that share a sum; of a row, one of many."""


def _on(device: torch.device) -> contextlib.AbstractContextManager[None]:
    """Kernels are launched on the device that is current."""
    if device.index in (None, torch.cuda.current_device()):
        return contextlib.nullcontext()
    return torch.cuda.device(device)


@triton.jit
def _mix(x):
    x ^= x >> 16
    x *= 0x7FEB352D
    x ^= x >> 15
    x *= 0x846CA68B
    x ^= x >> 16
    return x


@triton.jit(do_not_specialize=["key", "other_key", "first"])
def _noise(made, firsts, steps, key, other_key, first, width, piece: tl.constexpr):
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


def fill_noise(
    made: Tensor, firsts: Tensor, steps: Tensor, key: tuple[int, int], first: int
) -> None:
    """Write the rows from `first` on of the stream `key` into `made`, (rows, width): noise.py."""
    rows, width = made.shape
    with _on(made.device):
        _noise[(rows, triton.cdiv(width, PIECE))](
            made, firsts, steps, *key, first, width, piece=PIECE, enable_fp_fusion=False
        )


@triton.jit
def _mixtures(batch, terms, width, piece: tl.constexpr):
    entry = terms + tl.program_id(0) * 6
    columns = tl.program_id(1) * piece + tl.arange(0, piece)
    kept = columns < width
    number = batch.dtype.element_ty
    pointer = tl.pointer_type(number)
    base = tl.load(entry).to(pointer)
    first = tl.load(entry + 1).to(pointer)
    second = tl.load(entry + 2).to(pointer)
    a = tl.load(entry + 3).to(tl.float64, bitcast=True).to(number)
    b = tl.load(entry + 4).to(tl.float64, bitcast=True).to(number)
    row = tl.load(entry + 5)
    total = tl.load(first + columns, mask=kept) * a + tl.load(base + columns, mask=kept)
    if tl.load(entry + 2) != 0:
        total += tl.load(second + columns, mask=kept) * b
    total = tl.maximum(total, 0.0, propagate_nan=tl.PropagateNan.ALL)
    total = tl.minimum(total, 1.0, propagate_nan=tl.PropagateNan.ALL)
    tl.store(batch + row * width + columns, total, mask=kept)


def fill_mixtures(batch: Tensor, terms: Tensor) -> None:
    """Write sums of images into rows of `batch`, a line of `terms` for each: mixtures.py.

    A line has the addresses of base, first and second image (or 0), the bits of the factors a and
    b in float64, and the row.
    """
    width = batch[0].numel()
    with _on(batch.device):
        _mixtures[(len(terms), triton.cdiv(width, PIECE))](
            batch, terms, width, piece=PIECE, enable_fp_fusion=False
        )


@triton.jit
def _squares(batch, sources, slots, sums, width, share, pieces: tl.constexpr, piece: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    slot = tl.load(slots + row)
    first = tl.program_id(1) * share
    total = tl.zeros((piece,), tl.float64)
    for begin in range(first, first + share, piece):
        columns = begin + tl.arange(0, piece)
        kept = (columns < width) & (columns < first + share)
        apart = tl.load(batch + row * width + columns, mask=kept, other=0.0) - tl.load(
            sources + slot * width + columns, mask=kept, other=0.0
        )
        apart = apart.to(tl.float64)
        total += apart * apart
    tl.store(sums + row * pieces + tl.program_id(1), tl.sum(total))


def distances(batch: Tensor, sources: Tensor, slots: Tensor) -> Tensor:
    """l2 of each row of a batch from the row of `sources` that `slots` names, in float64."""
    width = batch[0].numel()
    sums = batch.new_empty((len(batch), ROW_PIECES), dtype=torch.float64)
    share = triton.cdiv(width, ROW_PIECES)
    with _on(batch.device):
        _squares[(len(batch), ROW_PIECES)](
            batch, sources, slots, sums, width, share, pieces=ROW_PIECES, piece=PIECE
        )
    return sums.sum(1).sqrt_()


@triton.jit
def _products(source, point, direction, sums, width, share, piece: tl.constexpr):
    program = tl.program_id(0)
    here = tl.arange(0, piece)
    long = tl.zeros((piece,), tl.float64)
    along = tl.zeros((piece,), tl.float64)
    own = tl.zeros((piece,), tl.float64)
    for first in range(program * share, program * share + share, piece):
        columns = first + here
        kept = (columns < width) & (columns < program * share + share)
        away = tl.load(point + columns, mask=kept, other=0.0) - tl.load(
            source + columns, mask=kept, other=0.0
        )
        away = away.to(tl.float64)
        turn = tl.load(direction + columns, mask=kept, other=0.0).to(tl.float64)
        long += away * away
        along += away * turn
        own += turn * turn
    tl.store(sums + program * 3, tl.sum(long))
    tl.store(sums + program * 3 + 1, tl.sum(along))
    tl.store(sums + program * 3 + 2, tl.sum(own))


@triton.jit
def _side(
    source, point, direction, sums, away, side, cosine, width, negligible, tiny,
    pieces: tl.constexpr, piece: tl.constexpr,
):  # fmt: skip
    numbers = tl.arange(0, pieces) * 3
    radius = tl.maximum(tl.sqrt(tl.sum(tl.load(sums + numbers))), tiny)
    along = tl.sum(tl.load(sums + numbers + 1)) / radius
    own = tl.sum(tl.load(sums + numbers + 2))
    norm = tl.sqrt(tl.maximum(own - along * along, 0.0))
    scale = tl.where(norm > negligible, radius / tl.maximum(norm, tiny), 0.0)
    columns = tl.program_id(0) * piece + tl.arange(0, piece)
    kept = columns < width
    apart = tl.load(point + columns, mask=kept) - tl.load(source + columns, mask=kept)
    turn = tl.load(direction + columns, mask=kept)
    across = (turn.to(tl.float64) - apart.to(tl.float64) * (along / radius)) * scale
    tl.store(away + columns, apart, mask=kept)
    tl.store(side + columns, across.to(turn.dtype), mask=kept)
    if tl.program_id(0) == 0:
        tl.store(cosine, along.to(turn.dtype))


def circle(
    source: Tensor, point: Tensor, direction: Tensor, negligible: float, tiny: float
) -> tuple[Tensor, Tensor, Tensor]:
    """x - x*, the part of the direction across it, as long as it is, and their cosine: paths.py."""
    width = source.numel()
    away, side = torch.empty_like(source), torch.empty_like(source)
    cosine = source.new_empty(())
    sums = source.new_empty((PIECES, 3), dtype=torch.float64)
    share = triton.cdiv(width, PIECES)
    with _on(source.device):
        _products[(PIECES,)](source, point, direction, sums, width, share, piece=PIECE)
        _side[(triton.cdiv(width, PIECE),)](
            source, point, direction, sums, away, side, cosine, width, negligible, tiny,
            pieces=PIECES, piece=PIECE,
        )  # fmt: skip
    return away, side, cosine
