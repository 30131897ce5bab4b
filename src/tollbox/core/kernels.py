"""Fused kernels for CUDA devices: one or two launches instead of many.

1. Each kernel has an equivalent in torch or NumPy, in the module named in its docstring, which all
   other devices use. Sums agree up to their order. Noise and linear points, where nothing is summed
   over pixels, agree bit for bit: products and sums are rounded separately (no fused multiply-add).
2. A sum has one fixed order, whatever else the device does: no atomics.
3. `device.kernels_for` loads this file if triton is installed; without it, only speed is lost.
"""

# mypy: ignore-errors
from __future__ import annotations

import contextlib

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 1024
"""Count of numbers that one program handles at a time."""
BLOCKS, ROW_BLOCKS = 64, 16
"""Count of programs that share a sum over one image, and over each row of a batch."""


def _on(device: torch.device) -> contextlib.AbstractContextManager[None]:
    """Return a context in which kernels are launched on `device`."""
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
def _noise(made, firsts, steps, key, other_key, first, width, block: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.program_id(1) * block + tl.arange(0, block)
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
    """Write rows of the stream `key`, starting at `first`, to `made`, (rows, width): noise.py."""
    rows, width = made.shape
    with _on(made.device):
        _noise[(rows, triton.cdiv(width, BLOCK))](
            made, firsts, steps, *key, first, width, block=BLOCK, enable_fp_fusion=False
        )


@triton.jit
def _linear_points(batch, terms, width, block: tl.constexpr):
    entry = terms + tl.program_id(0) * 6
    columns = tl.program_id(1) * block + tl.arange(0, block)
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


def fill_linear_points(batch: Tensor, terms: Tensor) -> None:
    """Write linear points into rows of `batch`: engine/points.py.

    A line of `terms` has the addresses of the base, first and second image (0 if there is no second
    one), the float64 bits of the factors a and b, and the row.
    """
    width = batch[0].numel()
    with _on(batch.device):
        _linear_points[(len(terms), triton.cdiv(width, BLOCK))](
            batch, terms, width, block=BLOCK, enable_fp_fusion=False
        )


@triton.jit
def _squares(batch, sources, slots, sums, width, share, blocks: tl.constexpr, block: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    slot = tl.load(slots + row)
    first = tl.program_id(1) * share
    total = tl.zeros((block,), tl.float64)
    for start in range(first, first + share, block):
        columns = start + tl.arange(0, block)
        kept = (columns < width) & (columns < first + share)
        apart = tl.load(batch + row * width + columns, mask=kept, other=0.0) - tl.load(
            sources + slot * width + columns, mask=kept, other=0.0
        )
        apart = apart.to(tl.float64)
        total += apart * apart
    tl.store(sums + row * blocks + tl.program_id(1), tl.sum(total))


def distances(batch: Tensor, sources: Tensor, slots: Tensor) -> Tensor:
    """Return each row's ℓ2 distance from its row of `sources`, in float64: engine/sender.py."""
    width = batch[0].numel()
    sums = batch.new_empty((len(batch), ROW_BLOCKS), dtype=torch.float64)
    share = triton.cdiv(width, ROW_BLOCKS)
    with _on(batch.device):
        _squares[(len(batch), ROW_BLOCKS)](
            batch, sources, slots, sums, width, share, blocks=ROW_BLOCKS, block=BLOCK
        )
    return sums.sum(1).sqrt_()


@triton.jit
def _products(source, point, direction, sums, width, share, block: tl.constexpr):
    program = tl.program_id(0)
    here = tl.arange(0, block)
    long = tl.zeros((block,), tl.float64)
    along = tl.zeros((block,), tl.float64)
    own = tl.zeros((block,), tl.float64)
    for first in range(program * share, program * share + share, block):
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
    blocks: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    numbers = tl.arange(0, blocks) * 3
    radius = tl.maximum(tl.sqrt(tl.sum(tl.load(sums + numbers))), tiny)
    along = tl.sum(tl.load(sums + numbers + 1)) / radius
    own = tl.sum(tl.load(sums + numbers + 2))
    norm = tl.sqrt(tl.maximum(own - along * along, 0.0))
    scale = tl.where(norm > negligible, radius / tl.maximum(norm, tiny), 0.0)
    columns = tl.program_id(0) * block + tl.arange(0, block)
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
    """Return x - x*, the orthogonal part of the direction scaled to the same length, and the cosine
    of the two: parts/paths.py."""
    width = source.numel()
    away, side = torch.empty_like(source), torch.empty_like(source)
    cosine = source.new_empty(())
    sums = source.new_empty((BLOCKS, 3), dtype=torch.float64)
    share = triton.cdiv(width, BLOCKS)
    with _on(source.device):
        _products[(BLOCKS,)](source, point, direction, sums, width, share, block=BLOCK)
        _side[(triton.cdiv(width, BLOCK),)](
            source, point, direction, sums, away, side, cosine, width, negligible, tiny,
            blocks=BLOCKS, block=BLOCK,
        )  # fmt: skip
    return away, side, cosine
