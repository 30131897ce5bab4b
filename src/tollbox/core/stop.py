"""The reason why a run on one image stopped: a value, never an exception."""

from __future__ import annotations

import enum


class Stop(enum.StrEnum):
    """The reason why a run on one image stopped; `advice` says what a user can do about it."""

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
        """One or two sentences: what the reason means, and what to do."""
        return _ADVICE[self]

    @property
    def failed(self) -> bool:
        """Whether the model, the attack or the detector failed."""
        return self in (Stop.MODEL_ERROR, Stop.ATTACK_ERROR, Stop.DETECTOR_ERROR)

    @property
    def unfinished(self) -> bool:
        """Whether the time limit or an interruption stopped the run, so that it can be resumed."""
        return self in (Stop.TIME_LIMIT, Stop.INTERRUPTED)

    @property
    def cut_short(self) -> bool:
        """Whether the reason is unrelated to the image, which then counts only up to its cost."""
        return self.failed or self.unfinished

    @property
    def attacked(self) -> bool:
        """Whether the image was attacked; medians exclude images that were misclassified."""
        return self is not Stop.ALREADY_MISCLASSIFIED


_ADVICE = {
    Stop.BUDGET: "The next query could have cost more than was left; this is the usual reason.",
    Stop.MAX_QUERIES: "The limit on queries was reached; raise max_queries to continue.",
    Stop.MAX_FLAGGED: "The limit on flagged answers was reached; raise max_flagged to continue.",
    Stop.ALARM: "The limit on the detector's alarms was reached; raise max_alarms to continue.",
    Stop.CONVERGED: "The attack found no way to reduce the distance further.",
    Stop.ITERATIONS: "The attack's limit on iterations was reached; raise it to continue.",
    Stop.NO_START: "No adversarial starting point was found; try another start.",
    Stop.NO_INFORMATION: (
        "Several estimates in a row had answers from one side only and gave no direction. The "
        "overshoot is far from its target: try another schedule, or an attack without one."
    ),
    Stop.ALREADY_MISCLASSIFIED: (
        "The model's answer to the clean image is not the image's label, or not a flagged label; "
        "medians exclude the image."
    ),
    Stop.MODEL_ERROR: "The model failed on a point of this image; see the result's reason.",
    Stop.ATTACK_ERROR: "The attack failed on this image; see the result's reason.",
    Stop.DETECTOR_ERROR: "The detector failed on queries of this image; see the result's reason.",
    Stop.TIME_LIMIT: "The time limit stopped the run; the result is the state at that time.",
    Stop.INTERRUPTED: "The run was interrupted; the result is the state at that time.",
}
