"""`tollbox attack`: a study of one attack on your own model, with its own files.

1. All input is checked before the first query. A mistake is reported in one sentence, and nothing
   is written.
2. Every answer is recorded in the output folder first, so that `tollbox resume` can continue.
   Ctrl-C stops the run and saves what was reached; exit code 130 (SIGTERM: 143).
3. If all runs that started failed, the first reason is reported; exit code 1.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from ..core.metric import norm_of
from ..errors import InputError, mention
from .options import (
    FORCE_HELP,
    IMAGES,
    MODEL,
    DtypeName,
    FileOrText,
    ModelOptions,
    NormName,
    PresetName,
    flag,
    option,
)
from .parsing import numbers, price, seconds

if TYPE_CHECKING:
    from ..studies.inputs import StudyInputs
    from ..studies.specs import DetectorSpec, SurrogateSpec
    from ..studies.study import Study

SLOW_IMPORTS = (".attack_files", ".study_run")


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class AttackOptions(ModelOptions):
    """The options of `tollbox attack`."""

    model: Annotated[FileOrText, MODEL] = field()
    images: Annotated[Path, IMAGES] = field()
    out: Annotated[Path, Parameter(help="Folder for the results: a new one, or an empty one.")]
    dtype: Annotated[DtypeName | None, option("models", "dtype", metavar="DTYPE")] = None
    compile: Annotated[bool, option("models", "compile")] = False
    cuda_graphs: Annotated[bool, option("models", "cuda_graphs")] = False
    tf32: Annotated[bool | None, option("models", "tf32")] = None
    attack: Annotated[PresetName, option("attacks", "preset", metavar="PRESET")] = "a-hsja"
    surrogate: Annotated[
        tuple[FileOrText, ...],
        option("attacks", "surrogate", metavar="NETWORK", negative="", show_default=False),
    ] = ()
    surrogate_mean: Annotated[str | None, option("surrogate", "mean")] = None
    surrogate_std: Annotated[str | None, option("surrogate", "std")] = None
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
    time_limit: Annotated[float | None, Parameter(help="Seconds after which the run stops.")] = None
    check: Annotated[bool, option("study", "check")] = False
    force_workers: Annotated[bool, flag(FORCE_HELP)] = False


def attack(options: AttackOptions) -> int:
    """Attack your own model on your own images, under a price for flagged answers.

    Writes adversarial.npz, PNGs of the adversarial images, results.csv and ledger.json into --out.
    Ctrl-C ends the run and saves what was reached; `tollbox resume` continues after a stop of any
    kind.
    """
    from ..data.output import check_free
    from ..studies.create import create
    from ..studies.events import Options
    from ..studies.inputs import load
    from .attack_files import finish
    from .study_run import keeping, run_left, say_findings

    limit, force = seconds(options.time_limit), options.force_workers
    check_free(options.out)
    loaded = load(study_of(options))
    settings = _settings(options, loaded)
    say_findings(create(loaded, options.out, "attack", settings=settings, force_workers=force))
    how = Options(time_limit=limit, force_workers=force)
    with keeping(options.out):
        outcome, interruption = run_left(options.out, how, loaded)
        return finish(options.out, outcome, interruption, loaded)


def study_of(options: AttackOptions) -> Study:
    """Return the study of one attack that the options describe."""
    from ..studies.specs import AttackSpec, GoalSpec, Tariff
    from ..studies.study import Study

    limits: dict[str, Any] = {
        name: math.inf if (value := getattr(options, name)) is None else value
        for name in ("budget", "max_queries", "max_flagged")
    }
    return Study(
        name="attack",
        where="tollbox attack",
        images=options.images_spec(),
        models=[
            options.model_spec(
                name="model",
                quantize=options.quantize,
                dtype=options.dtype,
                compile=options.compile,
                cuda_graphs=options.cuda_graphs,
                tf32=options.tf32,
            )
        ],
        attacks=[AttackSpec.of(options.attack, _surrogate(options))],
        tariffs=[Tariff.of(price(options.price), **limits)],
        seeds=[options.seed],
        goal=GoalSpec(
            target=options.target,
            start=options.start,
            flagged=options.flagged_classes,
            mask=options.mask,
        ),
        norm=norm_of(options.norm),
        detector=_detector(options),
        device=options.device,
        execution=options.execution(check=options.check),
        keep_images=True,
    )


def _detector(options: AttackOptions) -> DetectorSpec | None:
    from ..studies.specs import DetectorSpec

    given = {name: getattr(options, name) for name in ("alarm_price", "max_alarms")}
    given = {name: value for name, value in given.items() if value is not None}
    if options.detector is not None:
        return DetectorSpec(options.detector, **given)
    for name in given:
        raise InputError(
            f"is given, and {mention('detector')} is not",
            expected=f"a detector as {mention('detector')}, or neither",
            input=name,
        )
    return None


def _surrogate(options: AttackOptions) -> SurrogateSpec | None:
    from ..studies.specs import SurrogateSpec

    mean = numbers("surrogate_mean", options.surrogate_mean)
    std = numbers("surrogate_std", options.surrogate_std)
    if options.surrogate:
        return SurrogateSpec.of(*options.surrogate, mean=mean, std=std)
    if mean is not None or std is not None:
        raise InputError(
            f"is given, and {mention('surrogate')} is not",
            expected="both, or neither",
            input="surrogate_std" if mean is None else "surrogate_mean",
        )
    return None


def _settings(options: AttackOptions, loaded: StudyInputs) -> dict[str, Any]:
    """Return all that is needed to run the attack again, for ledger.json."""
    from ..studies.fingerprint import current_environment

    study, [model], [tariff] = loaded.study, loaded.study.models, loaded.study.tariffs
    prices, environment = tariff.prices, current_environment(loaded.device)
    resizing, surrogate = loaded.images.resizing, loaded.surrogate(study.attacks[0])
    classes = None if prices.classes is None else {str(k): v for k, v in prices.classes.items()}
    given = {
        name: str(value) if isinstance(value, Path) else value
        for name, value in vars(options).items()
        if name not in ("out", "force_workers", "surrogate_mean", "surrogate_std")
    }
    return {
        **given,
        "attack": study.attacks[0].name,
        "attack_parts": repr(loaded.attack(study.attacks[0])),
        "surrogate": None
        if surrogate is None
        else {
            "source": list(options.surrogate),
            "mean": options.surrogate_mean,
            "std": options.surrogate_std,
            "digest": surrogate.digest,
        },
        "mask_digest": loaded.masks_digest,
        "prices": {
            "source": prices.source,
            "other": prices.other,
            "classes": classes,
            "escalation": None if prices.escalation is None else asdict(prices.escalation),
        },
        **asdict(tariff.limits),
        "model_sha256": loaded.file_digest(model),
        "running": dict(loaded.model_record(model).running),
        "classes": loaded.model(model).classes,
        "resizing": None if resizing is None else asdict(resizing),
        "device": str(loaded.device),
        "versions": {
            name: getattr(environment, name) for name in ("tollbox", "torch", "numpy", "python")
        },
    }
