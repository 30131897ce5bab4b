"""`tollbox init`: its options, and its help."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from . import parsing as choices
from .later import work_of
from .options import FileOrText, InterpolationName

MOST_IMAGES = 200
"""That a study has unless told otherwise."""


def _option(text: str, metavar: str | None = None) -> Parameter:
    return Parameter(help=text, metavar=metavar, allow_leading_hyphen=True, show_choices=False)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class InitOptions:
    """The options of `tollbox init`."""

    model: Annotated[
        FileOrText | None,
        _option("A file, hf:NAME or the like, or module:function; as for `attack`.", "MODEL"),
    ] = None
    images: Annotated[
        Path | None, _option("A folder, an .npz, or module:function; as for `attack`.")
    ] = None
    labels: Annotated[
        Path | None,
        _option("CSV with the columns file and label, if the folder has none for each class."),
    ] = None
    limit: Annotated[
        int | None,
        Parameter(
            help=f"Only the first so many images. Default: {MOST_IMAGES} if there are more.",
            converter=choices.whole,
        ),
    ] = None
    resize: Annotated[
        str | None, _option("Of pictures: the length of the shorter side, or height,width.")
    ] = None
    crop: Annotated[str | None, _option("Then the middle: a side, or height,width.")] = None
    interpolation: Annotated[InterpolationName | None, _option("How to resize.", "FILTER")] = None
    names: Annotated[Path | None, _option("Text file with the name of a class on each line.")] = (
        None
    )
    mean: Annotated[
        str | None, _option("Subtracted from images in [0,1]; a number or one per channel.")
    ] = None
    std: Annotated[str | None, _option("Divides after the mean; likewise.")] = None
    metered: Annotated[
        bool, Parameter(help="The model bills every image: try it on one alone.", negative="")
    ] = False
    out: Annotated[Path, _option("The file to write.")] = Path("study.toml")
    replace: Annotated[
        bool, Parameter(help="Replace a file that `tollbox init` wrote.", negative="")
    ] = False


def init(options: InitOptions = InitOptions()) -> int:  # noqa: B008
    """Write a study file for your own model and images, or one to fill in.

    They are tried first, so that `tollbox run` takes the file as it is; the file says what could
    be changed.
    """
    return work_of(init)(options)
