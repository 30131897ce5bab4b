"""What a store holds, as bytes: the labels of a batch, and how the run of a cell went.

1. A batch is its pieces (cell, ask, run, first row, number of rows), the distance of the last row
   of each, and all labels, in this order; compressed. No price is in it.
2. A trace is the counts of a run by phase and label, its improvements and its steps. Costs follow
   from the counts, so that a run can be priced again.
3. An improvement has five values (`Improvement`), and its alarms, if there were any. One of four is
   of version 0.1.0, and holds the account before its query: the query is added when it is read.
"""

from __future__ import annotations

import json
import math
import struct
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...core.detector import FirstAlarm
from ...core.goal import Goal
from ...core.ledger import Ledger
from ...core.metric import Metric
from ...core.result import Improvement, Result, Step
from ...core.stop import Stop
from ...engine.journal import Answered
from .connection import reading

if TYPE_CHECKING:
    from torch import Tensor

    from ...core.prices import Prices
    from ..specs import DetectorSpec, Tariff

COMPRESSION = 1
"""zlib's level: fast."""
IMPROVEMENTS = '"improvements": ['
"""Only that key has a list among those before the steps, whatever phases are called."""
VALUES = 5
"""Of an improvement, without alarms."""
_DECODER = json.JSONDecoder()


class End(NamedTuple):
    """How a finished cell ended."""

    cell: int
    seed: int
    stop: Stop
    reason: str
    warnings: tuple[str, ...]
    distance: float
    cost: float
    queries: int
    source: int
    alarms: int = 0
    first_alarm: FirstAlarm | None = None

    @property
    def fault(self) -> str | None:
        """A value that no run can have, in words; None if there is none."""
        if not self.distance >= 0:
            return f"has distance {self.distance}"
        if not 0 <= self.cost < math.inf:
            return f"has cost {self.cost}"
        if self.queries != int(self.queries) or self.queries < 0:
            return f"has {self.queries} queries"
        if self.source != int(self.source) or not 0 <= self.source <= self.queries:
            return f"has {self.source} flagged of {self.queries} queries"
        if self.alarms != int(self.alarms) or not 0 <= self.alarms <= self.queries:
            return f"has {self.alarms} alarms in {self.queries} queries"
        if not all(isinstance(text, str) for text in (self.reason, *self.warnings)):
            return "has a reason or a warning that is not text"
        return None


def pack_answers(answers: Sequence[Answered]) -> bytes:
    """The labels of a batch as bytes."""
    head = np.array([(a.cell, a.ask, a.run, a.first, len(a.labels)) for a in answers], "<i8")
    distances = np.array([a.distance for a in answers], "<f8")
    labels = np.concatenate([a.labels for a in answers]).astype("<i8")
    content = head.tobytes() + distances.tobytes() + labels.tobytes()
    return zlib.compress(struct.pack("<q", len(answers)) + content, COMPRESSION)


def unpack_answers(content: bytes, cells: NDArray[np.int64] | None = None) -> Iterator[Answered]:
    """The pieces of a batch; of these cells only, if any are named."""
    plain = zlib.decompress(content)
    (count,) = struct.unpack_from("<q", plain)
    head = np.frombuffer(plain, "<i8", 5 * count, 8).reshape(count, 5)
    distances = np.frombuffer(plain, "<f8", count, 8 + 40 * count)
    labels = np.frombuffer(plain, "<i8", -1, 8 + 48 * count).astype(np.int64)
    ends = np.cumsum(head[:, 4])
    chosen = range(count) if cells is None else np.nonzero(np.isin(head[:, 0], cells))[0]
    for piece in chosen:
        cell, ask, run, first, rows = head[piece].tolist()
        end = int(ends[piece])
        yield Answered(cell, ask, run, first, labels[end - rows : end], float(distances[piece]))


def pack_trace(result: Result) -> bytes:
    """The trace of a run as bytes."""
    counts = {
        phase: {str(label): n for label, n in tally.items()}
        for phase, tally in result.ledger.counts.items()
    }
    steps = [
        [s.iteration, s.cost, s.source, s.other, s.distance, s.by_phase, s.notes]
        for s in result.trace
    ]
    improvements = [row if row.alarms else row[:-1] for row in result.improvements]
    trace: dict[str, Any] = {"counts": counts, "improvements": improvements, "steps": steps}
    if result.detection is not None:
        trace["alarms"] = result.ledger.alarms_in
    return zlib.compress(json.dumps(trace, default=_plain).encode(), COMPRESSION)


def _plain(value: Any) -> Any:
    """A note that JSON does not know: a number of numpy or torch, or else its text."""
    return value.item() if hasattr(value, "item") else str(value)


