"""Watching: a detector is shown what is charged of an ask, and its alarms are settled in order.

1. Rows of an ask are charged in order; once all before a row are known, their alarms included, it
   is certain whether that is charged. So the detector is shown a prefix that grows as rows come
   back: as many at a time as are charged whatever it says of those among them (`due`). Under
   `max_alarms` these may be one row at a time.
2. Points are made again for it as they were sent; rows come out the same in any slice (ask.py).
3. What several images' detectors say is read from the device in one transfer (`watch`).
4. Alarms are recorded with the labels of their batch, before the attack hears any of these. On
   replay what was recorded stands, and the detector is shown the rows to have its memory again;
   what it says differently then is counted.
5. A detector that fails ends its image: rows of which it said nothing are not charged. Which those
   are may depend on how rows came, as nobody but it knows which row was at fault.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..core.cell import Cell
from ..core.detector import RecordedAlarms, Session
from ..core.model import Model
from ..core.problem import Problem
from ..core.stop import Stop
from .journal import ALARMS, Answered, History
from .pending import Failure, Pending
from .settling import Account

if TYPE_CHECKING:
    from .cell_run import CellRun

Alarms = NDArray[np.bool_]
DIGITS = 15
"""Of the hash of an image, in its number: torch takes seeds of 64 bits."""
NO_ALARMS: Alarms = np.zeros(0, np.bool_)


class Watching:
    """One image's detector, and its alarms in the ask on its way."""

    def __init__(self, cell: Cell, problem: Problem, model: Model, account: Account) -> None:
        self._detector, self._problem, self._model = cell.watch, problem, model
        self._account = account
        self._session: Session | None = None
        self._ask = -1
        self.alarms = NO_ALARMS
        """Of the rows that are certain to be charged, in order."""
        self.failure: Failure | None = None
        """Why it said nothing of the row after these, if it was shown that."""
        self.differences = 0
        """Rows of which it said something else when it was shown them again."""

    def begin_ask(self, ask: int) -> None:
        """An ask of that number goes out."""
        self._ask, self.alarms = ask, NO_ALARMS

    def due(self, pending: Pending) -> int:
        """How many more rows of an ask are charged, whatever the detector says of them."""
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
        """What the detector says of the next rows, a bool each; None if it failed, or if that is
        known from a record and it need not be asked."""
        if isinstance(self._detector, RecordedAlarms) or self._detector is None:
            return None
        try:
            if self._session is None:
                self._session = self._detector.begin(int(self._problem.content[:DIGITS], 16))
            points = self._points(pending, rows)
            return as_alarms(self._session(points), rows)
        except (Exception, SystemExit) as error:  # the user's own code
            reason = f"the detector failed: {type(error).__name__}: {error}"
            self.failure = Failure(Stop.DETECTOR_ERROR, reason)
            return None

    def take(self, said: Alarms | None, rows: int, history: History | None) -> Alarms:
        """What it said of the next rows, or what was recorded of them; returns what is new."""
        first = len(self.alarms)
        before = NO_ALARMS if history is None else history.alarms(self._ask, first, first + rows)
        if said is None and len(before) < rows:
            if self.failure is None:
                self.failure = Failure(
                    Stop.DETECTOR_ERROR, "the recorded alarms do not reach so far"
                )
            return NO_ALARMS
        if said is None:
            said = before
        self.differences += int((before != said[: len(before)]).sum())
        fresh = said[len(before) :]
        self.alarms = np.concatenate([self.alarms, before, fresh])
        return fresh

    def _points(self, pending: Pending, rows: int) -> Tensor:
        """The next rows as they were sent, of all runs that they are of."""
        first, parts = len(self.alarms), list[Tensor]()
        last = first + rows
        for state in pending.runs:
            if last <= 0:
                break
            size = state.known
            if first < size:
                parts.append(state.run.points[max(0, first) : min(last, size)])
            first, last = first - size, last - size
        points = torch.cat(parts) if len(parts) > 1 else parts[0].clone()
        points = points.to(self._problem.source.dtype)
        return self._model.sent(self._problem.within_mask(points))


class Shown(NamedTuple):
    """Rows of an image that its detector was shown, and what it said."""

    cell_run: CellRun
    watching: Watching
    rows: int
    said: Tensor | None


def watch(cell_runs: Iterable[CellRun]) -> list[Answered]:
    """Show detectors what is certain to be charged of the asks on their way, until no more is; the
    alarms that are new, as they go into the journal."""
    records: list[Answered] = []
    waiting = [run for run in cell_runs if run.watching is not None]
    while shown := [each for run in waiting if (each := _shown(run)) is not None]:
        for each, said in zip(shown, _read([each.said for each in shown]), strict=True):
            run, watching = each.cell_run, each.watching
            fresh = watching.take(said, each.rows, run.history)
            if len(fresh):
                first = len(watching.alarms) - len(fresh)
                labels = fresh.astype(np.int64)
                records.append(Answered(run.index, run.ask_number, ALARMS, first, labels, 0.0))
        waiting = [each.cell_run for each in shown]
    return records


def _shown(run: CellRun) -> Shown | None:
    pending, watching = run.pending, run.watching
    if pending is None or watching is None or run.ended is not None:
        return None
    rows = watching.due(pending)
    return Shown(run, watching, rows, watching.show(pending, rows)) if rows else None


def as_alarms(said: Any, rows: int) -> Tensor:
    """What a session said of so many rows, a bool for each; TypeError if it is not that."""
    try:
        answer = torch.as_tensor(said)
    except (TypeError, ValueError, RuntimeError):
        given = type(said).__name__
    else:
        if answer.dtype == torch.bool and answer.shape == (rows,):
            return answer
        given = f"{str(answer.dtype).removeprefix('torch.')} of shape {tuple(answer.shape)}"
    raise TypeError(f"it gave {given} for {rows} row{'s' * (rows > 1)}: expected a bool for each")


def _read(said: Sequence[Tensor | None]) -> list[Alarms | None]:
    """Tensors on the host, with one transfer from the device."""
    given = [each for each in said if each is not None]
    far = next((each.device for each in given if each.device.type != "cpu"), None)
    if far is not None:
        given = [each.to(far) for each in given]
    values = torch.cat(given).cpu().numpy() if given else NO_ALARMS
    parts, first = list[Alarms | None](), 0
    for each in said:
        rows = 0 if each is None else len(each)
        parts.append(None if each is None else values[first : first + rows])
        first += rows
    return parts
