"""What a store holds, as bytes: the labels of a batch, and how the run of a cell went.

1. A batch is its pieces (cell, ask, run, first row, number of rows), the distance of the last row
   of each, and all labels, in this order; compressed. No price is in it.
2. A run is its counts by phase and label, its improvements and its steps. Costs follow from the
   counts, so that a run can be priced again.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...core.ledger import Ledger
from ...core.result import Improvement, Result, Step
from ...core.stop import Stop
from ...engine.journal import Answered

if TYPE_CHECKING:
    from torch import Tensor

    from ..spec.specs import Tariff
    from .store import End

FAST = 1
"""zlib's level."""
IMPROVEMENTS = '"improvements": ['
"""Only that key has a list among those before the steps, whatever phases are called."""
_DECODER = json.JSONDecoder()


def packed(answers: Sequence[Answered]) -> bytes:
    """The labels of a batch as bytes."""
    head = np.array([(a.cell, a.ask, a.run, a.first, len(a.labels)) for a in answers], "<i8")
    distances = np.array([a.distance for a in answers], "<f8")
    labels = np.concatenate([a.labels for a in answers]).astype("<i8")
    content = head.tobytes() + distances.tobytes() + labels.tobytes()
    return zlib.compress(struct.pack("<q", len(answers)) + content, FAST)


def unpacked(content: bytes, wanted: NDArray[np.int64] | None = None) -> Iterator[Answered]:
    """The pieces of a batch; of some cells only, if they are given."""
    plain = zlib.decompress(content)
    (count,) = struct.unpack_from("<q", plain)
    head = np.frombuffer(plain, "<i8", 5 * count, 8).reshape(count, 5)
    distances = np.frombuffer(plain, "<f8", count, 8 + 40 * count)
    labels = np.frombuffer(plain, "<i8", -1, 8 + 48 * count).astype(np.int64)
    ends = np.cumsum(head[:, 4])
    chosen = range(count) if wanted is None else np.nonzero(np.isin(head[:, 0], wanted))[0]
    for piece in chosen:
        cell, ask, run, first, rows = head[piece].tolist()
        end = int(ends[piece])
        said = labels[end - rows : end]
        yield Answered(cell, ask, run, first, said, float(distances[piece]))


def packed_trace(result: Result) -> bytes:
    """Counts, improvements and steps as bytes."""
    counts = {
        phase: {str(label): n for label, n in tally.items()}
        for phase, tally in result.ledger.counts.items()
    }
    steps = [
        [s.iteration, s.cost, s.source, s.other, s.distance, s.by_phase, s.notes]
        for s in result.trace
    ]
    told = {"counts": counts, "improvements": result.improvements, "steps": steps}
    return zlib.compress(json.dumps(told, default=_plain).encode(), FAST)


def _plain(value: Any) -> Any:
    """A note that JSON does not know: a number of numpy or torch, or else its text."""
    return value.item() if hasattr(value, "item") else str(value)


def improvements_of(trace: bytes) -> list[Improvement]:
    """The improvements of a packed trace; its steps, which are most of it, are not read."""
    text = zlib.decompress(trace).decode()
    first = text.index(IMPROVEMENTS) + len(IMPROVEMENTS) - 1
    return [Improvement(*row) for row in _DECODER.raw_decode(text, first)[0]]


def result_of(
    end: End, trace: bytes, image: Tensor | None, name: str, label: int, tariff: Tariff
) -> Result:
    """The result of a cell."""
    told = json.loads(zlib.decompress(trace))
    counts = {
        phase: Counter({int(key): n for key, n in tally.items()})
        for phase, tally in told["counts"].items()
    }
    ledger = Ledger(tariff.prices.for_source(label), label, counts)
    return Result(
        end.cell,
        name,
        Stop(end.stop),
        end.reason,
        ledger,
        image,
        tuple(Improvement(*row) for row in told["improvements"]),
        tuple(Step(*step) for step in told["steps"]),
        tariff.budget,
        tariff.max_queries,
        end.seed,
        end.warnings,
    )


def packed_image(image: Tensor | None) -> bytes | None:
    """An image as bytes, to the last bit."""
    if image is None:
        return None
    array = np.ascontiguousarray(image.numpy())
    head = json.dumps([str(array.dtype), array.shape]).encode()
    return zlib.compress(struct.pack("<q", len(head)) + head + array.tobytes(), FAST)


def image_of(content: bytes | None) -> Tensor | None:
    """The image of `packed_image`."""
    if content is None:
        return None
    import torch

    plain = zlib.decompress(content)
    (size,) = struct.unpack_from("<q", plain)
    dtype, shape = json.loads(plain[8 : 8 + size])
    array: NDArray[Any] = np.frombuffer(plain, dtype, offset=8 + size).reshape(shape)
    return torch.from_numpy(array.copy())
