"""What a detector says of harmless queries, in numbers: alarms mean nothing without these.

A session is a few queries about one image that nobody would call an attack (`benign.py` makes
them). The rate is the share of sessions with an alarm.

A detector of one's own: what watches the queries of an image, and what its alarms do.

1. It is shown the charged rows of an image, as they were sent, in order, and nothing else: no
   padding, no row that was looked ahead at, none past the end of a run. A clean image that is not
   charged is not shown.
2. What it says of a row may depend on the rows before it, and on nothing else: neither on how rows
   are split over calls nor on other images (`tollbox.testing.check_detector` tests that).
3. An alarm costs `alarm_price`, in the ledger and so in every budget: a query is asked only if its
   dearest answer, with an alarm, is affordable. With `max_alarms` the last alarm that it admits may
   be raised, and nothing is asked after it: the run ends as `ALARM`.
4. No attack is told of alarms: it sees the answers that it would see without them.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from ..errors import InputError, mention
from .validation import is_number, shown

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Sessions:
    """How many there were, with how many queries, and what was said of them."""

    sessions: int = 0
    alarmed: int = 0
    """Sessions with an alarm."""
    queries: int = 0
    alarms: int = 0

    def __add__(self, other: Sessions) -> Sessions:
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return Sessions(*(one + two for one, two in pairs))

    @property
    def rate(self) -> float:
        """The share of sessions with an alarm; 0 of none."""
        return self.alarmed / self.sessions if self.sessions else 0.0

    @property
    def per_query(self) -> float:
        """Alarms per query; 0 of none."""
        return self.alarms / self.queries if self.queries else 0.0


@dataclass(frozen=True)
class BenignStats:
    """Sessions by what was done to the images."""

    kinds: Mapping[str, Sessions]
    missing: tuple[str, ...] = ()
    """What there is none of, and why; or how the detector failed."""

    @property
    def all(self) -> Sessions:
        """Of every kind."""
        return sum(self.kinds.values(), Sessions())

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> BenignStats:
        """What was written."""
        kinds = {name: Sessions(**counts) for name, counts in values["kinds"].items()}
        return cls(kinds, tuple(values["missing"]))

    @property
    def sentence(self) -> str:
        """What it found."""
        total = self.all
        each = ", ".join(f"{name} {one.rate:.0%}" for name, one in self.kinds.items())
        found = (
            f"Of {total.sessions} benign sessions {total.rate:.1%} raise an alarm ({each}), "
            f"{total.per_query:.3g} alarms a query."
            if total.sessions
            else "There is no benign session to compare with."
        )
        return " ".join([found, *(f"{text[:1].upper()}{text[1:]}." for text in self.missing)])


Session = Callable[["Tensor"], Any]
"""What watches one image: it is called with the next rows, (n, c, h, w) in [0,1] on the model's
device, and gives a bool for each, whether it is an alarm: a tensor, an array or a list."""


@runtime_checkable
class Detector(Protocol):
    """Something that watches queries, to be judged: `tb.run(..., watch=detector)`.

    `begin` is called once for each image, and gives an object with the image's own memory. A
    detector that alarms on every query that is brighter than all before it:

        class Brighter:
            def begin(self, image):
                brightest = [-1.0]

                def session(rows):
                    alarms = []
                    for mean in rows.mean((1, 2, 3)).tolist():
                        alarms.append(mean > brightest[0])
                        brightest[0] = max(brightest[0], mean)
                    return alarms

                return session

    A detector that answers with a tensor on the model's device is read with others in one
    transfer; one that works on the host, as this does, makes the device wait each time.
    """

    def begin(self, image: int, /) -> Session:
        """A session for an image; `image` is a number of its own, from its content: a seed, for a
        detector that draws."""


class FirstAlarm(NamedTuple):
    """When the first alarm came: after so many queries, its own included."""

    queries: int
    flagged: int


class RecordedAlarms:
    """Stands for a detector where all alarms are known from a record: nothing is shown."""

    def begin(self, image: int, /) -> Session:
        """Nothing is shown."""
        raise RuntimeError(f"the recorded alarms of image {image} do not reach that far")


def check_alarms(alarm_price: float, max_alarms: float) -> None:
    """Raise InputError unless they are a price and a limit."""
    if not is_number(alarm_price) or not 0 <= alarm_price <= sys.float_info.max:
        expected = "a finite number, 0 or more"
        raise InputError(f"is {shown(alarm_price)}", expected=expected, input="alarm_price")
    if not is_number(max_alarms) or not (
        max_alarms >= 1 and (math.isinf(max_alarms) or max_alarms % 1 == 0)
    ):
        expected = "a whole number, 1 or more"
        raise InputError(f"is {shown(max_alarms)}", expected=expected, input="max_alarms")


def check_watch(watch: Any, alarm_price: float, max_alarms: float) -> None:
    """Raise InputError unless it is a detector, with a price and a limit; or none of them is
    there."""
    check_alarms(alarm_price, max_alarms)
    if watch is None:
        for name, is_set in (
            ("alarm_price", alarm_price > 0),
            ("max_alarms", max_alarms < math.inf),
        ):
            if is_set:
                raise InputError(
                    f"is given, and {mention('watch')} is not",
                    expected=f"a detector as {mention('watch')}, or neither",
                    input=name,
                )
    elif isinstance(watch, type) or not isinstance(watch, Detector):
        remedy = "give an object of it" if isinstance(watch, type) else ""
        expected = "a detector, with a method `begin` (tb.Detector)"
        raise InputError(f"is {shown(watch)}", expected=expected, remedy=remedy, input="watch")
