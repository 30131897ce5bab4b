"""`tollbox init`: a study file to begin from, with a remark for every key.

1. With a model and images they are loaded as `tollbox run` loads them, so that the file is right at
   once; what is found out (sizes, classes, the model's own preprocessing) is in its remarks. The
   first images are asked once, uncharged, to say whether the model gets them right; with --metered
   nothing is asked but the one image that a model is tried on.
2. Without either it is a template to be filled in.
3. No file is overwritten. With --replace one may be that this command wrote.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import fields
from pathlib import Path
from typing import Any

from ..core.goal import class_words
from ..data.images import ImageSet, image_paths
from ..data.output import check_replaceable, replace_file
from ..data.resizing import Resizing
from ..data.tables import kind_of, shortened
from ..errors import FileError, InputError, mention
from ..models.registry import is_model_name, located
from ..studies.inputs import Loaded, load
from ..studies.schema import AttackSpec, ImagesSpec, ModelSpec, Tariff
from ..studies.selection import images_digest, take
from ..studies.study import Study
from ..studies.template import ATTACKS, BUDGET, MARK, PRICES, Template
from . import hints
from . import parsing as choices
from .init import MOST_IMAGES, InitOptions
from .output import console

MOST_CLASSES = 5
"""That are named in a remark."""


def init(options: InitOptions) -> int:
    """Write the file, after a try of what it names."""
    out, to = options.out, console()
    _check_out(out, options.replace)
    if options.model is None or options.images is None:
        _check_neither(options)
        template = Template(out.name)
        said = f"{out} is a template: fill in the path of the images and the source of the model."
    else:
        template = _found(options, options.model, options.images)
        said = f"{out} is written. {template.about_images} {template.about_model}"
    text = template.text
    Study.from_text(text, out.parent, str(out), files=options.model is not None)
    replace_file(out, text)
    to.print(f"{said} Next:", soft_wrap=True)
    for words in (["--dry-run"], ["--out", hints.free_folder()]):
        to.print(f"  {hints.command('run', out, *words)}", soft_wrap=True)
    return 0


def _check_out(out: Path, replace: bool) -> None:
    """Raise InputError unless the file is free, or may be replaced, and can be made."""
    kind = kind_of(out, str(out), input="out")
    if kind == "folder":
        raise InputError(f"{out} is a folder", expected="the name of a file", input="out")
    if kind_of(out.parent, str(out.parent), input="out") != "folder":
        raise InputError(
            f"is {out}, and there is no folder {out.parent}", remedy="make it first", input="out"
        )
    if replace:
        check_replaceable(out, MARK.encode())
    elif kind != "nothing" or os.path.islink(out):
        raise InputError(
            f"{out} already exists",
            remedy=f"give another name with {mention('out')}, or {mention('replace')} if "
            "`tollbox init` wrote it",
            input="out",
        )


def _check_neither(options: InitOptions) -> None:
    """Raise InputError if something is given, and a model or images are not."""
    beside = ("out", "replace")
    given = [
        each.name
        for each in fields(options)
        if each.name not in beside and getattr(options, each.name) != each.default
    ]
    if given:
        missing = "images" if options.images is None else "model"
        raise InputError(
            f"is not given, and {mention(given[0])} is",
            expected=f"both {mention('model')} and {mention('images')}, or neither for a template",
            input=missing,
        )


def _found(options: InitOptions, source: str, path: Path) -> Template:
    """The template for a model and images, which are tried."""
    choices.within("limit", options.limit, 1)
    folder = options.out.parent
    sizes: dict[str, Any] = {
        "resize": choices.side("resize", options.resize),
        "crop": choices.side("crop", options.crop),
        "interpolation": options.interpolation,
    }
    normalisation: dict[str, Any] = {
        "mean": choices.numbers("mean", options.mean),
        "std": choices.numbers("std", options.std),
    }
    images = ImagesSpec.of(
        str(path),
        labels=options.labels,
        limit=options.limit or MOST_IMAGES + 1,
        resizing=Resizing.of(**sizes),
        names=options.names,
    )
    model = ModelSpec.of(source, **normalisation)
    loaded = load(
        Study.of(
            name="study",
            where="tollbox init",
            folder=folder,
            images=images,
            models=[model],
            attacks=[AttackSpec.of(preset) for preset in ATTACKS],
            tariffs=[Tariff.of(price, budget=BUDGET) for price in PRICES],
            metered=options.metered,
        )
    )
    more = options.limit is None and len(loaded.images) > MOST_IMAGES
    limit = MOST_IMAGES if more else options.limit
    used = take(loaded.images, range(MOST_IMAGES)) if more else loaded.images
    return Template(
        options.out.name,
        top={"metered": options.metered or None},
        images={
            "path": images.function or _seen_from(folder, path, "images"),
            "labels": options.labels and _seen_from(folder, options.labels, "labels"),
            "limit": limit,
            "names": options.names and _seen_from(folder, options.names, "names"),
            **sizes,
        },
        model={"source": _model_from(folder, source), **_shortest(normalisation)},
        about_images=_images_in_words(images, used, limit, own=not any(sizes.values())),
        about_model=_model_in_words(loaded, model),
        digest=images_digest(used),
    )


def _shortest(values: dict[str, Any]) -> dict[str, Any]:
    """One number for all channels as a number."""
    return {k: v[0] if v is not None and len(v) == 1 else v for k, v in values.items()}


def _seen_from(folder: Path, path: Path, input: str) -> Path:
    """A path as it is from a folder; an absolute one that leads elsewhere stays as it is."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise FileError(
            f"{path} is a name that is not UTF-8", expected="one that a file can hold", input=input
        ) from None
    start = os.path.realpath(folder)
    last = "" if path.name == ".." else path.name  # links in the way are followed, but not the last
    there = Path(os.path.realpath(path.parent if last else path), last)
    if path.is_absolute() and not there.is_relative_to(start):
        return path
    return Path(os.path.relpath(there, start))


