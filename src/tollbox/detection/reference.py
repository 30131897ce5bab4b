"""A reference detector, and a check of custom detectors.

`NearDuplicates` is for tests and examples: its answers can be computed by hand. `check_detector`
tests whether a detector follows the rules of `core/detector.py`.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import torch
from torch import Tensor

from ..core.detector import Detector, Session, check_detector_type
from ..core.validation import check_whole, is_number, require
from ..engine.alarms import as_alarms

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
        valid = is_number(self.radius) and self.radius >= 0
        require(valid, "radius", self.radius, "a number, 0 or more")
        check_whole("window", self.window, 1)
        check_whole("every", self.every, 1)

    def begin(self, image: int, /) -> Session:  # noqa: ARG002
        last: Tensor | None = None  # the last queries
        count: Tensor | int = 0  # near duplicates so far

        def session(rows: Tensor) -> Tensor:
            nonlocal last, count
            flat = rows.flatten(1)
            last = flat[:0] if last is None else last
            before, queries = len(last), torch.cat([last, flat])
            near = torch.zeros(len(flat), dtype=torch.bool, device=flat.device)
            for place, row in enumerate(flat):  # row by row: rounding depends on no split
                recent = queries[max(0, before + place - self.window) : before + place]
                apart = torch.linalg.vector_norm(recent - row, dim=1)
                near[place] = (apart <= self.radius).any()
            counts = near.cumsum(0) + count
            last, count = queries[-self.window :].clone(), counts[-1]
            return near & (counts % self.every == 0)

        return session


def check_detector(detector: Detector, rows: Tensor, seed: int = 0) -> list[str]:
    """Return the rules that a detector breaks.

    It sees `rows` (n, c, h, w) in [0,1] in one call, one by one, split at random, and interleaved
    with another image.

    It must return a bool for each row, independent of the split and of other images, and must not
    change the rows.
    """
    check_detector_type(detector)
    valid = isinstance(rows, Tensor) and rows.ndim == 4 and len(rows) > 1
    require(valid, "rows", rows, "a tensor (n, c, h, w) with two rows or more")
    chance, kept, faults = random.Random(seed), rows.clone(), list[str]()

    def said(sizes: list[int]) -> Tensor:
        session = detector.begin(1)
        return torch.cat([as_alarms(session(part), len(part)).cpu() for part in rows.split(sizes)])

    try:
        whole = said([len(rows)])
    except Exception as error:
        return [f"fails on {len(rows)} rows: {type(error).__name__}: {error}"]
    for sizes in ([1] * len(rows), *(_split(len(rows), chance) for _ in range(SPLITS))):
        some = ", ".join(map(str, sizes[:6])) + (", ..." if len(sizes) > 6 else "")
        try:
            again = said(sizes)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            faults.append(f"fails when rows come {some} at a time: {reason}")
            break
        if not torch.equal(again, whole):
            row = int((again != whole).int().argmax())
            faults.append(f"answers row {row} differently when rows come {some} at a time")
            break
    one, other = detector.begin(1), detector.begin(2)
    first, _, rest = one(rows[:1]), other(rows.flip(0)), one(rows[1:])
    again = torch.cat([torch.as_tensor(answers).cpu() for answers in (first, rest)])
    if not torch.equal(again, whole):
        faults.append("answers differently when it sees another image at the same time")
    if not torch.equal(rows, kept):
        faults.append("changes the rows that it sees")
    return faults


def _split(rows: int, chance: random.Random) -> list[int]:
    cuts = sorted(chance.sample(range(1, rows), chance.randrange(1, rows)))
    return [end - first for first, end in zip([0, *cuts], [*cuts, rows], strict=True)]
