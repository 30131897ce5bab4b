"""`tollbox paper`: the paper's experiments, each a study with its figure or table.

1. Without a name, the command lists the experiments and what each needs.
2. An experiment's folder is that of its study. Run the same command again to resume it; the figure
   is drawn once all cells are finished. `all` makes a folder for each experiment inside --out, and
   continues past an experiment that cannot be run.
3. At the paper's scale you provide the images; the small scale needs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from ..data.output import check_free, staged
from ..data.tables import kind_of
from ..errors import FileError, InputError, UnknownNameError, mention
from ..paper.experiments import EXPERIMENTS, Experiment, Scale, experiment, study_at
from ..report import DistanceRule
from .options import ReadingName, offered
from .output import FAILED, STOPPED, console, say
from .parsing import as_option, seconds, whole, within
from .run import most_queries

if TYPE_CHECKING:
    from ..studies.results import StudyResults
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
    """The options of `tollbox paper`."""

    scale: Annotated[
        ScaleName,
        Parameter(
            help="paper, or small: a few images, and stand-ins for the models.",
            metavar="SCALE",
            show_choices=False,
        ),
    ] = "paper"
    out: Annotated[
        Path | None, Parameter(help="Folder for the results; resumed if it already holds results.")
    ] = None
    images: Annotated[
        Path | None, Parameter(help="At the paper's scale: a folder of images, or an .npz.")
    ] = None
    labels: Annotated[
        Path | None, Parameter(help="For a folder: a CSV with the columns file and label.")
    ] = None
    limit: Annotated[
        int | None,
        Parameter(
            help="Use only the first N images that each model classifies correctly. Default: as in "
            "the paper.",
            converter=whole,
        ),
    ] = None
    reading: Annotated[
        ReadingName,
        Parameter(
            help="How distances are read: paper (iterates only, interpolated), or hard (the best "
            "under a hard budget).",
            metavar="READING",
            show_choices=False,
        ),
    ] = "paper"
    time_limit: Annotated[float | None, Parameter(help="Seconds after which a run stops.")] = None


@dataclass(frozen=True)
class _Settings:
    """The checked options."""

    scale: Scale
    reading: DistanceRule
    images: Path | None
    labels: Path | None
    limit: int | None
    time_limit: float


NAME = Parameter(help="An experiment, or all.", metavar="EXPERIMENT", show_choices=False)


def paper(
    name: Annotated[ExperimentName | None, NAME] = None,
    /,
    options: PaperOptions = PaperOptions(),  # noqa: B008
) -> int:
    """Run an experiment of the paper, or all, and draw it; without a name, list them."""
    settings = _checked(options)
    if name is None:
        for line in listing():
            console().print(line, soft_wrap=True)
        return 0
    chosen = list(EXPERIMENTS.values()) if name == "all" else [experiment(name)]
    if options.out is None:
        raise InputError("is not given", expected="a folder for the results", input="out")
    for each in chosen:
        place = options.out / each.name if name == "all" else options.out
        _check_images(each, settings, place)
    if name == "all":
        return _all(chosen, settings, options.out)
    return _one(chosen[0], settings, options.out)


def _checked(options: PaperOptions) -> _Settings:
    if options.scale not in list(Scale):
        raise UnknownNameError("scale", options.scale, [str(scale) for scale in Scale])
    if options.reading not in list(DistanceRule):
        raise UnknownNameError("reading", options.reading, [str(r) for r in DistanceRule])
    within("limit", options.limit, 1)
    return _Settings(
        Scale(options.scale),
        DistanceRule(options.reading),
        options.images,
        options.labels,
        options.limit,
        seconds(options.time_limit),
    )


def _check_images(chosen: Experiment, settings: _Settings, out: Path) -> None:
    """Raise InputError unless images are given exactly where they are needed, and can be read."""
    from ..studies.store.store import shard_path

    if settings.images is None:
        if settings.labels is not None:
            raise InputError(
                f"is given without {mention('images')}", expected="both, or neither", input="labels"
            )
        paper = settings.scale is Scale.PAPER
        if paper and not shard_path(out, 0).is_file():
            raise InputError(
                f"is not given: at the paper's scale {chosen.name} needs {IMAGES}",
                remedy=f"with {mention('scale')} small it needs nothing",
                input="images",
            )
        return
    if settings.scale is Scale.SMALL:
        raise InputError(
            f"is given: at {mention('scale')} small the images are built in",
            remedy="leave it out",
            input="images",
        )
    kind = kind_of(settings.images, str(settings.images), input="images")
    if kind in ("nothing", "other"):
        what = "does not exist" if kind == "nothing" else "is neither a folder nor a file"
        raise FileError(f"{settings.images} {what}", expected=IMAGES, input="images")
    if kind == "folder" and settings.labels is None:
        raise InputError(
            f"{settings.images} is a folder, and {mention('labels')} is not given",
            expected="a CSV with the columns file and label",
            input="images",
        )
    if kind == "file" and settings.labels is not None:
        raise InputError(
            f"is given, and {mention('images')} {settings.images} is not a folder: an .npz has its "
            "labels inside",
            remedy="leave it out",
            input="labels",
        )


def _all(chosen: list[Experiment], settings: _Settings, out: Path) -> int:
    """Run all experiments in turn; report one that cannot be run, and continue."""
    missed = []
    for each in chosen:
        say(f"{each.name}: {each.place}, {each.about}.")
        try:
            code = _one(each, settings, out / each.name)
        except InputError as error:
            say(error.sentence(as_option))
            code = FAILED
        if code in STOPPED:
            return code
        if code:
            missed.append(each.name)
    if missed:
        say(f"{len(missed)} of {len(chosen)} experiments have no result: {', '.join(missed)}.")
    return FAILED if missed else 0


def _one(chosen: Experiment, settings: _Settings, out: Path) -> int:
    from ..studies.results import StudyResults

    code, left = _run(chosen, settings, out)
    if code in STOPPED:
        return code
    if left:
        say(f"{chosen.name} is drawn once all its cells are finished: run the same command again.")
        return code or FAILED
    with StudyResults(out) as results:
        _write(chosen, settings, out, results)
    return code


def _run(chosen: Experiment, settings: _Settings, out: Path) -> tuple[int, int]:
    """Start or resume the study; return the exit code and the number of remaining cells."""
    from ..studies.create import create
    from ..studies.events import Options
    from ..studies.inputs import load
    from ..studies.results import StudyResults
    from ..studies.store.store import shard_path
    from .study_run import keeping, run_left, say_end

    loaded = None
    if shard_path(out, 0).is_file():
        _check_same(chosen, settings, out)
    else:
        check_free(out)
        loaded = load(_study(chosen, settings))
        create(loaded, out, "paper", experiment=chosen.name, scale=str(settings.scale))
    with StudyResults(out) as results:
        if len(results) == len(results.grid):
            return 0, 0
    with keeping(out):
        code = say_end(out, *run_left(out, Options(time_limit=settings.time_limit), loaded))
    with StudyResults(out) as results:
        return code, len(results.grid) - len(results)


def _study(chosen: Experiment, settings: _Settings) -> Study:
    return study_at(chosen.name, settings.scale, settings.images, settings.labels, settings.limit)


def _check_same(chosen: Experiment, settings: _Settings, out: Path) -> None:
    """Raise InputError unless the folder has this experiment with the given images."""
    from ..studies.store.store import read_record

    record = read_record(out)
    if record is None or (record.experiment, record.scale) != (chosen.name, settings.scale):
        has = (
            f"{record.experiment} at the scale {record.scale}"
            if record is not None and record.experiment is not None
            else "another study"
        )
        raise InputError(
            f"{out} has {has}",
            expected=f"a free folder, or one with {chosen.name} at the scale {settings.scale}",
            input="out",
        )
    given = settings.images is not None or settings.limit is not None
    if given and _study(chosen, settings).text != record.text:
        raise InputError(
            f"{out} has {chosen.name} with other images",
            remedy=f"leave {mention('images')}, {mention('labels')} and {mention('limit')} out to "
            "resume it, or give another folder",
            input="out",
        )


def _write(chosen: Experiment, settings: _Settings, out: Path, results: StudyResults) -> None:
    from ..paper import outputs

    names = outputs.names_of(chosen)
    with staged(out, names, shared=True) as stage:
        with stage.writing():
            outputs.write(chosen, settings.scale, results, settings.reading, stage.folder)
        stage.commit()
    files = ", ".join(sorted(names))
    console().print(f"{chosen.place} is in {out}: {files}.", soft_wrap=True)


def listing() -> Iterator[str]:
    """Yield the lines that list the experiments and what each needs."""
    yield "tollbox paper NAME --scale small --out DIR runs one of these, or all:"
    yield ""
    for each in EXPERIMENTS.values():
        yield f"{each.name}: {each.place}, {each.about}"
        for scale in Scale:
            yield f"  {scale}: {_takes(study_at(each.name, scale, files=False))}"


def _takes(study: Study) -> str:
    from ..models.registry import packages_of

    images = study.images.limit or 0
    lines = len(study.models) * len(study.attacks)
    cells = lines * len(study.tariffs) * len(study.seeds) * images
    most = lines * len(study.seeds) * images * sum(most_queries(tariff) for tariff in study.tariffs)
    packages = list(dict.fromkeys(name for m in study.models for name in packages_of(m.source)))
    needs = f"; needs {' and '.join(packages)}" if packages else ""
    return (
        f"{', '.join(model.name for model in study.models)}; {images} images, {cells:,} cells, at "
        f"most {_large(most)} queries{needs}"
    )


def _large(number: float) -> str:
    for size, word in ((1e9, "billion"), (1e6, "million")):
        if number >= size:
            return f"{number / size:,.3g} {word}"
    return f"{number:,.0f}"
