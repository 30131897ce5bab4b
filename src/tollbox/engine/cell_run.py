"""A live cell: its attack, its pending ask, its account, and its best point so far.

1. Only `yield`: the attack receives answers and learns nothing else. An ask is settled when all
   its answers are back (settling.py). If the budget runs out inside it, the charged prefix counts,
   and the attack is not resumed.
2. The clean image is sent first. If it is misclassified, the cell stops.
3. `ended` is set once, with the reason; nothing is charged or kept after that.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from torch import Tensor

from ..core.ask import Answers, Ask, Asking
from ..core.cell import Cell
from ..core.device import to_device
from ..core.ledger import Ledger
from ..core.model import Model
from ..core.noise import content_hash
from ..core.problem import Attack, BoundedAttack, Problem
from ..core.resolution import Resolution
from ..core.result import Result, Step
from ..core.stop import Stop
from ..errors import described
from .alarms import ImageDetector
from .journal import History
from .pending import NO_ALARMS, Pending
from .settling import Account, settle, settle_few

CLEAN = "clean"
"""Name of the phase in which the clean image is sent."""
DEFAULT_ROWS = 256
"""Number of points that an attack is assumed to hold if it declares none (`BoundedAttack`)."""


class CellRun:
    def __init__(
        self,
        index: int,
        cell: Cell,
        slot: int,
        model: Model,
        metered: bool,
        history: History | None,
        check: Callable[[Problem, Attack], Resolution],
    ) -> None:
        """`history` is the cell's earlier recording, if there is one. `check` finds out whether the
        model resolves what the attack samples."""
        self.index, self.cell, self.slot, self.history = index, cell, slot, history
        self._model, self._metered, self._check = model, metered, check
        self._resolution = Resolution()
        self.problem = Problem(
            to_device(cell.image, model.device, model.dtype),
            cell.label,
            cell.prices,
            cell.target,
            cell.seed,
            content_hash(cell.image),
            None if cell.start is None else to_device(cell.start, model.device, model.dtype),
            cell.norm,
            cell.goal,
            cell.mask,
            model.classes,
        )
        self.ledger = Ledger.of(cell.prices, self.problem.goal, cell.detection)
        self.account = Account(self.problem, self.ledger, cell.limits, charging=cell.charge_clean)
        self.detector: ImageDetector | None = None
        if cell.detection is not None:
            self.detector = ImageDetector(cell.detection.detector, model, self.account)
        self.pending: Pending | None = None
        self.ended: tuple[Stop, str] | None = None
        rows = cell.fitted.rows if isinstance(cell.fitted, BoundedAttack) else DEFAULT_ROWS
        self.held_bytes = int(rows + 4) * cell.image.numel() * max(4, cell.image.element_size())
        """Maximum size in bytes of the points that the cell holds."""
        self.spent = 0.0
        """Share of the budget spent so far."""
        self.iterate_distances: list[tuple[Tensor, dict[str, Any]]] = []
        """Distances of iterates, on the device, and the steps that wait for them."""
        self.ask_number = -1
        self._reported_queries = 0
        self._asking: Asking[Stop] | None = None
        self._steps: list[dict[str, Any]] = []

    @property
    def best(self) -> Tensor | None:
        """The adversarial point with the smallest distance so far, as it was sent."""
        best = self.account.best_point()
        if best is None:
            return None
        return self._model.sent(self.problem.within_mask(best.clone()))[0].to(best.dtype)

    @property
    def wanted_rows(self) -> int:
        """Number of rows of the pending ask that should be sent now."""
        return 0 if self.pending is None else self.pending.wanted_rows

    def start(self) -> None:
        self._issue(Ask(self.problem.source[None], phase=CLEAN))

    def advance(self) -> bool:
        """Settle the ask if it is complete and resume the attack; return whether it wants rows."""
        while self.pending is not None:
            if self.pending.limited:
                self._limit(self.pending)
            failed = self.detector is not None and self.detector.failure is not None
            if not self.pending.done and not failed:
                return self.pending.wanted_rows > 0
            self._settle()
        return False

    def recallable(self) -> list[tuple[int, int]]:
        """Return (run number, rows) for each run whose next rows the history answers."""
        pending, history = self.pending, self.history
        if pending is None or history is None:
            return []
        runs = []
        for number, state in enumerate(pending.runs):
            left = history.known(self.ask_number, number) - state.sent
            rows = min(left, max(pending.wanted(number), pending.spare(number)))
            runs += [(number, rows)] if rows > 0 else []
        return runs

    def divergence(self) -> str | None:
        pending, history, number = self.pending, self.history, self.ask_number
        if pending is None or history is None:
            return None
        longer = history.longer_than(number, [state.size for state in pending.runs])
        what = f"ask {number} ({pending.ask.phase}) had more points when it was recorded"
        return what if longer else None

    def abandon(self, reason: str) -> None:
        """Stop the cell without settling the pending ask, which does not match the recording."""
        self._end(Stop.INTERRUPTED, reason)

    def newly_charged(self) -> int:
        """Return the number of queries charged since the last call."""
        before, self._reported_queries = self._reported_queries, self.ledger.queries
        return self._reported_queries - before

    def end(self, reason: Stop) -> None:
        """Stop the cell now; answers already received still count."""
        if self.pending is not None:
            self._settle(reason)
        if self.ended is None:
            self._end(reason)

    def result(self, image: Tensor | None, warnings: tuple[str, ...]) -> Result:
        """Return the result of a finished cell; `image` is a copy of `best` on the host."""
        if self.ended is None:
            raise RuntimeError("the cell has not ended")
        stop, reason = self.ended
        warnings += self._resolution.warnings
        sources = (("model answered", self.history), ("detector judged", self.detector))
        for what, source in sources:
            if source is not None and source.differences:
                points = source.differences
                warnings += (f"the {what} {points} points differently the second time",)
        return Result.of(
            self.cell,
            self.index,
            stop,
            self.ledger,
            reason=reason,
            adversarial=None if image is None else image.clone(),
            improvements=tuple(self.account.improvements),
            trace=tuple(Step(**step) for step in self._steps),
            warnings=warnings,
            resolution=self._resolution,
            first_alarm=self.account.first_alarm,
        )

    def _issue(self, ask: Ask) -> None:
        """Make an ask pending, or stop the cell if not even the first row is affordable."""
        if (limit := self.account.end) is not None:
            self._end(limit)
            return
        self.ask_number += 1
        self.pending = Pending(ask, self.problem, self.ledger)
        if self.detector is not None:
            self.detector.begin_ask(self.ask_number)
        self._limit(self.pending)

    def _limit(self, pending: Pending) -> None:
        alarms = NO_ALARMS if self.detector is None else self.detector.alarms
        pending.limit(self.account.limits, self._metered, alarms)

    def _end(self, stop: Stop, reason: str = "") -> None:
        asking, self._asking, self.pending = self._asking, None, None
        self.ended = (stop, reason)
        if asking is not None:
            try:
                asking.close()
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # the cell stops in any case
                closing = f"(and, when it was closed, {described(error)})"
                self.ended = (stop, f"{reason} {closing}".lstrip())

    def _settle(self, forced: Stop | None = None) -> None:
        """Settle the pending ask; then resume the attack, or stop the cell if `forced` says why."""
        if self.pending is None:
            return
        pending, self.pending = self.pending, None
        account, answers, failure = self.account, None, None
        if forced is None and self._asking is not None and self.detector is None:
            answers = settle_few(pending, account)
        if answers is None:
            answers, failure = settle(pending, account, self.detector)
        self.spent = account.ledger.cost / self.cell.limits.budget
        if failure is not None and account.end is None:
            self._end(failure.stop, failure.reason)
        elif answers is None:
            self._end(forced or account.end or Stop.BUDGET)
        elif forced is not None:
            self._end(forced)
        elif self._asking is None:
            self._start_attack(int(answers.labels[0]))
        else:
            self._resume(answers)

    def _start_attack(self, label: int) -> None:
        if not self.problem.goal.flags(label):
            self._end(Stop.ALREADY_MISCLASSIFIED, f"the model answers {self._model.shown(label)}")
            return
        try:
            self._resolution = self._check(self.problem, self.cell.fitted)
            asking = self.cell.fitted(self.problem)
            if not isinstance(asking, Generator):
                raise TypeError(f"calling it gave {type(asking).__name__}, expected a generator")
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # an attack may raise anything
            self._end(Stop.ATTACK_ERROR, described(error))
            return
        self._asking, self.account.charging = asking, True
        self._resume(None)

    def _resume(self, answers: Answers | None) -> None:
        """Resume the attack; an error in the attack stops this cell and no other."""
        if self._asking is None:
            return
        try:
            try:
                ask = self._asking.send(answers)  # type: ignore[arg-type]
            except StopIteration as end:
                self._collect()
                if not isinstance(end.value, Stop):
                    raise TypeError(f"returned {end.value!r}, expected a Stop") from None
                self._end(end.value)
                return
            self._collect()
            if not isinstance(ask, Ask):
                raise TypeError(f"yielded {type(ask).__name__}, expected an Ask")
            self._issue(ask)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # an attack may raise anything
            self._end(Stop.ATTACK_ERROR, described(error))

    def _collect(self) -> None:
        """Record the iterates that the attack accepted; distances that are not known yet arrive
        with a later batch."""
        accepted, self.problem.accepted = self.problem.accepted, []
        for point, known, notes in accepted:
            if not isinstance(point, Tensor) or point.shape != self.problem.source.shape:
                raise ValueError(f"accepted {type(point).__name__}, expected an image's point")
            step: dict[str, Any] = {
                "iteration": len(self._steps) + 1,
                "cost": self.ledger.cost,
                "source": self.ledger.flagged,
                "other": self.ledger.other,
                "distance": known,
                "by_phase": self.ledger.by_phase,
                "notes": notes,
            }
            self._steps.append(step)
            if known is None:
                inside = self.problem.within_mask(point[None].clone())
                sent = self._model.sent(inside).to(self._model.dtype)
                distance = self.problem.norm.norms(sent - self.problem.source)[0]
                self.iterate_distances.append((distance, step))