def _model_from(folder: Path, source: str) -> str:
    """A model's source as it is from a folder."""
    if not is_model_name(source) or kind_of(source, source, input="model") != "nothing":
        return str(_seen_from(folder, Path(source), "model"))
    if located(source, Path.cwd()) == source:  # a name, or an absolute path
        return source
    word, _, name = source.partition(":")
    return f"{word}:{_seen_from(folder, Path(name), 'model')}"


def _images_in_words(spec: ImagesSpec, used: ImageSet, limit: int | None, own: bool) -> str:
    """What was found of the images; `own`: pictures are resized as the model itself says."""
    is_folder = spec.function is None and spec.path.is_dir()
    total = len(image_paths(spec.path)) if is_folder else 0
    first = "The first " if limit is not None else ""
    of = f" of {total}" if limit is not None and total > len(used) else ""
    channels, height, width = used.images.shape[1:]
    labels = Counter(used.labels).most_common()
    named = [f"{n} of {class_words(k, used.class_names)}" for k, n in sorted(labels[:MOST_CLASSES])]
    named += [f"{len(labels) - len(named)} more"] if len(labels) > len(named) else []
    folders = ", which are its folders" if is_folder and spec.labels is None else ""
    text = (
        f"{first}{len(used)}{of} images, {width} x {height} pixels of {channels} "
        f"channel{'s' * (channels > 1)}, in {len(labels)} "
        f"class{'es' * (len(labels) > 1)}{folders}: {', '.join(map(shortened, named))}."
    )
    if used.resizing is not None:
        says = ", as the model's own configuration says" if own else ""
        text += f" Pictures are {used.resizing}{says}."
    return text


def _model_in_words(loaded: Loaded, spec: ModelSpec) -> str:
    """What was found of the model, and whether it gets the first images right."""
    model, own = loaded.model(spec), loaded.model(spec).preprocessing
    text = f"{spec.name} gives labels" if model.classes is None else f"{spec.name} has "
    text += "" if model.classes is None else f"{model.classes} classes"
    if own is not None and spec.mean is None and own.mean is not None:
        numbers = ", ".join(f"{value:g}" for value in own.mean)
        text += f", with a mean ({numbers}) and std of its own"
    answers = loaded.fingerprint(spec).answers
    if answers is None:
        return f"{text}."
    right = sum(a == b for a, b in zip(answers, loaded.images.labels, strict=False))
    text += f"; of the first {len(answers)} images it classifies {right} correctly."
    return text if right else f"{text} Nothing is measured so: {hints.WHAT_TO_CHECK}."
