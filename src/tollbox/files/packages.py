"""Packages that only some users need: imported where they are used, with a sentence if missing."""

from __future__ import annotations

import importlib
from typing import Any

from ..errors import InputError
from .functions import with_kind


def optional(module: str, purpose: str, extra: str = "") -> Any:
    """A module of an optional package, which `extra` of tollbox installs, if there is such."""
    package = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ImportError as error:
        missing = isinstance(error, ModuleNotFoundError) and error.name == package
        how = "is not installed" if missing else f"cannot be imported ({with_kind(error)})"
        wanted = f"'tollbox[{extra}]'" if extra else package
        raise InputError(
            f"{package} {how}: {purpose}",
            remedy=f"install it with `pip install {wanted}`",
        ) from None
