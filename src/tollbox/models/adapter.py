"""What a model adapter is given, what it gives, and what the registry knows of it.

An adapter turns a source (a file, a name, `module:function`, ...) into a `Network`. Trying it on an
image, normalisation and the checks against the images are the same for all (`loading.py`).
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from ..core.preprocessing import Preprocessing
from ..data.classes import ClassNames
from ..data.tables import kind_of
from ..errors import FileError


@dataclass(frozen=True)
class Source:
    """A model as a user names it, and how it will be run."""

    text: str
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    batch_size: int | None = None
    """Rows of a model batch, if the user chose."""
    kind: str = "nothing"
    """What is at that path: file, folder, other, nothing."""
    names: ClassNames | None = None
    """Of its classes, if the user gave them."""

    @classmethod
    def at(
        cls,
        text: str,
        device: torch.device,
        batch_size: int | None,
        names: ClassNames | None = None,
    ) -> Source:
        """The source with what is on the disk under its name."""
        return cls(text, device, batch_size, kind_of(text, text, input="model"), names)

    @property
    def path(self) -> Path | None:
        """The file of that name, if there is one."""
        return Path(self.text) if self.kind == "file" else None

    @cached_property
    def entries(self) -> frozenset[str]:
        """Names in the file, which is an archive, with and without their first folder."""
        if self.path is None:
            return frozenset()
        try:
            with zipfile.ZipFile(self.path) as archive:
                names = archive.namelist()
        except OSError as error:
            raise FileError(
                f"{self.text} cannot be read: {error.strerror}", input="model"
            ) from None
        except zipfile.BadZipFile:
            return frozenset()
        return frozenset(names) | {name.partition("/")[2] for name in names}


@dataclass(frozen=True)
class Network:
    """What maps images to logits or labels, before normalisation is put in front of it.

    A torch network is run as `from_torch` does it; anything else as it is, in its own dtype.
    """

    forward: Callable[[Tensor], Any]
    dtype: torch.dtype = torch.float32
    """What it takes."""
    batch: int | None = None
    """The only batch size that it takes, if there is only one."""
    shape: tuple[int | None, ...] = (None, None, None)
    """(c, h, w) that it takes; None where any."""
    kind: str = "a function of images"
    options: frozenset[str] = frozenset()
    """Of how networks are run, those that apply to this kind."""
    preprocessing: Preprocessing | None = None
    """What its own configuration says of images; its mean and std hold unless the user gives some.
    """
    names: tuple[str, ...] | None = None
    """Of its classes, if it has them."""
    lacking: str = ""
    """Why it is not known how images are normalised for it, where they should be."""


@dataclass(frozen=True)
class Adapter:
    """One kind of model."""

    expected: str
    """How a user gives one, for messages."""
    accepts: Callable[[Source], bool]
    """Whether a source is of this kind, by its form or its content."""
    load: Callable[[Source], Network]
    word: str = ""
    """What its names begin with, before a colon, if they do."""
    path: Literal["", "folder", "file"] = ""
    """What follows the word: a name; a name or a folder; a file."""
    packages: tuple[str, ...] = ()
    """What it needs besides tollbox."""
