"""A study file with a remark for every key, to begin from; `tollbox init` writes it.

1. It is a valid study, of whatever model and images are given. A key behind a # has its default,
   and may be taken as it stands wherever the file that it names is there.
2. Remarks are plain text in lines of at most 100 characters, whatever names are in them.
"""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .dump import toml_value

MARK = "# A study for tollbox, begun by `tollbox init`: models x attacks x prices x images."
WIDTH = 100
COLUMN = 34
"""Where remarks on keys begin."""
PRICES = (1, 100)
BUDGET = 5000
ATTACKS = {
    "hsja": "an attack that knows nothing of prices",
    "a-hsja": "the same with the paper's asymmetric search and estimates",
    "frugal": "tollbox's own, which plans with the price throughout",
}
"""Those that are in it, and why."""


@dataclass(frozen=True)
class Key:
    """A key, what to write if it is not given, and a remark."""

    name: str
    example: str
    remark: str


TOP = (
    Key("seeds", "[0, 1, 2]", "of the random numbers: all is run with each; default: [0]"),
    Key("norm", '"linf"', 'what distances are in, for attacks made for it; default: "l2"'),
    Key("workers", "2", "processes that share the work, no more than cores; default: 1"),
    Key("device", '"cuda"', "default: cuda if there is one, else cpu"),
    Key("batch_size", "128", "images in a batch; default: 256 on a GPU, else 64"),
    Key("check", "true", "test first whether models answer alike in any batch"),
    Key("exact", "true", "run only where results can be repeated bit for bit"),
    Key("metered", "true", "the model bills every image it is asked: ask no more than counts"),
    Key("one_shape", "true", "one batch shape instead of a few"),
    Key("charge_clean", "false", "the query of the clean image is free"),
    Key("keep_images", "true", "keep the adversarial images with the results"),
)
IMAGES = (
    Key("path", '"images"', "a folder, an .npz with images and labels, or module:function"),
    Key("labels", '"labels.csv"', "columns file and label; not if each class has a folder"),
    Key("limit", "10", "only the first so many"),
    Key("correct_only", "true", "only those that each model classifies correctly"),
    Key("resize", "256", "the shorter side of pictures; [224, 224]: height and width"),
    Key("crop", "224", "then the middle; default: as the model's configuration says"),
    Key("interpolation", '"bicubic"', 'how they are resized, if they are; default: "bilinear"'),
    Key("names", '"classes.txt"', "what the classes are called, one on each line"),
    Key("list", '"images.txt"', "just these; `tollbox export` writes such a list"),
    Key("digest", '"0123456789abcdef0123456789abcdef"', "begin with these images only"),
)
MODEL = (
    Key("source", '"model.pt2"', "a torch.export or TorchScript file, hf:NAME, module:function"),
    Key("name", '"first"', "what tables call it; default: the name of the file"),
    Key("mean", "[0.485, 0.456, 0.406]", "subtracted from images in [0,1]; default: its own"),
    Key("std", "[0.229, 0.224, 0.225]", "divides after that; likewise"),
    Key("quantize", "8", "bits of a pixel, if it takes images of 8 bits"),
    Key("dtype", '"bfloat16"', "what a network by name computes in; default: as its weights are"),
    Key("channels_last", "true", "its layout; default: if it has convolutions"),
    Key("compile", "true", "through torch.compile"),
    Key("cuda_graphs", "true", "recorded as CUDA graphs"),
    Key("tf32", "true", "or false; default: torch's setting"),
)
GOAL = (
    Key("target", "5", "the class to reach, with an image of it to begin from:"),
    Key("start", '"five.png"', "or an .npz with one for each image"),
    Key("flagged", "[3, 5]", "these classes are flagged, whatever the image's own is"),
    Key("mask", '"mask.png"', "white where pixels may change"),
)
WATCH = (
    Key("source", '"guard:detector"', "module:function, which is one or gives one"),
    Key("alarm_price", "50", "what an alarm costs beside the answer; default: nothing"),
    Key("max_alarms", "3", "nothing is asked after so many; default: any number"),
)


