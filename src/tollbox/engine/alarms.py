"""Alarms: the detector sees the charged rows of an ask, and its alarms are settled in order.

1. Once all rows before a row are known, with their alarms, it is certain whether that row is
   charged. So the detector sees a prefix that grows as rows come back: each time, the next rows
   that are charged whatever it answers (`due`). With `max_alarms` this may be one row at a time.
2. The points are made again for the detector, as they were sent; a row is the same in any slice.
3. Alarms are recorded with the labels of their batch, before the attack sees any of them. On
   replay the recorded alarms count; the detector sees the rows again to restore its memory, and
   rows that it judges differently are counted.
4. If a detector fails, the cell stops: rows without its answer are not charged. Which rows these
   are may depend on how rows arrived, since the error does not identify the row at fault.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ..core.detector import Detector, RecordedAlarms, Session
from ..core.device import unreadable
from ..core.model import Model
from ..core.stop import Stop
from ..errors import described
from .journal import ALARMS, Answered, History
from .pending import NO_ALARMS, Alarms, Failure, Pending
from .settling import Account

if TYPE_CHECKING:
    from .cell_run import CellRun

DIGITS = 15
"""Number of hex digits of an image's hash that form its number; torch takes 64-bit seeds."""


class ImageDetector:
    """The detector of one image and its alarms in the pending ask."""

    def __init__(self, detector: Detector, model: Model, account: Account) -> None:
        self._detector, self._model, self._account = detector, model, account
        self._problem = account.problem
        self._session: Session | None = None
        self._ask = -1
        self.alarms = NO_ALARMS
        """Alarms of the rows that are certain to be charged, in order."""
        self.failure: Failure | None = None
        """Reason why the next row has no answer, if the detector failed on it."""
        self.differences = 0
        """Number of rows that the detector judged differently on replay."""

    def begin_ask(self, ask: int) -> None:
        self._ask, self.alarms = ask, NO_ALARMS

    def due(self, pending: Pending) -> int:
        """Return how many more rows of an ask are charged, whatever the detector answers."""
        account, known = self._account, len(self.alarms)
        if self.failure is not None or not account.charging:
            return 0
        counts, _, _ = pending.settled()
        if sum(counts) == known:
            return 0
        states = list(zip(pending.runs, counts, strict=False))
        labels = np.concatenate([state.labels[:count] for state, count in states])
        distances = np.concatenate([state.distances[:count] for state, count in states])
        worst = np.append(self.alarms, np.ones(len(labels) - known, np.bool_))
        rows = account.ledger.affordable(labels, account.limits, worst)
        finite = np.append(~np.isnan(distances), False).argmin()
        return max(0, min(rows, int(finite)) - known)

    def show(self, pending: Pending, rows: int) -> Tensor | None:
        """Show the detector the next rows, and return a bool for each; None if it failed or if
        alarms are known only from a record."""
        if isinstance(self._detector, RecordedAlarms):
            return None
        try:
            if self._session is None:
                self._session = self._detector.begin(int(self._problem.content[:DIGITS], 16))
            return as_alarms(self._session(self._points(pending, rows)), rows)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # the user's own code
            reason = f"the detector failed: {described(error)}"
            self.failure = Failure(Stop.DETECTOR_ERROR, reason)
            return None

    def take(self, answers: Alarms | None, rows: int, history: History | None) -> Alarms:
        """Append the alarms of the next rows, recorded ones first; return those that are new."""
        first = len(self.alarms)
        before = NO_ALARMS if history is None else history.alarms(self._ask, first, first + rows)
        if answers is None:
            answers = before
            if len(before) < rows:
                too_few = Failure(Stop.DETECTOR_ERROR, "the record has too few alarms")
                self.failure = self.failure or too_few
                return NO_ALARMS
        self.differences += int((before != answers[: len(before)]).sum())
        fresh = answers[len(before) :]
        self.alarms = np.concatenate([self.alarms, before, fresh])
        return fresh

    def _points(self, pending: Pending, rows: int) -> Tensor:
        """Return the points of the next rows as they were sent; they may belong to several runs."""
        first, parts = len(self.alarms), list[Tensor]()
        last = first + rows
        for state in pending.runs:
            if first < state.known and last > 0:
                parts.append(state.run.points[max(0, first) : min(last, state.known)])
            first, last = first - state.known, last - state.known
        points = torch.cat(parts) if len(parts) > 1 else parts[0].clone()
        points = points.to(self._problem.source.dtype)
        return self._model.sent(self._problem.within_mask(points))


def detect(cell_runs: Iterable[CellRun]) -> list[Answered]:
    """Show detectors the rows that are certain to be charged, until there are no more; return the
    new alarms as journal records."""
    records: list[Answered] = []
    waiting = list(cell_runs)
    while waiting:
        shown: list[tuple[CellRun, ImageDetector, int, Tensor | None]] = []
        for run in waiting:
            pending, detector = run.pending, run.detector
            if pending is not None and detector is not None and (rows := detector.due(pending)):
                shown.append((run, detector, rows, detector.show(pending, rows)))
        every_answer = _read([answers for *_, answers in shown])
        for (run, detector, rows, _), answers in zip(shown, every_answer, strict=True):
            fresh = detector.take(answers, rows, run.history)
            if len(fresh):
                first = len(detector.alarms) - len(fresh)
                labels = fresh.astype(np.int64)
                records.append(Answered(run.index, run.ask_number, ALARMS, first, labels, 0.0))
        waiting = [run for run, *_ in shown]
    return records


def as_alarms(answers: Any, rows: int) -> Tensor:
    """Return a session's answers as a tensor of `rows` bools; raise TypeError if they are not."""
    try:
        tensor = torch.as_tensor(answers)
        if what := unreadable(tensor):
            given = f"a tensor {what}"
        elif tensor.dtype == torch.bool and tensor.shape == (rows,):
            return tensor
        else:
            given = f"{str(tensor.dtype).removeprefix('torch.')} of shape {tuple(tensor.shape)}"
    except (TypeError, ValueError, RuntimeError):
        given = type(answers).__name__
    raise TypeError(f"it gave {given} for {rows} row{'s' * (rows > 1)}: expected a bool for each")


def _read(answers: Sequence[Tensor | None]) -> list[Alarms | None]:
    """Copy the answers to the host in one transfer, and return them as arrays."""
    given = [each for each in answers if each is not None]
    if not given:
        return [None] * len(answers)
    far = next((each.device for each in given if each.device.type != "cpu"), given[0].device)
    values = torch.cat([each.to(far) for each in given]).cpu()
    parts = iter(values.split([len(each) for each in given]))
    return [None if each is None else next(parts).numpy() for each in answers]
