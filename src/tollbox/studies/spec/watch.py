"""[watch]: a detector of the user's own, by module:function, and what its alarms do."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...core.watch import check_alarms
from ...errors import InputError
from ...files.functions import is_function, named_by_file
from .file import Item

SOURCE = "module:function, which is a detector or gives one"
KEYS = ("source", "alarm_price", "max_alarms")
CAP = "a whole number of 1 or more, or inf for no cap"


@dataclass(frozen=True)
class WatchSpec:
    """A detector, not loaded yet."""

    source: str
    """module:function."""
    alarm_price: float = 0.0
    max_alarms: float = math.inf

    def __post_init__(self) -> None:
        if not is_function(self.source):
            unknown = InputError(f"is {self.source!r}", expected=SOURCE, input="watch")
            raise named_by_file(self.source, "watch") or unknown
        check_alarms(self.alarm_price, self.max_alarms)


def watch_of(item: Item | None) -> WatchSpec | None:
    """[watch]."""
    if item is None:
        return None
    items = item.table(KEYS)
    if "source" not in items:
        raise item.error(f'[watch] has no source: expected {SOURCE}, as source = "guard:detector".')
    most = items.get("max_alarms")
    capped = most is not None and most.value != math.inf
    try:
        return WatchSpec(
            items["source"].text(f"{SOURCE}, in quotes"),
            items["alarm_price"].number() if "alarm_price" in items else 0.0,
            most.whole(1, expected=CAP) if most is not None and capped else math.inf,
        )
    except InputError as error:
        if error.where:
            raise
        keys = {"watch": items["source"].key, "alarm_price": ("watch", "alarm_price")}
        raise item.source.about(error, keys, item.key) from None
