"""The arguments of `run` and `stream`: what may be given, and a cell for each image made from it.

1. An option that there is not is refused with the nearest that there is.
2. Limits are checked before the first cell is made.
3. Images and labels come one for each cell, as any iterable; all else of an image may also be given
   once for all. They are taken as cells are asked for, so a wrong one is met when it comes.

A targeted run has `targets`, the classes to reach, and usually `starts`, images of those classes to
begin from: noise hardly ever ends in a class of one's choice.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, ParamSpec, TypeVar

from torch import Tensor

from .core.arguments import shown
from .core.cell import Cell, check_attack, check_limits
from .core.goal import Goal
from .core.metric import check_made_for, norm_of
from .core.model import Model
from .core.prices import Prices
from .core.problem import Attack
from .core.watch import Detector, check_watch
from .errors import InputError

P = ParamSpec("P")
T = TypeVar("T")
AnyModel = Model | Callable[[Tensor], Any]
Targets = int | Tensor | Iterable[int] | None
"""The class to reach, for all images or one for each; None: any class but the source."""
Goals = Goal | Iterable[Goal] | None
"""What is flagged and what adversarial, for all images or for each; None: any class but its own."""
Masks = Tensor | Iterable[Tensor] | None
"""Which pixels may change, bool: (h, w), (1, h, w) or (c, h, w) for all images, or one for each, as
(n, c, h, w) or (n, 1, h, w) or any iterable; None: all pixels."""
Starts = Tensor | Iterable[Tensor] | None
"""The image to begin from, (c, h, w) for all or one for each; None: what the attack's start finds.
"""
LIMITS = (
    *("prices", "budget", "max_queries", "max_flagged", "norm"),
    *("watch", "alarm_price", "max_alarms"),
)
"""The arguments that `checked_limits` takes after the attack."""
WHOLE = {"start": (3,), "mask": (2, 3)}
"""Numbers of axes of a tensor that is for all images."""


def suggesting(function: Callable[P, T]) -> Callable[P, T]:
    """The function; an option that it does not have is refused with the nearest that it has."""
    names = inspect.signature(function).parameters

    @functools.wraps(function)
    def checked(*args: P.args, **options: P.kwargs) -> T:
        check_names(function.__name__, options, names)
        return function(*args, **options)

    return checked


def check_names(function: str, options: Iterable[str], names: Collection[str]) -> None:
    """Raise TypeError, in the name of a function, for the first option that it does not have."""
    for name in options:
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            hint = f": did you mean {near[0]!r}?" if near else f"; it has {', '.join(names)}"
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}{hint}")


def cells_from(attack: Attack, inputs: Mapping[str, Any], **options: Any) -> Iterator[Cell]:
    """A cell for each image. `inputs` are fields of a cell, for all images or one for each."""
    options |= checked_limits(attack, *(options[name] for name in LIMITS))
    columns: dict[str, Iterator[Any]] = {}
    for name, value in inputs.items():
        values = _column(name, value)
        if values is not None:
            columns[name] = iter(values)
        elif value is not None:
            options[name] = _plain(value) if name == "target" else value
    return _zipped(attack, columns, options)


def checked_limits(
    attack: Attack,
    prices: Prices | None,
    budget: float,
    max_queries: float | None,
    max_flagged: float | None,
    norm: str,
    watch: Detector | None = None,
    alarm_price: float = 0.0,
    max_alarms: float | None = None,
) -> dict[str, Any]:
    """What a cell has of these arguments of `run`; raises InputError if they cannot be run."""
    check_attack(attack)
    metric = norm_of(norm)
    check_made_for(attack, metric)
    prices = Prices() if prices is None else prices
    limits = {
        "budget": budget,
        "max_queries": math.inf if max_queries is None else max_queries,
        "max_flagged": math.inf if max_flagged is None else max_flagged,
    }
    most_alarms = math.inf if max_alarms is None else max_alarms
    check_watch(watch, alarm_price, most_alarms)
    check_limits(prices, **limits, alarm_price=alarm_price)
    watching = {"watch": watch, "alarm_price": alarm_price, "max_alarms": most_alarms}
    return {"prices": prices, "norm": metric, **limits, **watching}


def _column(name: str, values: Any) -> Iterable[Any] | None:
    """What there is for each image; None if there is one for all, or nothing."""
    if name in ("label", "target"):
        values = _plain(values)
        if isinstance(values, Iterable):
            return values
        if name == "target":
            return None
        raise InputError(f"is {shown(values)}", expected="one label per image", input="labels")
    if name == "goal":
        return None if values is None or isinstance(values, Goal) else _goals(values)
    if name in WHOLE and (
        values is None or (isinstance(values, Tensor) and values.ndim in WHOLE[name])
    ):
        return None
    argument = name if name == "mask" else f"{name}s"
    if isinstance(values, Tensor) and values.ndim != 4:
        image = name == "image"
        raise InputError(
            f"has shape {tuple(values.shape)}",
            expected="(n, c, h, w)" if image else "(n, c, h, w), or (c, h, w) for all images",
            remedy="for a single image use image[None]" if image else "",
            input=argument,
        )
    if not isinstance(values, Iterable):
        raise InputError(f"is {shown(values)}", expected="images, as tensors", input=argument)
    return values.cpu() if isinstance(values, Tensor) else values


def _goals(values: Any) -> Iterable[Any]:
    if not isinstance(values, Iterable) or isinstance(values, str | set | frozenset):
        remedy = "use tb.Goal.leave(...)" if isinstance(values, Iterable) else ""
        expected = "a tb.Goal, or one for each image"
        raise InputError(f"is {shown(values)}", expected=expected, remedy=remedy, input="goal")
    return values


def _plain(classes: Any) -> Any:
    """Classes as plain numbers, if they come as a tensor or an array."""
    return classes.tolist() if hasattr(classes, "tolist") else classes


def _zipped(
    attack: Attack, columns: dict[str, Iterator[Any]], options: dict[str, Any]
) -> Iterator[Cell]:
    """A cell for each row of `columns`, which must be of one length."""
    end, index = object(), 0
    while True:
        row: dict[str, Any] = {name: next(column, end) for name, column in columns.items()}
        ended = [name for name, value in row.items() if value is end]
        if len(ended) == len(row):
            return
        if ended:
            longer = next(name for name in row if name not in ended)
            missing = ended[0] if longer == "image" else longer
            raise InputError(
                f"there are {index} {ended[0]}s and more {longer}s",
                expected=f"one {missing} per image",
            )
        for name in ("label", "target"):
            if hasattr(row.get(name), "__index__"):
                row[name] = row[name].__index__()
        for name in ("target", "start", "goal", "mask"):
            if name in row and row[name] is None:
                raise InputError(
                    f"the {name} of image {index} is None", expected="one for each image, or none"
                )
        yield Cell(attack, **row, **options)
        index += 1
