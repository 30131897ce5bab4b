"""What a command does, imported when it is to be done: its help does not wait for torch.

1. The file of a command has its options and its help, and imports nothing slow.
2. If its work needs more, that is the function of the same name in the file beside it that ends in
   `_work`. It is found by name, as commands are, so that nothing is imported before.
3. A command without such a file imports what it needs inside its function. `SLOW_IMPORTS` of its
   module names what is imported before a signal is handled by the command.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from typing import Any


def work_of(command: Callable[..., Any]) -> Callable[..., int]:
    """The function that does a command's work, imported now; the command itself if it has none."""
    module = f"{command.__module__}_work"
    if importlib.util.find_spec(module) is None:
        for name in getattr(sys.modules[command.__module__], "SLOW_IMPORTS", ()):
            importlib.import_module(name, __package__)
        return command
    found: Callable[..., int] = getattr(importlib.import_module(module), command.__name__)
    return found
