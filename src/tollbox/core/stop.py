"""Why a run on one image ended: a value, never an exception. A stop knows which groups it is in."""

from __future__ import annotations

import enum


class Stop(enum.StrEnum):
    """Why a run on one image ended. `advice` says what a user may do about it."""

    BUDGET = "budget"
    MAX_QUERIES = "max_queries"
    MAX_FLAGGED = "max_flagged"
    ALARM = "alarm"
    CONVERGED = "converged"
    ITERATIONS = "iterations"
    NO_START = "no_start"
    NO_INFORMATION = "no_information"
    ALREADY_MISCLASSIFIED = "already_misclassified"
    MODEL_ERROR = "model_error"
    ATTACK_ERROR = "attack_error"
    DETECTOR_ERROR = "detector_error"
    TIME_LIMIT = "time_limit"
    INTERRUPTED = "interrupted"

    @property
    def advice(self) -> str:
        """One sentence: what it means, and what to do."""
        return _ADVICE[self]

    @property
    def failed(self) -> bool:
        """An error of the model, of the attack or of the detector."""
        return self in (Stop.MODEL_ERROR, Stop.ATTACK_ERROR, Stop.DETECTOR_ERROR)

    @property
    def unfinished(self) -> bool:
        """The clock or an interruption: the run can be resumed."""
        return self in (Stop.TIME_LIMIT, Stop.INTERRUPTED)

    @property
    def cut_short(self) -> bool:
        """An end that says nothing about the image: it counts up to what was spent."""
        return self.failed or self.unfinished

    @property
    def attacked(self) -> bool:
        """The image was attacked at all: medians leave out those misclassified from the start."""
        return self is not Stop.ALREADY_MISCLASSIFIED


_ADVICE = {
    Stop.BUDGET: "The next query could have cost more than was left; this is the usual end.",
    Stop.MAX_QUERIES: "The cap on queries was reached; raise max_queries to go on.",
    Stop.MAX_FLAGGED: "As many answers were flagged as may be; raise max_flagged to go on.",
    Stop.ALARM: "The detector raised as many alarms as may be; raise max_alarms to go on.",
    Stop.CONVERGED: "The attack found no way to get nearer.",
    Stop.ITERATIONS: "The attack's own limit on iterations was reached; raise it to go on.",
    Stop.NO_START: "No adversarial point was found to begin with; try another start.",
    Stop.NO_INFORMATION: (
        "Estimate after estimate had answers of one side only and so no direction; the overshoot "
        "is far from its target: try another schedule, or an attack without one."
    ),
    Stop.ALREADY_MISCLASSIFIED: (
        "The model does not give the clean image the label that came with it, or a flagged one; "
        "medians leave it out."
    ),
    Stop.MODEL_ERROR: "The model failed on a point of this image; see the result's reason.",
    Stop.ATTACK_ERROR: "The attack itself failed on this image; see the result's reason.",
    Stop.DETECTOR_ERROR: "The detector failed on queries of this image; see the result's reason.",
    Stop.TIME_LIMIT: "The time limit ended the run; what was reached until then is reported.",
    Stop.INTERRUPTED: "The run was interrupted; what was reached until then is reported.",
}
