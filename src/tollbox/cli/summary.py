"""The table at the end of `tollbox attack`, on stdout.

The median, and the count of images without an adversarial point, are over the runs that came to
their own end. A run that failed is counted as failed, and one that the clock or Ctrl-C ended as
ended early; what those had reached is a line of its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from rich.table import Table
from rich.text import Text

from ..core.result import CUT_SHORT, Result, Results
from ..core.stop import Stop
from .streams import console

FAILURES = (Stop.MODEL_ERROR, Stop.ATTACK_ERROR)


def show(
    title: str, results: Results, lost: int, end: str, target: int | None, given: bool
) -> None:
    """Print it; `lost` points are no longer adversarial at 8 bits; `end` is the last line.

    `target` is the class to reach, if any; `given` says whether there was an image to begin from.
    """
    to = console()
    ended = [r for r in results.counted if r.stop not in CUT_SHORT]
    early = [r for r in results.counted if r.stop in CUT_SHORT and r.stop not in FAILURES]
    queries = sum(r.ledger.queries for r in results)
    flagged = sum(r.ledger.source for r in results)
    table = Table(title=Text(title), show_header=False)
    table.add_column()
    table.add_column(justify="right")
    table.add_row("images", f"{len(results)}")
    table.add_row("misclassified anyway", f"{results.misclassified}")
    table.add_row("no adversarial point", f"{sum(math.isinf(r.distance) for r in ended)}")
    table.add_row("failed", f"{results.failed}")
    table.add_row(*_median("median l2", ended))
    if early:
        table.add_row("ended early", f"{len(early)}")
        begun = [r for r in early if r.ledger.queries > 0]
        table.add_row(*_median("median l2 reached early", begun))
    table.add_row("no longer adversarial at 8 bits", f"{lost}")
    table.add_row("queries", f"{queries:,}")
    table.add_row("flagged share", f"{flagged / queries:.1%}" if queries else "-")
    to.print(table)
    for warning in sorted({warning for r in results for warning in r.warnings}):
        to.print(f"Note: {warning}.", soft_wrap=True)
    if given and (blocked := sum(r.stop is Stop.NO_START for r in results)):
        wanted = "the source class" if target is None else f"another class than {target}"
        told = f"{blocked} images have no start: the model answers {wanted} to it."
        to.print(told, soft_wrap=True)
    if results.failed and not all_failed(results):
        to.print(failures(results), soft_wrap=True)
    to.print(end, soft_wrap=True)


def _median(name: str, results: Sequence[Result]) -> tuple[str, str]:
    median = f"{np.median([r.distance for r in results]):.4g}" if results else "-"
    return f"{name} ({len(results)} images)", median


def all_failed(results: Results) -> bool:
    """Whether runs were begun, and all of those failed."""
    return results.failed > 0 and not any(
        r.ledger.queries > 0 for r in results.counted if r.stop not in FAILURES
    )


def failures(results: Results) -> str:
    """How many failed, and why the first did."""
    first = next(r for r in results if r.stop in FAILURES)
    return f"{results.failed} runs failed; the first, image {first.name}: {first.reason}"
