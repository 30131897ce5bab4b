"""Studies: models x attacks x prices x images in a file, and nothing lost on a kill."""

from .reading import StudyResults
from .study import Study

__all__ = ["Study", "StudyResults"]
