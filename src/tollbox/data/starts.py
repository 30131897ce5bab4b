"""The goal of an attack: the class to reach, and the image to begin from.

1. A target needs a start: noise hardly ever ends in a class of one's choice.
2. A start is one picture for all images, or an `.npz` whose image i goes with image i. It is of the
   images' size and channels; a grey picture counts as RGB beside RGB images. A picture of another
   size is resized as the images are, if they are.
3. Whether the model gives a start its class is found out by a charged query, as for any point.
"""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from ..errors import FileError, InputError, mention
from .image_files import read_picture
from .images import ImageSet, load_images
from .resizing import Resizing
from .tables import LARGEST, kind_of


def check_goal(target: int | None, start: Path | None) -> None:
    """Raise InputError for a target without a start."""
    if target is not None and start is None:
        raise InputError(
            f"is {target}, and {mention('start')} is not given",
            expected="an image of that class to begin from",
            input="target",
        )


def check_target(target: int | None, images: ImageSet, classes: int | None) -> None:
    """Raise InputError unless the model has that class, and it is the label of no image."""
    if target is None:
        return
    largest = LARGEST if classes is None else classes - 1
    if not 0 <= target <= largest:
        raise InputError(f"is {target}", expected=f"0 to {largest}", input="target")
    same = [place for place, label in enumerate(images.labels) if label == target]
    if same:
        more = f" and {len(same) - 1} more" if len(same) > 1 else ""
        raise InputError(
            f"is {target}, and so is the label of image {images.names[same[0]]}{more} "
            f"({images.origins[same[0]]})",
            expected="a class that none of the images has",
            remedy="leave those images out",
            input="target",
        )


def load_starts(start: Path | None, images: ImageSet, limit: int | None) -> list[Tensor | None]:
    """The image to begin from, for each image; None where none was given."""
    count, shape = len(images), tuple(images.images.shape[1:])
    if start is None:
        return [None] * count
    starts = _load(start, shape, limit, images.resizing)
    if tuple(starts.shape[1:]) != shape:
        raise InputError(
            f"{start} is {_size(tuple(starts.shape[1:]))}, and the images are {_size(shape)}",
            expected="the same size and channels",
            remedy="resize it first",
            input="start",
        )
    if len(starts) == 1:
        return [starts[0]] * count
    if len(starts) != count:
        raise InputError(
            f"{start} has {len(starts)} images, and there are {count} to be attacked",
            expected="one for all, or one for each, in the same order",
            input="start",
        )
    return list(starts)


def _load(
    start: Path, shape: tuple[int, ...], limit: int | None, resizing: Resizing | None
) -> Tensor:
    """(n, c, h, w) in [0,1]."""
    kind = kind_of(start, str(start), input="start")
    if kind != "file":
        what = "does not exist" if kind == "nothing" else "is not a file"
        raise FileError(f"{start} {what}", expected="an image file, or an .npz", input="start")
    if start.suffix.lower() == ".npz":
        return load_images(start, None, limit).images
    return read_picture(start, shape, resizing)


def _size(shape: tuple[int, ...]) -> str:
    return f"{shape[2]}x{shape[1]} with {shape[0]} channel{'s' if shape[0] != 1 else ''}"
