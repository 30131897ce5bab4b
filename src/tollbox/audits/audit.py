"""`tollbox.audit`: run the suite on a model, and report what it costs to attack it.

1. An audit is a study in a folder. Answers are recorded before they are used, and the same call
   with the same arguments resumes it after any stop.
2. Images that are given in memory are kept in the folder (`images.npz`), so that its page can be
   made anywhere, without the model.
3. Criteria (ε, worth, policy) apply to the recorded answers: they do not change what is run.
4. Whenever a run stops, the audit writes all results to audit.json and a page to audit.html.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._run import AnyModel
from ..core import validation
from ..core.cell import check_image, check_label
from ..core.device import check_readable
from ..core.execution import Execution
from ..core.goal import Goal
from ..core.model import as_model
from ..core.prices import Prices
from ..core.validation import is_several, plain, require, shown
from ..data.images import ImageSet
from ..data.output import check_replaceable, replace_file
from ..data.tables import path_of
from ..errors import InputError
from ..report.page import GENERATOR
from ..studies.create import create, holds
from ..studies.events import Options, Tell
from ..studies.inputs import StudyInputs
from ..studies.results import StudyResults
from ..studies.run import run_folder
from ..studies.specs import GoalSpec, ImagesSpec, ModelSpec, SurrogateSpec
from ..studies.study import Study
from ..workers.executors import Stopper
from .compare import compare
from .costs import IN_PYTHON, SETTINGS, AuditRuns
from .criteria import Criteria
from .data import audit_data
from .page import IMAGES, page
from .suite import budget_for, study_fields
from .verdict import advice, commands, notes, verdict

ANSWERS = "audit.json"
PAGE = "audit.html"
MODEL = "model"


@dataclass(frozen=True)
class Audit:
    """The results of an audit; `data` is the content of audit.json."""

    folder: Path
    data: Mapping[str, Any]

    @property
    def verdict(self) -> str:
        """Two sentences that summarise the audit."""
        return " ".join(self.data["verdict"])

    def __repr__(self) -> str:
        return f"<Audit {self.folder}: {self.verdict}>"


def audit(
    model: AnyModel,
    images: Tensor | Iterable[Tensor],
    labels: Tensor | Iterable[int],
    *,
    out: str | Path,
    name: str = MODEL,
    budget: float | None = None,
    worth: float | None = None,
    epsilon: str | float | Iterable[str | float] | None = None,
    policy: str | Path | Prices | None = None,
    flagged: Iterable[int] | None = None,
    surrogate: str | Sequence[str] = (),
    class_names: Sequence[str] = (),
    seed: int = 0,
    batch_size: int | None = None,
    workers: int = 1,
    metered: bool = False,
    retries: int = 0,
    exact: bool = False,
    time_limit: float | str = math.inf,
    tell: Tell | None = None,
) -> Audit:
    """Measure what it costs to attack a model, and what would make attacks unprofitable.

    images: (n, c, h, w) in [0,1]; labels: their classes.
    out: folder for the records, audit.json and audit.html. The same call with the same arguments
        resumes the audit in it.
    budget: maximum cost of an attack on one image if all answers cost 1 (default: 2000, and 5000
        for large images); `tollbox.audits.suite` has the factors for other prices.
    worth: value of a changed image to an attacker; sets the price above which no attack pays.
    epsilon: distances that count as success: ℓ2, or "4/255" for steps of 8-bit pixels.
    policy: escalating prices, a CSV or tb.Prices.escalating, at which to report costs as well.
    flagged: the flagged classes (default: the image's own class).
    surrogate: names of networks, such as "timm:resnet18", that an attacker may have: the suite then
        has `frugal+surrogate` as well.
    time_limit: seconds, or text such as "30m", after which the run stops; the results of finished
        attacks are reported.
    tell: function that receives events (`tollbox.studies.events.Event`).
    """
    limit = validation.checked_seconds("time_limit", time_limit)
    validation.check_flag("metered", metered)
    validation.check_flag("exact", exact)
    validation.check_seed("seed", seed)
    validation.check_function("tell", tell)
    require(isinstance(name, str) and name.strip() != "", "name", name, "a name for the model")
    goal = GoalSpec(flagged=None if flagged is None else Goal.leave(flagged).flagged)
    class_names = _listed("class_names", class_names, "a list of names")
    named = all(isinstance(each, str) for each in class_names)
    require(named, "class_names", class_names, "a list of names")
    sources = [surrogate] if isinstance(surrogate, str) else surrogate
    right = is_several(sources) and all(isinstance(each, str) for each in sources)
    require(right, "surrogate", surrogate, "the name of a network, or several")
    informed = SurrogateSpec.of(*sources) if sources else None
    criteria = Criteria.of(worth, epsilon, policy)
    given = _image_set(images, labels, class_names)
    folder = path_of(out, "out")
    budget = budget_for(given.images[0].numel(), budget)
    study = Study(
        name=name,
        where=IN_PYTHON,
        folder=folder,
        images=ImagesSpec(folder / IMAGES),
        models=[ModelSpec(source=MODEL, name=MODEL, resolved=MODEL)],
        seeds=[int(seed)],
        goal=goal,
        execution=Execution(
            batch_size, metered=metered, retries=retries, exact=exact, workers=workers
        ),
        **study_fields(budget, given.images.numel(), informed),
    )
    checked = as_model(model)
    none: list[Tensor | None] = [None] * len(given)  # neither starts nor masks
    models = {MODEL: checked}
    loaded = StudyInputs(study, given, none, none, checked.device, models)
    start(loaded, folder, budget, criteria)
    if not (folder / IMAGES).exists():
        partial = folder / f".partial-{IMAGES}"
        np.savez_compressed(partial, images=given.images.numpy(), labels=np.array(given.labels))
        partial.replace(folder / IMAGES)
    run_folder(folder, options_of(limit), tell or (lambda _: None), Stopper(), loaded)
    return conclude(folder, criteria, loaded)


def options_of(time_limit: float) -> Options:
    """Return the options of an audit's run: series by series if there is a time limit."""
    return Options(time_limit=time_limit, in_order=math.isfinite(time_limit))


def settings_of(budget: float, images: Tensor, criteria: Criteria) -> dict[str, Any]:
    """Return the settings that an audit keeps in the record of its study."""
    values = {"budget": budget, "shape": list(images.shape[1:])}
    return {SETTINGS: {**values, "criteria": criteria.to_json()}}


def start(
    loaded: StudyInputs, folder: Path, budget: float, criteria: Criteria, made_by: str = "audit"
) -> None:
    """Create the study of an audit in a folder, unless it exists."""
    if not holds(loaded.study, folder):
        settings = settings_of(budget, loaded.images.images, criteria)
        create(loaded, folder, made_by, settings=settings)


def _image_set(
    images: Tensor | Iterable[Tensor], labels: Tensor | Iterable[int], names: Sequence[str]
) -> ImageSet:
    """Return images and labels as an image set; raise InputError if they are invalid."""
    try:
        stack = images if isinstance(images, Tensor) else torch.stack(list(images))
    except (TypeError, RuntimeError):
        expected = "images (n, c, h, w) of one shape"
        raise InputError(f"is {shown(images)}", expected=expected, input="images") from None
    check_readable(stack, "images")
    if stack.ndim != 4 or not len(stack):
        expected = "at least one image, (n, c, h, w)"
        raise InputError(f"has shape {tuple(stack.shape)}", expected=expected, input="images")
    classes = _listed("labels", labels, "whole numbers")
    if len(classes) != len(stack):
        given = f"has {len(classes)} labels for {len(stack)} images"
        raise InputError(given, expected="one for each image", input="labels")
    for place, (image, label) in enumerate(zip(stack, classes, strict=True)):
        check_image(image, f"image {place}")
        check_label(label, None, f"the label of image {place}")
    places = tuple(str(place) for place in range(len(stack)))
    return ImageSet(
        stack.detach().to("cpu", torch.float32), tuple(classes), places, places, tuple(names)
    )


def _listed(name: str, values: Any, expected: str) -> list[Any]:
    """Return the values of an argument as a list; raise InputError if it is not iterable."""
    require(is_several(values), name, values, expected)
    return [plain(each) for each in values]


def conclude(
    folder: Path,
    criteria: Criteria | None = None,
    loaded: StudyInputs | None = None,
    other: Path | None = None,
    trust_code: bool = False,
) -> Audit:
    """Write audit.json and audit.html of a folder, and return the results.

    Criteria default to those with which the audit was started. `loaded` is the study, if it is in
    memory; `other` is the folder of an audit to compare with. `trust_code` is as in `StudyResults`.
    """
    check_replaceable(folder / PAGE, GENERATOR)
    check_replaceable(folder / ANSWERS, b'{\n "format"')
    with ExitStack() as opened:
        results = opened.enter_context(StudyResults(folder, loaded, trust_code=trust_code))
        runs = AuditRuns.of(results)
        criteria = (criteria or Criteria()).or_else(Criteria.from_json(runs.settings["criteria"]))
        data = audit_data(runs, criteria)
        data |= {
            "verdict": verdict(data),
            "advice": advice(data),
            "notes": notes(runs, data),
            "commands": commands(runs, data["failed"]),
        }
        if other is not None:
            second = AuditRuns.of(opened.enter_context(StudyResults(other)))
            data["against"] = compare(runs, second, criteria)
        text = page(runs, data)
    replace_file(folder / ANSWERS, json.dumps(data, indent=1, ensure_ascii=False) + "\n")
    replace_file(folder / PAGE, text)
    return Audit(folder, data)
