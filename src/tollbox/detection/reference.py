"""A reference detector, and a check of custom detectors.

`NearDuplicates` is for tests and examples: its answers can be computed by hand. `check_detector`
tests whether a detector follows the rules of `core/detector.py`.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..core.detector import Detector, check_detector_type
from ..core.validation import check_whole, is_number, shown
from ..errors import InputError

SPLITS = 6
"""Random ways to split rows over calls that `check_detector` tries."""


@dataclass(frozen=True)
class NearDuplicates:
    """A detector that raises an alarm for every `every`-th near duplicate: a query within `radius`,
    in l2, of one of the last `window` queries of its image."""

    radius: float
    window: int = 100
    every: int = 1

    def __post_init__(self) -> None:
        if not is_number(self.radius) or not self.radius >= 0:
            expected = "a number, 0 or more"
            raise InputError(f"is {shown(self.radius)}", expected=expected, input="radius")
        check_whole("window", self.window, 1)
        check_whole("every", self.every, 1)

    def begin(self, image: int, /) -> _Neighbours:  # noqa: ARG002
        return _Neighbours(self)


class _Neighbours:
    """The last queries of one image, and its number of near duplicates, on the device."""

    def __init__(self, settings: NearDuplicates) -> None:
        self._settings = settings
        self._last: Tensor | None = None
        self._count: Tensor | None = None

    def __call__(self, rows: Tensor) -> Tensor:
        flat = rows.flatten(1)
        last = flat[:0] if self._last is None else self._last
        settings, before = self._settings, len(last)
        all_rows = torch.cat([last, flat])
        near = torch.zeros(len(flat), dtype=torch.bool, device=flat.device)
        for place in range(len(flat)):  # row by row, so that rounding does not depend on the split
            first = max(0, before + place - settings.window)
            recent = all_rows[first : before + place]
            if len(recent):
                apart = torch.linalg.vector_norm(recent - flat[place], dim=1)
                near[place] = (apart <= settings.radius).any()
        so_far = torch.zeros((), dtype=torch.int64, device=flat.device)
        counts = near.cumsum(0) + (so_far if self._count is None else self._count)
        self._last, self._count = all_rows[-settings.window :].clone(), counts[-1]
        return near & (counts % settings.every == 0)


def check_detector(detector: Detector, rows: Tensor, seed: int = 0) -> list[str]:
    """Return the rules that a detector breaks.

    It sees `rows` (n, c, h, w) in [0,1] in one call, one by one, split at random, and interleaved
    with another image.

    It must return a bool for each row, independent of the split and of other images, and must not
    change the rows.
    """
    check_detector_type(detector)
    if not isinstance(rows, Tensor) or rows.ndim != 4 or len(rows) < 2:
        expected = "a tensor (n, c, h, w) with two rows or more"
        raise InputError(f"is {shown(rows)}", expected=expected, input="rows")
    chance, kept, faults = random.Random(seed), rows.clone(), list[str]()
    try:
        whole = _said(detector, rows, [len(rows)])
    except Exception as error:
        return [f"fails on {len(rows)} rows: {type(error).__name__}: {error}"]
    if whole.dtype != torch.bool or whole.shape != (len(rows),):
        shape = f"{whole.dtype} of shape {tuple(whole.shape)}"
        return [f"returns {shape} for {len(rows)} rows: expected a bool for each"]
    splits = [[1] * len(rows), *(_split(len(rows), chance) for _ in range(SPLITS))]
    for sizes in splits:
        try:
            again = _said(detector, rows, sizes)
        except Exception as error:
            faults.append(f"fails when rows come {_shown(sizes)}: {type(error).__name__}: {error}")
            break
        if not torch.equal(again, whole):
            row = int((again != whole).int().argmax()) if again.shape == whole.shape else 0
            faults.append(f"answers row {row} differently when rows come {_shown(sizes)}")
            break
    one, other = detector.begin(1), detector.begin(2)
    first, _, rest = one(rows[:1]), other(rows.flip(0)), one(rows[1:])
    if not torch.equal(torch.cat([_bools(first), _bools(rest)]), whole):
        faults.append("answers differently when it sees another image at the same time")
    if not torch.equal(rows, kept):
        faults.append("changes the rows that it sees")
    return faults


def _said(detector: Detector, rows: Tensor, sizes: Sequence[int]) -> Tensor:
    session = detector.begin(1)
    return torch.cat([_bools(session(part)) for part in rows.split(list(sizes))])


def _bools(said: object) -> Tensor:
    return torch.as_tensor(said).cpu()


def _split(rows: int, chance: random.Random) -> list[int]:
    cuts = sorted(chance.sample(range(1, rows), chance.randrange(1, rows)))
    return [end - first for first, end in zip([0, *cuts], [*cuts, rows], strict=True)]


def _shown(sizes: Sequence[int]) -> str:
    some = ", ".join(map(str, sizes[:6]))
    return f"{some}, ... at a time" if len(sizes) > 6 else f"{some} at a time"
