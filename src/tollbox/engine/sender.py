"""The sender: rows of many asks in, one model batch out, labels and distances back.

1. Few fixed shapes: a batch is padded, with a copy of its first row, to the smallest shape that
   holds it. Padding is never delivered. A metered model gets no padding, since each row is a query.
2. Points stay on the device, and so do the source images of live cells, in a table by slot
   (`BatchBuilder`). Outside a cell's mask, its rows are set to the source image.
3. A span whose points cannot be made fails alone. If memory runs out, the batch size is halved,
   the rows are sent again, and results carry a warning. After any other model error, or if the
   batch size cannot be halved, the batch is bisected until the rows that cause it are found.
4. With `retries`, a call that raises is first repeated, with the same rows, after a wait that
   doubles. After `retries` failures in a row nothing is repeated until a call succeeds, so that a
   service that is down does not delay every row. A wrong answer (`ModelFault`) is not repeated.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..core.device import is_out_of_memory, kernels_for
from ..core.metric import Metric
from ..core.model import Model
from ..core.problem import Problem
from ..core.stop import Stop
from ..errors import ModelFault, described
from .batch import InFlightBatch, RowSpan, split, to_host
from .journal import Labels
from .pending import Failure
from .points import LinearPoint, LinearRows, write

COARSEST = 8
"""Maximum ratio of a shape to the next smaller one."""
SMALLEST_SHAPE, PARTS = {"cuda": 32}, {"cuda": 4}
"""By device type: the shape below which a batch gets no faster, and the number of equal steps up
to the batch size, each of which is a shape. On other devices both are `COARSEST`."""
LEAST_WORTHY_ROWS, LARGEST_PADDING = 64, 1.2
"""Minimum rows and maximum ratio of shape to rows of a batch sent while another is in flight."""
LONGEST_WAIT = 30.0
"""Maximum number of seconds before a call is repeated."""
AFTER_A_FAILURE = Failure(Stop.ATTACK_ERROR, "it comes after a row that failed")

Failures = list[tuple[RowSpan, Failure]]


class BatchBuilder:
    """The builder of batches: makes the points and measures distances from the source images."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._sources = torch.empty(0)
        """Source images by slot."""
        self._norms: dict[int, Metric] = {}
        self._masks: dict[int, Tensor] = {}
        """Masks by slot, for cells that have one."""

    def place(self, slot: int, problem: Problem) -> None:
        """Store the source image, the metric and the mask of a live cell under its slot."""
        source = problem.source
        self._norms[slot] = problem.norm
        self._masks.pop(slot, None)
        if problem.mask is not None:
            self._masks[slot] = problem.mask
        if slot >= len(self._sources):
            larger = source.new_zeros(max(8, 2 * slot), *source.shape)
            if len(self._sources):
                larger[: len(self._sources)] = self._sources
            self._sources = larger
        self._sources[slot] = source

    def points(self, span: RowSpan) -> Tensor | Failure:
        """Return the points of a span, or a failure if they cannot be made."""
        sources = self._sources
        try:
            points = span.pending.runs[span.run_number].run.points[span.first : span.last]
            if not isinstance(points, Tensor) or points.device != sources.device:
                raise TypeError(f"{type(points).__name__}, expected a tensor on {sources.device}")
            shape = (span.size, *sources.shape[1:])
            if points.shape != shape:
                raise ValueError(f"points of shape {tuple(points.shape)}, expected {shape}")
            return points.to(sources.dtype)
        except Exception as error:
            if is_out_of_memory(error):
                raise
            reason = f"its points could not be made: {described(error)}"
            return Failure(Stop.ATTACK_ERROR, reason)

    def linear_points(self, span: RowSpan) -> list[LinearPoint] | None:
        """Return the terms of a span's points; None if its rows do not provide usable ones."""
        rows = span.pending.runs[span.run_number].run.points
        if not isinstance(rows, LinearRows):
            return None
        points: list[LinearPoint] = []
        try:
            for row in range(span.first, span.last):
                point = rows.linear_point(row)
                if point is None or not self._fits(point):
                    return None
                points.append(point)
        except Exception:  # `points` will raise it again and return a failure
            return None
        return points

    def _fits(self, point: LinearPoint) -> bool:
        """Return whether the terms are contiguous images of the table's dtype and device."""
        like = self._sources
        form = like.dtype, like.shape[1:], like.is_cuda
        for term in (point.base, point.first, point.second):
            if term is not None and (term.dtype, term.shape, term.is_cuda) != form:
                return False
            if term is not None and not term.is_contiguous():
                return False
        return True

    def batch(
        self, parts: dict[int, Tensor], linear: dict[int, LinearPoint], rows: int, padded: int
    ) -> Tensor:
        """Join points, keyed by their first row, into a batch padded with copies of row 0."""
        if not linear and rows == padded:
            return torch.cat(list(parts.values()))
        batch = self._sources.new_empty(padded, *self._sources.shape[1:])
        for first, points in parts.items():
            batch[first : first + len(points)] = points
        if linear:
            write(batch, list(linear.values()), list(linear))
        if rows < padded:
            batch[rows:] = batch[0]
        return batch

    def sent(self, batch: Tensor, slots: list[int]) -> Tensor:
        """Apply the masks, and return the points as they are sent; `batch` may be overwritten."""
        known = self._masks
        masked = [(row, slot) for row, slot in enumerate(slots) if slot in known] if known else []
        if masked:
            rows, owners = _on_device(masked, batch).unbind(1)
            masks = torch.stack([known[slot] for _, slot in masked])
            outside = self._sources.index_select(0, owners)
            inside = torch.where(masks, batch.index_select(0, rows), outside)
            batch = batch.index_copy(0, rows, inside)
        return self._model.sent(batch)

    def distances(self, batch: Tensor, slots: list[int]) -> Tensor:
        """Return the distance of each row from its source image, in the metric of its cell."""
        index = _on_device(slots, batch)
        norms = [self._norms[slot] for slot in slots]
        first, *others = dict.fromkeys(norms)
        distances = self._in_metric(first, batch, index)
        for norm in others:
            other_rows = _on_device([each is not norm for each in norms], batch)
            distances = distances.where(other_rows, self._in_metric(norm, batch, index))
        return distances

    def _in_metric(self, norm: Metric, batch: Tensor, index: Tensor) -> Tensor:
        """Return the distance in `norm` of each row from the source image in its slot (`index`)."""
        sources = self._sources
        kernels = kernels_for(batch) if norm is Metric.L2 else None
        if kernels is not None and batch.dtype == sources.dtype and batch.is_contiguous():
            found: Tensor = kernels.distances(batch, sources, index)
            return found
        return norm.norms(sources.index_select(0, index).sub_(batch))


