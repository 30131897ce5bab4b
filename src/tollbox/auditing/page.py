"""The page of an audit: to come."""

from __future__ import annotations

from typing import Any

from ..report.page import GENERATOR


def page(data: dict[str, Any]) -> str:
    """The whole page as text, to be written as UTF-8."""
    return f"{GENERATOR.decode()}<p>{data['verdict']}"
