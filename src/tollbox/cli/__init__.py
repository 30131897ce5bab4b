"""The commands, one file each, and what they share."""

from .app import COMMANDS, main
from .interrupt import HANDLERS

__all__ = ["COMMANDS", "HANDLERS", "main"]
