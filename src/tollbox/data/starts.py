"""The target class of an attack, and the images to start from.

1. A target needs a start: random noise hardly ever has a class of your choice.
2. A start is one image for all, or an `.npz` file whose image i belongs to image i. It has the size
   and channels of the images. A grey image counts as RGB if the images are RGB. An image of another
   size is resized like the images, if they are resized.
3. A charged query finds out whether the model gives a start the target class.
"""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from ..errors import InputError, mention
from .image_files import read_image
from .images import ImageSet, load_images
from .tables import LARGEST, check_file


def check_goal(target: int | None, start: Path | None) -> None:
    """Raise InputError for a target without a start."""
    if target is not None and start is None:
        raise InputError(
            f"is {target}, but {mention('start')} is not given",
            expected="an image of that class to start from",
            input="target",
        )


def check_target(target: int | None, images: ImageSet, classes: int | None) -> None:
    """Raise InputError unless the model has the target class and no image has it as its label."""
    if target is None:
        return
    largest = LARGEST if classes is None else classes - 1
    if not 0 <= target <= largest:
        raise InputError(f"is {target}", expected=f"0 to {largest}", input="target")
    same = [place for place, label in enumerate(images.labels) if label == target]
    if same:
        more = f" and {len(same) - 1} more" if len(same) > 1 else ""
        raise InputError(
            f"is {target}, which is also the label of image {images.names[same[0]]}{more} "
            f"({images.origins[same[0]]})",
            expected="a class that none of the images has",
            remedy="leave those images out",
            input="target",
        )


def load_starts(start: Path | None, images: ImageSet, limit: int | None) -> list[Tensor | None]:
    """Return the image to start from for each image, or None for each without `start`."""
    count, shape = len(images), tuple(images.images.shape[1:])
    if start is None:
        return [None] * count
    check_file(start, "an image file, or an .npz", input="start")
    if start.suffix.lower() == ".npz":
        starts = load_images(start, None, limit).images
    else:
        starts = read_image(start, shape, images.resizing)
    if tuple(starts.shape[1:]) != shape:
        raise InputError(
            f"{start} is {_size(tuple(starts.shape[1:]))}, but the images are {_size(shape)}",
            expected="the same size and channels",
            remedy="resize it first",
            input="start",
        )
    if len(starts) not in (1, count):
        raise InputError(
            f"{start} has {len(starts)} images, but {count} are attacked",
            expected="one for all, or one for each, in the same order",
            input="start",
        )
    return [starts[0]] * count if len(starts) == 1 else list(starts)


def _size(shape: tuple[int, ...]) -> str:
    return f"{shape[2]}x{shape[1]} with {shape[0]} channel{'s' if shape[0] != 1 else ''}"
