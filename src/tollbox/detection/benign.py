"""A benign panel: the alarms of a detector on harmless queries.

Each image has one session of each kind, which starts with the image itself:

    recompressed  as JPEG, at several qualities (needs Pillow)
    cropped       parts of the image, resized to the whole
    brightened    darker and brighter copies
    walk          a small random walk

1. Queries have the form in which the model is sent images (clipped, rounded, cast), but only the
   detector sees them: no query is sent, and nothing is charged.
2. Everything is drawn from a seed and the content of the image: equal images have equal panels.
3. A detector that fails here is not refused; the panel reports the failure.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from importlib.util import find_spec

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from ..core.detector import BenignStats, Detector, Sessions
from ..core.model import Model
from ..core.noise import content_hash
from ..engine.alarms import DIGITS, as_alarms

QUALITIES = (95, 85, 75, 60, 50)
CROPS = (0.95, 0.9, 0.85, 0.8, 0.75)
"""Sides of the parts, relative to the whole."""
BRIGHTNESS = (0.8, 0.9, 1.1, 1.2, 1.3)
WALK_STEPS, WALK_SIZE = 5, 0.01
"""Number of steps of a walk, and the standard deviation of a pixel's change in each."""


def benign_panel(
    detector: Detector, images: Iterable[Tensor], model: Model, seed: int = 0
) -> BenignStats:
    """Count the alarms of a detector on harmless queries about images (c, h, w) in [0,1], in the
    form in which `model` would be sent them."""
    kinds, missing = dict(KINDS), list[str]()
    found = dict.fromkeys(kinds, Sessions())
    for image in images:
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
            except (Exception, SystemExit) as error:  # the user's own code
                failed = f"the detector failed on it: {type(error).__name__}: {error}"
                return BenignStats(found, (*missing, failed))
            alarms = int(said.sum())
            found[name] += Sessions(1, int(alarms > 0), len(rows), alarms)
    return BenignStats(found, tuple(missing))


def _no_jpeg(image: Tensor) -> str:
    """Return why an image cannot be compressed as JPEG; empty if it can."""
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
        array = np.asarray(Image.open(file)).astype(np.float64) / 255
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
