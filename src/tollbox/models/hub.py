"""Models from hubs: code that all hubs share, and timm and torchvision (see also `hugging_face`).

1. `timm:resnet50.a1_in1k`, with or without its tag, or `timm:` and a folder. A network with 1,000
   unnamed classes gets ImageNet's class names.
2. `torchvision:resnet50`, or with its weights, `torchvision:resnet50.IMAGENET1K_V1`. Both take
   your own weights: `timm:resnet18@net.safetensors`. Mean and std must then be given.
3. A folder takes precedence over a download, but not over a name that timm knows.
4. A hub's package is imported when one of its models is loaded. Any error in it becomes an
   InputError. Its logs are silenced; its progress bars appear only in a terminal.
"""

from __future__ import annotations

import contextlib
import difflib
import functools
import io
import os
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

from ..core.preprocessing import Preprocessing
from ..data.classes import ClassNames
from ..data.tables import check_file, in_a_line, kind_of
from ..data.user_code import optional, with_kind
from ..errors import InputError
from .network import Network, Source, file_error, without_logs
from .registry import own_weights

LOGS = ("transformers", "huggingface_hub", "timm")
IMAGENET_CLASSES = 1000


@functools.cache
def imagenet() -> ClassNames:
    """Return short names of ImageNet's 1,000 classes in the usual order; they suit prompts."""
    text = (resources.files("tollbox.models") / "imagenet.txt").read_text(encoding="utf-8")
    return ClassNames.of(text.splitlines())


def is_folder(source: Source) -> bool:
    """Return whether a source names a folder with a `config.json`, rather than a download."""
    name = source.name
    kind = kind_of(name, name, input="model")
    if kind == "folder" and not os.path.exists(os.path.join(name, "config.json")):
        raise file_error(f"{name} has no config.json", "a folder that save_pretrained made")
    looks_like_path = name.startswith((".", "/", "~")) or name.count("/") > 1
    if kind != "folder" and (kind != "nothing" or looks_like_path):
        what = "does not exist" if kind == "nothing" else "is a file"
        raise file_error(f"{name} {what}", "a folder, or a name")
    if kind == "folder":
        for file in sorted(filter(_is_zip, Path(name).glob("*.bin"))):
            try:
                with zipfile.ZipFile(file) as archive:  # tensors; torch does not check their CRCs
                    broken = archive.testzip()
            except Exception as error:  # a broken directory may raise anything
                broken = in_a_line(error)
            if broken:
                raise file_error(f"{file} is damaged ({broken})", "a complete file")
    return kind == "folder"


def _is_zip(file: Path) -> bool:
    return file.is_file() and zipfile.is_zipfile(file)  # reading a pipe would not end


def with_own_weights(source: Source, name: str, file: str, make: Callable[..., Any]) -> Network:
    """Return the network `name` with the weights in a safetensors file; `make` builds it."""
    check_file(file, "a safetensors file", input="model")
    reader = optional("safetensors.torch", ".safetensors files are read with it", extra="cli")
    try:
        weights = reader.load_file(file)
    except Exception as error:  # safetensors has its own types
        given = f"{file} cannot be loaded ({with_kind(error)})"
        raise file_error(given, "a complete safetensors file") from None
    network = fetched(source, lambda: make(num_classes=IMAGENET_CLASSES))
    last = [k for k, own in network.state_dict().items() if own.shape[:1] == (IMAGENET_CLASSES,)]
    count = max((len(weights[k]) for k in last if k in weights and weights[k].ndim), default=0)
    if count not in (0, IMAGENET_CLASSES):
        network = fetched(source, lambda: make(num_classes=count))
    both = weights, network.state_dict()
    for key in sorted(set().union(*both)):
        theirs, own = (_form(each[key]) if key in each else "absent" for each in both)
        if theirs != own:
            given = f"{file} is not for {name}: {key} is {theirs} in the file and {own} in the"
            raise file_error(f"{given} network", "the state dict of such a network")
    network.load_state_dict(weights)
    return replace(Network.of_torch(source, network.eval()), needs_normalisation=True)


def _form(weights: Any) -> str:
    return f"{tuple(weights.shape)}{'' if weights.is_floating_point() else ' (no floats)'}"


