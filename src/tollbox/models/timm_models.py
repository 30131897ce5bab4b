"""Networks of timm: `timm:resnet50.a1_in1k`, with its tag or without, or `timm:` and a folder.

How images go in and the names of the classes are from the weights' own configuration; a network of
1000 classes without names has those of ImageNet.
"""

from __future__ import annotations

from typing import Any

from ..core.preprocessing import Preprocessing
from ..data.user_code import optional
from .adapter import Network, Source
from .imagenet import CLASSES, imagenet
from .named import adapter, check_folder, fetched, name_in, unknown
from .pytorch import RUNNING


def load(source: Source) -> Network:
    """The network with its weights."""
    timm = optional("timm", "timm: models are loaded with it", extra="timm")
    name = name_in(source)
    if ":" in name or not timm.is_model(name):
        local = ":" not in name and check_folder(source, "config.json")
        if not local and ":" not in name:  # a name such as hf-hub:owner/model is timm's own
            raise unknown(source, name, {*timm.list_models(), *timm.list_pretrained()})
        name = f"local-dir:{name}" if local else name
    elif "." in name and name not in timm.list_pretrained():
        raise unknown(source, name, timm.list_pretrained())
    network = fetched(
        source,
        lambda: timm.create_model(name, pretrained=True),
        local=name.startswith("local-dir:"),
    )
    about = timm.data.resolve_model_data_config(network)
    return Network(
        network.eval(),
        shape=(about["input_size"][0], None, None),
        kind="a network",
        options=frozenset(RUNNING),
        preprocessing=_preprocessing(about),
        names=_names(network),
    )


def _preprocessing(about: dict[str, Any]) -> Preprocessing:
    """What timm's own transform does."""
    _, height, width = about["input_size"]
    scaled = (int(height / about["crop_pct"]), int(width / about["crop_pct"]))
    square = height == width and about["crop_mode"] != "squash"
    return Preprocessing.of(
        scaled[0] if square else scaled,
        (height, width),
        interpolation=about["interpolation"],
        mean=tuple(about["mean"]),
        std=tuple(about["std"]),
    )


def _names(network: Any) -> tuple[str, ...] | None:
    """From its configuration, or those of ImageNet."""
    names = network.pretrained_cfg.get("label_names")
    if names:
        return tuple(names)
    return imagenet().names if network.num_classes == CLASSES else None


ADAPTER = adapter("timm", "timm:NAME", load, ("timm",), "folder")
