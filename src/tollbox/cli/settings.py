"""What it takes to run an attack again, for ledger.json; read before the run."""

from __future__ import annotations

import hashlib
import platform
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .. import __version__
from ..core.cell import Cell
from ..core.model import Model
from ..errors import FileError
from ..files.tables import kind_of


def settings_of(options: Any, cell: Cell, model: Model) -> dict[str, Any]:
    """The options as they were understood (`cell` is any of the run), and versions."""
    prices = cell.prices
    classes = None if prices.classes is None else {str(k): v for k, v in prices.classes.items()}
    return {
        "attack": options.attack.lower(),
        "attack_parts": repr(cell.attack),
        "target": options.target,
        "start": None if options.start is None else str(options.start),
        "price": options.price,
        "prices": {"source": prices.source, "other": prices.other, "classes": classes},
        "budget": cell.budget,
        "max_queries": cell.max_queries,
        "time_limit": options.time_limit,
        "seed": options.seed,
        "model": options.model,
        "model_sha256": _digest(options.model),
        "mean": options.mean,
        "std": options.std,
        "quantize": options.quantize,
        "classes": model.classes,
        "images": str(options.images),
        "labels": None if options.labels is None else str(options.labels),
        "limit": options.limit,
        "device": str(model.device),
        "batch_size": options.batch_size,
        "versions": {
            "tollbox": __version__,
            "torch": torch.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
    }


def _digest(model: str) -> str | None:
    """Of the model file; None for a function."""
    if kind_of(model, f"the model file {model}") != "file":
        return None
    try:
        with open(Path(model), "rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest()
    except OSError as error:
        raise FileError(f"the model file {model} cannot be read: {error.strerror}.") from None
