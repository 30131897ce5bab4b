"""Random streams: standard normal rows that depend on their key, and on nothing else.

1. A key is (seed, content of the image, purpose, step); rows are drawn in blocks of a fixed number,
   so that neither the batch, nor the order, nor the chunk in which rows are asked for can change
   them.
2. `NOISE_VERSION` changes whenever the numbers do: a study that was begun under another cannot be
   replayed.
"""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor

NOISE_VERSION = 1
"""Version 1: torch's own generator, seeded for each block of rows."""
BLOCK = 16
"""Rows drawn at once from a random stream."""


def content_hash(image: Tensor) -> str:
    """Hash of an image's shape and its pixels as float32: the same on every device and dtype."""
    pixels = image.detach().to("cpu", torch.float32).contiguous().numpy()
    digest = hashlib.blake2b(repr(pixels.shape).encode(), digest_size=16)
    digest.update(pixels.tobytes())
    return digest.hexdigest()


class Noise:
    """Rows of standard normal numbers, drawn block by block when they are needed.

    (Of the 63 bits of a block's seed torch's generator for the CPU uses 32.)
    """

    def __init__(
        self, key: str, rows: int, shape: tuple[int, ...], like: Tensor, block: int
    ) -> None:
        self._key, self._rows, self._shape, self._like = key, rows, shape, like
        self._block = block
        self._cached: tuple[int, Tensor] | None = None

    def __len__(self) -> int:
        return self._rows

    def _draw(self, number: int) -> Tensor:
        if self._cached is None or self._cached[0] != number:
            digest = hashlib.blake2b(f"{self._key}/{number}".encode(), digest_size=8).digest()
            generator = torch.Generator(self._like.device)
            generator.manual_seed(int.from_bytes(digest, "big") >> 1)
            rows = torch.randn(
                (self._block, *self._shape),
                generator=generator,
                dtype=self._like.dtype,
                device=self._like.device,
            )
            self._cached = (number, rows)
        return self._cached[1]

    def __getitem__(self, rows: slice) -> Tensor:
        first, last, _ = rows.indices(self._rows)
        parts = []
        while first < last:
            number, offset = divmod(first, self._block)
            count = min(self._block - offset, last - first)
            parts.append(self._draw(number)[offset : offset + count])
            first += count
        return parts[0] if len(parts) == 1 else torch.cat(parts)
