"""Attacks in the form that Foolbox and the Adversarial Robustness Toolbox (ART) expect."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazy_names

if TYPE_CHECKING:
    from . import art as art
    from . import foolbox as foolbox

_WHERE = {"art": "", "foolbox": ""}
__all__ = list(_WHERE)
__getattr__, __dir__ = lazy_names(__name__, _WHERE)
