"""`tollbox audit`: what it costs to attack your own model, and what would make it unprofitable.

1. An audit is a study in --out. The same command resumes it, and so does `tollbox resume`.
2. Without --model nothing is run: the audit recorded in --out is reported again, with the given
   --worth, --epsilon, --policy and --against. No code of the folder is imported, unless
   --trust-code is set.
3. audit.json and audit.html are written whenever a run stops, finished or not.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from ..data.tables import kind_of
from ..errors import InputError, mention
from .options import TIME_HELP, ModelOptions, option, seconds
from .output import JSON, json_text, preparing, write

if TYPE_CHECKING:
    from ..audits.audit import Audit
    from ..audits.criteria import Criteria
    from ..studies.inputs import StudyInputs
    from ..studies.study import Study

LIMIT = 50
"""Default maximum number of images."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class AuditOptions(ModelOptions):
    limit: Annotated[int, option("images", "limit")] = LIMIT
    out: Path
    """Folder for the recorded answers, audit.html and audit.json."""
    budget: float | None = None
    """Maximum cost of an attack on one image if all answers cost 1; it grows with the price.
    At least 100. Default: 2000, or 5000 for large images."""
    time_limit: Annotated[
        str | None, Parameter(name=("--time-limit", "--time"), help=TIME_HELP)
    ] = None
    worth: float | None = None
    """Value of an adversarial image to an attacker, if an answer that is not flagged costs 1."""
    epsilon: str | None = None
    """Allowed perturbations: l2 distances such as 0.5,1, or pixel steps such as 2/255,4/255."""
    policy: Path | None = None
    """CSV with the columns flagged and price: a growing price to report in addition."""
    against: Path | None = None
    """Folder of another audit to compare with."""
    trust_code: bool = False
    """Without --model: to show the images, run the function that the audit names for them. Use it
    only if you trust the folder."""
    json: Annotated[bool, JSON] = False


def audit(options: AuditOptions) -> int:
    """Measure what it costs to attack your own model, and what would make it unprofitable.

    Runs a fixed suite of attacks at several prices; every answer is recorded in --out. Without
    --model, the audit in --out is reported again. Ctrl-C stops the run, and the same command
    resumes it.
    """
    from ..audits.audit import conclude
    from ..audits.criteria import Criteria

    criteria = Criteria.of(options.worth, options.epsilon, options.policy)
    limit = seconds(options.time_limit)
    if options.model is not None:
        return run_audit(options, criteria, limit)
    _check_asked(options)
    trusted = options.trust_code
    show(conclude(options.out, criteria, None, options.against, trusted), options.json)
    return 0


def run_audit(
    options: AuditOptions, criteria: Criteria, limit: float, name: str = "", made_by: str = "audit"
) -> int:
    """Run an audit and print its results; its name defaults to that of the model."""
    from ..audits.audit import conclude, options_of, start
    from ..audits.compare import check_other
    from .study_run import keeping, run_left, say_end

    with preparing(limit):
        budget, loaded = _prepared(options, name)
        if options.against is not None:  # checked before anything is run
            known = set(zip(loaded.hashes, loaded.images.labels, strict=True))
            check_other(options.against, loaded.images.images.shape[1:], known)
        start(loaded, options.out, budget, criteria, made_by)
    with keeping(options.out):
        how = replace(options_of(limit), trust=options.trust_model)
        ended = run_left(options.out, how, loaded)
        code = say_end(options.out, *ended, table=False)
        show(conclude(options.out, criteria, loaded, options.against), options.json)
    return code


def _check_asked(options: AuditOptions) -> None:
    """Raise InputError if a run's option is given without a model, or `out` does not exist."""
    both = f"{mention('model')} and {mention('path')} to run an audit"
    for each in fields(options):
        read = each.name in ("out", "worth", "epsilon", "policy", "against", "trust_code", "json")
        if not read and getattr(options, each.name) != each.default:
            expected = f"{both}, or neither to read one that is recorded"
            given = f"is given, and {mention('model')} is not"
            raise InputError(given, expected=expected, input=each.name)
    if kind_of(options.out, str(options.out), input="out") == "nothing":
        expected = f"{both}, or the folder of one that is recorded"
        given = f"is not given, and there is no {options.out}"
        raise InputError(given, expected=expected, input="model")


def _prepared(options: AuditOptions, name: str) -> tuple[float, StudyInputs]:
    """Return the budget and the loaded inputs of the study that the options describe."""
    from ..audits.suite import budget_for, study_fields
    from ..studies.inputs import load
    from ..studies.store.store import read_record

    def study_of(budget: float, values: int) -> Study:
        called = name or options.model_spec().name
        fields = study_fields(budget, values, surrogate)
        return options.study("audit", name=called, seeds=[options.seed], **fields)

    surrogate = options.surrogate_spec()
    if options.images is None:
        raise InputError("is not given", expected="the images to attack", input="path")
    record = read_record(options.out)
    kept_record = record if record is not None and record.made_by == "audit" else None
    # The default budget, and whether images are kept, depend on their size: load them first.
    first = study_of(budget_for(0, options.budget), 0)
    loaded = load(first, record=kept_record, trust=options.trust_model)
    images = loaded.images.images
    budget = budget_for(images[0].numel(), options.budget)
    return budget, replace(loaded, study=study_of(budget, images.numel()))


def show(found: Audit, as_json: bool = False) -> None:
    """Print the verdict, or all results as JSON."""
    from ..audits.audit import PAGE

    if as_json:
        write(json_text(found.data))
        return
    against = found.data.get("against")
    write(*found.data["verdict"], *(against["verdict"] if against else ()))
    write(f"Open {found.folder / PAGE} in a browser.")
