"""`tollbox demo`: a study of the embedded model and its report, as anyone could make them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from ..files.output import check_free
from ..models import stand_ins
from ..studies.beginning import begin
from ..studies.events import Options
from ..studies.loading import load
from ..studies.spec.study import Study
from .choices import whole, within
from .codes import STOPPED
from .report import PAGE, report
from .streams import console
from .study_run import keeping, run_left, say_end

STUDY = """\
name = "demo"
seeds = [{seed}]
device = "cpu"
images = {{path = "tollbox.models.stand_ins:images", limit = {images}}}
models = [{{name = "embedded", source = "tollbox.models.stand_ins:convolutional"}}]
attacks = [{{preset = "hsja"}}, {{preset = "a-hsja"}}, {{preset = "frugal"}}]
prices = [{{ratio = 1, budget = 1200}}, {{ratio = 100, budget = 8000}}]
"""
NEXT = "tollbox init --model MODEL --images FOLDER"
TIME_LIMIT = 100.0
"""Seconds; it takes about a minute on two cores."""
FILES = frozenset({PAGE, "shard-0.lock", *(f"shard-0.sqlite{end}" for end in ("", "-wal", "-shm"))})
"""What an earlier demo may have left."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class DemoOptions:
    """The options of `tollbox demo`."""

    out: Annotated[Path, Parameter(help="Folder for the results.")] = Path("demo-output")
    replace: Annotated[bool, Parameter(help="Replace an earlier demo's output.", negative="")] = (
        False
    )
    images: Annotated[int, Parameter(help="How many images.", converter=whole)] = 20
    seed: Annotated[int, Parameter(help="Of the random numbers.", converter=whole)] = 0


def demo(options: DemoOptions = DemoOptions()) -> int:  # noqa: B008
    """Attack the embedded model: a study and its page, in about a minute."""
    check_free(options.out, FILES, options.replace)
    within("images", options.images, 1, len(stand_ins.images()))
    text = STUDY.format(images=options.images, seed=options.seed)
    loaded = load(Study.from_text(text, Path.cwd(), "tollbox demo"))
    for name in FILES if options.replace else ():
        (options.out / name).unlink(missing_ok=True)
    begin(loaded, options.out, "demo")
    with keeping(options.out):
        code = say_end(options.out, *run_left(options.out, Options(time_limit=TIME_LIMIT), loaded))
        if code in STOPPED:
            return code
        report(options.out)
    console().print(f"Now a model and images of your own: `{NEXT}`.", soft_wrap=True)
    return code
