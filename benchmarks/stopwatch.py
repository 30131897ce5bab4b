"""Where the time of a process goes: exclusive timers around functions, put there from outside.

1. A function that is wrapped counts to its part, less what wrapped functions within it take. Time
   outside all of them is the rest.
2. Nothing of the package knows of it: functions are replaced in their classes, and in every module
   that has imported them by name, and are put back at the end.
3. A timer takes about half a microsecond a call, which counts to the part that called.
"""

from __future__ import annotations

import functools
import inspect
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

REST = "rest"


class Stopwatch:
    """Seconds by part since `start`."""

    def __init__(self) -> None:
        self._put_back: list[tuple[Any, str, Any]] = []
        self.start()

    def start(self) -> None:
        """Begin anew; what is wrapped stays so."""
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._part, self._since = REST, time.perf_counter()

    def enter(self, part: str) -> str:
        """From now on time counts to a part; gives the one it counted to."""
        now = time.perf_counter()
        before = self._part
        self.seconds[before] += now - self._since
        self._part, self._since = part, now
        return before

    def wrap(self, owner: Any, name: str, part: str) -> None:
        """Count a function of a class or module to a part."""
        found = inspect.getattr_static(owner, name)
        function: Any = found.fget if isinstance(found, property) else found
        timed = self.timed(function, part)
        self._replace(owner, name, property(timed) if isinstance(found, property) else timed)
        if isinstance(owner, ModuleType):
            for module in list(sys.modules.values()):
                if module is not owner and getattr(module, "__dict__", {}).get(name) is found:
                    self._replace(module, name, timed)

    def wrap_all(self, modules: Iterable[ModuleType], part: str, but: Iterable[str] = ()) -> None:
        """Count all functions of modules, and all methods of their classes, to a part."""
        for module in modules:
            for name, value in list(vars(module).items()):
                if getattr(value, "__module__", None) != module.__name__:
                    continue
                if inspect.isclass(value):
                    for method, function in list(vars(value).items()):
                        if method not in but and (
                            inspect.isfunction(function) or isinstance(function, property)
                        ):
                            self.wrap(value, method, part)
                elif callable(value):
                    self.wrap(module, name, part)

    def unwrap(self) -> None:
        """Put all functions back."""
        while self._put_back:
            owner, name, found = self._put_back.pop()
            setattr(owner, name, found)

    def timed(self, function: Callable[..., Any], part: str) -> Callable[..., Any]:
        """The function, its time counted to a part."""

        @functools.wraps(function)
        def timed(*given: Any, **options: Any) -> Any:
            if self._part == part:
                return function(*given, **options)
            before = self.enter(part)
            try:
                return function(*given, **options)
            finally:
                self.enter(before)

        return timed

    def _replace(self, owner: Any, name: str, value: Any) -> None:
        self._put_back.append((owner, name, vars(owner)[name]))
        setattr(owner, name, value)