@dataclass(frozen=True)
class Template:
    """What is known of the study; what is not is left to be filled in."""

    file: str
    """What the file is called, for the commands at its head."""
    top: Mapping[str, Any] = field(default_factory=dict)
    images: Mapping[str, Any] = field(default_factory=dict)
    """Keys of [images]; paths are from the file's folder."""
    model: Mapping[str, Any] = field(default_factory=dict)
    about_images: str = "To be filled in: the folder or file of your own."
    """What was found out of them, for a remark."""
    about_model: str = "To be filled in: your own."
    digest: str | None = None
    """Of the images, for a remark."""

    @property
    def text(self) -> str:
        """The TOML text."""
        return "\n".join(line.rstrip() for line in self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        yield MARK
        yield "#"
        for words, what in (
            (["run", self.file, "--dry-run"], "what it takes: cells, queries, time"),
            (["run", self.file, "--out", "results"], "run it"),
            (["resume", "results"], "go on after a stop of any kind"),
            (["report", "results"], "a page to look at"),
        ):
            yield f"#     {_plain(shlex.join(['tollbox', *words])):44}  {what}"
        yield "#"
        yield from _remark(
            "Paths are from the folder of this file. A key behind a # is left as it is by default, "
            "and what it is given there is an example. docs/studies.md says more of each."
        )
        yield ""
        yield _line(Key("name", '"my study"', "default: the name of this file"), {})
        yield ""
        yield from _remark(
            "What a flagged answer (one with the image's own class) costs: c*, where any other "
            "costs 1. One or several: numbers, inf (only flagged ones cost; this needs "
            'max_queries), or CSV files with the columns class and price ("prices.csv").'
        )
        yield f"prices = {list(PRICES)}"
        yield from _remark(
            "What the queries for one image may cost in all, at each price; never exceeded. What "
            "is reached with less is in the results, too."
        )
        yield f"budget = {BUDGET}"
        yield _line(Key("max_queries", "20000", "how many, whatever they cost"), {})
        yield _line(Key("max_flagged", "100", "how many of its answers may be flagged"), {})
        yield ""
        yield from (_line(key, self.top) for key in TOP)
        yield ""
        yield "[images]"
        yield from _remark(self.about_images)
        digest = {} if self.digest is None else {"digest": f'"{self.digest}"'}
        yield from (_line(key, self.images or {"path": Path("images")}, digest) for key in IMAGES)
        yield ""
        yield "[[models]]"
        yield from _remark(self.about_model)
        yield from (_line(key, self.model or {"source": Path("model.pt2")}) for key in MODEL)
        yield ""
        yield f"{'# [[models]]':{COLUMN}}# one more, on the same images"
        yield '# source = "hf:microsoft/resnet-50"'
        yield ""
        yield from _remark("Each attack is run at each price. `tollbox presets` lists them all.")
        for preset, why in ATTACKS.items():
            yield "[[attacks]]"
            yield _line(Key("preset", "", why), {"preset": preset})
            yield ""
        yield "# [[attacks]]"
        yield '# preset = "a-cgba"'
        yield _line(Key("name", '"a-cgba, wide"', "default: the preset's name"), {})
        yield _line(Key("estimate.delta", "0.5", "any field of its parts may be changed"), {})
        yield ""
        yield from _remark("Without a goal the image's own class is flagged; any other will do.")
        yield "# [goal]"
        yield from (_line(key, {}) for key in GOAL)
        yield ""
        yield from _remark("A detector of your own, which is shown every query and judged.")
        yield "# [watch]"
        yield from (_line(key, {}) for key in WATCH)


def _line(key: Key, values: Mapping[str, Any], examples: Mapping[str, str] | None = None) -> str:
    """A key with its value, or behind a # with an example; and its remark, where there is room."""
    value = values.get(key.name)
    if value is None:
        text = f"# {key.name} = {(examples or {}).get(key.name, key.example)}"
    else:
        text = f"{key.name} = {toml_value(value, Path())}"
    full = f"{text:{COLUMN}}# {key.remark}" if len(text) < COLUMN else f"{text}  # {key.remark}"
    return full if len(full) <= WIDTH else f"# {key.remark}\n{text}"


def _remark(text: str) -> Iterator[str]:
    """A text as a remark of as many lines as it takes."""
    yield from textwrap.wrap(
        _plain(text), WIDTH, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False
    )


def _plain(text: str) -> str:
    """A text without line breaks, or what TOML cannot hold."""
    return "".join(each if each.isprintable() else "?" for each in text)
