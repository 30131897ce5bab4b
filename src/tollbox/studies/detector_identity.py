"""Whether the detector of a study is still the one that it was begun with: its kind, and its
settings, which are its fields, or what it has in `vars`; tensors and networks by their content.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..core.watch import Detector
from ..errors import FileError
from ..models.weights import weights_digest
from .identity import BEGIN_ANEW
from .store.watch_record import WatchRecord


def detector_parts(detector: Detector) -> dict[str, str]:
    """What tells a detector from another, field by field."""
    return dict(_settings("", detector, ()))


def _settings(name: str, value: Any, around: tuple[int, ...]) -> Iterator[tuple[str, str]]:
    """The settings of an object of the user's, whatever it is, by their dotted names; `around` are
    the ids of what it lies in, so that one which holds itself has an end."""
    if id(value) in around:
        yield name, "what it lies in"
        return
    around = (*around, id(value))
    if value is None or isinstance(value, str | int | float | tuple | frozenset):
        yield name, repr(value)
    elif isinstance(value, torch.nn.Module):
        yield name, f"{type(value).__qualname__} {weights_digest(value)}"
    elif isinstance(value, Tensor | np.ndarray):
        array = np.ascontiguousarray(torch.as_tensor(value).detach().cpu().numpy())
        yield name, f"{array.dtype} {array.shape} {hashlib.sha256(array.data).hexdigest()}"
    elif isinstance(value, list):
        for number, part in enumerate(value):
            yield from _settings(f"{name}.{number}".lstrip("."), part, around)
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from _settings(f"{name}.{key}".lstrip("."), part, around)
    else:
        kind = getattr(value, "__qualname__", type(value).__qualname__)
        yield name or "detector", kind
        inside = {} if callable(value) and hasattr(value, "__qualname__") else _fields(value)
        for key, part in inside.items():
            yield from _settings(f"{name}.{key}".lstrip("."), part, around)


def _fields(value: Any) -> dict[str, Any]:
    if dataclasses.is_dataclass(value):
        return {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
    return dict(getattr(value, "__dict__", {}))


def check_detector(recorded: WatchRecord, now: Mapping[str, str], folder: Path) -> None:
    """Raise FileError unless the detector is the one that the study was begun with."""
    change = recorded.change(now)
    if change is not None:
        raise FileError(
            f"the detector {recorded.source} is not the one that {folder} was begun with: it was "
            f"begun {change}",
            remedy=f"bring it back, {BEGIN_ANEW}",
        )
