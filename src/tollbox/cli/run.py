"""`tollbox run`: a study from its file, in a new folder."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from ..errors import InputError, mention
from .options import RunningOptions, option, seconds

if TYPE_CHECKING:
    from ..studies.create import Part
    from ..studies.inputs import StudyInputs
    from ..studies.specs import Tariff


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class RunOptions(RunningOptions):
    out: Path | None = None
    """Folder for the results: a new one, or an empty one."""
    dry_run: bool = False
    """Print the cells, queries and time without attacking."""
    check: Annotated[bool, option("study", "check")] = False
    shard: str | None = None
    """K/N: run only part K of N, in its own folder; see `tollbox merge`."""


StudyFile = Annotated[Path, Parameter(help="The study file; `tollbox init` writes one.")]


def run(study: StudyFile, /, options: RunOptions = RunOptions()) -> int:  # noqa: B008
    """Run a study: models x attacks x prices x images, from a TOML file.

    Results appear in --out as cells finish. If the run stops for any reason, resume it with
    `tollbox resume`.
    """
    from ..studies.create import WHOLE, Part, check_new, create
    from ..studies.events import Options
    from ..studies.inputs import load
    from ..studies.study import Study
    from .output import command, free_folder, page_hint, preparing, say, write
    from .study_run import cluster_of, keeping, run_left, say_end

    limit, cluster = seconds(options.time_limit), cluster_of(options)
    part = WHOLE if options.shard is None else Part.parse(options.shard)
    if options.out is None and not options.dry_run:
        expected = f"a folder for the results, or {mention('dry_run')}"
        raise InputError("is not given", expected=expected, input="out")
    chosen = Study.from_toml(study)
    out = options.out or free_folder()
    if not options.dry_run:
        check_new(chosen, out, part)
    if options.check:
        chosen = replace(chosen, execution=replace(chosen.execution, check=True))
    trust = options.trust_model
    with preparing(limit):
        loaded = load(chosen, trust=trust)
    if options.dry_run:
        _plan(loaded, part)
        if part == WHOLE:
            given = ("--trust-model",) if trust else ()
            write(f"Run it with `{command('run', study, '--out', out, *given)}`.")
        return 0
    if cluster is not None:
        cluster.rooms(loaded.device)  # fails before anything is written
    force = options.force_workers
    with preparing(limit):
        notes = create(loaded, out, "run", force_workers=force, part=part)
    for finding in notes:
        say(f"Note: {finding}")
    how = Options(time_limit=limit, force_workers=force, trust=trust)
    next_step = page_hint(out) if part == WHOLE else ""
    with keeping(out):
        return say_end(out, *run_left(out, how, loaded, cluster), next_step)


def _plan(loaded: StudyInputs, part: Part) -> None:
    """Print the plan of the whole study, and the size of `part` if it is not the whole."""
    from rich.table import Table

    from ..studies.create import WHOLE, shard_count
    from ..studies.images import images_digest
    from ..studies.job import model_speed
    from .output import clock, console, write

    study, grid = loaded.study, loaded.grid
    table = Table("", title=f"{study.name}: {len(grid):,} cells")
    for name in ("cells", "queries at most", "model time at most"):
        table.add_column(name, justify="right")
    total, speeds = 0.0, {}
    notes = loaded.check_surrogates()
    loaded.detection  # noqa: B018  raises if the detector cannot be loaded
    for spec in study.models:
        model = loaded.model(spec)
        speed = None if study.execution.metered else model_speed(loaded, model)
        speeds[spec.name] = math.nan if speed is None else speed
    for series in grid.series:
        queries = grid.width * most_queries(series.tariff)
        time = queries / speeds[series.model.name]
        total += time
        number = f"{queries:,.0f}" if math.isfinite(queries) else "-"
        table.add_row(series.named(study), f"{grid.width:,}", number, clock(time))
    console().print(table)
    write(f"images: {len(loaded.images)}, digest {images_digest(loaded.images)}")
    write(*(f"Note: {note}." for note in notes))
    if loaded.kept is not None:
        write(*loaded.kept.sentences)
    if loaded.images.resizing is not None:
        write(f"Images are {loaded.images.resizing}.")
    for name, speed in speeds.items():
        if not math.isnan(speed):
            write(f"model {name}: {speed:,.0f} images/s alone, on {loaded.device}")
    if part != WHOLE:
        shard_count(study, len(grid), force=False, part=part)
        cells = len(range(part.number, len(grid), part.total))
        write(f"part {part} has {cells:,} of these cells.")
    if not math.isnan(total):
        write(
            f"all: the model needs at most about {clock(total)}, if every query has the lowest "
            "price. The attacks' own work comes on top, and is more if the network is small."
        )


def most_queries(tariff: Tariff) -> float:
    """Return the maximum number of queries for one image under a tariff."""
    cheapest = tariff.prices.cheapest
    ends = cheapest > 0 and math.isfinite(tariff.limits.budget)
    by_budget = tariff.limits.budget // cheapest if ends else math.inf
    return min(by_budget, tariff.limits.max_queries)
