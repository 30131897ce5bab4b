"""The batch builder: points made from pieces, put in their places, made what is sent, and measured.

1. The source image of each live cell lies in a table on the device, by slot, and points stay there.
2. Where a cell has a mask, its rows are the source image outside it, whoever made them; then they
   are made what is sent.
3. Rows that know the terms of their points have them added up for the whole batch (`mixtures`).
4. Points that cannot be made are a failure of their piece, and of no other; running out of memory
   is not, and is raised.

The sender: rows of many asks in, one model batch out, labels and distances back.

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

from ..core.device import is_out_of_memory, kernels_for
from ..core.metric import Metric
from ..core.model import Model
from ..core.problem import Problem
from ..core.stop import Stop
from .in_flight import Flight, Piece, split
from .pending import Failure
from .points import LinearPoint, LinearRows, write


class BatchBuilder:
    """Makes the points of batches, and measures them from the source images."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._sources: Tensor | None = None
        self._norms: dict[int, Metric] = {}
        """By slot, what distances from its source image are measured in."""
        self._masks: dict[int, Tensor] = {}
        """By slot, where its points may differ from its source image, if not everywhere."""

    def place(self, slot: int, problem: Problem) -> None:
        """Put the source image of a live cell into the table, with its metric and its mask."""
        source = problem.source
        self._norms[slot] = problem.norm
        self._masks.pop(slot, None)
        if problem.mask is not None:
            self._masks[slot] = problem.mask
        if self._sources is None or slot >= len(self._sources):
            rows = max(8, 2 * slot)
            table = torch.zeros((rows, *source.shape), dtype=source.dtype, device=source.device)
            if self._sources is not None:
                table[: len(self._sources)] = self._sources
            self._sources = table
        self._sources[slot] = source

    def points(self, piece: Piece) -> Tensor | Failure:
        """The points of a piece, or why they could not be made."""
        sources = self._sources
        if sources is None:
            raise RuntimeError("no source image was placed")
        try:
            points = piece.pending.runs[piece.run_number].run.points[piece.first : piece.last]
            if not isinstance(points, Tensor) or points.device != sources.device:
                raise TypeError(f"{type(points).__name__}, expected a tensor on {sources.device}")
            if points.shape != (piece.size, *sources.shape[1:]):
                shape = (piece.size, *sources.shape[1:])
                raise ValueError(f"points of shape {tuple(points.shape)}, expected {shape}")
            return points.to(sources.dtype)
        except Exception as error:
            if is_out_of_memory(error):
                raise
            reason = f"its points could not be made: {type(error).__name__}: {error}"
            return Failure(Stop.ATTACK_ERROR, reason)

    def mixtures(self, piece: Piece) -> list[LinearPoint] | None:
        """The terms of a piece's points, if its rows know them."""
        rows = piece.pending.runs[piece.run_number].run.points
        if not isinstance(rows, LinearRows):
            return None
        terms: list[LinearPoint] = []
        try:
            for row in range(piece.first, piece.last):
                mixture = rows.linear_point(row)
                if mixture is None or not self._fits(mixture):
                    return None
                terms.append(mixture)
        except Exception:  # it will raise again where the rows are made, and be booked there
            return None
        return terms

    def _fits(self, mixture: LinearPoint) -> bool:
        """Are its terms images of the dtype and the device of all?"""
        if self._sources is None:
            return False
        like = self._sources
        dtype, shape, is_cuda = like.dtype, like.shape[1:], like.is_cuda
        for term in (mixture.base, mixture.first, mixture.second):
            if term is not None and not (
                term.dtype == dtype
                and term.is_cuda == is_cuda
                and term.shape == shape
                and term.is_contiguous()
            ):
                return False
        return True

    def batch(
        self,
        parts: list[tuple[int, Tensor]],
        mixed: list[LinearPoint],
        places: list[int],
        rows: int,
        padded: int,
    ) -> Tensor:
        """All points in their places, and the first of them again where there is room left."""
        if self._sources is None:
            raise RuntimeError("no source image was placed")
        if not mixed and rows == padded:
            return torch.cat([points for _, points in parts])
        batch = self._sources.new_empty(padded, *self._sources.shape[1:])
        for first, points in parts:
            batch[first : first + len(points)] = points
        if mixed:
            write(batch, mixed, places)
        if rows < padded:
            batch[rows:] = batch[0]
        return batch

    def sent(self, batch: Tensor, slots: list[int]) -> Tensor:
        """The points as they are sent; `batch` may be overwritten."""
        if self._masks and self._sources is not None:
            masked = [(row, slot) for row, slot in enumerate(slots) if slot in self._masks]
            if masked:
                places = torch.tensor(masked, pin_memory=batch.is_cuda)
                rows, owners = places.to(batch.device, non_blocking=True).unbind(1)
                masks = torch.stack([self._masks[slot] for _, slot in masked])
                inside = torch.where(
                    masks, batch.index_select(0, rows), self._sources.index_select(0, owners)
                )
                batch = batch.index_copy(0, rows, inside)
        return self._model.sent(batch)

    def distances(self, batch: Tensor, slots: list[int]) -> Tensor:
        """Of each row from its source image, in the metric of its cell."""
        if self._sources is None:
            raise RuntimeError("no source image was placed")
        index = torch.tensor(slots, pin_memory=batch.is_cuda).to(batch.device, non_blocking=True)
        norms = [self._norms[slot] for slot in slots]
        first, *others = dict.fromkeys(norms)
        distances = self._in_metric(first, batch, index)
        for norm in others:
            others_rows = torch.tensor(
                [each is not norm for each in norms], pin_memory=batch.is_cuda
            )
            others_rows = others_rows.to(batch.device, non_blocking=True)
            distances = distances.where(others_rows, self._in_metric(norm, batch, index))
        return distances

    def _in_metric(self, norm: Metric, batch: Tensor, index: Tensor) -> Tensor:
        """Of each row from the row of the table that `index` names."""
        if self._sources is None:
            raise RuntimeError("no source image was placed")
        kernels = kernels_for(batch) if norm is Metric.L2 else None
        if kernels is not None and batch.dtype == self._sources.dtype and batch.is_contiguous():
            found: Tensor = kernels.distances(batch, self._sources, index)
            return found
        return norm.norms(self._sources.index_select(0, index).sub_(batch))


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
        mixed: list[LinearPoint] = []
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
