"""Whether torch computes float32 products and convolutions in TF32, in this process.

torch has two ways to say so: `allow_tf32`, and since 2.9 `fp32_precision`. What was set in the
second way may not be read in the first, which raises. So a setting is read, and set again, in the
first way as long as that can be read, and else in the second.
"""

from __future__ import annotations

from typing import Any

import torch

Setting = tuple[bool | str, bool | str]
"""Of matrix products and of convolutions: flags, or the names of precisions."""
_PRODUCTS: Any = torch.backends.cuda.matmul
_CUDNN: Any = torch.backends.cudnn


def setting() -> Setting:
    """As it is now."""
    try:
        return _PRODUCTS.allow_tf32, _CUDNN.allow_tf32
    except RuntimeError:
        return _PRODUCTS.fp32_precision, _CUDNN.conv.fp32_precision


def set_to(setting: Setting) -> None:
    """Set it as it was elsewhere, or at another time."""
    if isinstance(setting[0], bool):
        _PRODUCTS.allow_tf32, _CUDNN.allow_tf32 = setting
    else:
        _PRODUCTS.fp32_precision, _CUDNN.conv.fp32_precision = setting


def turned(on: bool) -> Setting:
    """On or off, in the way that can be set now."""
    if isinstance(setting()[0], bool):
        return on, on
    return ("tf32", "tf32") if on else ("ieee", "ieee")


def allowed() -> bool:
    """Whether a network may be run in it."""
    return any(value in (True, "tf32") for value in setting())
