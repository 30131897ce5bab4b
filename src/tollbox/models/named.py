"""Models by name: a word, a colon, and what the package behind that word calls the model.

1. The word says which package; that is imported when a model of it is loaded, and one that is
   missing is reported with the command that installs it.
2. A folder of the name comes before what could be fetched; files are never fetched.
3. Whatever a package raises, for there are many kinds, is reported in a sentence; what it logs and
   its progress are shown in a terminal only.
"""

from __future__ import annotations

import contextlib
import difflib
import io
import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal

from ..data.tables import kind_of
from ..data.user_code import with_kind
from ..errors import FileError, InputError
from .adapter import Adapter, Network, Source

LOGS = ("transformers", "huggingface_hub", "timm")


def adapter(
    word: str,
    expected: str,
    load: Callable[[Source], Network],
    packages: tuple[str, ...],
    path: Literal["", "folder", "file"] = "",
) -> Adapter:
    """An adapter for names that begin with a word."""

    def accepts(source: Source) -> bool:
        return source.kind == "nothing" and source.text.startswith(f"{word}:")

    def checked(source: Source) -> Network:
        name = name_in(source)
        if not name.strip():
            raise InputError(f"is {source.text!r}", expected=expected, input="model")
        return load(source)

    return Adapter(expected, accepts, checked, word, path, packages)


def name_in(source: Source) -> str:
    """What follows the word."""
    return source.text.partition(":")[2]


def check_folder(source: Source, holds: str) -> bool:
    """Whether a folder is named, rather than what can be fetched; it has the file `holds`."""
    name = name_in(source)
    kind = kind_of(name, name, input="model")
    if kind == "folder":
        if not os.path.exists(os.path.join(name, holds)):
            raise FileError(
                f"{name} has no {holds}",
                expected="a folder that save_pretrained made",
                input="model",
            )
        return True
    if kind != "nothing":
        raise FileError(f"{name} is a file", expected="a folder, or a name", input="model")
    if name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise FileError(f"{name} does not exist", expected="a folder, or a name", input="model")
    return False


def fetched(source: Source, load: Callable[[], Any], local: bool = False) -> Any:
    """What `load` gives; an InputError if it fails. `local`: from a folder."""
    try:
        with quiet():
            return load()
    except ImportError as error:
        raise InputError(
            f"is {source.text!r}, and something that it needs cannot be imported "
            f"({with_kind(error)})",
            remedy="install it, or mend the installation",
            input="model",
        ) from None
    except Exception as error:  # no connection, no room, a broken cache: many kinds
        if local:
            raise FileError(
                f"{name_in(source)} cannot be loaded ({with_kind(error)})",
                expected="a folder with a whole image classifier",
                input="model",
            ) from None
        raise InputError(
            f"is {source.text!r}, and its weights cannot be loaded ({with_kind(error)})",
            expected="them in the package's cache, or a connection to fetch them once",
            remedy="load them where there is one, or copy that cache here",
            input="model",
        ) from None


def unknown(source: Source, name: str, known: Iterable[str]) -> InputError:
    """The error for a name that is not among the known ones, which may be thousands."""
    near = difflib.get_close_matches(name, sorted(known), n=3, cutoff=0.4)
    hint = f"did you mean {' or '.join(map(repr, near))}?" if near else "none is near it"
    return InputError(f"is {source.text!r}, and there is no {name!r}: {hint}", input="model")


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """While entered, the packages log errors only, and show nothing else but in a terminal."""
    logs = [logging.getLogger(name) for name in LOGS]
    levels = [log.level for log in logs]
    for log in logs:
        log.setLevel(logging.CRITICAL)
    bars: Any = sys.modules.get("transformers.utils.logging")
    hidden = bars is not None and bars.is_progress_bar_enabled() and not sys.stderr.isatty()
    if hidden:
        bars.disable_progress_bar()
    terminal = sys.stderr.isatty()
    try:
        with contextlib.nullcontext() if terminal else contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        if hidden:
            bars.enable_progress_bar()
        for log, level in zip(logs, levels, strict=True):
            log.setLevel(level)
