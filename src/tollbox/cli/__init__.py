"""The command line: one file per command, and what commands share."""

from .app import COMMANDS, main
from .interrupt import HANDLERS

__all__ = ["COMMANDS", "HANDLERS", "main"]