class Trace:
    """How a run went, from the bytes of `pack_trace`; each part is decoded, and checked, when it is
    used. `file` is where they are from."""

    def __init__(self, content: bytes, file: Path) -> None:
        self._text, self._file = zlib.decompress(content).decode(), file

    def improvements(self, prices: Prices, goal: Goal) -> tuple[Improvement, ...]:
        """Its improvements, of a run with that goal under these prices; the steps, which
        are most of a trace, are not decoded for them."""
        with reading(self._file):
            first = self._text.index(IMPROVEMENTS) + len(IMPROVEMENTS) - 1
            rows = _DECODER.raw_decode(self._text, first)[0]
            if any(not value >= 0 for row in rows for value in row):
                raise ValueError("an improvement has a value below 0")
            if all(len(row) >= VALUES for row in rows):
                return tuple(Improvement(*row) for row in rows)
            ledger = Ledger(prices, goal, self.counts)
            return tuple(_query_included(row, ledger) for row in rows)

    @cached_property
    def _values(self) -> dict[str, Any]:
        values: dict[str, Any] = json.loads(self._text)
        return values

    @cached_property
    def steps(self) -> list[Step]:
        """Its steps."""
        with reading(self._file):
            return [Step(*row) for row in self._values["steps"]]

    @cached_property
    def counts(self) -> dict[str, Counter[int]]:
        """Answers by phase and label."""
        with reading(self._file):
            counts = {
                phase: Counter({int(label): n for label, n in tally.items()})
                for phase, tally in self._values["counts"].items()
            }
            if any(n != int(n) or n < 0 for tally in counts.values() for n in tally.values()):
                raise ValueError("a count is below 0")
            return counts

    def ledger(self, prices: Prices, goal: Goal, detector: DetectorSpec | None) -> Ledger:
        """Its account, under these prices."""
        if detector is None:
            return Ledger(prices, goal, self.counts)
        return Ledger(prices, goal, self.counts, detector.terms, self.alarms)

    @cached_property
    def alarms(self) -> Counter[str]:
        """Alarms by phase."""
        with reading(self._file):
            alarms = Counter[str](self._values.get("alarms", {}))
            if any(n != int(n) or n < 0 for n in alarms.values()):
                raise ValueError("a count of alarms is below 0")
            return alarms


def _query_included(row: Sequence[Any], ledger: Ledger) -> Improvement:
    """An improvement of version 0.1.0, with its query, whose answer was not flagged, included."""
    cost, source, queries, distance = row
    if not ledger.queries:  # a clean image that was free
        return Improvement(cost, source, queries, distance, cost)
    prices, goal = ledger.prices, ledger.goal
    if prices.classes is None:
        label = goal.representative  # version 0.1.0 had no sets
        counts = Counter({label: source, label + 1: queries + 1 - source})
        spent = Ledger(prices, goal, {"": counts}).cost
    else:  # which class it was is not recorded: the dearest of those that were answered
        answered = {label for tally in ledger.counts.values() for label in tally}
        spent = cost + max(prices.of(each, goal) for each in answered if not goal.flags(each))
    return Improvement(spent, source, queries + 1, distance, cost)


def build_result(
    end: End,
    trace: Trace,
    image: Tensor | None,
    *,
    name: str,
    label: int,
    goal: Goal,
    tariff: Tariff,
    norm: Metric = Metric.L2,
    detector: DetectorSpec | None = None,
) -> Result:
    """The result of a cell."""
    prices = tariff.prices.for_source(label, goal)
    return Result(
        index=end.cell,
        name=name,
        stop=end.stop,
        reason=end.reason,
        ledger=trace.ledger(prices, goal, detector),
        adversarial=image,
        improvements=trace.improvements(prices, goal),
        trace=tuple(trace.steps),
        limits=tariff.limits,
        seed=end.seed,
        warnings=end.warnings,
        norm=norm,
        first_alarm=end.first_alarm,
    )


def pack_image(image: Tensor | None) -> bytes | None:
    """An image as bytes, to the last bit."""
    if image is None:
        return None
    array = np.ascontiguousarray(image.numpy())
    head = json.dumps([str(array.dtype), array.shape]).encode()
    return zlib.compress(struct.pack("<q", len(head)) + head + array.tobytes(), COMPRESSION)


def unpack_image(content: bytes | None) -> Tensor | None:
    """The image of `pack_image`."""
    if content is None:
        return None
    import torch

    plain = zlib.decompress(content)
    (size,) = struct.unpack_from("<q", plain)
    dtype, shape = json.loads(plain[8 : 8 + size])
    array: NDArray[Any] = np.frombuffer(plain, dtype, offset=8 + size).reshape(shape)
    return torch.from_numpy(array.copy())
