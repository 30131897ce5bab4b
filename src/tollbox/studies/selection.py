"""Which images: a list of content hashes that selects them, and a digest that identifies them.

1. An image is identified by the hash of its content, so that a list holds wherever the files are
   and whatever they are called. In a list the hash comes first on a line; the rest is a comment.
2. The digest is blake2b with 16 bytes over the lines "hash label", each with its end of line, in
   the order of the images.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..core.noise import content_hash
from ..data.images import ImageSet
from ..data.tables import read_lines, shortened
from ..errors import FileError
from .kinds import DIGITS, is_hash

HASH = "a content hash on each line"


def images_digest(images: ImageSet) -> str:
    """Return the digest of the images and labels in their order."""
    return digest_of(zip(map(content_hash, images.images), images.labels, strict=True))


def digest_of(pairs: Iterable[tuple[str, int]]) -> str:
    """Return the digest of content hashes and labels."""
    digest = hashlib.blake2b(digest_size=DIGITS // 2)
    for content, label in pairs:
        digest.update(f"{content} {label}\n".encode())
    return digest.hexdigest()


def read_list(file: Path) -> dict[str, int]:
    """Return the content hashes of a list in order, each with its line."""
    lines_by_hash: dict[str, int] = {}
    for number, line in enumerate(read_lines(file, HASH, input=""), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        name, where = words[0].lower(), f"{file}, line {number}"
        if not is_hash(name):
            given = f"{shortened(words[0])!r} is not a content hash"
            digits = f"{DIGITS} hexadecimal digits"
            raise FileError(given, expected=digits, remedy="begin a comment with #", where=where)
        if name in lines_by_hash:
            given = f"{name} is on line {lines_by_hash[name]} already"
            raise FileError(given, expected="each image once", remedy="leave one out", where=where)
        lines_by_hash[name] = number
    if not lines_by_hash:
        raise FileError(f"{file} lists no image", expected=HASH)
    return lines_by_hash


def select(images: ImageSet, file: Path, origin: Path) -> ImageSet:
    """Return the images that a list names, in its order; `origin` is where `images` are from."""
    places: dict[str, list[int]] = {}
    for place, image in enumerate(images.images):
        places.setdefault(content_hash(image), []).append(place)
    order = []
    for name, line in read_list(file).items():
        same, where = places.get(name, []), f"{file}, line {line}"
        labels = sorted({images.labels[place] for place in same})
        if not same:
            raise FileError(
                f"none of the {len(images)} images of {origin} has the content {name}",
                expected="images that exist, unchanged",
                remedy="leave the line out, or add the image",
                where=where,
            )
        if len(labels) > 1:
            raise FileError(
                f"{len(same)} images of {origin} have the content {name} and different labels, "
                f"{labels[0]} and {labels[1]}",
                expected="one label",
                remedy="remove the wrong one",
                where=where,
            )
        order.append(same[0])
    return take(images, order)


def take(images: ImageSet, places: Sequence[int]) -> ImageSet:
    """Return the images at these places, in this order."""
    of_each: dict[str, Any] = {
        name: tuple(getattr(images, name)[place] for place in places)
        for name in ("labels", "names", "origins")
    }
    return replace(images, images=images.images[list(places)], **of_each)
