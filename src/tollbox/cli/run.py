"""`tollbox run`: a study from its file, in a new folder."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from ..errors import InputError, mention
from .options import CHECK_HELP, RunningOptions
from .parsing import seconds

if TYPE_CHECKING:
    from ..studies.create import Part
    from ..studies.inputs import StudyInputs
    from ..studies.specs import Tariff


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class RunOptions(RunningOptions):
    """The options of `tollbox run`."""

    out: Annotated[
        Path | None, Parameter(help="Folder for the results: a new one, or an empty one.")
    ] = None
    dry_run: Annotated[
        bool,
        Parameter(help="Print the cells, queries and time without attacking.", negative=""),
    ] = False
    check: Annotated[bool, Parameter(help=CHECK_HELP, negative="")] = False
    shard: Annotated[
        str | None,
        Parameter(help="K/N: run only part K of N, in its own folder; see `tollbox merge`."),
    ] = None


STUDY = Parameter(help="The study file; `tollbox init` writes one.")


def run(
    study: Annotated[Path, STUDY],
    /,
    options: RunOptions = RunOptions(),  # noqa: B008
) -> int:
    """Run a study: models x attacks x prices x images, from a TOML file.

    Results appear in --out as cells finish. If the run stops for any reason, resume it with
    `tollbox resume`.
    """
    from ..studies.create import WHOLE, Part, check_new, create
    from ..studies.events import Options
    from ..studies.inputs import load
    from ..studies.study import Study
    from .hints import command, free_folder, page_hint
    from .output import console
    from .study_run import cluster_of, keeping, run_left, say_end, say_findings

    limit, cluster = seconds(options.time_limit), cluster_of(options)
    part = WHOLE if options.shard is None else Part.parse(options.shard)
    if options.out is None and not options.dry_run:
        raise InputError(
            "is not given",
            expected=f"a folder for the results, or {mention('dry_run')}",
            input="out",
        )
    chosen = Study.from_toml(study)
    out = options.out or Path()
    if not options.dry_run:
        check_new(chosen, out, part)
    if options.check:
        chosen = replace(chosen, execution=replace(chosen.execution, check=True))
    loaded = load(chosen)
    if options.dry_run:
        _plan(loaded, part)
        if part == WHOLE:
            next_step = command("run", study, "--out", options.out or free_folder())
            console().print(f"Run it with `{next_step}`.", soft_wrap=True)
        return 0
    if cluster is not None:
        cluster.rooms(loaded.device)  # fails before anything is written
    force = options.force_workers
    say_findings(create(loaded, out, "run", force_workers=force, part=part))
    how = Options(time_limit=limit, force_workers=force)
    next_step = page_hint(out) if part == WHOLE else ""
    with keeping(out):
        return say_end(out, *run_left(out, how, loaded, cluster), next_step)


def _plan(loaded: StudyInputs, part: Part) -> None:
    """Print what a run would do; for a part, what the whole study would do."""
    from rich.table import Table

    from ..studies.create import WHOLE, shard_count
    from ..studies.images import images_digest
    from ..studies.job import model_speed
    from .output import console

    study, grid, to = loaded.study, loaded.grid, console()
    table = Table(title=f"{study.name}: {len(grid):,} cells")
    table.add_column("")
    for name in ("cells", "queries at most", "model time at most"):
        table.add_column(name, justify="right")
    total, speeds = 0.0, {}
    loaded.check_surrogates()
    loaded.detection  # noqa: B018  raises if the detector cannot be loaded
    for spec in study.models:
        model = loaded.model(spec)
        speeds[spec.name] = None if study.execution.metered else model_speed(loaded, model)
    for series in grid.series:
        queries = grid.width * most_queries(series.tariff)
        speed = speeds[series.model.name]
        time = math.nan if speed is None else queries / speed
        total += time
        number = f"{queries:,.0f}" if math.isfinite(queries) else "-"
        table.add_row(series.named(study), f"{grid.width:,}", number, _clock(time))
    to.print(table)
    to.print(f"images: {len(loaded.images)}, digest {images_digest(loaded.images)}")
    for sentence in loaded.kept.sentences if loaded.kept is not None else ():
        to.print(sentence, soft_wrap=True)
    if loaded.images.resizing is not None:
        to.print(f"Images are {loaded.images.resizing}.", soft_wrap=True)
    for name, speed in speeds.items():
        if speed is not None:
            to.print(f"model {name}: {speed:,.0f} images/s alone, on {loaded.device}")
    if part != WHOLE:
        shard_count(study, len(grid), force=False, part=part)
        cells = len(range(part.number, len(grid), part.total))
        to.print(f"part {part} has {cells:,} of these cells.")
    if not math.isnan(total):
        to.print(
            f"all: the model needs at most about {_clock(total)}, if every query has the lowest "
            "price. The attacks' own work comes on top, and is more if the network is small.",
            soft_wrap=True,
        )


def most_queries(tariff: Tariff) -> float:
    """Return the largest number of queries that an image can take under a price."""
    cheapest = tariff.prices.cheapest
    ends = cheapest > 0 and math.isfinite(tariff.limits.budget)
    by_budget = tariff.limits.budget // cheapest if ends else math.inf
    return min(by_budget, tariff.limits.max_queries)


def _clock(value: float) -> str:
    if not math.isfinite(value):
        return "-"
    minutes, rest = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}"