def _on_device(values: Sequence[Any], like: Tensor) -> Tensor:
    """Return values as a tensor on the device of `like`, without waiting for the transfer."""
    return torch.tensor(values, pin_memory=like.is_cuda).to(like.device, non_blocking=True)


class Sender:
    """The sender of rows to one model, in batches."""

    def __init__(
        self,
        model: Model,
        batch_size: int,
        one_shape: bool,
        metered: bool,
        retries: int = 0,
        asked_to_stop: Callable[[], Stop | None] = lambda: None,
    ) -> None:
        self.model, self.batch_size, self.metered = model, batch_size, metered
        self._retries, self._asked_to_stop = retries, asked_to_stop
        self._gave_up = False
        self._one_shape = one_shape or model.batch is not None
        self.builder = BatchBuilder(model)
        self.memory_warnings: list[str] = []
        """Warnings about batch sizes reduced because memory ran out."""
        self.exhausted = False
        """Whether memory ran out and batches could not be made smaller."""

    @property
    def shapes(self) -> list[int]:
        """The batch shapes in use, ascending: multiples of an eighth of the batch size (a quarter
        on a GPU, where each shape has to be planned); below these, an eighth of the smallest, and
        so on, for batch sizes that are large compared to the asks."""
        if self._one_shape:
            return [self.batch_size]
        parts = PARTS.get(self.model.device.type, COARSEST)
        shapes = {max(1, self.batch_size * part // parts) for part in range(1, parts + 1)}
        smallest = SMALLEST_SHAPE.get(self.model.device.type, COARSEST)
        while min(shapes) > smallest:
            shapes.add(max(smallest, min(shapes) // COARSEST))
        return sorted(shapes)

    def rows_to_launch(self, wanted: int, batches: int) -> int:
        """Return how many of the wanted rows to send now, if `batches` more batches may be
        launched: all that fit, or fewer if a full batch would leave too few for another, so that
        the device does not wait for the host after each batch."""
        full = min(wanted, self.batch_size)
        if batches < 2:
            return full
        parts = (full, -(-wanted // 2), *self.shapes)
        pairs = ((rows, min(wanted - rows, self.batch_size)) for rows in parts if rows < wanted)
        worthy = (rows for rows, rest in pairs if self.is_worth_it(rows) and self.is_worth_it(rest))
        return next(worthy, full)

    @property
    def least_worthy(self) -> int:
        """Minimum number of rows of a batch that takes about as long per row as a full one."""
        return min(self.batch_size, LEAST_WORTHY_ROWS)

    def is_worth_it(self, rows: int) -> bool:
        """Return whether a batch of `rows` rows takes about as long per row as a full one."""
        full = rows >= self.least_worthy
        return full and (self.metered or self.padded(rows) <= LARGEST_PADDING * rows)

    def padded(self, rows: int) -> int:
        """Return the batch shape in which `rows` rows are sent."""
        if self.metered:
            return rows
        return next(shape for shape in self.shapes if shape >= rows)

    def send(
        self,
        spans: list[RowSpan],
        extra: Sequence[Tensor] = (),
        known: Labels | None = None,
        *,
        bisecting: bool = False,
    ) -> list[InFlightBatch]:
        """Send rows, in one or more batches; `extra` values travel with the first. If labels are
        known, the points are made only to measure distances."""
        if not spans or known is not None:
            return [self._forward(spans, extra, known)]
        retries = 0 if bisecting or self._gave_up else self._retries
        for failed_calls in itertools.count():
            try:
                batches = [self._forward(spans, extra)]
                self._gave_up = False
                return batches
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # a model may raise anything
                memory, reason = is_out_of_memory(error), described(error)
                final = memory or isinstance(error, ModelFault)
            # Outside the handler: the error would keep all memory that the failed batch allocated.
            if final or failed_calls == retries:
                self._gave_up = not final
                break
            if (stop := self._wait(min(2.0**failed_calls, LONGEST_WAIT))) is not None:
                return [self._launch(extra, [(span, Failure(stop, "")) for span in spans])]
        if memory and self.batch_size > 1 and self.model.batch is None:
            return self._smaller(spans, extra)
        self.exhausted = self.exhausted or memory
        return self._bisect(spans, extra, reason)

    def _wait(self, seconds: float) -> Stop | None:
        """Wait; if the run is asked to stop meanwhile, return the reason at once."""
        end = time.monotonic() + seconds
        while (stop := self._asked_to_stop()) is None and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, 0.1))
        return stop

    def _forward(
        self, spans: list[RowSpan], extra: Sequence[Tensor], known: Labels | None = None
    ) -> InFlightBatch:
        """Make the points of spans, measure distances, and send them unless labels are known."""
        failures: Failures = []
        sound: list[RowSpan] = []
        slots: list[int] = []
        parts: dict[int, Tensor] = {}
        linear: dict[int, LinearPoint] = {}
        builder = self.builder
        for span in spans:
            if failures and self._follows(span, failures):
                failures.append((span, AFTER_A_FAILURE))
                continue
            first = len(slots)
            terms = builder.linear_points(span)
            if terms is not None:
                linear.update(enumerate(terms, first))
            elif isinstance(points := builder.points(span), Failure):
                failures.append((span, points))
                continue
            else:
                parts[first] = points
            sound.append(span)
            slots += [span.cell_run.slot] * span.size
        recalled = known is not None
        if not slots:
            return self._launch(extra, failures, recalled=recalled)
        rows = len(slots)
        padded = rows if recalled else self.padded(rows)
        slots += [slots[0]] * (padded - rows)
        batch = builder.sent(builder.batch(parts, linear, rows, padded), slots)
        distances = builder.distances(batch, slots)
        if known is None:
            labels = self.model(batch).double()
        else:
            lost = {id(span) for span, _ in failures}
            kept = np.repeat([id(span) not in lost for span in spans], [s.size for s in spans])
            labels = torch.from_numpy(known[kept]).to(distances.device, torch.float64)
        return self._launch(extra, failures, sound, (labels, distances), recalled)

    def _smaller(self, spans: list[RowSpan], extra: Sequence[Tensor]) -> list[InFlightBatch]:
        before, self.batch_size = self.batch_size, self.batch_size // 2
        if self.model.device.type == "cuda":
            torch.cuda.empty_cache()
        self.memory_warnings.append(
            f"out of memory: the batch size was reduced from {before} to {before // 2}, for which "
            "exactness was not checked"
        )
        batches: list[InFlightBatch] = []
        while spans:
            front, spans = split(spans, self.batch_size)
            batches += self.send(front, () if batches else extra)
        return batches

    def _bisect(
        self, spans: list[RowSpan], extra: Sequence[Tensor], reason: str
    ) -> list[InFlightBatch]:
        rows = sum(span.size for span in spans)
        if rows == 1:
            failure = Failure(Stop.MODEL_ERROR, reason)
            return [self._launch(extra, [(spans[0], failure)])]
        front, back = split(spans, rows // 2)
        batches = self.send(front, extra, bisecting=True)
        failed = [failure for batch in batches for failure in batch.failures]
        lost = [(span, AFTER_A_FAILURE) for span in back if self._follows(span, failed)]
        back = [span for span in back if not self._follows(span, failed)]
        if lost:
            batches.append(self._launch((), lost))
        return batches + self.send(back, bisecting=True) if back else batches

    def _follows(self, span: RowSpan, failures: Failures) -> bool:
        """Return whether a span follows a failed span of its run, and so is not sent. Later runs
        of the ask may still be needed if the failed row was a spare one. With a metered model,
        which gets no spare rows, they are not sent either."""
        number = span.run_number
        same_ask = (f.run_number for f, _ in failures if f.pending is span.pending)
        return any(failed == number or (self.metered and failed < number) for failed in same_ask)

    def _launch(
        self,
        extra: Sequence[Tensor],
        failures: Failures,
        spans: Sequence[RowSpan] = (),
        answers: tuple[Tensor, ...] = (),
        recalled: bool = False,
    ) -> InFlightBatch:
        parts = [*answers, torch.stack(list(extra))] if extra else answers
        nothing = torch.empty(0, dtype=torch.float64, device=self.model.device)
        values = torch.cat(parts) if parts else nothing
        host, event = to_host(values), None
        if values.is_cuda:
            event = torch.cuda.Event()
            event.record()
        shape = len(answers[0]) if answers else 0
        return InFlightBatch(spans, failures, host, shape, event, recalled)
