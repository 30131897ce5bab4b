"""A reference detector, a check for detectors, and the alarms of a detector on harmless queries.

`NearDuplicates` is for tests and examples: its answers can be computed by hand. `check_detector`
tests whether a detector follows the rules of `core/detector.py`. `benign_panel` shows a detector
one session of each kind for each image. A session starts with the image itself and continues with:

    recompressed  JPEG copies at several qualities (needs Pillow)
    cropped       parts of the image, resized to its full size
    brightened    darker and brighter copies
    walk          a small random walk

1. Queries of a panel have the form in which they would be sent to the model (clipped, rounded,
   cast), but only the detector sees them: no query is sent, and nothing is charged.
2. All randomness comes from a seed and the content of the image: equal images have equal panels.
3. If a detector fails on a panel, no error is raised: the panel reports the failure.
"""

from __future__ import annotations

import io
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from .core.cell import check_image
from .core.detector import BenignStats, Detection, Detector, Session, Sessions, check_detector_type
from .core.model import Model, as_model
from .core.noise import content_hash
from .core.validation import check_seed, check_whole, is_number, is_several, require
from .engine.alarms import DIGITS, as_alarms
from .errors import described

__all__ = [
    "BenignStats",
    "Detection",
    "Detector",
    "NearDuplicates",
    "Sessions",
    "benign_panel",
    "check_detector",
]
SPLITS = 6
"""Number of random splits of rows over calls that `check_detector` tries."""
QUALITIES = (95, 85, 75, 60, 50)
CROPS = (0.95, 0.9, 0.85, 0.8, 0.75)
"""Side lengths of the parts, relative to the image."""
BRIGHTNESS = (0.8, 0.9, 1.1, 1.2, 1.3)
WALK_STEPS, WALK_SIZE = 5, 0.01
"""Number of steps of a walk, and the standard deviation of a pixel's change in each."""


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
            for place, row in enumerate(flat):  # one by one: the split must not affect rounding
                recent = queries[max(0, before + place - self.window) : before + place]
                apart = torch.linalg.vector_norm(recent - row, dim=1)
                near[place] = (apart <= self.radius).any()
            counts = near.cumsum(0) + count
            last, count = queries[-self.window :].clone(), counts[-1]
            return near & (counts % self.every == 0)

        return session


def check_detector(detector: Detector, rows: Tensor, seed: int = 0) -> list[str]:
    """Return the rules that a detector breaks.

    The detector sees `rows` (n, c, h, w) in [0,1] in one call, one by one, split at random, and
    interleaved with another image.

    It must return a bool for each row, independent of the split and of other images, and must not
    change the rows.
    """
    check_detector_type(detector)
    check_seed("seed", seed)
    valid = isinstance(rows, Tensor) and rows.ndim == 4 and len(rows) > 1
    require(valid, "rows", rows, "a tensor (n, c, h, w) with two rows or more")
    chance, kept, faults = random.Random(int(seed)), rows.clone(), list[str]()

    def said(sizes: list[int]) -> Tensor:
        session = detector.begin(1)
        return torch.cat([as_alarms(session(part), len(part)).cpu() for part in rows.split(sizes)])

    try:
        whole = said([len(rows)])
    except (Exception, SystemExit) as error:
        return [f"fails on {len(rows)} rows: {described(error)}"]
    for sizes in ([1] * len(rows), *(_split(len(rows), chance) for _ in range(SPLITS))):
        some = ", ".join(map(str, sizes[:6])) + (", ..." if len(sizes) > 6 else "")
        try:
            again = said(sizes)
        except (Exception, SystemExit) as error:
            faults.append(f"fails when rows come {some} at a time: {described(error)}")
            break
        if not torch.equal(again, whole):
            row = int((again != whole).int().argmax())
            faults.append(f"answers row {row} differently when rows come {some} at a time")
            break
    try:
        one, other = detector.begin(1), detector.begin(2)
        first, between, rest = one(rows[:1]), other(rows.flip(0)), one(rows[1:])
        as_alarms(between, len(rows))
        again = torch.cat([as_alarms(first, 1).cpu(), as_alarms(rest, len(rows) - 1).cpu()])
        if not torch.equal(again, whole):
            faults.append("answers differently when it sees another image at the same time")
    except (Exception, SystemExit) as error:
        faults.append(f"fails when it sees another image at the same time: {described(error)}")
    if not torch.equal(rows, kept):
        faults.append("changes the rows that it sees")
    return faults


