"""Worker processes: cells or a study distributed over several processes on this machine."""

from .pool import Workers

__all__ = ["Workers"]
