"""Worker processes: the same cells or studies over several processes of this machine."""

from .pool import Workers

__all__ = ["Workers"]
