"""The batch builder: points made from pieces, put in their places, made what is sent, and measured.

1. The source image of each live cell lies in a table on the device, by slot, and points stay there.
2. Where a cell has a mask, its rows are the source image outside it, whoever made them; then they
   are made what is sent.
3. Rows that know the terms of their points have them added up for the whole batch (`mixtures`).
4. Points that cannot be made are a failure of their piece, and of no other; running out of memory
   is not, and is raised.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..core.fused import kernels_for
from ..core.memory import is_out_of_memory
from ..core.metric import Metric
from ..core.model import Model
from ..core.problem import Problem
from ..core.stop import Stop
from .flight import Piece
from .mixtures import Mixture, MixtureRows, write
from .pending import Failure


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

    def mixtures(self, piece: Piece) -> list[Mixture] | None:
        """The terms of a piece's points, if its rows know them."""
        rows = piece.pending.runs[piece.run_number].run.points
        if not isinstance(rows, MixtureRows):
            return None
        terms: list[Mixture] = []
        try:
            for row in range(piece.first, piece.last):
                mixture = rows.mixture(row)
                if mixture is None or not self._fits(mixture):
                    return None
                terms.append(mixture)
        except Exception:  # it will raise again where the rows are made, and be booked there
            return None
        return terms

    def _fits(self, mixture: Mixture) -> bool:
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
        mixed: list[Mixture],
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
