"""`tollbox paper`: the paper's experiments, each a study with its figure or table.

1. Without a name, the command lists the experiments and what each needs.
2. An experiment's folder is that of its study. Run the same command again to resume it; the figure
   is drawn once all cells are finished. `all` makes a folder for each experiment inside --out, and
   continues past an experiment that cannot be run.
3. At the paper's scale, you provide the images; the small scale needs no input.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from ..data.output import check_free, staged
from ..data.tables import kind_of
from ..errors import FileError, InputError, mention
from ..paper.experiments import EXPERIMENTS, Experiment, Scale, experiment, study_at
from ..report import DistanceRule
from .options import TIME_HELP, ReadingName, chosen, offered, seconds, whole, within
from .output import FAILED, STOPPED, say, say_mistake, write
from .run import most_queries

if TYPE_CHECKING:
    from ..studies.study import Study

    ExperimentName = str
    ScaleName = str
else:
    ExperimentName = offered([*EXPERIMENTS, "all"])
    ScaleName = offered(Scale)

IMAGES = (
    "images of ImageNet's validation set, enough for each model to classify 500 of them correctly "
    "(1000 will do), as a folder with --labels, a CSV with the columns file and label, of which "
    "the middle 224 x 224 are taken; or as an .npz with images of that size and labels"
)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class PaperOptions:
    scale: Annotated[ScaleName, Parameter(metavar="SCALE")] = "paper"
    """paper, or small: a few images, and stand-ins for the models."""
    out: Path | None = None
    """Folder for the results; resumed if it already holds results."""
    images: Path | None = None
    """At the paper's scale: a folder of images, or an .npz."""
    labels: Path | None = None
    """For a folder: a CSV with the columns file and label."""
    limit: Annotated[int | None, Parameter(converter=whole)] = None
    """Use only the first N images that each model classifies correctly. Default: as in the
    paper."""
    reading: Annotated[ReadingName, Parameter(metavar="READING")] = "paper"
    """How distances are read: paper (iterates only, interpolated), or hard (the best under a hard
    budget)."""
    time_limit: Annotated[str | None, Parameter(help=TIME_HELP)] = None

    def study(self, name: str) -> Study:
        return study_at(name, Scale(self.scale), self.images, self.labels, self.limit)


NAME = Parameter(help="An experiment, or all.", metavar="EXPERIMENT")
Name = Annotated[ExperimentName | None, NAME]


def paper(name: Name = None, /, options: PaperOptions = PaperOptions()) -> int:  # noqa: B008
    """Run an experiment of the paper, or all, and draw it; without a name, list them."""
    chosen(Scale, "scale", options.scale)
    chosen(DistanceRule, "reading", options.reading)
    within("limit", options.limit, 1)
    seconds(options.time_limit)
    if name is None:
        write(*_listing())
        return 0
    every = name == "all"
    experiments = list(EXPERIMENTS.values()) if every else [experiment(name)]
    if options.out is None:
        raise InputError("is not given", expected="a folder for the results", input="out")
    places = {each.name: options.out / each.name if every else options.out for each in experiments}
    for each in experiments:
        _check_images(each, options, places[each.name])
    if not every:
        return _one(experiments[0], options, options.out)
    missed: dict[str, int] = {}
    for each in experiments:
        say(f"{each.name}: {each.place}, {each.about}.")
        try:
            code = _one(each, options, places[each.name])
        except InputError as error:
            say_mistake(error)
            code = FAILED
        if code in STOPPED:
            return code
        if code:
            missed[each.name] = code
    if missed:
        say(f"{len(missed)} of {len(experiments)} experiments have no result: {', '.join(missed)}.")
    return FAILED if FAILED in missed.values() else max(missed.values(), default=0)


