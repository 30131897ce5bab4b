"""The model check: is this model fit to be measured?

Uncharged, on a few images, before a run: the same image must get the same label every time, alone
or among others, in any order, and whatever it is padded with; and a network must be in eval mode.
Each finding is a sentence. A model that fails here gives results that depend on the batch.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from .core.arguments import check_whole
from .core.model import Model, as_model
from .engine.engine import LARGEST_BATCH
from .errors import InputError

CHECKED_IMAGES = 8
"""Images that a model is checked on before a run."""


def check_model(model: Model, images: Tensor, batch_size: int) -> list[str]:
    """What makes the model unfit; empty if nothing was found. `images` are a few, (n, c, h, w).

    Clean images lie far from any boundary, so the points probed are also blends of pairs of images
    half-way, where decisions are close.
    """
    model = as_model(model)
    check_whole("batch_size", batch_size, 1, LARGEST_BATCH)
    if not isinstance(images, Tensor) or images.ndim != 4 or len(images) == 0:
        given = f"has shape {tuple(images.shape)}" if isinstance(images, Tensor) else "is no tensor"
        raise InputError(given, expected="a tensor (n, c, h, w), not empty", input="images")
    findings = []
    if model.network is not None and model.network.training:
        findings.append("The network is in training mode: call .eval() on it.")
    images = images.to(model.device, model.work_dtype)
    blends = torch.lerp(images, images.roll(1, 0), 0.5)
    probes = torch.cat([images, blends])[:batch_size]
    try:
        findings += _differences(model, probes, batch_size)
    except Exception as error:
        findings.append(f"The model failed on a batch: {type(error).__name__}: {error}")
    return findings


def _differences(model: Model, probes: Tensor, batch_size: int) -> list[str]:
    count = len(probes)

    def ask(points: Tensor, filler: Callable[[int], Tensor]) -> Tensor:
        missing = batch_size - len(points)
        padded = torch.cat([points, filler(missing)]) if missing else points.clone()
        return model(model.sent(padded))[: len(points)].cpu()

    def repeated(rows: int) -> Tensor:
        return probes[:1].expand(rows, *probes.shape[1:])

    def grey(rows: int) -> Tensor:
        return torch.full((rows, *probes.shape[1:]), 0.5).to(probes)

    first = ask(probes, repeated)
    back = torch.arange(count - 1, -1, -1)
    alone = torch.cat([ask(probes[i : i + 1], repeated) for i in range(count)])
    repeats = [
        ("asked twice", ask(probes, repeated)),
        ("asked in reverse order", ask(probes.flip(0), repeated)[back]),
        ("padded with other images", ask(probes, grey)),
        ("asked alone in a padded batch", alone),
    ]
    findings = []
    for how, labels in repeats:
        changed = int((labels != first).sum())
        if changed:
            findings.append(
                f"{changed} of {count} labels changed when the same images were {how}: results "
                "would depend on the batch."
            )
    return findings
