"""The binary content of a store: the labels of a batch, the trace of a run, an image.

1. A batch holds its spans (cell, ask, run, first row, number of rows), the distance of the last row
   of each span, and all labels, in this order; compressed. It holds no prices.
2. A trace is two compressed JSON texts: the account (counts by phase and label, alarms by phase,
   improvements), and the steps, which are much longer and seldom needed. Costs follow from the
   counts, so a run can be priced again.
3. Content that unpacks to more than `MOST_BYTES` is refused before it fills the memory.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import struct
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...core.detector import FirstAlarm
from ...core.goal import Goal
from ...core.ledger import Ledger
from ...core.resolution import Resolution
from ...core.result import Improvement, Result, Step
from ...core.stop import Stop
from ...engine.journal import ALARMS, Answered

if TYPE_CHECKING:
    from torch import Tensor

    from ...core.prices import Prices
    from ..specs import DetectorSpec

COMPRESSION = 1
"""Compression level of zlib: the fastest."""
MOST_BYTES = 2**28
"""Maximum size of unpacked content. A batch of a million rows has 2**26 bytes at most."""


def checksum(*values: Any) -> bytes:
    """Return eight bytes that depend on every value and its type."""
    digest = hashlib.blake2b(json.dumps(values, default=len).encode(), digest_size=8)
    for value in values:
        if isinstance(value, bytes):  # the text has its length
            digest.update(value)
    return digest.digest()


class End(NamedTuple):
    """The outcome of a finished cell."""

    cell: int
    seed: int
    stop: Stop
    reason: str
    warnings: tuple[str, ...]
    resolution: Resolution
    distance: float
    cost: float
    queries: int
    flagged: int
    alarms: int = 0
    first_alarm: FirstAlarm | None = None

    @property
    def fault(self) -> str | None:
        """Description of the first impossible value; None if all are possible."""
        if not isinstance(self.seed, int):
            return f"has seed {self.seed!r}"
        if not self.distance >= 0:
            return f"has distance {self.distance}"
        if not 0 <= self.cost < math.inf:
            return f"has cost {self.cost}"
        if not _is_count(self.queries):
            return f"has {self.queries} queries"
        if not _is_count(self.flagged, self.queries):
            return f"has {self.flagged} flagged of {self.queries} queries"
        if not _is_count(self.alarms, self.queries):
            return f"has {self.alarms} alarms in {self.queries} queries"
        if not all(_is_count(count, self.queries) for count in self.first_alarm or ()):
            return f"has its first alarm after {self.first_alarm}"
        _, setting, *values, precision = self.resolution
        if not all(isinstance(value, int | float) for value in values):
            return "has a resolution that is not a number"
        texts = self.reason, *self.warnings, setting, precision
        if not all(isinstance(text, str) for text in texts):
            return "has a reason or a warning that is not text"
        return None


def _is_count(value: float, most: float = math.inf) -> bool:
    return value == int(value) and 0 <= value <= most


def pack_answers(answers: Sequence[Answered]) -> bytes:
    head = np.array([(a.cell, a.ask, a.run, a.first, len(a.labels)) for a in answers], "<i8")
    distances = np.array([a.distance for a in answers], "<f8")
    labels = np.concatenate([a.labels for a in answers]).astype("<i8")
    content = head.tobytes() + distances.tobytes() + labels.tobytes()
    return zlib.compress(struct.pack("<q", len(answers)) + content, COMPRESSION)


def unpack_answers(content: bytes, cells: NDArray[np.int64] | None = None) -> Iterator[Answered]:
    """Yield the spans of a batch; with `cells`, only those of these cells."""
    head, plain = unpack_spans(content)
    count = len(head)
    distances = np.frombuffer(plain, "<f8", count, 8 + 40 * count)
    labels = np.frombuffer(plain, "<i8", -1, 8 + 48 * count).astype(np.int64)
    ends = np.cumsum(head[:, 4])
    if not count or (head[:, 1:] < [0, ALARMS, 0, 1]).any() or ends[-1] != len(labels):
        raise ValueError("the labels of a batch do not match its spans")
    chosen = range(count) if cells is None else np.nonzero(np.isin(head[:, 0], cells))[0]
    for span in chosen:
        cell, ask, run, first, rows = head[span].tolist()
        end = int(ends[span])
        yield Answered(cell, ask, run, first, labels[end - rows : end], float(distances[span]))


def unpack_spans(content: bytes) -> tuple[NDArray[np.int64], bytes]:
    """Return cell, ask, run, first row and number of rows of each span, and the plain content."""
    plain = _unzipped(content)
    (count,) = struct.unpack_from("<q", plain)
    return np.frombuffer(plain, "<i8", 5 * count, 8).reshape(count, 5), plain


@dataclass(frozen=True)
class Trace:
    """The course of a run: its answers, alarms, improvements and steps."""

    counts: dict[str, Counter[int]]
    """Answers by phase and label."""
    alarms: Counter[str]
    improvements: tuple[Improvement, ...]
    steps: tuple[Step, ...]

    def ledger(self, prices: Prices, goal: Goal, detector: DetectorSpec | None) -> Ledger:
        """Return the account of the run under these prices."""
        terms = None if detector is None else detector.terms
        return Ledger(prices, goal, self.counts, terms, self.alarms)


def pack_trace(result: Result) -> tuple[bytes, bytes]:
    account = {
        "counts": result.ledger.counts,
        "alarms": result.ledger.alarms_in,
        "improvements": result.improvements,
    }
    return _pack(account), _pack([[*vars(step).values()] for step in result.trace])


def _pack(values: Any) -> bytes:
    return zlib.compress(json.dumps(values, default=_plain).encode(), COMPRESSION)


def _plain(value: Any) -> Any:
    """Convert a note that JSON cannot encode: to a number if it has one, otherwise to text."""
    return value.item() if hasattr(value, "item") else str(value)


def unpack_trace(account: bytes, steps: bytes | None) -> Trace:
    """Return the trace that `pack_trace` packed, without steps if `steps` is None."""
    values = json.loads(_unzipped(account))
    trace = Trace(
        {
            phase: Counter({int(label): count for label, count in tally.items()})
            for phase, tally in values["counts"].items()
        },
        Counter(values["alarms"]),
        tuple(Improvement(*row) for row in values["improvements"]),
        () if steps is None else tuple(Step(*row) for row in json.loads(_unzipped(steps))),
    )
    tallies = [tally.values() for tally in trace.counts.values()]
    if not all(_is_count(n) for counts in (*tallies, trace.alarms.values()) for n in counts):
        raise ValueError("a count is below 0")
    if any(not value >= 0 for row in trace.improvements for value in row):
        raise ValueError("an improvement has a value below 0")
    return trace


def _unzipped(content: bytes) -> bytes:
    unpacking = zlib.decompressobj()
    plain = unpacking.decompress(content, MOST_BYTES)
    if not unpacking.eof:
        short = len(plain) < MOST_BYTES
        raise ValueError("its end is missing" if short else f"it has over {MOST_BYTES} bytes")
    return plain


def pack_image(image: Tensor | None) -> bytes | None:
    """Return an image as bytes, without loss; None if there is none."""
    if image is None:
        return None
    content = io.BytesIO()
    np.save(content, image.numpy())
    return zlib.compress(content.getvalue(), COMPRESSION)


def unpack_image(content: bytes | None) -> Tensor | None:
    if content is None:
        return None
    import torch

    plain = io.BytesIO(_unzipped(content))
    try:
        array = np.load(plain)
        return torch.from_numpy(array if array.dtype.kind == "f" else None)
    except Exception:  # its message may advise to load pickles
        raise ValueError("an image is not an array of numbers") from None
