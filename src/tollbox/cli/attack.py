"""`tollbox attack`: a study of one attack on your own model, with output files of its own.

1. All input is checked before the first query. A mistake is reported in one sentence, and nothing
   is written.
2. Every answer is recorded in the output folder before it is used, so that `tollbox resume` can
   continue. Ctrl-C stops the run and saves what was reached.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from .options import (
    FORCE_HELP,
    IMAGES,
    MODEL,
    TIME_HELP,
    DtypeName,
    FileOrText,
    ModelOptions,
    NormName,
    PresetName,
    number_in,
    option,
    seconds,
)

if TYPE_CHECKING:
    from ..studies.inputs import StudyInputs
    from ..studies.study import Study


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class AttackOptions(ModelOptions):
    model: Annotated[FileOrText, MODEL] = field()
    images: Annotated[Path, IMAGES] = field()
    out: Path
    """Folder for the results: a new one, or an empty one."""
    dtype: Annotated[DtypeName | None, option("models", "dtype", metavar="DTYPE")] = None
    compile: Annotated[bool, option("models", "compile")] = False
    cuda_graphs: Annotated[bool, option("models", "cuda_graphs")] = False
    tf32: Annotated[bool, option("models", "tf32")] = False
    attack: Annotated[PresetName, option("attacks", "preset", metavar="PRESET")] = "a-hsja"
    target: Annotated[int | None, option("goal", "target")] = None
    start: Annotated[Path | None, option("goal", "start")] = None
    mask: Annotated[Path | None, option("goal", "mask")] = None
    price: Annotated[FileOrText, option("prices", "ratio", metavar="PRICE")] = "1"
    norm: Annotated[NormName, option("study", "norm", metavar="NORM")] = "l2"
    budget: Annotated[float | None, option("study", "budget")] = None
    max_queries: Annotated[int | None, option("study", "max_queries")] = None
    max_flagged: Annotated[int | None, option("study", "max_flagged")] = None
    detector: Annotated[str | None, option("detector", "source")] = None
    alarm_price: Annotated[float | None, option("detector", "alarm_price")] = None
    max_alarms: Annotated[int | None, option("detector", "max_alarms")] = None
    time_limit: Annotated[str | None, Parameter(help=TIME_HELP)] = None
    check: Annotated[bool, option("study", "check")] = False
    force_workers: Annotated[bool, Parameter(help=FORCE_HELP)] = False


def attack(options: AttackOptions) -> int:
    """Attack your own model on your own images, under a price for flagged answers.

    Writes adversarial.npz, PNGs of the adversarial images, results.csv and ledger.json into --out.
    Ctrl-C ends the run and saves what was reached; `tollbox resume` continues it, whatever
    stopped it.
    """
    from ..data.output import check_free
    from ..studies.create import create
    from ..studies.events import Options
    from ..studies.inputs import load
    from .attack_files import finish
    from .output import preparing, say
    from .study_run import keeping, run_left

    limit, force = seconds(options.time_limit), options.force_workers
    check_free(options.out)
    with preparing(limit):
        loaded = load(study_of(options), trust=options.trust_model)
        settings = _settings(options, loaded)
        notes = create(loaded, options.out, "attack", settings=settings, force_workers=force)
    for finding in notes:
        say(f"Note: {finding}")
    how = Options(time_limit=limit, force_workers=force, trust=options.trust_model)
    with keeping(options.out):
        outcome, interruption = run_left(options.out, how, loaded)
        return finish(options.out, outcome, interruption, loaded)


def study_of(options: AttackOptions) -> Study:
    from ..studies.specs import AttackSpec, DetectorSpec, Tariff

    price: float | str = options.price
    with contextlib.suppress(ValueError):  # not a number: the path of a CSV
        price = number_in(str(options.price))
    limits = options.given("prices")
    limits = {name: math.inf if value is None else value for name, value in limits.items()}
    options.check_complete("detector", "alarm_price", "max_alarms")
    detector = options.detector
    terms = {name: each for name, each in options.given("detector").items() if each is not None}
    return options.study(
        "attack",
        name="attack",
        attacks=[AttackSpec.of(options.attack, options.surrogate_spec())],
        tariffs=[Tariff.of(price, **limits)],
        seeds=[options.seed],
        detector=None if detector is None else DetectorSpec(detector, **terms),
        keep_images=True,
    )


def _settings(options: AttackOptions, loaded: StudyInputs) -> dict[str, Any]:
    """Return everything needed to repeat the attack, for ledger.json."""
    from ..studies.fingerprint import current_environment

    study = loaded.study
    [model], [spec], [tariff] = study.models, study.attacks, study.tariffs
    resizing, surrogate = loaded.images.resizing, loaded.surrogate(spec)
    given = {
        name: str(value) if isinstance(value, Path) else value
        for name, value in vars(options).items()
        if name not in ("out", "force_workers", "trust_model") and "surrogate_" not in name
    }
    network = surrogate and {
        "source": list(options.surrogate),
        **surrogate.settings,
        "digest": surrogate.digest,
    }
    versions = asdict(current_environment(loaded.device))
    del versions["device"]
    return {
        **given,
        "time_limit": seconds(options.time_limit),
        "attack": spec.name,
        "attack_parts": repr(loaded.attack(spec)),
        "surrogate": network,
        "mask_digest": loaded.masks_digest,
        "prices": asdict(tariff.prices),
        **asdict(tariff.limits),
        "model_sha256": loaded.file_digest(model),
        "running": dict(loaded.model_record(model).running),
        "classes": loaded.model(model).classes,
        "resizing": None if resizing is None else asdict(resizing),
        "device": str(loaded.device),
        "versions": versions,
    }