def _check_images(each: Experiment, options: PaperOptions, out: Path) -> None:
    """Raise InputError if images or labels are missing or not needed, or images do not exist."""
    images, labels, small = options.images, options.labels, options.scale == Scale.SMALL
    if images is None:
        if labels is not None:
            given = f"is given without {mention('images')}"
            raise InputError(given, expected="both, or neither", input="labels")
        if not small and not _has_study(out):
            given = f"is not given: at the paper's scale {each.name} needs {IMAGES}"
            remedy = f"with {mention('scale')} small it needs nothing"
            raise InputError(given, remedy=remedy, input="images")
        return
    if small:
        given = f"is given: at {mention('scale')} small the images are built in"
        raise InputError(given, remedy="leave it out", input="images")
    kind = kind_of(images, str(images), input="images")
    if kind in ("nothing", "other"):
        what = "does not exist" if kind == "nothing" else "is neither a folder nor a file"
        raise FileError(f"{images} {what}", expected=IMAGES, input="images")
    if kind == "folder" and labels is None:
        given = f"{images} is a folder, and {mention('labels')} is not given"
        raise InputError(given, expected="a CSV with the columns file and label", input="images")
    if kind == "file" and labels is not None:
        given = f"is given, and {mention('images')} {images} is not a folder"
        given += ": an .npz has its labels inside"
        raise InputError(given, remedy="leave it out", input="labels")


def _one(each: Experiment, options: PaperOptions, out: Path) -> int:
    """Start or resume the study of an experiment; once all cells are finished, draw it."""
    from ..paper import outputs
    from ..studies.create import create
    from ..studies.events import Options
    from ..studies.inputs import load
    from ..studies.results import StudyResults
    from .study_run import keeping, run_left, say_end

    loaded, code = None, 0
    if _has_study(out):
        _check_same(each, options, out)
    else:
        check_free(out)
        loaded = load(options.study(each.name))
        create(loaded, out, "paper", experiment=each.name, scale=options.scale)
    with StudyResults(out) as results:
        left = len(results.grid) - len(results)
    if left:
        how = Options(time_limit=seconds(options.time_limit))
        with keeping(out):
            code = say_end(out, *run_left(out, how, loaded))
    if code in STOPPED:
        return code
    with StudyResults(out) as results:
        if len(results) < len(results.grid):
            say(
                f"{each.name} is drawn once all its cells are finished: run the same command again."
            )
            return code or FAILED
        names = outputs.names_of(each)
        with staged(out, names, shared=True) as stage:
            with stage.writing():
                scale, reading = Scale(options.scale), DistanceRule(options.reading)
                outputs.write(each, scale, results, reading, stage.folder)
            stage.commit()
    write(f"{each.place} is in {out}: {', '.join(sorted(names))}.")
    return code


def _has_study(out: Path) -> bool:
    from ..studies.store.store import shard_path

    return kind_of(shard_path(out, 0), str(out), input="out") == "file"


def _check_same(each: Experiment, options: PaperOptions, out: Path) -> None:
    """Raise InputError unless the folder has this experiment, at this scale, with these images."""
    from ..studies.store.store import read_record

    record = read_record(out)
    if record is None or (record.experiment, record.scale) != (each.name, options.scale):
        has = "another study"
        if record is not None and record.experiment is not None:
            has = f"{record.experiment} at the scale {record.scale}"
        expected = f"a free folder, or one with {each.name} at the scale {options.scale}"
        raise InputError(f"{out} has {has}", expected=expected, input="out")
    given = options.images is not None or options.limit is not None
    if given and options.study(each.name).text != record.text:
        names = f"{mention('images')}, {mention('labels')} and {mention('limit')}"
        remedy = f"leave {names} out to resume it, or give another folder"
        raise InputError(f"{out} has {each.name} with other images", remedy=remedy, input="out")


def _listing() -> Iterator[str]:
    """Yield the lines that list the experiments and what each needs."""
    from ..models.registry import packages_of

    yield "tollbox paper NAME --scale small --out DIR runs one of these, or all:"
    yield ""
    for each in EXPERIMENTS.values():
        yield f"{each.name}: {each.place}, {each.about}"
        for scale in Scale:
            study = study_at(each.name, scale, files=False)
            images = study.images.limit or 0
            runs = len(study.models) * len(study.attacks) * len(study.seeds) * images
            most = runs * sum(most_queries(tariff) for tariff in study.tariffs)
            packages = dict.fromkeys(name for m in study.models for name in packages_of(m.source))
            needs = f"; needs {' and '.join(packages)}" if packages else ""
            yield (
                f"  {scale}: {', '.join(model.name for model in study.models)}; {images} images, "
                f"{runs * len(study.tariffs):,} cells, at most {_large(most)} queries{needs}"
            )


def _large(number: float) -> str:
    for size, word in ((1e9, "billion"), (1e6, "million")):
        if number >= size:
            return f"{number / size:,.3g} {word}"
    return f"{number:,.0f}"
