"""`tollbox demo`: an audit of the embedded model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from .options import SEED_HELP, whole, within

MODEL = "tollbox.models.stand_ins:convolutional"
IMAGES = "tollbox.models.stand_ins:images"
BUDGET = 600
WORTH = 10_000.0
NEXT = "tollbox audit --model MODEL --images FOLDER --out DIR"
TIME_LIMIT = 100.0
"""Time limit in seconds; the demo takes about a minute on two cores."""
STORE = ("shard-0.lock", *(f"shard-0.sqlite{end}" for end in ("", "-wal", "-shm")))


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class DemoOptions:
    out: Path = Path("demo-output")
    """Folder for the results."""
    replace: bool = False
    """Replace the output of an earlier demo."""
    images: Annotated[int, Parameter(help="Number of images.", converter=whole)] = 20
    seed: Annotated[int, Parameter(help=SEED_HELP, converter=whole)] = 0


def demo(options: DemoOptions = DemoOptions()) -> int:  # noqa: B008
    """Audit the embedded model: what it costs to attack it, and a page, in about a minute."""
    from ..audits.audit import ANSWERS, PAGE
    from ..audits.criteria import Criteria
    from ..data.output import check_free
    from ..models import stand_ins
    from .audit import AuditOptions, run_audit
    from .output import INCOMPLETE, write

    files = {PAGE, ANSWERS, "report.html", *STORE}  # what an earlier demo may have left
    check_free(options.out, files, options.replace)
    within("images", options.images, 1, len(stand_ins.images()))
    for name in files if options.replace else ():
        (options.out / name).unlink(missing_ok=True)
    chosen = AuditOptions(
        out=options.out,
        model=MODEL,
        images=Path(IMAGES),
        limit=options.images,
        budget=BUDGET,
        seed=options.seed,
        device="cpu",
    )
    code = run_audit(chosen, Criteria(worth=WORTH), TIME_LIMIT, "embedded", "demo")
    if code not in (0, INCOMPLETE):  # on a slow machine the demo ends early, with a page
        return code
    write(f"Next, audit your own model: `{NEXT}`.")
    return 0