def _split(rows: int, chance: random.Random) -> list[int]:
    cuts = sorted(chance.sample(range(1, rows), chance.randrange(1, rows)))
    return [end - first for first, end in zip([0, *cuts], [*cuts, rows], strict=True)]


def benign_panel(
    detector: Detector, images: Iterable[Tensor], model: Model, seed: int = 0
) -> BenignStats:
    """Count the alarms of a detector on harmless queries about images (c, h, w) in [0,1], in the
    form in which they would be sent to `model`."""
    check_detector_type(detector)
    require(is_several(images), "images", images, "images (c, h, w)")
    check_seed("seed", seed)
    model, kinds, missing = as_model(model), dict(KINDS), list[str]()
    found = dict.fromkeys(kinds, Sessions())
    for place, image in enumerate(images):
        check_image(image, f"image {place}")
        reason = _no_jpeg(image)
        if reason and kinds.pop("recompressed", None) is not None:
            del found["recompressed"]
            missing.append(reason)
        number = int(content_hash(image)[:DIGITS], 16)
        for name, queries in kinds.items():
            generator = torch.Generator().manual_seed((number + seed) % 2**63)
            plain = image.cpu().double()
            session = torch.cat([plain[None], queries(plain, generator)])
            rows = model.sent(session.to(model.device, model.dtype))
            try:
                said = as_alarms(detector.begin(number)(rows), len(rows)).cpu()
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # from the user's code
                failed = f"the detector failed on it: {described(error)}"
                return BenignStats(found, (*missing, failed))
            alarms = int(said.sum())
            found[name] += Sessions(1, int(alarms > 0), len(rows), alarms)
    return BenignStats(found, tuple(missing))


def _no_jpeg(image: Tensor) -> str:
    """Return the reason why an image cannot be compressed as JPEG; empty if it can."""
    if find_spec("PIL") is None:
        return "no session is recompressed: Pillow is not installed (pip install 'tollbox[cli]')"
    if len(image) not in (1, 3):
        return f"no session is recompressed: JPEG does not support {len(image)} channels"
    return ""


def _recompressed(image: Tensor, generator: torch.Generator) -> Tensor:  # noqa: ARG001
    from PIL import Image

    pixels = image.mul(255).round().clamp(0, 255).byte().permute(1, 2, 0).contiguous().numpy()
    encoded = Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels)
    copies = []
    for quality in QUALITIES:
        file = io.BytesIO()
        encoded.save(file, "JPEG", quality=quality)
        array = np.asarray(Image.open(file, formats=["JPEG"])).astype(np.float64) / 255
        copies.append(torch.from_numpy(array).view(*pixels.shape).permute(2, 0, 1))
    return torch.stack(copies)


def _cropped(image: Tensor, generator: torch.Generator) -> Tensor:
    _, height, width = image.shape
    copies = []
    for share in CROPS:
        h, w = max(1, round(share * height)), max(1, round(share * width))
        top = int(torch.randint(height - h + 1, (), generator=generator))
        left = int(torch.randint(width - w + 1, (), generator=generator))
        part = image[None, :, top : top + h, left : left + w]
        copies.append(functional.interpolate(part, (height, width), mode="bilinear")[0])
    return torch.stack(copies)


def _brightened(image: Tensor, generator: torch.Generator) -> Tensor:  # noqa: ARG001
    return torch.stack([(image * factor).clamp(0, 1) for factor in BRIGHTNESS])


def _walk(image: Tensor, generator: torch.Generator) -> Tensor:
    points, point = [], image
    for _ in range(WALK_STEPS):
        step = torch.randn(image.shape, generator=generator, dtype=image.dtype)
        point = (point + WALK_SIZE * step).clamp(0, 1)
        points.append(point)
    return torch.stack(points)


Queries = Callable[[Tensor, torch.Generator], Tensor]
KINDS: dict[str, Queries] = {
    "recompressed": _recompressed,
    "cropped": _cropped,
    "brightened": _brightened,
    "walk": _walk,
}
