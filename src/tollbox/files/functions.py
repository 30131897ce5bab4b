"""What `module:function` names, imported: a user's own code, of which any kind of error may come.

1. The current folder comes first on the path, as for `python -m`.
2. Whatever goes wrong is an InputError that begins with what was given. An InputError of the
   function itself is a sentence for the user already, and passes as it is.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

from ..errors import InputError
from .tables import in_a_line


def is_function(given: str) -> bool:
    """It is of the form module:function."""
    module, colon, attribute = given.partition(":")
    names = [*module.split("."), *attribute.split(".")]
    return bool(colon) and all(name.isidentifier() for name in names)


def importable(folder: str) -> None:
    """Let modules of a folder be imported."""
    if folder not in sys.path:
        sys.path.insert(0, folder)


def imported(given: str, told: str) -> Any:
    """What `given` names; `told` begins a message, as "the model is 'net:labels'"."""
    module, _, attribute = given.partition(":")
    importable(os.getcwd())
    try:
        found: Any = importlib.import_module(module)
        for name in attribute.split("."):
            found = getattr(found, name)
    except ModuleNotFoundError as error:
        raise InputError(
            f"{told}: {in_a_line(error)}; expected a file that exists, or module:function with a "
            "module that can be imported from the current folder."
        ) from None
    except AttributeError as error:
        raise InputError(f"{told}: {in_a_line(error)}.") from None
    except (Exception, SystemExit) as error:  # the user's own code: any kind may come
        raise InputError(f"{told}: importing {module} failed: {with_kind(error)}.") from None
    return found


def called(function: Callable[[], Any], told: str) -> Any:
    """What a function without arguments gives."""
    try:
        return function()
    except InputError:
        raise
    except (Exception, SystemExit) as error:  # the user's own code: any kind may come
        raise InputError(f"{told}: calling it failed: {with_kind(error)}.") from None


def with_kind(error: BaseException) -> str:
    """An error in a line, with its kind, unless it says that itself."""
    kind, line = type(error).__name__, in_a_line(error)
    return line if line.startswith(kind) else f"{kind}: {line}"
