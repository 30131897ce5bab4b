"""`tollbox.audit`: run the suite on a model, and answer what it costs to attack it.

1. An audit is a study in a folder: what was answered is recorded before anything else is done with
   it, and the same call with the same arguments goes on after a stop of any kind.
2. Images that are given in memory are kept in the folder (`images.npz`), so that its page can be
   made anywhere, without the model.
3. Questions (ε, worth, policy) are asked of what is recorded: they change nothing that is run.
4. audit.json is written whenever a run ends, and holds all answers; audit.html shows them.
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
from ..core.cell import check_label
from ..core.execution import Execution
from ..core.model import as_model
from ..core.noise import content_hash
from ..core.prices import Prices
from ..core.validation import (
    check_flag,
    check_function,
    check_seconds,
    check_whole,
    is_whole,
    shown,
)
from ..data.images import ImageSet
from ..data.output import check_replaceable, replace_file
from ..data.tables import path_of
from ..errors import InputError
from ..report.page import GENERATOR
from ..studies.create import create, holds
from ..studies.events import Event, Options, Tell
from ..studies.inputs import StudyInputs
from ..studies.results import StudyResults
from ..studies.run import run_folder
from ..studies.specs import GoalSpec, ImagesSpec, ModelSpec
from ..studies.study import Study
from ..workers.executors import Stopper
from .compare import against
from .data import audit_data
from .evidence import IN_PYTHON, SETTINGS, Evidence
from .page import IMAGES, page
from .questions import Questions
from .suite import Suite
from .verdict import with_words

ANSWERS = "audit.json"
PAGE = "audit.html"
MODEL = "model"
MOST_KEPT = 200_000_000
"""Bytes of adversarial images that are kept; of more none is, and the page makes some again."""


@dataclass(frozen=True)
class Audit:
    """An audit's answers; `data` is what audit.json holds."""

    folder: Path
    data: Mapping[str, Any]

    @property
    def verdict(self) -> str:
        """Two sentences."""
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
    class_names: Sequence[str] = (),
    seed: int = 0,
    batch_size: int | None = None,
    workers: int = 1,
    metered: bool = False,
    exact: bool = False,
    time_limit: float = math.inf,
    tell: Tell | None = None,
) -> Audit:
    """What it costs to attack a model, and what would make it uneconomic.

    images: (n, c, h, w) in [0,1]; labels: their classes.
    out: the folder for what is recorded, audit.json and audit.html; with the same arguments an
        audit that was begun there goes on.
    budget: what an attack on one image may cost where all answers cost 1 (default: 2000, and 5000
        for large images); at other prices it grows as `tollbox.audits.suite` says.
    worth: what a changed image is worth to an attacker, for the price above which none pays.
    epsilon: how near counts, as l2 distances or, "4/255", steps of 8-bit pixels.
    policy: prices that grow, as a CSV or tb.Prices.escalating, for one more line.
    flagged: the classes that are flagged; default: the image's own.
    time_limit: seconds after which the run ends; what is complete by then is reported.
    tell: called with what happens (`tollbox.studies.events.Event`).
    """
    check_seconds("time_limit", time_limit)
    check_flag("metered", metered)
    check_flag("exact", exact)
    check_whole("seed", seed)
    check_function("tell", tell)
    if not isinstance(name, str) or not name.strip():
        raise InputError(f"is {shown(name)}", expected="what the model is called", input="name")
    classes = None if flagged is None else _listed("flagged", flagged, "classes as whole numbers")
    class_names = _listed("class_names", class_names, "a list of names")
    questions = Questions.of(worth, epsilon, policy)
    given = _image_set(images, labels, class_names)
    folder = path_of(out, "out")
    suite = Suite.for_images(given.images[0].numel(), budget)
    study = Study.of(
        name=name,
        where=IN_PYTHON,
        folder=folder,
        images=ImagesSpec(folder / IMAGES),
        models=[ModelSpec(source=MODEL, name=MODEL, resolved=MODEL)],
        attacks=suite.specs(),
        tariffs=suite.tariffs(),
        seeds=[seed],
        goal=GoalSpec(flagged=None if classes is None else frozenset(classes)),
        execution=Execution(batch_size=batch_size, workers=workers, metered=metered, exact=exact),
        keep_images=keeps_images(suite, given.images),
    )
    asked = as_model(model)
    count = len(given)
    hashes = tuple(content_hash(image) for image in given.images)
    nothing: list[Tensor | None] = [None] * count
    loaded = StudyInputs(
        study, given, hashes, nothing, nothing, asked.device, {MODEL: asked}, False, {}
    )
    if not holds(study, folder):
        create(loaded, folder, "audit", settings=settings_of(suite, given.images, questions))
    if not (folder / IMAGES).exists():
        _keep(folder / IMAGES, given)
    run_folder(folder, options_of(time_limit), tell or _ignore, Stopper(), loaded)
    return conclude(folder, questions, loaded)


