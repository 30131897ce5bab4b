"""`tollbox demo`: an audit of the embedded model, as anyone could make it of their own."""

from __future__ import annotations

from pathlib import Path

from ..audits.audit import ANSWERS, PAGE, options_of, settings_of
from ..audits.questions import Questions
from ..data.output import check_free
from ..models import stand_ins
from ..studies.create import create
from .audit import AuditOptions, finish, prepared
from .demo import DemoOptions
from .output import console
from .parsing import within
from .study_run import keeping, run_left

MODEL = "tollbox.models.stand_ins:convolutional"
IMAGES = "tollbox.models.stand_ins:images"
BUDGET = 600
WORTH = 10_000.0
NEXT = "tollbox audit --model MODEL --images FOLDER --out DIR"
TIME_LIMIT = 100.0
"""Seconds; it takes about a minute on two cores."""
STORE = ("shard-0.lock", *(f"shard-0.sqlite{end}" for end in ("", "-wal", "-shm")))
FILES = frozenset({PAGE, ANSWERS, "report.html", *STORE})
"""What an earlier demo may have left."""


def demo(options: DemoOptions) -> int:
    """Audit the embedded model, and say what to do next."""
    check_free(options.out, FILES, options.replace)
    within("images", options.images, 1, len(stand_ins.images()))
    chosen = AuditOptions(
        out=options.out,
        model=MODEL,
        images=Path(IMAGES),
        limit=options.images,
        budget=BUDGET,
        seed=options.seed,
        device="cpu",
    )
    for name in FILES if options.replace else ():
        (options.out / name).unlink(missing_ok=True)
    suite, loaded = prepared(chosen, "embedded")
    settings = settings_of(suite, loaded.images.images, Questions(worth=WORTH))
    create(loaded, options.out, "demo", settings=settings)
    with keeping(options.out):
        outcome, interruption = run_left(options.out, options_of(TIME_LIMIT), loaded)
        code = finish(options.out, outcome, interruption, loaded)
    if code == 0:
        console().print(f"Now a model and images of your own: `{NEXT}`.", soft_wrap=True)
    return code
