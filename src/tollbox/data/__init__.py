"""Input and output files: images, labels, classes, masks, price tables, results.

Names are imported on first use, so that commands that need no torch do not load it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazy_names

if TYPE_CHECKING:
    from .images import ImageSet as ImageSet
    from .images import load_images as load_images
    from .resizing import Resizing as Resizing

_WHERE = {"ImageSet": "images", "Resizing": "resizing", "load_images": "images"}
__all__ = list(_WHERE)
__getattr__, __dir__ = lazy_names(__name__, _WHERE)
