"""`tollbox audit`: what it costs to attack your own model, and what would make it uneconomic.

1. An audit is a study in --out. The same command resumes it, and so does `tollbox resume`.
2. Without --model nothing is run: the recorded audit in --out is read again with the given --worth,
   --epsilon, --policy and --against. That needs no model.
3. audit.json and audit.html are written whenever a run ends, finished or not.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from ..errors import InputError, mention
from .options import ModelOptions, option
from .output import JSON, console, print_json
from .parsing import OPTIONS

if TYPE_CHECKING:
    from ..audits.audit import Audit
    from ..audits.criteria import Criteria
    from ..audits.suite import Suite
    from ..studies.events import Outcome
    from ..studies.inputs import StudyInputs
    from ..studies.study import Study

SLOW_IMPORTS = ("..audits.audit", ".study_run")
LIMIT = 50
"""Number of images by default."""
SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600}


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class AuditOptions(ModelOptions):
    """The options of `tollbox audit`."""

    limit: Annotated[int, option("images", "limit")] = LIMIT
    out: Annotated[
        Path, Parameter(help="Folder for the recorded answers, audit.html and audit.json.")
    ]
    budget: Annotated[
        float | None,
        Parameter(
            help="Maximum cost of an attack on one image where all answers cost 1; it grows with "
            "the price. Default: 2000, and 5000 for large images."
        ),
    ] = None
    time: Annotated[
        str | None,
        Parameter(
            help="Time after which the run stops, as 90s, 8m or 1h; the finished part is reported."
        ),
    ] = None
    worth: Annotated[
        float | None,
        Parameter(help="Value of an adversarial image, in the price of an other answer."),
    ] = None
    epsilon: Annotated[
        str | None,
        Parameter(help="Allowed perturbations: l2 distances as 0.5,1, or 2/255,4/255."),
    ] = None
    policy: Annotated[
        Path | None,
        Parameter(
            help="CSV with the columns flagged and price: one more line, for a price that grows."
        ),
    ] = None
    against: Annotated[Path | None, Parameter(help="Folder of another audit to compare with.")] = (
        None
    )
    json: Annotated[bool, JSON] = False


def audit(options: AuditOptions) -> int:
    """Measure what it costs to attack your own model, and what would make it unprofitable.

    Runs a fixed suite of attacks at several prices; every answer is recorded in --out. Without
    --model, the audit in --out is read again. Ctrl-C stops the run, and the same command resumes
    it.
    """
    from ..audits.audit import conclude, options_of, settings_of
    from ..audits.compare import check_other
    from ..audits.criteria import Criteria
    from ..studies.create import create, holds
    from .study_run import keeping, run_left

    limit = duration(options.time)
    questions = Criteria.of(options.worth, options.epsilon, options.policy)
    if options.model is None:
        _check_asked(options)
        show(conclude(options.out, questions, other=options.against), options.json)
        return 0
    suite, loaded = prepared(options)
    if options.against is not None:  # before anything is run for it
        known = set(zip(loaded.hashes, loaded.images.labels, strict=True))
        check_other(options.against, loaded.images.images.shape[1:], known)
    if not holds(loaded.study, options.out):
        settings = settings_of(suite, loaded.images.images, questions)
        create(loaded, options.out, "audit", settings=settings)
    with keeping(options.out):
        outcome, interruption = run_left(options.out, options_of(limit), loaded)
        return finish(options.out, outcome, interruption, loaded, questions, options)


def _check_asked(options: AuditOptions) -> None:
    """Raise InputError if an option is given that only a run reads, but no model."""
    arguments = {option: name for name, option in OPTIONS.items()}
    both = f"{mention('model')} and {mention('path')} to run an audit"
    for each in fields(options):
        read = each.name in ("out", "worth", "epsilon", "policy", "against", "json")
        if not read and getattr(options, each.name) != each.default:
            raise InputError(
                f"is given, and {mention('model')} is not",
                expected=f"{both}, or neither to read one that is recorded",
                input=arguments.get(f"--{each.name}", each.name),
            )
    if not options.out.exists():
        raise InputError(
            f"is not given, and there is no {options.out}",
            expected=f"{both}, or the folder of one that is recorded",
            input="model",
        )


def duration(text: str | None) -> float:
    """Return '8m' in seconds; infinite for None."""
    if text is None:
        return math.inf
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smh]?)\s*", text)
    if match is None or float(match[1]) <= 0:
        raise InputError(f"is {text!r}", expected="a time, as 90s, 8m or 1h", input="time")
    return float(match[1]) * SECONDS[match[2]]


def prepared(options: AuditOptions, name: str = "") -> tuple[Suite, StudyInputs]:
    """Return the suite and the study that the options describe, with its images."""
    from ..audits.audit import keeps_images
    from ..audits.suite import Suite
    from ..studies.inputs import load
    from ..studies.store.store import read_record

    if options.images is None:
        raise InputError("is not given", expected="the images to attack", input="path")
    record = read_record(options.out)
    budget = Suite().budget if options.budget is None else options.budget
    study = study_of(options, Suite(budget), keep_images=True, name=name)
    # The default budget, and what is kept, depend on the size of the images, which load first.
    kept_record = record if record is not None and record.made_by == "audit" else None
    loaded = load(study, record=kept_record)
    images = loaded.images.images
    suite = Suite.for_images(images[0].numel(), options.budget)
    kept = keeps_images(suite, images)
    return suite, replace(loaded, study=study_of(options, suite, kept, name))


def study_of(options: AuditOptions, suite: Suite, keep_images: bool, name: str = "") -> Study:
    """Return the study of an audit; its name is that of the model by default."""
    from ..studies.specs import GoalSpec
    from ..studies.study import Study

    return Study(
        name=name or options.model_spec().name,
        where="tollbox audit",
        images=options.images_spec(),
        models=[options.model_spec(name="model", quantize=options.quantize)],
        attacks=suite.specs(),
        tariffs=suite.tariffs(),
        seeds=[options.seed],
        goal=GoalSpec(flagged=options.flagged_classes),
        device=options.device,
        execution=options.execution(),
        keep_images=keep_images,
    )


def finish(
    folder: Path,
    outcome: Outcome,
    interruption: int,
    loaded: StudyInputs | None = None,
    questions: Criteria | None = None,
    options: AuditOptions | None = None,
) -> int:
    """Write the answers of an audit and print them; return the exit code."""
    from ..audits.audit import conclude
    from .study_run import say_end

    code = say_end(folder, outcome, interruption, table=False)
    other = None if options is None else options.against
    show(conclude(folder, questions, loaded, other), options is not None and options.json)
    return code


def show(found: Audit, as_json: bool) -> None:
    """Print the verdict, or all answers as JSON."""
    from ..audits.audit import PAGE

    if as_json:
        print_json(found.data)
        return
    to = console()
    for part in (found.data, found.data.get("against")):
        for sentence in () if part is None else part["verdict"]:
            to.print(sentence, soft_wrap=True)
    to.print(f"Open {found.folder / PAGE} in a browser.", soft_wrap=True)
