"""The registry of model adapters: which kinds of model can be loaded, and by which names.

1. An adapter turns a `Source` (a file, a name, `module:function`) into a `Network`. Normalisation,
   the trial on an image and the checks are the same for all (`loading`).
2. Adapters are tried in order. Those with a prefix come before `module:function`, which has the
   same form.
3. To add one, write a module in this folder with a tuple `ADAPTERS`, and add its name to `MODULES`.
   `load_model`, `tollbox attack --model`, studies and error messages then know it.
"""

from __future__ import annotations

import difflib
import functools
import importlib
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from ..core.preprocessing import Preprocessing
from ..data.classes import ClassNames
from ..data.tables import kind_of
from ..data.user_code import is_module, named_by_file
from ..errors import FileError, InputError
from .pytorch import RUNNING

MODULES = (
    "files",
    "hugging_face",
    "hub",
    "onnx",
    "functions",
)


@dataclass(frozen=True)
class Source:
    """A model as a user names it, and the device and batch size it will have."""

    text: str
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    batch_size: int | None = None
    """The batch size that the user chose, if any."""
    kind: str = "nothing"
    """What is at that path: file, folder, other, nothing."""
    names: ClassNames | None = None
    """The class names that the user gave, if any."""

    @property
    def path(self) -> Path | None:
        """The file of that name, if it exists."""
        return Path(self.text) if self.kind == "file" else None

    @property
    def name(self) -> str:
        """The text after the prefix and its colon."""
        return self.text.partition(":")[2]

    @functools.cached_property
    def entries(self) -> frozenset[str]:
        """The names in the file if it is a zip archive, with and without their first folder."""
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
    """A function from images to logits or labels, before normalisation is added."""

    forward: Callable[[Tensor], Any]
    dtype: torch.dtype = torch.float32
    """The dtype of its input."""
    batch: int | None = None
    """The batch size, if it takes only one."""
    shape: tuple[int | None, ...] = (None, None, None)
    """The (c, h, w) of its images; None where any length will do."""
    kind: str = "a function of images"
    """The kind of model, for messages."""
    options: frozenset[str] = frozenset()
    """The options of `Running` that apply to this kind."""
    preprocessing: Preprocessing | None = None
    """The preprocessing in its own configuration. The user's mean and std come first."""
    names: tuple[str, ...] | None = None
    """The names of its classes, if it has them."""
    no_normalisation: str = ""
    """The reason why mean and std are unknown, if the model needs them."""

    @classmethod
    def of_torch(cls, network: nn.Module, **fields: Any) -> Network:
        """Return a torch network, which runs like one of `from_torch`."""
        return cls(network, kind="a network", options=frozenset(RUNNING), **fields)


@dataclass(frozen=True)
class Adapter:
    """One kind of model."""

    expected: str
    """How a user names one, for messages."""
    accepts: Callable[[Source], bool]
    """Returns whether a source is of this kind, by its form or content."""
    load: Callable[[Source], Network]
    prefix: str = ""
    """The word before the colon in its names, if they have one."""
    path: Literal["", "folder", "file"] = ""
    """What may follow the prefix: a name only, a name or a folder, or a file."""
    packages: tuple[str, ...] = ()
    """Optional packages that it needs."""

    @classmethod
    def named(
        cls,
        prefix: str,
        load: Callable[[Source], Network],
        package: str,
        path: Literal["", "folder", "file"] = "",
    ) -> Adapter:
        """Return an adapter for names of the form `prefix:NAME`."""
        expected = f"{prefix}:{'FILE' if path == 'file' else 'NAME'}"

        def checked(source: Source) -> Network:
            if not source.name.strip():
                raise InputError(f"is {source.text!r}", expected=expected, input="model")
            return load(source)

        def accepts(source: Source) -> bool:
            return source.kind == "nothing" and source.text.startswith(f"{prefix}:")

        return cls(expected, accepts, checked, prefix, path, (package,))


@functools.cache
def adapters() -> tuple[Adapter, ...]:
    """Return all adapters, in the order in which they are tried."""
    modules = (importlib.import_module(f".{name}", __package__) for name in MODULES)
    return tuple(adapter for module in modules for adapter in module.ADAPTERS)


def expected() -> str:
    """Return how a user can name a model, for messages."""
    return ", or ".join(adapter.expected for adapter in adapters())


def adapter_of(source: Source) -> Adapter | None:
    """Return the first adapter that accepts a source."""
    return next((adapter for adapter in adapters() if adapter.accepts(source)), None)


def misspelt(text: str) -> InputError | None:
    """Return the error for a name with a misspelt prefix, or with a file instead of a module."""
    if (by_file := named_by_file(text, "model")) is not None:
        return by_file
    word, colon, name = text.partition(":")
    prefixes = sorted(adapter.prefix for adapter in adapters() if adapter.prefix)
    close = difflib.get_close_matches(word.lower(), prefixes, n=1)
    if not colon or word in prefixes or not close or is_module(word):
        return None
    return InputError(
        f"is {text!r}, but there is neither a kind of model nor a module called {word!r}: did you "
        f"mean '{close[0]}:{name}'?",
        input="model",
    )


def is_model_name(text: str) -> bool:
    """Return whether a text names a model by its form alone, without a file of that name."""
    return adapter_of(Source(text)) is not None


def located(text: str, folder: Path) -> str:
    """Return a model's name with a path relative to `folder` made relative to the current one."""
    adapter, source = adapter_of(Source(text)), Source(text)
    if adapter is None or not adapter.path or not source.name.strip():
        return text
    path = folder / source.name
    exists = adapter.path == "file" or kind_of(path, text, input="model") == adapter.path
    return f"{adapter.prefix}:{path}" if exists else text


def file_of(text: str) -> Path | None:
    """Return the file that a source names, whether it exists or not; None if it names none."""
    adapter = adapter_of(Source(text))
    if adapter is None or kind_of(text, text, input="model") == "file":
        return Path(text)
    return Path(Source(text).name) if adapter.path == "file" else None


def files_of(text: str) -> list[Path]:
    """Return all existing files of a source.

    A file with a prefix may have weights in other files, whose names start with its own.
    """
    file = file_of(text)
    if file is None or not file.is_file():
        return []
    if text == str(file):
        return [file]
    siblings = [each for each in file.parent.iterdir() if each.name.startswith(file.name)]
    return sorted(each for each in siblings if each.is_file())


def short_name(text: str) -> str:
    """Return a short name for a model whose name is not a path."""
    adapter = adapter_of(Source(text))
    if adapter is None or not adapter.prefix:
        return text.rpartition(":")[2].rpartition(".")[2]
    path = Path(Source(text).name)
    return (path.stem if adapter.path == "file" else path.name) or text


def brings_configuration(text: str) -> bool:
    """Return whether a model of that name may have its own image size and class names."""
    adapter = adapter_of(Source(text))
    return adapter is not None and bool(adapter.prefix)


def packages_of(text: str) -> tuple[str, ...]:
    """Return the optional packages that a model of that name needs."""
    adapter = adapter_of(Source(text))
    return () if adapter is None else adapter.packages
