"""Errors, which are for the caller, and stop reasons, which are values.

TollboxError
├── InputError            an argument is not what was expected
│   ├── UnknownNameError  a name that is not known; suggests the nearest
│   └── FileError         a file is missing or cannot be read; names the file, and the line if any
└── ModelFault            the model raised or answered with something that is not labels;
                          the engine turns it into Stop.MODEL_ERROR for the cells concerned

What goes wrong with one image is never an exception: it is a `Stop` on that image's result.
A message says what was given, what was expected, and what to do.
"""

from __future__ import annotations

import difflib
import enum
from collections.abc import Iterable


class TollboxError(Exception):
    """Base of all errors that tollbox raises on purpose."""


class InputError(TollboxError, ValueError):
    """The caller's mistake."""


class UnknownNameError(InputError):
    """A name that is not among the known ones."""

    def __init__(self, kind: str, given: str, known: Iterable[str]) -> None:
        names = sorted(known)
        near = difflib.get_close_matches(given, names, n=3, cutoff=0.4)
        hint = f"did you mean {' or '.join(map(repr, near))}?" if near else "none is near it."
        super().__init__(f"unknown {kind} {given!r}: {hint} Known: {', '.join(names)}.")


class FileError(InputError):
    """A file that is missing, unreadable or not what it should be."""


class ModelFault(TollboxError):
    """The model raised, or its answer is not one integer label per image."""


class Stop(enum.StrEnum):
    """Why a run on one image ended. `advice` says what a user may do about it."""

    BUDGET = "budget"
    MAX_QUERIES = "max_queries"
    CONVERGED = "converged"
    ITERATIONS = "iterations"
    NO_START = "no_start"
    NO_INFORMATION = "no_information"
    ALREADY_MISCLASSIFIED = "already_misclassified"
    MODEL_ERROR = "model_error"
    ATTACK_ERROR = "attack_error"
    TIME_LIMIT = "time_limit"
    INTERRUPTED = "interrupted"

    @property
    def advice(self) -> str:
        """One sentence: what it means, and what to do."""
        return _ADVICE[self]


_ADVICE = {
    Stop.BUDGET: "The next query could have cost more than was left; this is the usual end.",
    Stop.MAX_QUERIES: "The cap on queries was reached; raise max_queries to go on.",
    Stop.CONVERGED: "The attack found no way to get nearer.",
    Stop.ITERATIONS: "The attack's own limit on iterations was reached; raise it to go on.",
    Stop.NO_START: "No adversarial point was found to begin with; try another start.",
    Stop.NO_INFORMATION: (
        "Estimate after estimate had answers of one side only and so no direction; the overshoot "
        "is far from its target: try another schedule, or an attack without one."
    ),
    Stop.ALREADY_MISCLASSIFIED: (
        "The model does not give the clean image the label that came with it; medians leave it out."
    ),
    Stop.MODEL_ERROR: "The model failed on a point of this image; see the result's reason.",
    Stop.ATTACK_ERROR: "The attack itself failed on this image; see the result's reason.",
    Stop.TIME_LIMIT: "The time limit ended the run; what was reached until then is reported.",
    Stop.INTERRUPTED: "The run was interrupted; what was reached until then is reported.",
}
