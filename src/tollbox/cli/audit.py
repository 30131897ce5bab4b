"""`tollbox audit`: its options, and its help."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from . import parsing as choices
from .later import work_of
from .output import JSON

LIMIT = 50
"""Images, unless it is said."""


def _option(text: str, hyphen: bool = False) -> Parameter:
    return Parameter(help=text, allow_leading_hyphen=hyphen)


def _whole(text: str) -> Parameter:
    return Parameter(help=text, converter=choices.whole)


def _flag(text: str) -> Parameter:
    return Parameter(help=text, negative="")


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class AuditOptions:
    """The options of `tollbox audit`."""

    out: Annotated[Path, _option("Folder for what is recorded, audit.html and audit.json.")]
    model: Annotated[
        str | None,
        _option("As `tollbox attack` takes it. Without it what is in --out is read again."),
    ] = None
    images: Annotated[Path | None, _option("As `tollbox attack` takes them.")] = None
    labels: Annotated[Path | None, _option("CSV with the columns file and label.")] = None
    limit: Annotated[int, _whole("Use only the first so many images.")] = LIMIT
    resize: Annotated[str | None, _option("As for `tollbox attack`.")] = None
    crop: Annotated[str | None, _option("As for `tollbox attack`.")] = None
    names: Annotated[Path | None, _option("Text file with a class name on each line.")] = None
    mean: Annotated[str | None, _option("As for `tollbox attack`.", True)] = None
    std: Annotated[str | None, _option("As for `tollbox attack`.", True)] = None
    quantize: Annotated[int | None, _whole("Bits per channel that the model takes.")] = None
    flagged: Annotated[
        Path | None, _option("A text file with the flagged classes, as for `tollbox attack`.")
    ] = None
    budget: Annotated[
        float | None,
        _option(
            "What an attack on one image may cost where all answers cost 1; it grows with the "
            "price. Default: 2000, and 5000 for large images."
        ),
    ] = None
    time: Annotated[
        str | None,
        _option("Time after which the run ends, as 90s, 8m or 1h; what is complete is reported."),
    ] = None
    worth: Annotated[
        float | None, _option("What a changed image is worth, in the price of a cheap answer.")
    ] = None
    epsilon: Annotated[
        str | None,
        _option("How far an image may be changed: l2 distances as 0.5,1, or 2/255,4/255."),
    ] = None
    policy: Annotated[
        Path | None,
        _option("CSV with the columns flagged and price: one more line, for a price that grows."),
    ] = None
    against: Annotated[Path | None, _option("The folder of another audit to compare with.")] = None
    seed: Annotated[int, _whole("Seed of the random numbers.")] = 0
    device: Annotated[str | None, _option("Default: cuda if there is one, else cpu.")] = None
    batch_size: Annotated[int | None, _whole("Rows of a model batch.")] = None
    workers: Annotated[int, _whole("Processes that share the images.")] = 1
    metered: Annotated[
        bool, _flag("The model bills every row: send only rows that are certain to be charged.")
    ] = False
    exact: Annotated[
        bool, _flag("Take a batch shape in which results can be repeated bit for bit.")
    ] = False
    json: Annotated[bool, JSON] = False


def audit(options: AuditOptions) -> int:
    """Measure what it costs to attack your own model, and what would make it unprofitable.

    Runs a fixed suite of attacks at several prices; all that is answered is recorded in --out.
    Ctrl-C ends the run, and the same command goes on.
    """
    return work_of(audit)(options)
