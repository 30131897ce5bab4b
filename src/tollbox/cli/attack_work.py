"""`tollbox attack`: a user's own model, images and prices.

It is a study of one attack: all that is answered is recorded in the output folder first.

1. All input is checked before the first query; a mistake is reported in one sentence, and nothing
   is written.
2. Ctrl-C ends the run with what was reached, which is saved like any other result; exit code 130
   (SIGTERM: 143).
3. If all runs that were begun failed, that is reported with the first reason; exit code 1.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ..attacks.surrogates import Surrogate
from ..data.output import check_free
from ..studies.create import begin
from ..studies.events import Options
from ..studies.fingerprint import current_environment
from ..studies.inputs import Loaded, load
from . import parsing as choices
from .attack import AttackOptions
from .attack_files import finish
from .attack_study import study_of
from .study_run import keeping, run_left, say_findings


def attack(options: AttackOptions) -> int:
    """Run the study of one attack that the options mean, and write its files."""
    limit = choices.seconds(options.time_limit)
    check_free(options.out)
    loaded = load(study_of(options))
    settings, force = _settings(options, loaded), options.force_workers
    say_findings(begin(loaded, options.out, "attack", settings=settings, force_workers=force))
    how = Options(time_limit=limit, force_workers=force)
    with keeping(options.out):
        outcome, interruption = run_left(options.out, how, loaded)
        return finish(options.out, outcome, interruption, loaded)


def _settings(options: AttackOptions, loaded: Loaded) -> dict[str, Any]:
    """What it takes to run the attack again, for ledger.json."""
    study, [model], [tariff] = loaded.study, loaded.study.models, loaded.study.tariffs
    prices, environment = tariff.prices, current_environment(loaded.device)
    resizing = loaded.images.resizing
    classes = None if prices.classes is None else {str(k): v for k, v in prices.classes.items()}
    return {
        "attack": study.attacks[0].name,
        "attack_parts": repr(loaded.attack(study.attacks[0])),
        "surrogate": _surrogate_settings(options, loaded.surrogate(study.attacks[0])),
        "target": options.target,
        "flagged": None if options.flagged is None else str(options.flagged),
        "start": None if options.start is None else str(options.start),
        "mask": None if options.mask is None else str(options.mask),
        "mask_digest": loaded.masks_digest,
        "price": options.price,
        "prices": {
            "source": prices.source,
            "other": prices.other,
            "classes": classes,
            "escalation": None if prices.escalation is None else asdict(prices.escalation),
        },
        "norm": str(study.norm),
        "budget": tariff.budget,
        "max_queries": tariff.max_queries,
        "max_flagged": tariff.max_flagged,
        "watch": options.watch,
        "alarm_price": options.alarm_price,
        "max_alarms": options.max_alarms,
        "time_limit": options.time_limit,
        "seed": options.seed,
        "model": options.model,
        "model_sha256": loaded.fingerprint(model).file,
        "names": None if options.names is None else str(options.names),
        "mean": options.mean,
        "std": options.std,
        "quantize": options.quantize,
        "running": dict(loaded.fingerprint(model).running or {}),
        "classes": loaded.model(model).classes,
        "images": str(options.images),
        "labels": None if options.labels is None else str(options.labels),
        "limit": options.limit,
        "resizing": None if resizing is None else asdict(resizing),
        "device": str(loaded.device),
        "batch_size": options.batch_size,
        "workers": options.workers,
        "metered": options.metered,
        "exact": options.exact,
        "versions": {
            name: getattr(environment, name) for name in ("tollbox", "torch", "numpy", "python")
        },
    }


def _surrogate_settings(
    options: AttackOptions, surrogate: Surrogate | None
) -> dict[str, Any] | None:
    """Which surrogate there is."""
    if surrogate is None:
        return None
    return {
        "source": list(options.surrogate),
        "mean": options.surrogate_mean,
        "std": options.surrogate_std,
        "digest": surrogate.digest,
    }
