"""The kinds of model that can be loaded, in the order in which they are tried.

To add one, write a module here with an `ADAPTER`, and add its name to `MODULES`. From then on
`load_model`, `tollbox attack --model` and the `source` of a study take it, and messages that say
what was expected mention it. Names with a word come before `module:function`, whose form they have.
"""

from __future__ import annotations

import difflib
import importlib
from pathlib import Path

from ..data.tables import kind_of
from ..data.user_code import is_module, named_by_file
from ..errors import InputError
from .adapter import Adapter, Source

MODULES = (
    "exported",
    "scripted",
    "hugging_face",
    "timm_models",
    "torchvision_models",
    "clip",
    "onnx_files",
    "functions",
)
ADAPTERS: tuple[Adapter, ...] = tuple(
    importlib.import_module(f".{name}", __package__).ADAPTER for name in MODULES
)
EXPECTED = ", or ".join(adapter.expected for adapter in ADAPTERS)


def adapter_of(source: Source) -> Adapter | None:
    """The first adapter that takes a source."""
    return next((adapter for adapter in ADAPTERS if adapter.accepts(source)), None)


def misspelt(text: str) -> InputError | None:
    """The error for a text that looks like a name whose word is misspelt: it is near a known one,
    and is not a module's; or that has a module's file in place of its name."""
    if (by_file := named_by_file(text, "model")) is not None:
        return by_file
    word, colon, name = text.partition(":")
    words = sorted(adapter.word for adapter in ADAPTERS if adapter.word)
    near = difflib.get_close_matches(word.lower(), words, n=1)
    if not colon or word in words or not near or is_module(word):
        return None
    meant = f"{near[0]}:{name}"
    return InputError(
        f"is {text!r}, and there is neither a kind of model nor a module called {word!r}: did you "
        f"mean {meant!r}?",
        input="model",
    )


def is_model_name(text: str) -> bool:
    """Whether a text names a model by its form alone, so that no file of that name is needed."""
    return adapter_of(Source(text)) is not None


def located(text: str, folder: Path) -> str:
    """A model's name, in which a path is relative to `folder`, good from the current folder."""
    adapter = adapter_of(Source(text))
    word, _, name = text.partition(":")
    if adapter is None or not adapter.path or not name.strip():
        return text
    path = folder / name
    there = adapter.path == "file" or kind_of(path, text, input="model") == adapter.path
    return f"{word}:{path}" if there else text


def file_of(text: str) -> Path | None:
    """The file that a source is, or names; it need not be there. None: it is something else."""
    adapter = adapter_of(Source(text))
    if adapter is None or kind_of(text, text, input="model") == "file":
        return Path(text)
    return Path(text.partition(":")[2]) if adapter.path == "file" else None


def files_of(text: str) -> list[Path]:
    """All files of a source, as far as they are there: a file that is named may have its weights in
    others beside it, whose names begin with its own."""
    file = file_of(text)
    if file is None or not file.is_file():
        return []
    if text == str(file):
        return [file]
    beside = [each for each in file.parent.iterdir() if each.name.startswith(file.name)]
    return sorted(each for each in beside if each.is_file())


def short_name(text: str) -> str:
    """What a model is called after a name that is no path."""
    adapter = adapter_of(Source(text))
    name = text.rpartition(":")[2]
    if adapter is None or not adapter.word:
        return name.rpartition(".")[2]
    path = Path(text.partition(":")[2])
    return (path.stem if adapter.path == "file" else path.name) or text


def brings_configuration(text: str) -> bool:
    """Whether a model of that name may say itself how large images are, and what its classes are
    called."""
    adapter = adapter_of(Source(text))
    return adapter is not None and bool(adapter.word)


def packages_of(text: str) -> tuple[str, ...]:
    """What a model of that name needs besides tollbox."""
    adapter = adapter_of(Source(text))
    return () if adapter is None else adapter.packages
