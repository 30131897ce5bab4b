"""The binary content of a store: the labels of a batch, the trace of a run, an image.

1. A batch holds its spans (cell, ask, run, first row, number of rows), the distance of the last row
   of each span, and all labels, in this order; compressed. It holds no prices.
2. A trace holds the counts of a run by phase and label, its improvements and its steps. Costs
   follow from the counts, so a run can be priced again.
3. An improvement has five values (`Improvement`), followed by its alarms if there were any.
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
"""Start of the improvements in the text of a trace. No other key before the steps has a list,
whatever the phases are called."""


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
    flagged: int
    alarms: int = 0
    first_alarm: FirstAlarm | None = None

    @property
    def fault(self) -> str | None:
        """A value that no run can have, in words; None if all are possible."""
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
        if not all(isinstance(text, str) for text in (self.reason, *self.warnings)):
            return "has a reason or a warning that is not text"
        return None


def _is_count(value: float, most: float = math.inf) -> bool:
    return value == int(value) and 0 <= value <= most


def pack_answers(answers: Sequence[Answered]) -> bytes:
    """Return the labels of a batch as bytes."""
    head = np.array([(a.cell, a.ask, a.run, a.first, len(a.labels)) for a in answers], "<i8")
    distances = np.array([a.distance for a in answers], "<f8")
    labels = np.concatenate([a.labels for a in answers]).astype("<i8")
    content = head.tobytes() + distances.tobytes() + labels.tobytes()
    return zlib.compress(struct.pack("<q", len(answers)) + content, COMPRESSION)


def unpack_answers(content: bytes, cells: NDArray[np.int64] | None = None) -> Iterator[Answered]:
    """Yield the spans of a batch; with `cells`, only those of these cells."""
    plain = zlib.decompress(content)
    (count,) = struct.unpack_from("<q", plain)
    head = np.frombuffer(plain, "<i8", 5 * count, 8).reshape(count, 5)
    distances = np.frombuffer(plain, "<f8", count, 8 + 40 * count)
    labels = np.frombuffer(plain, "<i8", -1, 8 + 48 * count).astype(np.int64)
    ends = np.cumsum(head[:, 4])
    chosen = range(count) if cells is None else np.nonzero(np.isin(head[:, 0], cells))[0]
    for span in chosen:
        cell, ask, run, first, rows = head[span].tolist()
        end = int(ends[span])
        yield Answered(cell, ask, run, first, labels[end - rows : end], float(distances[span]))


def pack_trace(result: Result) -> bytes:
    """Return the trace of a run as bytes."""
    trace: dict[str, Any] = {
        "counts": {
            phase: {str(label): n for label, n in tally.items()}
            for phase, tally in result.ledger.counts.items()
        },
        "improvements": [row if row.alarms else row[:-1] for row in result.improvements],
        "steps": [[*vars(step).values()] for step in result.trace],
    }
    if result.detection is not None:
        trace["alarms"] = result.ledger.alarms_in
    return zlib.compress(json.dumps(trace, default=_plain).encode(), COMPRESSION)


def _plain(value: Any) -> Any:
    """Return a note that JSON does not know as a number, if it has one, or as text."""
    return value.item() if hasattr(value, "item") else str(value)


class Trace:
    """The trace of a run, from the bytes of `pack_trace`.

    Each part is decoded and checked on first use; `file` is named if that fails.
    """

    def __init__(self, content: bytes, file: Path) -> None:
        self._text, self._file = zlib.decompress(content).decode(), file

    @cached_property
    def improvements(self) -> tuple[Improvement, ...]:
        """The improvements, decoded without the steps, which are most of a trace."""
        with reading(self._file):
            first = self._text.index(IMPROVEMENTS) + len(IMPROVEMENTS) - 1
            rows = json.JSONDecoder().raw_decode(self._text, first)[0]
            if any(not value >= 0 for row in rows for value in row):
                raise ValueError("an improvement has a value below 0")
            return tuple(Improvement(*row) for row in rows)

    @cached_property
    def _values(self) -> dict[str, Any]:
        values: dict[str, Any] = json.loads(self._text)
        return values

    @cached_property
    def steps(self) -> list[Step]:
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
            if not all(_is_count(n) for tally in counts.values() for n in tally.values()):
                raise ValueError("a count is below 0")
            return counts

    @cached_property
    def alarms(self) -> Counter[str]:
        """Alarms by phase."""
        with reading(self._file):
            alarms = Counter[str](self._values.get("alarms", {}))
            if not all(map(_is_count, alarms.values())):
                raise ValueError("a count of alarms is below 0")
            return alarms

    def ledger(self, prices: Prices, goal: Goal, detector: DetectorSpec | None) -> Ledger:
        """Return the account of the run under these prices."""
        if detector is None:
            return Ledger(prices, goal, self.counts)
        return Ledger(prices, goal, self.counts, detector.terms, self.alarms)


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
    """Return the result of a cell, whose image is called `name` and has this label."""
    prices = tariff.prices.for_source(label, goal)
    return Result(
        index=end.cell,
        name=name,
        stop=end.stop,
        reason=end.reason,
        ledger=trace.ledger(prices, goal, detector),
        adversarial=image,
        improvements=trace.improvements,
        trace=tuple(trace.steps),
        limits=tariff.limits,
        seed=end.seed,
        warnings=end.warnings,
        norm=norm,
        first_alarm=end.first_alarm,
    )


def pack_image(image: Tensor | None) -> bytes | None:
    """Return an image as bytes, without loss."""
    if image is None:
        return None
    array = np.ascontiguousarray(image.numpy())
    head = json.dumps([str(array.dtype), array.shape]).encode()
    return zlib.compress(struct.pack("<q", len(head)) + head + array.tobytes(), COMPRESSION)


def unpack_image(content: bytes | None) -> Tensor | None:
    """Return the image of `pack_image`."""
    if content is None:
        return None
    import torch

    plain = zlib.decompress(content)
    (size,) = struct.unpack_from("<q", plain)
    dtype, shape = json.loads(plain[8 : 8 + size])
    array: NDArray[Any] = np.frombuffer(plain, dtype, offset=8 + size).reshape(shape)
    return torch.from_numpy(array.copy())