def options_of(time_limit: float) -> Options:
    """How an audit is run: if the time may end first, series by series."""
    return Options(time_limit=time_limit, in_order=math.isfinite(time_limit))


def _ignore(event: Event) -> None:
    """Nobody listens."""


def settings_of(suite: Suite, images: Tensor, questions: Questions) -> dict[str, Any]:
    """What an audit keeps beside its study."""
    values = {"budget": suite.budget, "shape": list(images.shape[1:])}
    return {SETTINGS: {**values, "questions": questions.to_json()}}


def keeps_images(suite: Suite, images: Tensor) -> bool:
    """Whether the adversarial images are kept."""
    runs = len(suite.attacks) * len(suite.prices)
    return 4 * images.numel() * runs <= MOST_KEPT


def _image_set(
    images: Tensor | Iterable[Tensor], labels: Tensor | Iterable[int], names: Sequence[str]
) -> ImageSet:
    """Images and labels as a study has them; InputError if they are not that."""
    try:
        stack = images if isinstance(images, Tensor) else torch.stack(list(images))
        stack = stack.detach().to("cpu", torch.float32)
    except (TypeError, RuntimeError):
        raise InputError(
            f"is {shown(images)}", expected="images (n, c, h, w) of one shape", input="images"
        ) from None
    if stack.ndim != 4 or not len(stack):
        raise InputError(
            f"has shape {tuple(stack.shape)}",
            expected="at least one image, (n, c, h, w)",
            input="images",
        )
    if not bool(((stack >= 0) & (stack <= 1)).all()):
        raise InputError("has values outside of [0,1]", expected="images in [0,1]", input="images")
    classes = [
        int(label) if is_whole(label) else label
        for label in _listed("labels", labels, "whole numbers")
    ]
    if len(classes) != len(stack):
        raise InputError(
            f"has {len(classes)} labels for {len(stack)} images",
            expected="one for each image",
            input="labels",
        )
    for place, label in enumerate(classes):
        check_label(label, None, f"the label of image {place}")
    places = tuple(str(place) for place in range(len(stack)))
    return ImageSet(stack, tuple(classes), places, places, tuple(names))


def _listed(name: str, values: Any, expected: str) -> list[Any]:
    """The values of an argument, those of a tensor or an array as Python has them; InputError
    unless it is a series of them."""
    if isinstance(values, Iterable) and not isinstance(values, str):
        try:
            return [each.item() if isinstance(each, Tensor) else each for each in values]
        except (TypeError, RuntimeError):  # a tensor of none or several dimensions
            pass
    raise InputError(f"is {shown(values)}", expected=expected, input=name)


def _keep(file: Path, given: ImageSet) -> None:
    """Write the images beside the store."""
    partial = file.with_name(f".{file.name}.partial")
    with open(partial, "wb") as opened:
        np.savez_compressed(opened, images=given.images.numpy(), labels=np.array(given.labels))
    partial.replace(file)


def conclude(
    folder: Path,
    questions: Questions | None = None,
    loaded: StudyInputs | None = None,
    other: Path | None = None,
) -> Audit:
    """Read what a folder has, and write audit.json and audit.html there; questions that are not
    asked are those of its beginning. `loaded` is the study, if it is at hand; `other` an audit to
    compare it with."""
    check_replaceable(folder / PAGE, GENERATOR)
    with ExitStack() as opened:
        results = opened.enter_context(StudyResults(folder, loaded))
        evidence = Evidence.of(results)
        asked = evidence.questions if questions is None else questions.or_else(evidence.questions)
        data = with_words(evidence, audit_data(evidence, asked))
        if other is not None:
            beside = Evidence.of(opened.enter_context(StudyResults(other)))
            data["against"] = against(evidence, beside, asked)
        text = page(evidence, data)
    replace_file(folder / ANSWERS, json.dumps(data, indent=1, ensure_ascii=False) + "\n")
    replace_file(folder / PAGE, text)
    return Audit(folder, data)
