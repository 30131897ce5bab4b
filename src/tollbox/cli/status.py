"""`tollbox status`: its options, and its help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from .later import work_of
from .options import FOLDER
from .output import JSON


def status(folder: Annotated[Path, FOLDER], /, *, json: Annotated[bool, JSON] = False) -> int:
    """Show how far a study has come; it may be running."""
    return work_of(status)(folder, json=json)
