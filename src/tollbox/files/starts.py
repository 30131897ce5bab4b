"""--target and --start: the class to reach, and the image to begin from.

1. A target needs a start: noise hardly ever ends in a class of one's choice.
2. A start is one picture for all images, or an `.npz` whose image i goes with image i. It is of the
   images' size and channels, and never resized; a grey picture counts as RGB beside RGB images.
3. Whether the model gives a start its class is found out by a charged query, as for any point.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from ..errors import FileError, InputError
from .images import GREY, ImageSet, load_images, picture_mode, read_pixels
from .tables import LARGEST, kind_of


def check_goal(target: int | None, start: Path | None) -> None:
    """Raise InputError for a target without a start."""
    if target is not None and start is None:
        raise InputError(
            f"--target is {target}, and --start is not given: expected an image of that class to "
            "begin from, as --start IMAGE."
        )


def check_target(target: int | None, given: ImageSet, classes: int | None) -> None:
    """A class that the model has, and that is the label of none of the images."""
    if target is None:
        return
    most = LARGEST if classes is None else classes - 1
    if not 0 <= target <= most:
        raise InputError(f"--target is {target}: expected 0 to {most}.")
    same = [place for place, label in enumerate(given.labels) if label == target]
    if same:
        more = f" and {len(same) - 1} more" if len(same) > 1 else ""
        raise InputError(
            f"--target is {target}, and so is the label of image {given.names[same[0]]}{more} "
            f"({given.origins[same[0]]}): expected a class that none of the images has; leave "
            "those images out."
        )


def load_starts(start: Path | None, given: ImageSet, limit: int | None) -> list[Tensor | None]:
    """The image to begin from, for each image; None where none was given."""
    count, shape = len(given), tuple(given.images.shape[1:])
    if start is None:
        return [None] * count
    found = _load(start, shape[0], limit)
    if tuple(found.shape[1:]) != shape:
        raise InputError(
            f"--start {start} is {_size(tuple(found.shape[1:]))}, and the images are "
            f"{_size(shape)}: expected the same size and channels; resize it first."
        )
    if len(found) == 1:
        return [found[0]] * count
    if len(found) != count:
        raise InputError(
            f"--start {start} has {len(found)} images, and there are {count} to be attacked: "
            "expected one for all, or one for each, in the same order."
        )
    return list(found)


def _load(start: Path, channels: int, limit: int | None) -> Tensor:
    """(n, c, h, w) in [0,1]."""
    kind = kind_of(start, f"--start {start}")
    if kind != "file":
        what = "does not exist" if kind == "nothing" else "is not a file"
        raise FileError(f"--start {start} {what}: expected an image file, or an .npz.")
    if start.suffix.lower() == ".npz":
        return load_images(start, None, limit).images
    mode = "L" if channels == 1 and picture_mode(start) in GREY else "RGB"
    return torch.from_numpy(read_pixels(start, mode)).float().div_(255)[None]


def _size(shape: tuple[int, ...]) -> str:
    return f"{shape[2]}x{shape[1]} with {shape[0]} channel{'s' if shape[0] != 1 else ''}"