def fetched(source: Source, load: Callable[[], Any], local: bool = False) -> Any:
    """Return the result of `load`; its errors become InputErrors. `local`: it loads a folder."""
    try:
        with quiet():
            return load()
    except ImportError as error:
        raise source.error(
            f", but a package that it needs cannot be imported ({with_kind(error)})",
            remedy="install it, or repair the installation",
        ) from None
    except Exception as error:  # no connection, no space, a broken cache: many types
        if local:
            given = f"{source.name} cannot be loaded ({with_kind(error)})"
            raise file_error(given, "a folder with a complete image classifier") from None
        raise source.error(
            f", but its weights cannot be loaded ({with_kind(error)})",
            "them in the package's cache, or a connection to download them once",
            "load them on a machine with a connection, or copy that cache here",
        ) from None


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence the packages' logs, and outside a terminal also their progress and warnings."""
    terminal = sys.stderr.isatty()
    bars: Any = sys.modules.get("transformers.utils.logging")
    hidden = bars is not None and bars.is_progress_bar_enabled() and not terminal
    if hidden:
        bars.disable_progress_bar()
    shown = contextlib.nullcontext() if terminal else contextlib.redirect_stderr(io.StringIO())
    try:
        with without_logs(*LOGS), shown:
            yield
    finally:
        if hidden:
            bars.enable_progress_bar()


def load_timm(source: Source) -> Network:
    timm = optional("timm", "timm: models are loaded with it", extra="timm")
    name, file = own_weights(source.text)
    if file:
        if not timm.is_model(name):
            raise _unknown(source, name, timm.list_models())
        return with_own_weights(source, name, file, functools.partial(timm.create_model, name))
    if ":" not in name and not timm.is_model(name) and is_folder(source):
        name = f"local-dir:{name}"
    elif ":" not in name:  # a name such as hf-hub:owner/model is left to timm
        pretrained = timm.list_pretrained()
        if not timm.is_model(name):
            raise _unknown(source, name, {*timm.list_models(), *pretrained})
        if "." in name and name not in pretrained:
            raise _unknown(source, name, pretrained)
    local = name.startswith("local-dir:")
    network = fetched(source, lambda: timm.create_model(name, pretrained=True), local)
    about = timm.data.resolve_model_data_config(network)
    channels, height, width = about["input_size"]
    scaled = (int(height / about["crop_pct"]), int(width / about["crop_pct"]))
    square = height == width and about["crop_mode"] != "squash"
    names = network.pretrained_cfg.get("label_names")
    if not names and network.num_classes == IMAGENET_CLASSES:
        names = imagenet().names
    preprocessing = Preprocessing(
        scaled[0] if square else scaled,
        (height, width),
        interpolation=about["interpolation"],
        mean=tuple(about["mean"]),
        std=tuple(about["std"]),
    )
    return Network.of_torch(source, network.eval(), channels, preprocessing, names)


def load_torchvision(source: Source) -> Network:
    purpose = "torchvision: models are loaded with it"
    models = optional("torchvision.models", purpose, extra="torchvision")
    whole, file = own_weights(source.text)
    name, _, version = whole.partition(".")
    known = models.list_models(module=models)
    if name not in known:
        raise _unknown(source, name, known)
    if file:
        return with_own_weights(source, name, file, functools.partial(models.get_model, name))
    versions = models.get_model_weights(name)
    if version and version not in versions.__members__:
        raise _unknown(source, version, versions.__members__)
    weights = versions[version] if version else versions.DEFAULT
    network = fetched(source, lambda: models.get_model(name, weights=weights))
    transform = weights.transforms()
    [resize], [crop] = transform.resize_size, transform.crop_size
    preprocessing = Preprocessing(
        resize,
        (crop, crop),
        interpolation=transform.interpolation.value,
        mean=tuple(transform.mean),
        std=tuple(transform.std),
    )
    return Network.of_torch(source, network.eval(), 3, preprocessing, weights.meta["categories"])


def _unknown(source: Source, name: str, known: Iterable[str]) -> InputError:
    close = difflib.get_close_matches(name, sorted(known), n=3, cutoff=0.4)
    hint = f"did you mean {' or '.join(map(repr, close))}?" if close else "no name is similar"
    return source.error(f", but there is no {name!r}: {hint}")
