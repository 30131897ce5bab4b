"""How images are made ready for a model: how large pictures become, and what classes are called.

1. What the user says holds. Where the user says nothing the model's own configuration does, and
   where there is none pictures stay as they are, and classes are called as the images' folders are.
2. What the user says of sizes holds as a whole: a crop alone is not joined with the configuration's
   size.
3. Of arrays a configuration says nothing: only pictures are resized.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Protocol

from ..core.arguments import shown
from ..core.preprocessing import Preprocessing
from ..errors import InputError, mention
from .class_names import class_names
from .resizing import Resizing


class Configured(Protocol):
    """What may bring a configuration along, such as a `Model`."""

    @property
    def names(self) -> tuple[str, ...] | None:
        """Of its classes, in order."""

    @property
    def preprocessing(self) -> Preprocessing | None:
        """How pictures become images for it."""


@dataclass(frozen=True)
class Preparation:
    """What the user says, and the model whose configuration says the rest."""

    given_resizing: Resizing | None = None
    given_names: tuple[str, ...] = ()
    model: Configured | None = None

    @classmethod
    def of(
        cls,
        resizing: Resizing | None = None,
        names: str | PathLike[str] | Sequence[str] | None = None,
        model: Configured | None = None,
    ) -> Preparation:
        """With names from a file, or as a list; without any if that is empty."""
        if resizing is not None and not isinstance(resizing, Resizing):
            raise InputError(f"is {shown(resizing)}", expected="a tb.Resizing", input="resizing")
        if model is not None and not hasattr(model, "names"):
            raise InputError(
                f"is {shown(model)}", expected="a model, as of tb.models.load", input="model"
            )
        if names is None or (isinstance(names, tuple | list) and not names):
            return cls(resizing, model=model)
        return cls(resizing, class_names(names).names, model)

    @property
    def names(self) -> tuple[str, ...]:
        """Those of the model's classes, as far as they are known."""
        own = () if self.model is None else self.model.names or ()
        return self.given_names or own

    @property
    def own_names(self) -> bool:
        """Whether these are from the model's configuration."""
        return not self.given_names

    @property
    def resizing(self) -> Resizing | None:
        """What happens to pictures."""
        own = None if self.model is None or self.given_resizing else self.model.preprocessing
        if own is None:
            return self.given_resizing
        try:
            resized = own.resize is not None
            return Resizing.of(own.resize, own.crop, own.interpolation if resized else None)
        except InputError as error:
            raise InputError(
                f"the model's own configuration cannot be followed: its {error.input} "
                f"{error.given}",
                remedy=f"give {mention('resize')} and {mention('crop')}",
            ) from None
