"""Studies: models x attacks x prices x images from a file, which survive a kill at any time.

These names are for users who run studies: results, parts of a study, and clusters. Each is imported
on first use, so that `tollbox status` does not load torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazy_names

if TYPE_CHECKING:
    from .merge import merge_parts as merge_parts
    from .ray import RayWorkers as RayWorkers
    from .results import StudyResults as StudyResults
    from .run import run_study as run_study
    from .study import Study as Study

_WHERE = {
    "RayWorkers": "ray",
    "Study": "study",
    "StudyResults": "results",
    "merge_parts": "merge",
    "run_study": "run",
}
__all__ = list(_WHERE)
__getattr__, __dir__ = lazy_names(__name__, _WHERE)
