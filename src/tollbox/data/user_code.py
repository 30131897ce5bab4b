"""Code imported by name: optional packages, and users' functions given as `module:function`.

1. If an optional package is missing, the error shows how to install it.
2. The current folder comes first on the import path, as for `python -m`.
3. Any error in a user's code becomes an InputError about the argument that named the function. An
   InputError raised by the function itself passes unchanged.
"""

from __future__ import annotations

import importlib
import operator
import os
import sys
from collections.abc import Callable
from importlib.machinery import PathFinder
from pathlib import PurePath
from typing import Any

from ..errors import InputError
from .tables import in_a_line


def optional(module: str, purpose: str, extra: str = "") -> Any:
    """Import a module of an optional package. `extra` is tollbox's extra that installs it."""
    package = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except Exception as error:  # such as RuntimeError, in versions that do not fit each other
        missing = isinstance(error, ModuleNotFoundError) and error.name == package
        how = "is not installed" if missing else f"cannot be imported ({with_kind(error)})"
        wanted = f"'tollbox[{extra}]'" if extra else package
        remedy = f"install it with `pip install {wanted}`"
        raise InputError(f"{package} {how}: {purpose}", remedy=remedy) from None


def is_function(text: str) -> bool:
    module, colon, attribute = text.partition(":")
    names = [*module.split("."), *attribute.split(".")]
    return bool(colon) and all(name.isidentifier() for name in names)


def named_by_file(text: str, input: str) -> InputError | None:
    """Return the error for a text that names a module by its file (net.py:make), or None."""
    file, _, attribute = text.rpartition(":")
    path = PurePath(file)
    meant = f"{path.stem}:{attribute}"
    if path.suffix != ".py" or not is_function(meant):
        return None
    where = "" if str(path.parent) == "." else f", from the folder {path.parent}"
    given, expected = f"is {text!r}, which names a file", f"its module: {meant}{where}"
    return InputError(given, expected=expected, input=input)


def is_module(name: str) -> bool:
    """Return whether the top-level package of a module can be found, here or where Python looks."""
    first, folders = name.partition(".")[0], [os.getcwd(), *sys.path]
    known = first in sys.modules
    return first.isidentifier() and (known or PathFinder.find_spec(first, folders) is not None)


def importable(folder: str) -> None:
    if folder not in sys.path:
        sys.path.insert(0, folder)


def imported(name: str, input: str) -> Any:
    """Import what `name` (module:function) refers to. `input` is the argument that it came from."""
    module, _, attribute = name.partition(":")
    if module.partition(".")[0] != "tollbox":  # which needs no other place, where a file may lurk
        importable(os.getcwd())
    try:
        return operator.attrgetter(attribute)(importlib.import_module(module))
    except ModuleNotFoundError as error:
        function = "module:function with a module that can be imported from the current folder"
        given, expected = f"is {name!r}: {in_a_line(error)}", f"a file that exists, or {function}"
        unknown = InputError(given, expected=expected, input=input)
        raise named_by_file(name, input) or unknown from None
    except AttributeError as error:
        raise InputError(f"is {name!r}: {in_a_line(error)}", input=input) from None
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # user code may raise anything
        given = f"is {name!r}: importing {module} failed: {with_kind(error)}"
        raise InputError(given, input=input) from None


def called(function: Callable[[], Any], name: str, input: str) -> Any:
    """Call a user's function without arguments. `name` and `input` are as for `imported`."""
    try:
        return function()
    except InputError:
        raise
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # user code may raise anything
        given = f"is {name!r}: calling it failed: {with_kind(error)}"
        raise InputError(given, input=input) from None


def with_kind(error: BaseException) -> str:
    """Return an error as one line that starts with its type."""
    kind, line = type(error).__name__, in_a_line(error)
    return line if line.startswith(kind) else f"{kind}: {line}"
