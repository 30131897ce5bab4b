"""Detectors: a custom detector sees the queries of an image, and its alarms have a price.

1. A detector sees the charged rows of an image, as they were sent, in order, and nothing else: no
   padding, no row that was computed ahead, no row after the run stopped. A clean image that is not
   charged is not shown.
2. Its answer for a row may depend on the rows before it and on nothing else: neither on how rows
   are split over calls nor on other images (`tollbox.testing.check_detector` tests this).
3. An alarm costs `alarm_price`, which counts against the budget: a query is sent only if its most
   expensive answer, with an alarm, is affordable. No query is sent after the last alarm that
   `max_alarms` allows: the run stops with `ALARM`.
4. Attacks do not learn about alarms: they see the answers that they would see without a detector.
5. Alarm rates mean little without the rate on harmless queries. A benign session is a few harmless
   queries about one image (`detection.py`).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from .validation import CAP, check, number, require

if TYPE_CHECKING:
    from torch import Tensor

Session = Callable[["Tensor"], Any]
"""A detector's function for one image. It takes the next rows, (n, c, h, w) in [0,1] on the model's
device, and returns a tensor, an array or a list with a bool for each row, True for an alarm."""


@runtime_checkable
class Detector(Protocol):
    """A detector to evaluate: `tb.run(..., detection=tb.Detection(detector))`.

    `begin` is called once for each image and returns a session with its own memory. This detector
    raises an alarm for every query that is brighter than all queries before it:

        class Brighter:
            def begin(self, image):
                brightest = -1.0

                def session(rows):
                    nonlocal brightest
                    alarms = []
                    for mean in rows.mean((1, 2, 3)).tolist():
                        alarms.append(mean > brightest)
                        brightest = max(brightest, mean)
                    return alarms

                return session

    If sessions return tensors on the model's device, the answers for several images are read in one
    transfer. A detector that works on the host, like this one, makes the device wait each time.
    """

    def begin(self, image: int, /) -> Session:
        """Return a session for an image; `image` is a number computed from its content, which a
        detector that draws random numbers can use as a seed."""


@dataclass(frozen=True)
class RecordedAlarms:
    """A stand-in for a detector whose alarms have all been recorded."""

    def begin(self, image: int, /) -> Session:
        raise RuntimeError(f"the record of image {image} has too few alarms")


@dataclass(frozen=True)
class Detection:
    """A detector, the price of its alarms, and their maximum number."""

    detector: Detector = field(repr=False)
    alarm_price: float = 0.0
    """Cost of an alarm, in addition to that of the answer."""
    max_alarms: float = math.inf
    """Maximum number of alarms; no query is sent after the last of them."""

    def __post_init__(self) -> None:
        check_detector_type(self.detector)
        check(self, alarm_price=number(0), max_alarms=CAP)

    @property
    def terms(self) -> Detection:
        """The same price and limit without the detector, as a ledger keeps them."""
        return replace(self, detector=RecordedAlarms())


def check_detector_type(detector: Any) -> None:
    """Raise InputError unless `detector` is an object with a method `begin`."""
    remedy = "pass an instance of the class" if isinstance(detector, type) else ""
    right = isinstance(detector, Detector) and not remedy
    expected = "a detector, with a method `begin` (tollbox.detection.Detector)"
    require(right, "detector", detector, expected, remedy)


class FirstAlarm(NamedTuple):
    """The account when the first alarm was raised, including its query."""

    queries: int
    flagged: int


@dataclass(frozen=True)
class Sessions:
    """Counts of benign sessions, of sessions with an alarm, of queries, and of alarms."""

    sessions: int = 0
    alarmed: int = 0
    queries: int = 0
    alarms: int = 0

    def __add__(self, other: Sessions) -> Sessions:
        return Sessions(*map(operator.add, vars(self).values(), vars(other).values()))

    @property
    def rate(self) -> float:
        """Share of sessions with an alarm; 0 if there are no sessions."""
        return self.alarmed / max(1, self.sessions)

    @property
    def per_query(self) -> float:
        """Alarms per query; 0 if there are no queries."""
        return self.alarms / max(1, self.queries)


@dataclass(frozen=True)
class BenignStats:
    """Counts of benign sessions, by the kind of their queries."""

    kinds: Mapping[str, Sessions]
    missing: tuple[str, ...] = ()
    """Reasons why kinds of sessions are missing, or how the detector failed."""

    @property
    def all(self) -> Sessions:
        return sum(self.kinds.values(), Sessions())

    @property
    def sentence(self) -> str:
        total, found = self.all, "There are no benign sessions to compare with."
        if total.sessions:
            each = ", ".join(f"{name} {one.rate:.0%}" for name, one in self.kinds.items())
            found = (
                f"{total.rate:.1%} of {total.sessions} benign sessions raise an alarm ({each}), "
            )
            found += f"{total.per_query:.3g} alarms per query."
        return " ".join([found, *(f"{text[:1].upper()}{text[1:]}." for text in self.missing)])
