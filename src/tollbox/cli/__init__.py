"""The command line: one file per command, and shared modules."""

from .app import COMMANDS, main
from .interrupt import HANDLERS

__all__ = ["COMMANDS", "HANDLERS", "main"]
