"""A cell under way: its attack, its ask on the way, its account, and the best point so far.

1. Only `yield`: the attack is resumed with answers, and learns nothing else. When the budget ends
   inside an ask, the charged prefix counts, and the attack is not resumed.
2. An ask is settled when all of it is back: rows are charged in order, by label, once, up to the
   budget; the nearest adversarial row is kept, whoever asked for it, as it was sent.
3. The clean image is asked first. If it is misclassified, that ends the cell.
4. `ended` is set once, with the reason; nothing is charged or kept after that.
"""

from __future__ import annotations

import math
import os
import traceback
from collections.abc import Generator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ..core.ask import Answers, Ask, Asking, Rows, joined
from ..core.cell import Cell
from ..core.ledger import Ledger
from ..core.model import Model
from ..core.noise import content_hash
from ..core.problem import Problem
from ..core.result import Improvement, Result, Step
from ..core.stop import Stop
from .journal import History
from .pending import Failure, Pending
from .sender import row_norms

CLEAN = "clean"
FEW = 8
"""Rows of a run that are settled one by one; more are settled at once."""


class CellRun:
    """One cell under way."""

    def __init__(self, index: int, cell: Cell, slot: int, model: Model, metered: bool) -> None:
        self.index, self.cell, self.slot = index, cell, slot
        self._model, self._metered = model, metered
        source = cell.image.to(model.device, model.work_dtype, non_blocking=True)
        content = content_hash(cell.image)
        given = None if cell.start is None else cell.start.to(source, non_blocking=True)
        self.problem = Problem(
            source, cell.label, cell.prices, cell.target, cell.seed, content, given
        )
        self.ledger = Ledger(cell.prices, cell.label)
        self.pending: Pending | None = None
        self.ended: tuple[Stop, str] | None = None
        self._best: Tensor | None = None
        self.held = 0
        """Bytes of points that it may hold, as the engine counts them."""
        self.spent = 0.0
        """Share of the budget that is spent."""
        self.numbers: list[tuple[Tensor, dict[str, Any]]] = []
        """Distances of iterates, on the device, and the steps that wait for them."""
        self.asked = -1
        """The number of the ask on its way."""
        self.history: History | None = None
        """What was recorded of this cell earlier."""
        self._counted = 0
        self._asking: Asking[Stop] | None = None
        self._improvements: list[Improvement] = []
        self._steps: list[dict[str, Any]] = []

    @property
    def distance(self) -> float:
        """The least distance of an adversarial point so far."""
        return self._improvements[-1].distance if self._improvements else math.inf

    @property
    def best(self) -> Tensor | None:
        """The nearest adversarial point so far, as it was sent."""
        if self._best is None:
            return None
        return self._model.sent(self._best.clone())[0].to(self._model.work_dtype)

    def begin(self) -> None:
        """Ask for the clean image."""
        self._put(Ask(self.problem.source[None], phase=CLEAN))

    def advance(self) -> bool:
        """After rows came back: settle what is complete, resume the attack; are rows wanted now?"""
        while self.pending is not None:
            if self.pending.short:
                self.pending.limit(*self._limits(), metered=self._metered)
            if not self.pending.done:
                return self.pending.wanted_rows > 0
            self._settle()
        return False

    def recallable(self) -> list[tuple[int, int]]:
        """Runs of the ask on its way, and rows of them, whose answers were recorded earlier."""
        pending, history = self.pending, self.history
        if pending is None or history is None:
            return []
        found = []
        for number, state in enumerate(pending.runs):
            left = history.known(self.asked, number) - state.sent
            if left > 0:
                rows = min(left, max(pending.wanted(number), pending.spare(number)))
                found += [(number, rows)] if rows > 0 else []
        return found

    def differs(self) -> str | None:
        """What tells the ask on its way from what was recorded of it, if anything does."""
        pending, history = self.pending, self.history
        if pending is None or history is None:
            return None
        sizes = [state.size for state in pending.runs]
        if history.longer_than(self.asked, sizes):
            return f"ask {self.asked} ({pending.ask.phase}) had more points when it was recorded"
        return None

    def abandon(self, why: str) -> None:
        """End without settling what is on its way: it is not what was asked earlier."""
        self._end(Stop.INTERRUPTED, why)

    def newly_charged(self) -> int:
        """Queries charged since this was asked last."""
        before, self._counted = self._counted, self.ledger.queries
        return self._counted - before

    def end(self, reason: Stop) -> None:
        """End now; what was answered counts."""
        if self.pending is not None:
            self._settle(reason)
        if self.ended is None:
            self._end(reason)

    def result(self, image: Tensor | None, warnings: tuple[str, ...]) -> Result:
        """The result, once ended; `image` is `best` on the host."""
        if self.ended is None:
            raise RuntimeError("the cell has not ended")
        cell, (stop, reason) = self.cell, self.ended
        steps = tuple(Step(**step) for step in self._steps)
        if self.history is not None and self.history.differences:
            warnings = (
                *warnings,
                f"the model answered {self.history.differences} points differently when they were "
                "asked again",
            )
        return Result(
            self.index,
            cell.name,
            stop,
            reason,
            self.ledger,
            image,
            tuple(self._improvements),
            steps,
            cell.budget,
            cell.max_queries,
            cell.seed,
            warnings,
        )

    # -- inside -----------------------------------------------------------------------------------

    @property
    def _charged(self) -> bool:
        return self._asking is not None or self.cell.charge_clean

    def _limits(self) -> tuple[float, float]:
        if self._charged:
            return self.cell.budget, float(self.cell.max_queries)
        return math.inf, math.inf

    def _over(self) -> Stop | None:
        """Why not one more query may be asked, or None."""
        budget, cap = self._limits()
        if self.ledger.queries >= cap:
            return Stop.MAX_QUERIES
        if self.ledger.cost + self.ledger.prices.dearest > budget:
            return Stop.BUDGET
        return None

    def _put(self, ask: Ask) -> None:
        """Put an ask on its way, or end if not even its first row can be paid."""
        over = self._over()
        if over is not None:
            self._end(over)
        else:
            self.asked += 1
            self.pending = Pending(ask, self.problem, self.ledger)
            self.pending.limit(*self._limits(), metered=self._metered)

    def _end(self, stop: Stop, reason: str = "") -> None:
        asking, self._asking, self.pending = self._asking, None, None
        self.ended = (stop, reason)
        if asking is not None:
            try:
                asking.close()
            except Exception as error:  # it was to end anyway
                self.ended = (stop, f"{reason} (and, when it was closed, {_told(error)})".lstrip())

    def _settle(self, forced: Stop | None = None) -> None:
        if self.pending is None:
            return
        pending, self.pending = self.pending, None
        if forced is None and self._settle_few(pending):
            return
        counts, failure, whole = pending.settled()
        states = list(zip(pending.runs, counts, strict=False))
        labels = _joined([state.labels[:n] for state, n in states])
        distances = _joined([state.distances[:n] for state, n in states])
        rows = self.ledger.affordable(labels, *self._limits())
        if rows < len(labels):
            failure, whole = None, False  # whatever lies behind the budget's end was not asked
        if math.isnan(distances[:rows].sum()):
            rows = int(np.isnan(distances).argmax())
            reason = f"asked for a point that is not finite ({pending.ask.phase})"
            failure = Failure(Stop.ATTACK_ERROR, reason)
        adversarial = self.problem.is_adversarial(labels)
        self._keep_best(pending, counts, labels[:rows], adversarial[:rows], distances[:rows])
        if self._charged:
            self.ledger.charge(labels[:rows], pending.ask.phase)
            self.spent = self.ledger.cost / self.cell.budget
        if failure is not None and self._over() is None:
            self._end(failure.stop, failure.reason)
        elif not whole or failure is not None:
            self._end(forced or self._over() or Stop.BUDGET)
        elif forced is not None:
            self._end(forced)
        elif self._asking is None:
            self._begin_attack(int(labels[0]))
        else:
            self._resume(self._answers(labels, adversarial, distances, counts))

    def _settle_few(self, pending: Pending) -> bool:
        """The most frequent case, made cheap: a few points of one run, answered, all affordable."""
        state, ledger = pending.runs[0], self.ledger
        count = state.known
        if len(pending.runs) > 1 or count > FEW or not state.complete or self._asking is None:
            return False
        budget, cap = self._limits()
        worst = ledger.cost + (count + 1) * ledger.prices.dearest  # a row to spare for rounding
        if count > 1 and (worst > budget or ledger.queries + count > cap):
            return False
        labels, distances = state.labels[:count], state.distances[:count]
        adversarial = self.problem.is_adversarial(labels)
        nearest, kept = self.distance, -1
        rows = zip(labels.tolist(), distances.tolist(), adversarial.tolist(), strict=True)
        listed = list(rows)
        if any(math.isnan(distance) for _, distance, _ in listed):
            return False
        for row, (label, distance, passed) in enumerate(listed):
            if passed and distance < nearest:
                nearest, kept = distance, row
                account = ledger.cost, ledger.source, ledger.queries
                self._improvements.append(Improvement(*account, distance))
            ledger.charge_one(label, pending.ask.phase)
        if kept >= 0:
            self._keep(state.run.points, kept)
        self.spent = ledger.cost / self.cell.budget
        cell = self.cell
        self._resume(Answers(labels, adversarial, distances, cell.label, cell.prices))
        return True

    def _keep(self, points: Rows, row: int) -> None:
        """Keep a point as the best: a copy, since whoever made it may use its place again."""
        self._best = points[row : row + 1].to(self.problem.source.dtype, copy=True)

    def _keep_best(
        self,
        pending: Pending,
        counts: list[int],
        labels: NDArray[np.int64],
        adversarial: NDArray[np.bool_],
        distances: NDArray[np.float64],
    ) -> None:
        """Note every row that is nearer than all before it, and keep the last of them."""
        if not adversarial.any() or distances[adversarial].min() >= self.distance:
            return
        reached = np.where(adversarial, distances, math.inf)
        before = np.minimum.accumulate(np.concatenate([[self.distance], reached]))[:-1]
        better = np.flatnonzero(reached < before)
        cost, source, queries = self.ledger.account_before(labels)
        rows = zip(
            cost[better].tolist(),
            source[better].tolist(),
            queries[better].tolist(),
            distances[better].tolist(),
            strict=True,
        )
        self._improvements += [Improvement(*row) for row in rows]
        row, number = int(better[-1]), 0
        while row >= counts[number]:
            row -= counts[number]
            number += 1
        self._keep(pending.runs[number].run.points, row)

    def _answers(
        self,
        labels: NDArray[np.int64],
        adversarial: NDArray[np.bool_],
        distances: NDArray[np.float64],
        counts: list[int],
    ) -> Answers:
        cell = self.cell
        if len(counts) == 1:
            return Answers(labels, adversarial, distances, cell.label, cell.prices)
        runs, first = [], 0
        for count in counts:
            rows = slice(first, first + count)
            runs.append(
                Answers(labels[rows], adversarial[rows], distances[rows], cell.label, cell.prices)
            )
            first += count
        return joined(runs)

    def _begin_attack(self, label: int) -> None:
        if label != self.cell.label:
            self._end(Stop.ALREADY_MISCLASSIFIED, f"the model answers {label}")
            return
        try:
            asking = self.cell.attack(self.problem)
            if not isinstance(asking, Generator):
                raise TypeError(f"calling it gave {type(asking).__name__}, expected a generator")
        except Exception as error:
            self._end(Stop.ATTACK_ERROR, _told(error))
            return
        self._asking = asking
        self._resume(None)

    def _resume(self, answers: Answers | None) -> None:
        """Let the attack go on; whatever it does wrong ends this cell and nothing else."""
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
            self._put(ask)
        except Exception as error:
            self._end(Stop.ATTACK_ERROR, _told(error))

    def _collect(self) -> None:
        """Take the iterates that the attack accepted; their distances travel with a later batch."""
        accepted, self.problem.accepted = self.problem.accepted, []
        for point, notes in accepted:
            if not isinstance(point, Tensor) or point.shape != self.problem.source.shape:
                raise ValueError(f"accepted {type(point).__name__}, expected an image's point")
            sent = self._model.sent(point[None].clone()).to(self._model.work_dtype)
            distance = row_norms(sent - self.problem.source)[0]
            step: dict[str, Any] = {
                "iteration": len(self._steps) + 1,
                "cost": self.ledger.cost,
                "source": self.ledger.source,
                "other": self.ledger.other,
                "by_phase": self.ledger.by_phase,
                "notes": notes,
            }
            self._steps.append(step)
            self.numbers.append((distance, step))


def _joined(arrays: list[NDArray[Any]]) -> NDArray[Any]:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _told(error: Exception) -> str:
    """An error with the place it came from."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({os.path.basename(frames[-1].filename)}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{place}"
