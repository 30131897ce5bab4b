"""Packages that only some users need: imported where they are used, with a sentence if missing.

What `module:function` names, imported: a user's own code, which may raise anything.

1. The current folder comes first on the path, as for `python -m`.
2. Whatever goes wrong is an InputError about the argument that named the function. An InputError of
   the function itself is a sentence for the user already, and passes unchanged.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import PurePath
from typing import Any

from ..errors import InputError
from .tables import in_a_line


def optional(module: str, purpose: str, extra: str = "") -> Any:
    """A module of an optional package, which `extra` of tollbox installs, if there is such."""
    package = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ImportError as error:
        missing = isinstance(error, ModuleNotFoundError) and error.name == package
        how = "is not installed" if missing else f"cannot be imported ({with_kind(error)})"
        wanted = f"'tollbox[{extra}]'" if extra else package
        raise InputError(
            f"{package} {how}: {purpose}",
            remedy=f"install it with `pip install {wanted}`",
        ) from None


def is_function(text: str) -> bool:
    """Whether a text is of the form module:function."""
    module, colon, attribute = text.partition(":")
    names = [*module.split("."), *attribute.split(".")]
    return bool(colon) and all(name.isidentifier() for name in names)


def named_by_file(text: str, input: str) -> InputError | None:
    """The error for a text that names a module by its file, as net.py:make."""
    file, _, attribute = text.rpartition(":")
    path = PurePath(file)
    meant = f"{path.stem}:{attribute}"
    if path.suffix != ".py" or not is_function(meant):
        return None
    where = "" if str(path.parent) == "." else f", from the folder {path.parent}"
    return InputError(
        f"is {text!r}, which names a file", expected=f"its module: {meant}{where}", input=input
    )


def is_module(name: str) -> bool:
    """Whether there is a module, or a package for it, to be imported by that name."""
    importable(os.getcwd())
    first = name.partition(".")[0]
    if not first.isidentifier():
        return False
    return first in sys.modules or importlib.util.find_spec(first) is not None


def importable(folder: str) -> None:
    """Make the modules of a folder importable."""
    if folder not in sys.path:
        sys.path.insert(0, folder)


def imported(name: str, input: str) -> Any:
    """What `name` stands for; `input` is the argument that it was given as."""
    module, _, attribute = name.partition(":")
    importable(os.getcwd())
    try:
        value: Any = importlib.import_module(module)
        for word in attribute.split("."):
            value = getattr(value, word)
    except ModuleNotFoundError as error:
        unknown = InputError(
            f"is {name!r}: {in_a_line(error)}",
            expected="a file that exists, or module:function with a module that can be imported "
            "from the current folder",
            input=input,
        )
        raise named_by_file(name, input) or unknown from None
    except AttributeError as error:
        raise InputError(f"is {name!r}: {in_a_line(error)}", input=input) from None
    except (Exception, SystemExit) as error:  # the user's own code: any kind may come
        raise InputError(
            f"is {name!r}: importing {module} failed: {with_kind(error)}", input=input
        ) from None
    return value


def called(function: Callable[[], Any], name: str, input: str) -> Any:
    """What a function without arguments gives; `name` and `input` as for `imported`."""
    try:
        return function()
    except InputError:
        raise
    except (Exception, SystemExit) as error:  # the user's own code: any kind may come
        raise InputError(
            f"is {name!r}: calling it failed: {with_kind(error)}", input=input
        ) from None


def with_kind(error: BaseException) -> str:
    """An error in a line, with its kind, unless it says that itself."""
    kind, line = type(error).__name__, in_a_line(error)
    return line if line.startswith(kind) else f"{kind}: {line}"
