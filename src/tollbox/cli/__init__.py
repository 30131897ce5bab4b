"""The commands, one file each, and what they share."""

from .app import COMMANDS, main

__all__ = ["COMMANDS", "main"]
