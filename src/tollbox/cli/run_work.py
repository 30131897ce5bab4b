"""`tollbox run`: a study from its file, in a new folder."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

from rich.table import Table

from ..errors import InputError, mention
from ..studies.create import WHOLE, Part, check_new, create, shard_count
from ..studies.events import Options
from ..studies.inputs import StudyInputs, load
from ..studies.job import model_speed
from ..studies.selection import images_digest
from ..studies.specs import Tariff
from ..studies.study import Study
from .hints import command, free_folder, page_hint
from .output import console
from .parsing import seconds
from .run import RunOptions
from .study_run import cluster_of, keeping, run_left, say_end, say_findings


def run(study: Path, options: RunOptions) -> int:
    """Run the study in a new folder, or say what it would take."""
    limit = seconds(options.time_limit)
    cluster = cluster_of(options.ray, options.ray_engines, options.ray_gpus)
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
    if cluster is not None and not options.dry_run:
        cluster.rooms(loaded.device)  # before anything is made
    if options.dry_run:
        _plan(loaded, part)
        if part == WHOLE:
            next_step = command("run", study, "--out", options.out or free_folder())
            console().print(f"Run it with `{next_step}`.", soft_wrap=True)
        return 0
    force = options.force_workers
    say_findings(create(loaded, out, "run", force_workers=force, part=part))
    how = Options(time_limit=limit, force_workers=force)
    next_step = page_hint(out) if part == WHOLE else ""
    with keeping(out):
        return say_end(out, *run_left(out, how, loaded, cluster), next_step)


def _plan(loaded: StudyInputs, part: Part) -> None:
    """Print what a run would do; of a part, what the whole study would."""
    study, grid, to = loaded.study, loaded.grid, console()
    table = Table(title=f"{study.name}: {len(grid):,} cells")
    table.add_column("")
    for name in ("cells", "queries at most", "model time at most"):
        table.add_column(name, justify="right")
    total, speeds = 0.0, {}
    loaded.check_surrogates()
    loaded.detector()
    for spec in study.models:
        model = loaded.model(spec)
        speeds[spec.name] = None if study.execution.metered else model_speed(loaded, model)
    for series in grid.series:
        queries = grid.width * most_queries(series.tariff)
        speed = speeds[series.model.name]
        time = math.nan if speed is None else queries / speed
        total += time
        table.add_row(series.named(study), f"{grid.width:,}", _number(queries), _time(time))
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
            f"all: the model takes at most about {_time(total)}, if each query is as cheap as can "
            "be; the attacks' own work comes on top, and is more if the network is small.",
            soft_wrap=True,
        )


def most_queries(tariff: Tariff) -> float:
    """The most queries that an image may take under a price."""
    cheapest = tariff.prices.cheapest
    ends = cheapest > 0 and math.isfinite(tariff.limits.budget)
    by_budget = tariff.limits.budget // cheapest if ends else math.inf
    return min(by_budget, tariff.limits.max_queries)


def _number(value: float) -> str:
    return f"{value:,.0f}" if math.isfinite(value) else "-"


def _time(value: float) -> str:
    if not math.isfinite(value):
        return "-"
    minutes, rest = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}"
