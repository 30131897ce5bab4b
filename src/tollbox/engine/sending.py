"""Values that travel to other processes, as bytes."""

from __future__ import annotations

import pickle
from typing import Any

from ..errors import InputError


def dumped(value: Any, what: str) -> bytes:
    """A value as it travels to another process; `what` names it in the error if it cannot."""
    try:
        return pickle.dumps(value)
    except Exception as error:
        raise InputError(
            f"{what} cannot be sent to another process ({type(error).__name__}: {error})",
            expected="what can be pickled, such as classes and functions of a module",
            remedy="use one process otherwise",
        ) from None


def loaded(content: bytes) -> Any:
    """A value that travelled (`dumped`)."""
    return pickle.loads(content)
