"""`tollbox demo`: its options, and its help."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from .later import work_of
from .parsing import whole


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
    """Audit the embedded model: what it costs to attack it, and a page, in about a minute."""
    return work_of(demo)(options)
