"""`tollbox audit`: what it costs to attack your own model, and what would make it uneconomic.

1. An audit is a study in --out. With the same arguments it goes on after a stop of any kind, and
   so it does by `tollbox resume`.
2. Without --model nothing is run: what is recorded in --out is read again, and asked what --worth,
   --epsilon, --policy and --against say. No model is needed for that.
3. audit.json and audit.html are written whenever a run ends, finished or not.
"""

from __future__ import annotations

import math
import re
from dataclasses import fields, replace
from pathlib import Path

from ..audits.audit import PAGE, Audit, conclude, keeps_images, options_of, settings_of
from ..audits.compare import check_other
from ..audits.criteria import Criteria
from ..audits.suite import Suite
from ..data.classes import flagged_classes
from ..data.resizing import Resizing
from ..errors import InputError, mention
from ..studies.create import begin, holds
from ..studies.events import Outcome
from ..studies.inputs import Loaded, load
from ..studies.schema import GoalSpec, ImagesSpec, ModelSpec
from ..studies.store.folder import read_record
from ..studies.study import Study
from . import parsing as choices
from .audit import AuditOptions
from .options import LARGEST_SEED
from .output import console, print_json
from .study_run import keeping, run_left, say_end

SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600}


def audit(options: AuditOptions) -> int:
    """Run an audit, or read one again, and say what it has come to."""
    limit = duration(options.time)
    questions = Criteria.of(options.worth, options.epsilon, options.policy)
    if options.model is None:
        _check_asked(options)
        show(conclude(options.out, questions, other=options.against), options.json)
        return 0
    suite, loaded = prepared(options)
    if options.against is not None:  # before anything is run for it
        images = loaded.images
        known = set(zip(loaded.hashes, images.labels, strict=True))
        check_other(options.against, images.images.shape[1:], known)
    if not holds(loaded.study, options.out):
        settings = settings_of(suite, loaded.images.images, questions)
        begin(loaded, options.out, "audit", settings=settings)
    with keeping(options.out):
        outcome, interruption = run_left(options.out, options_of(limit), loaded)
        return finish(
            options.out,
            outcome,
            interruption,
            loaded,
            questions,
            other=options.against,
            as_json=options.json,
        )


def _check_asked(options: AuditOptions) -> None:
    """Raise InputError if something is given that only a run reads, and no model is."""
    read = ("out", "worth", "epsilon", "policy", "against", "json")
    for each in fields(options):
        if each.name not in read and getattr(options, each.name) != each.default:
            name = "path" if each.name == "images" else each.name
            raise InputError(
                f"is given, and {mention('model')} is not",
                expected=f"{mention('model')} and {mention('path')} to run an audit, or neither "
                "to ask one that is recorded",
                input=name,
            )
    if not options.out.exists():
        raise InputError(
            f"is not given, and there is no {options.out}",
            expected=f"{mention('model')} and {mention('path')} to run an audit, or the folder of "
            "one that is recorded",
            input="model",
        )


def duration(text: str | None) -> float:
    """'8m' in seconds; infinite if it is not given."""
    if text is None:
        return math.inf
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smh]?)\s*", text)
    if match is None or float(match[1]) <= 0:
        raise InputError(f"is {text!r}", expected="a time, as 90s, 8m or 1h", input="time")
    return float(match[1]) * SECONDS[match[2]]


def prepared(options: AuditOptions, name: str = "") -> tuple[Suite, Loaded]:
    """The suite, and the study that the options mean, so called, with its images."""
    choices.within("seed", options.seed, -LARGEST_SEED, LARGEST_SEED)
    choices.within("limit", options.limit, 1)
    choices.within("quantize", options.quantize, 1, 16)
    choices.within("workers", options.workers, 1)
    if options.images is None:
        raise InputError("is not given", expected="the images to attack", input="path")
    record = read_record(options.out)
    budget = Suite().budget if options.budget is None else options.budget
    study = study_of(options, Suite(budget), keep_images=True, name=name)
    # The usual budget, and what is kept, depend on the size of the images, which are loaded first.
    begun = record if record is not None and record.made_by == "audit" else None
    loaded = load(study, begun=begun)
    images = loaded.images.images
    suite = Suite.for_images(images[0].numel(), options.budget)
    kept = keeps_images(suite, images)
    return suite, replace(loaded, study=study_of(options, suite, kept, name))


def study_of(options: AuditOptions, suite: Suite, keep_images: bool, name: str = "") -> Study:
    """The study of an audit; called like the model unless it has a name of its own."""
    source = str(options.model)
    return Study.of(
        name=name or ModelSpec.of(source).name,
        where="tollbox audit",
        images=ImagesSpec.of(
            str(options.images),
            labels=options.labels,
            limit=options.limit,
            resizing=Resizing.of(
                choices.side("resize", options.resize), choices.side("crop", options.crop), None
            ),
            names=options.names,
        ),
        models=[
            ModelSpec.of(
                source,
                name="model",
                mean=choices.numbers("mean", options.mean),
                std=choices.numbers("std", options.std),
                quantize=options.quantize,
            )
        ],
        attacks=suite.specs(),
        tariffs=suite.tariffs(),
        seeds=[options.seed],
        goal=GoalSpec(
            flagged=None if options.flagged is None else flagged_classes(options.flagged)
        ),
        device=options.device,
        batch_size=options.batch_size,
        workers=options.workers,
        metered=options.metered,
        exact=options.exact,
        keep_images=keep_images,
    )


def finish(
    folder: Path,
    outcome: Outcome,
    interruption: int,
    loaded: Loaded | None = None,
    questions: Criteria | None = None,
    *,
    other: Path | None = None,
    as_json: bool = False,
) -> int:
    """Write what an audit has come to, and say it; gives the exit code."""
    code = say_end(folder, outcome, interruption, table=False)
    show(conclude(folder, questions, loaded, other), as_json)
    return code


def show(found: Audit, as_json: bool) -> None:
    """The verdict, or all answers as JSON, on stdout."""
    if as_json:
        print_json(found.data)
        return
    to = console()
    for sentence in found.data["verdict"]:
        to.print(sentence, soft_wrap=True)
    beside = found.data.get("against")
    for sentence in () if beside is None else beside["verdict"]:
        to.print(sentence, soft_wrap=True)
    to.print(f"Open {found.folder / PAGE} in a browser.", soft_wrap=True)
