"""Vector helpers. A vector of length 0 stays 0 and never becomes NaN."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def unit(vector: Tensor) -> Tensor:
    """Return the vector scaled to length 1."""
    norm = torch.linalg.vector_norm(vector)
    result: Tensor = vector / norm.clamp_min(torch.finfo(vector.dtype).tiny)
    return result


def unit_rows(rows: Tensor) -> Tensor:
    """Return rows (or images), each scaled to length 1."""
    norms = torch.linalg.vector_norm(rows, dim=tuple(range(1, rows.ndim)), keepdim=True)
    result: Tensor = rows / norms.clamp_min(torch.finfo(rows.dtype).tiny)
    return result


def sum_weights(adversarial: NDArray[np.bool_], like: Tensor) -> Tensor:
    """Return weights (2, n) that sum the adversarial rows, and all rows, in one product."""
    weights = np.ones((2, len(adversarial)), np.float32)
    weights[0] = adversarial
    return torch.from_numpy(weights).to(like.device, like.dtype, non_blocking=True)
