"""The sender: rows of many asks in, one model batch out, labels and distances back.

1. Few fixed shapes: a batch is padded, with a row of its own, to the smallest shape that holds it.
   Padding is never delivered. A metered model gets no padding, since there a row is a query. Unless
   there is one shape only, at most `COARSEST` times the rows that are wanted are computed, or the
   smallest shape.
2. Points stay on the device (`batch_builder`). What is to be read crosses to the host in one
   transfer per batch (`flight`).
3. Out of memory: the shapes are halved, the rows are sent again, and results say so. Any other
   error of the model: the batch is bisected until the rows that cause it are found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..core.memory import is_out_of_memory
from ..core.model import Model
from ..core.stop import Stop
from .batch_builder import BatchBuilder
from .flight import Flight, Piece, split
from .mixtures import Mixture
from .pending import Failure

COARSEST = 8
"""A shape is at most so many times the next smaller one."""
SMALLEST_SHAPE, PARTS = {"cuda": 32}, {"cuda": 4}
"""By the kind of device: fewer rows take it as long; and how many parts of the whole are shapes. On
others both are `COARSEST`."""
LEAST_WORTHY_ROWS, LARGEST_PADDING = 64, 1.2
"""A batch of fewer rows, or with more padding, waits until there are more."""
AFTER_A_FAILURE = Failure(Stop.ATTACK_ERROR, "it comes after a row that failed")


class Sender:
    """Turns rows into model batches."""

    def __init__(self, model: Model, batch_size: int, one_shape: bool, metered: bool) -> None:
        self.model = model
        self.metered = metered
        self.batch_size = batch_size
        self._one_shape = one_shape or model.batch is not None
        self.builder = BatchBuilder(model)
        self.memory_warnings: list[str] = []
        """What had to be changed because memory ran out, in words."""
        self.exhausted = False
        """Memory ran out, and batches could not be made smaller."""

    @property
    def shapes(self) -> list[int]:
        """The batch shapes in use, rising: so many eighths of the whole (on a GPU, where each has
        to be planned, quarters), and below that an eighth of the smallest, and so on, for batches
        that are large compared to what is asked."""
        if self._one_shape:
            return [self.batch_size]
        parts = PARTS.get(self.model.device.type, COARSEST)
        shapes = {max(1, self.batch_size * part // parts) for part in range(1, parts + 1)}
        smallest = SMALLEST_SHAPE.get(self.model.device.type, COARSEST)
        while min(shapes) > smallest:
            shapes.add(max(smallest, min(shapes) // COARSEST))
        return sorted(shapes)

    def rows_of_a_flight(self, wanted: int, flights: int) -> int:
        """How many of the wanted rows go out now, if so many batches may: all that fit; or about
        half, where the device would else wait for the host after each batch, since what is left by
        a full one is too few for another."""
        full = min(wanted, self.batch_size)
        if flights < 2:
            return full
        parts = (full, -(-wanted // 2), *self.shapes)
        pairs = ((rows, min(wanted - rows, self.batch_size)) for rows in parts if rows < wanted)
        worthy = (rows for rows, rest in pairs if self.is_worth_it(rows) and self.is_worth_it(rest))
        return next(worthy, full)

    @property
    def least_worthy(self) -> int:
        """The fewest rows of a batch that takes about as long for each as a full one."""
        return min(self.batch_size, LEAST_WORTHY_ROWS)

    def is_worth_it(self, rows: int) -> bool:
        """Whether a batch of so many rows takes about as long for each as a full one."""
        full = rows >= self.least_worthy
        return full and (self.metered or self.padded(rows) <= LARGEST_PADDING * rows)

    def padded(self, rows: int) -> int:
        """The batch shape that `rows` rows are sent in."""
        if self.metered:
            return rows
        return next(shape for shape in self.shapes if shape >= rows)

    def send(self, pieces: list[Piece], extra: Sequence[Tensor] = ()) -> list[Flight]:
        """Send rows, in as many batches as it takes; `extra` values travel with the first."""
        if not pieces:
            return [self._fly([], extra, 0)]
        try:
            return [self._forward(pieces, extra)]
        except (Exception, SystemExit) as error:
            memory, reason = is_out_of_memory(error), f"{type(error).__name__}: {error}"
        # Outside the handler: the error would hold all that the failed batch had allocated.
        if memory and self.batch_size > 1 and self.model.batch is None:
            return self._smaller(pieces, extra)
        self.exhausted = self.exhausted or memory
        return self._bisect(pieces, extra, reason)

    def recall(
        self, pieces: list[Piece], labels: NDArray[np.int64], extra: Sequence[Tensor]
    ) -> Flight:
        """Rows whose labels are known: their points are made for their distances alone."""
        failures: list[tuple[Piece, Failure]] = []
        sound: list[Piece] = []
        parts: list[Tensor] = []
        known: list[NDArray[np.int64]] = []
        slots: list[int] = []
        first = 0
        builder = self.builder
        for piece in pieces:
            last = first + piece.size
            points = builder.points(piece)
            if isinstance(points, Failure):
                failures.append((piece, points))
            else:
                sound.append(piece)
                parts.append(points)
                known.append(labels[first:last])
                slots += [piece.slot] * piece.size
            first = last
        if not parts:
            return self._fly([], extra, 0, failures=failures)
        distances = builder.distances(builder.sent(torch.cat(parts), slots), slots)
        answers = torch.from_numpy(np.concatenate(known)).to(distances.device, torch.float64)
        flight = self._fly(sound, extra, len(slots), (answers, distances), failures)
        return replace(flight, recalled=True)

    def _forward(self, pieces: list[Piece], extra: Sequence[Tensor]) -> Flight:
        failures: list[tuple[Piece, Failure]] = []
        sound: list[Piece] = []
        slots: list[int] = []
        parts: list[tuple[int, Tensor]] = []
        mixed: list[Mixture] = []
        places: list[int] = []
        builder = self.builder
        for piece in pieces:
            if failures and self._follows(piece, failures):
                failures.append((piece, AFTER_A_FAILURE))
                continue
            first = len(slots)
            terms = builder.mixtures(piece)
            if terms is not None:
                mixed += terms
                places += range(first, first + piece.size)
            else:
                points = builder.points(piece)
                if isinstance(points, Failure):
                    failures.append((piece, points))
                    continue
                parts.append((first, points))
            sound.append(piece)
            slots += [piece.slot] * piece.size
        if not slots:
            return self._fly([], extra, 0, failures=failures)
        padded = self.padded(len(slots))
        batch = builder.batch(parts, mixed, places, len(slots), padded)
        slots += [slots[0]] * (padded - len(slots))
        batch = builder.sent(batch, slots)
        distances = builder.distances(batch, slots)
        labels = self.model(batch)
        return self._fly(sound, extra, padded, (labels.double(), distances), failures)

    def _smaller(self, pieces: list[Piece], extra: Sequence[Tensor]) -> list[Flight]:
        before, self.batch_size = self.batch_size, self.batch_size // 2
        if self.model.device.type == "cuda":
            torch.cuda.empty_cache()
        self.memory_warnings.append(
            f"out of memory: batches of {before} became batches of {before // 2}, in which nothing "
            "is known of exactness"
        )
        front, back = split(pieces, self.batch_size)
        flights = self.send(front, extra)
        while back:
            front, back = split(back, self.batch_size)
            flights += self.send(front)
        return flights

    def _bisect(self, pieces: list[Piece], extra: Sequence[Tensor], reason: str) -> list[Flight]:
        rows = sum(piece.size for piece in pieces)
        if rows == 1:
            failure = Failure(Stop.MODEL_ERROR, reason)
            return [self._fly([], extra, 0, failures=[(pieces[0], failure)])]
        front, back = split(pieces, rows // 2)
        flights = self.send(front, extra)
        failed = [failure for flight in flights for failure in flight.failures]
        lost = [(piece, AFTER_A_FAILURE) for piece in back if self._follows(piece, failed)]
        back = [piece for piece in back if not self._follows(piece, failed)]
        if lost:
            flights.append(self._fly([], (), 0, failures=lost))
        return flights + self.send(back) if back else flights

    def _follows(self, piece: Piece, failures: Sequence[tuple[Piece, Failure]]) -> bool:
        """Does a piece come after a failed one of the same run, so that it will not be asked?

        Later runs of the ask may have to be asked all the same, if the failed row was a spare one.
        For a metered model no row is spare, and they will not.
        """
        return any(
            piece.pending is failed.pending
            and (
                piece.run_number == failed.run_number
                or (self.metered and piece.run_number > failed.run_number)
            )
            for failed, _ in failures
        )

    def _fly(
        self,
        pieces: list[Piece],
        extra: Sequence[Tensor],
        shape: int,
        answers: tuple[Tensor, ...] = (),
        failures: Sequence[tuple[Piece, Failure]] = (),
    ) -> Flight:
        parts = [*answers, torch.stack(list(extra))] if extra else list(answers)
        device = self.model.device
        values = torch.cat(parts) if parts else torch.empty(0, dtype=torch.float64, device=device)
        if device.type != "cuda":
            return Flight(pieces, failures, values.to("cpu"), shape, None)
        host = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
        host.copy_(values, non_blocking=True)
        event = torch.cuda.Event()
        event.record()
        return Flight(pieces, failures, host, shape, event)
