"""The study of one attack that the options of `tollbox attack` mean."""

from __future__ import annotations

import math

from ..core.detector import Detection, RecordedAlarms
from ..core.execution import LARGEST_BATCH
from ..core.metric import norm_of
from ..core.validation import DTYPE_NAMES, DTYPES
from ..data.classes import flagged_classes
from ..data.resizing import Resizing
from ..errors import InputError, mention
from ..studies.schema import (
    AttackSpec,
    GoalSpec,
    ImagesSpec,
    ModelSpec,
    SurrogateSpec,
    Tariff,
    WatchSpec,
)
from ..studies.study import Study
from . import parsing as choices
from .attack import AttackOptions
from .options import LARGEST_SEED


def study_of(options: AttackOptions) -> Study:
    """The study of one attack that the options mean."""
    choices.within("seed", options.seed, -LARGEST_SEED, LARGEST_SEED)
    choices.within("limit", options.limit, 1)
    choices.within("quantize", options.quantize, 1, 16)
    choices.within("batch_size", options.batch_size, 1, LARGEST_BATCH)
    choices.within("workers", options.workers, 1)
    if options.dtype is not None and options.dtype not in DTYPES:
        raise InputError(f"is {options.dtype!r}", expected=DTYPE_NAMES, input="dtype")
    return Study.of(
        name="attack",
        where="tollbox attack",
        images=ImagesSpec.of(
            str(options.images),
            labels=options.labels,
            limit=options.limit,
            resizing=Resizing.of(
                choices.side("resize", options.resize),
                choices.side("crop", options.crop),
                options.interpolation,
            ),
            names=options.names,
        ),
        models=[
            ModelSpec.of(
                options.model,
                name="model",
                mean=choices.numbers("mean", options.mean),
                std=choices.numbers("std", options.std),
                quantize=options.quantize,
                dtype=options.dtype,
                compile=options.compile,
                cuda_graphs=options.cuda_graphs,
                tf32=options.tf32,
            )
        ],
        attacks=[AttackSpec.of(options.attack, _surrogate(options))],
        tariffs=[
            Tariff.of(
                choices.price(options.price),
                budget=math.inf if options.budget is None else options.budget,
                max_queries=math.inf if options.max_queries is None else options.max_queries,
                max_flagged=math.inf if options.max_flagged is None else options.max_flagged,
            )
        ],
        seeds=[options.seed],
        goal=GoalSpec(
            options.target,
            options.start,
            None if options.flagged is None else flagged_classes(options.flagged),
            mask=options.mask,
        ),
        norm=norm_of(options.norm),
        watch=_watch(options),
        device=options.device,
        batch_size=options.batch_size,
        workers=options.workers,
        metered=options.metered,
        check=options.check,
        exact=options.exact,
        keep_images=True,
    )


def _watch(options: AttackOptions) -> WatchSpec | None:
    """What the options say of a detector."""
    price = 0.0 if options.alarm_price is None else options.alarm_price
    most = math.inf if options.max_alarms is None else options.max_alarms
    if options.watch is not None:
        return WatchSpec(options.watch, price, most)
    Detection(RecordedAlarms(), price, most)
    if price > 0 or most < math.inf:
        raise InputError(
            f"is given, and {mention('watch')} is not",
            expected=f"a detector as {mention('watch')}, or neither",
            input="alarm_price" if price > 0 else "max_alarms",
        )
    return None


def _surrogate(options: AttackOptions) -> SurrogateSpec | None:
    """What the options say of a surrogate."""
    mean = choices.numbers("surrogate_mean", options.surrogate_mean)
    std = choices.numbers("surrogate_std", options.surrogate_std)
    if options.surrogate:
        return SurrogateSpec.of(*options.surrogate, mean=mean, std=std)
    if mean is not None or std is not None:
        raise InputError(
            f"is given, and {mention('surrogate')} is not",
            expected="both, or neither",
            input="surrogate_std" if mean is None else "surrogate_mean",
        )
    return None
