"""A detector of one's own: what watches the queries of an image, and what its alarms do.

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
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from ..errors import InputError, mention
from .arguments import is_number, shown

if TYPE_CHECKING:
    from torch import Tensor

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
