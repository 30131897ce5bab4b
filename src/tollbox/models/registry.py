"""Names of models: a file, `prefix:NAME` such as `hf:microsoft/resnet-50`, or `module:function`.

1. An existing file takes precedence over a prefix, and a prefix over `module:function`, which has
   the same form. A file `net.onnx` is `onnx:net.onnx`.
2. To add a prefix, write a module in this folder with a function from a `Source` to a `Network`,
   and add a line to `PREFIXES`. `load_model`, `tollbox attack --model`, studies and error messages
   then support it.
"""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Literal, NamedTuple

from ..data.tables import kind_of
from ..data.user_code import is_function, is_module, named_by_file
from ..errors import InputError


class Prefix(NamedTuple):
    """A kind of model that is named `prefix:NAME`."""

    loader: str
    """Module in this folder and its function that load such a model, imported on first use."""
    package: str = ""
    path: Literal["", "folder", "file"] = ""
    """Kind of path that may follow the prefix; unless it is "file", a name may follow as well."""


PREFIXES = {
    "hf": Prefix("hugging_face:load_classifier", "transformers", "folder"),
    "clip": Prefix("hugging_face:load_clip", "transformers", "folder"),
    "timm": Prefix("hub:load_timm", "timm", "folder"),
    "torchvision": Prefix("hub:load_torchvision", "torchvision"),
    "onnx": Prefix("onnx:load", "onnxruntime", "file"),
}
FORMS = {word: f"{word}:{'FILE' if p.path == 'file' else 'NAME'}" for word, p in PREFIXES.items()}
SAFE = ("onnx:FILE", "hf:FOLDER", "timm:NAME@FILE.safetensors")
EXPECTED = ", or ".join(
    (
        "a file made with torch.export.save(torch.export.export(net.eval(), (images,)), "
        "'model.pt2')",
        "a file made with torch.jit.save(torch.jit.script(net.eval()), 'model.pt')",
        *FORMS.values(),
        "timm:NAME@FILE.safetensors",
        "module:function, which names a network or a function of images",
    )
)


def split(text: str) -> tuple[Prefix | None, str]:
    """Return the prefix of a name, if it is known, and the text after the colon."""
    word, colon, name = text.partition(":")
    return PREFIXES.get(word) if colon else None, name


def prefixed(file: str) -> str:
    """Return the name of a model in a file: an ONNX file needs no prefix if its name ends so."""
    return f"onnx:{file}" if file.lower().endswith(".onnx") else file


def own_weights(text: str) -> tuple[str, str]:
    """Return the name and the file in `timm:NAME@FILE.safetensors`; "" without a file."""
    prefix, name = split(text)
    known, at, file = name.partition("@")
    takes_weights = prefix is not None and prefix.package in ("timm", "torchvision")
    return (known, file) if takes_weights and at and file.endswith(".safetensors") else (name, "")


def is_user_function(text: str) -> bool:
    """Return whether a name is `module:function`; a prefix names an installed package instead."""
    return split(text)[0] is None and is_function(text)


def is_model_name(text: str) -> bool:
    """Return whether a text has the form of a model's name, `prefix:NAME` or `module:function`."""
    return split(text)[0] is not None or is_function(text)


def misspelt(text: str) -> InputError | None:
    """Return the error for a name with a misspelt prefix, or with a file instead of a module."""
    if (by_file := named_by_file(text, "model")) is not None:
        return by_file
    word, colon, name = text.partition(":")
    close = difflib.get_close_matches(word.lower(), sorted(PREFIXES), n=1)
    if not colon or word in PREFIXES or not close or is_module(word):
        return None
    return InputError(
        f"is {text!r}, but there is neither a kind of model nor a module called {word!r}: did you "
        f"mean '{close[0]}:{name}'?",
        input="model",
    )


def located(text: str, folder: Path) -> str:
    """Return a model's name in which a path, if it has one, is resolved against `folder`."""
    prefix, name = split(text)
    if file := own_weights(text)[1]:
        return f"{text[: -len(file)]}{folder / file}"
    if prefix is None or not prefix.path or not name.strip():
        return text
    path = folder / name
    exists = prefix.path == "file" or kind_of(path, text, input="model") == prefix.path
    return f"{text.partition(':')[0]}:{path}" if exists else text


def file_of(text: str) -> Path | None:
    """Return the file that a source names, whether it exists or not; None if it names none."""
    if not is_model_name(text) or kind_of(text, text, input="model") == "file":
        return Path(text)
    prefix, name = split(text)
    file = name if prefix is not None and prefix.path == "file" else own_weights(text)[1]
    return Path(file) if file else None


def files_of(text: str) -> list[Path]:
    """Return a source's existing files: after a prefix, all whose names start with its file's."""
    file = file_of(text)
    if file is None or not file.is_file():
        return []
    if text == str(file):
        return [file]
    siblings = (each for each in file.parent.iterdir() if each.name.startswith(file.name))
    return sorted(each for each in siblings if each.is_file())


def short_name(text: str) -> str:
    """Return a short name for a model whose name is not a path."""
    prefix, name = split(text)
    if prefix is None:
        return text.rpartition(":")[2].rpartition(".")[2]
    file = own_weights(text)[1]
    path = Path(file or name)
    return (path.stem if file or prefix.path == "file" else path.name) or text


def brings_configuration(text: str) -> bool:
    """Return whether a model of that name may have its own image size and class names."""
    return split(text)[0] is not None


def packages_of(text: str) -> tuple[str, ...]:
    prefix, _ = split(text)
    return (prefix.package,) if prefix is not None and prefix.package else ()
