"""tollbox: decision-based attacks on image classifiers when queries have a price.

The names here are for running attacks, studies and audits. `tollbox.attack` has the names for
attack authors, and `tollbox.studies` those for operators of studies. Each name is imported on first
use, so that `tollbox status`, which does not need torch, does not wait for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._lazy import lazy_names

if TYPE_CHECKING:
    from . import attack as attack
    from . import attacks as attacks
    from . import data as data
    from . import detection as detection
    from . import errors as errors
    from . import interop as interop
    from . import models as models
    from . import studies as studies
    from . import testing as testing
    from . import workers as workers
    from ._run import run as run
    from ._run import stream as stream
    from .attacks.presets import preset as preset
    from .attacks.presets import presets as presets
    from .attacks.surrogates import Surrogate as Surrogate
    from .audits.audit import audit as audit
    from .core.detector import Detection as Detection
    from .core.execution import Execution as Execution
    from .core.goal import Goal as Goal
    from .core.ledger import Ledger as Ledger
    from .core.limits import Limits as Limits
    from .core.prices import Prices as Prices
    from .core.result import Result as Result
    from .core.result import Results as Results
    from .core.stop import Stop as Stop
    from .data.images import load_images as load_images
    from .studies.run import run_study as run_study
    from .studies.study import Study as Study

__version__ = "0.1.0"

_WHERE = {
    "Detection": "core.detector",
    "Execution": "core.execution",
    "Goal": "core.goal",
    "Ledger": "core.ledger",
    "Limits": "core.limits",
    "Prices": "core.prices",
    "Result": "core.result",
    "Results": "core.result",
    "Stop": "core.stop",
    "Study": "studies.study",
    "Surrogate": "attacks.surrogates",
    "audit": "audits.audit",
    "load_images": "data.images",
    "preset": "attacks.presets",
    "presets": "attacks.presets",
    "run": "_run",
    "run_study": "studies.run",
    "stream": "_run",
    **dict.fromkeys(("attack", "attacks", "data", "detection", "errors", "interop"), ""),
    **dict.fromkeys(("models", "studies", "testing", "workers"), ""),
}
__all__ = list(_WHERE)
__getattr__, __dir__ = lazy_names(__name__, _WHERE)
