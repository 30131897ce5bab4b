"""How much at a time: rows of a batch, cells under way, and the bytes of points that these hold.

1. A model may take batches of one size only. That is then the size of all, those that only try it
   included. If it is metered, that size must be 1, since padding would be charged.
2. An attack holds as many points as it says (`BoundedAttack`), on the device of the model. Cells
   share a part of that device's memory.
"""

from __future__ import annotations

import os

import torch

from ..core.cell import Cell
from ..core.execution import Execution
from ..core.model import Model
from ..core.problem import BoundedAttack
from ..errors import InputError

MOST_TRIAL_ROWS = 256
"""Rows of a batch that only tries a model."""
DEFAULT_ROWS = 256
"""Points that an attack is taken to hold at a time if it does not say (`BoundedAttack`)."""


def default_batch_size(model: Model) -> int:
    """Rows of a model batch unless the caller says otherwise."""
    return model.batch or batch_size_on(model.device)


def default_live(batch_size: int) -> int:
    """The most cells under way at a time, likewise."""
    return max(64, 2 * batch_size)


def batch_size_on(device: torch.device) -> int:
    """The same for a model that takes batches of any size."""
    return 256 if device.type == "cuda" else 64


def trial_batch_size(model: Model, batch_size: int | None) -> int:
    """Rows of a batch that only tries a model, outside a run: the batch size, but few."""
    if model.batch is not None:
        return model.batch
    return min(batch_size or default_batch_size(model), MOST_TRIAL_ROWS)


def batch_size_for(model: Model, execution: Execution) -> int:
    """Return the batch size of a run; raise InputError if the model does not take it."""
    batch_size = execution.batch_size or default_batch_size(model)
    if model.batch not in (None, batch_size):
        raise InputError(
            f"is {batch_size}",
            expected=f"{model.batch}, the only batch size that the model takes",
            input="batch_size",
        )
    if execution.metered and model.batch not in (None, 1):
        raise InputError(
            f"is set, but the model takes batches of {model.batch} only: padding would be charged",
            expected="a model that takes batches of any size, or of 1",
            input="metered",
        )
    return batch_size


def held_bytes(cell: Cell) -> int:
    """Bytes of the points that a cell may hold at a time."""
    attack = cell.attack
    rows = attack.rows if isinstance(attack, BoundedAttack) else DEFAULT_ROWS
    return int(rows + 4) * cell.image.numel() * max(4, cell.image.element_size())


def memory_for_points(device: torch.device) -> float:
    """Bytes that attacks may hold: half of a GPU's free memory, a quarter of the host's."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0] / 2
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 4
