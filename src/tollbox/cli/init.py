"""`tollbox init`: a study file to start from, with every key explained in a comment.

1. Given a model and images, it loads both as `tollbox run` does, so that the file works at once.
   Comments say what was found (sizes, classes, the model's own preprocessing). The first images are
   sent to the model once, uncharged, to check whether it classifies them correctly; with --metered,
   only the one image that every model is tried on.
2. Given neither, it writes a template to fill in.
3. It overwrites no file, except, with --replace, one that this command wrote.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from ..data.tables import kind_of, shortened
from ..errors import FileError, InputError, mention
from .options import InputOptions, option
from .output import command, free_folder, write

if TYPE_CHECKING:
    from ..data.images import ImageSet
    from ..studies.inputs import StudyInputs
    from ..studies.specs import ImagesSpec, ModelSpec
    from ..studies.template import Template

MOST_IMAGES = 200
"""Default maximum number of images in a study."""
MOST_CLASSES = 5
"""Maximum number of classes that a comment names."""
LIMIT_HELP = f"Use only the first N images. Default: {MOST_IMAGES} if there are more."


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class InitOptions(InputOptions):
    limit: Annotated[int | None, option("images", "limit", help=LIMIT_HELP)] = None
    out: Path = Path("study.toml")
    """The file to write."""
    replace: bool = False
    """Replace a file that `tollbox init` wrote."""


def init(options: InitOptions = InitOptions()) -> int:  # noqa: B008
    """Write a study file for your own model and images, or one to fill in.

    The model and images are tried first, so that `tollbox run` accepts the file as it is; comments
    in the file say what you can change.
    """
    from ..data.output import replace_file
    from ..studies.study import Study
    from ..studies.template import Template

    out = options.out
    _check_out(out, options.replace)
    if options.model is None or options.images is None:
        _check_neither(options)
        template = Template(out.name)
        said = f"{out} is a template: fill in the path of the images and the source of the model."
    else:
        template = _found(options, options.model, options.images)
        said = f"{out} is written. {template.about_images} {template.about_model}"
    Study.from_text(template.text, out.parent, str(out), files=options.model is not None)
    replace_file(out, template.text)
    trust = ("--trust-model",) if options.trust_model else ()
    write(f"{said} Next:", f"  {command('run', out, '--dry-run', *trust)}")
    write(f"  {command('run', out, '--out', free_folder(), *trust)}")
    return 0


def _check_out(out: Path, replace: bool) -> None:
    """Raise InputError unless the file `out` is new or may be replaced."""
    from ..data.output import check_replaceable
    from ..studies.template import MARK

    kind = kind_of(out, str(out), input="out")
    if kind == "folder":
        raise InputError(f"{out} is a folder", expected="the name of a file", input="out")
    if kind_of(out.parent, str(out.parent), input="out") != "folder":
        given = f"is {out}, and there is no folder {out.parent}"
        raise InputError(given, remedy="make it first", input="out")
    if replace:
        check_replaceable(out, MARK.encode())
    elif kind != "nothing" or os.path.islink(out):
        other = f"give another name with {mention('out')}"
        remedy = f"{other}, or {mention('replace')} if `tollbox init` wrote it"
        raise InputError(f"{out} already exists", remedy=remedy, input="out")


def _check_neither(options: InitOptions) -> None:
    """Raise InputError if any input option is given without both a model and images."""
    both = f"both {mention('model')} and {mention('images')}"
    missing = "images" if options.images is None else "model"
    for each in fields(options):
        given = getattr(options, each.name) != each.default
        if given and each.name not in ("out", "replace"):
            said = f"is not given, and {mention(each.name)} is"
            expected = f"{both}, or neither for a template"
            raise InputError(said, expected=expected, input=missing)


def _found(options: InitOptions, source: str, path: Path) -> Template:
    """Load and try a model and images; return the template for them."""
    from ..studies.images import images_digest, take
    from ..studies.inputs import load
    from ..studies.specs import AttackSpec, Tariff
    from ..studies.template import ATTACKS, BUDGET, PRICES, Template

    folder = options.out.parent
    images = options.images_spec(limit=MOST_IMAGES + 1 if options.limit is None else options.limit)
    model = options.model_spec()
    study = options.study(
        "init",
        name="study",
        folder=folder,
        images=images,
        models=[model],
        attacks=[AttackSpec.of(preset) for preset in ATTACKS],
        tariffs=[Tariff.of(price, budget=BUDGET) for price in PRICES],
    )
    loaded = load(study, trust=options.trust_model)
    more = options.limit is None and len(loaded.images) > MOST_IMAGES
    limit = MOST_IMAGES if more else options.limit
    used = take(loaded.images, range(MOST_IMAGES)) if more else loaded.images
    paths = {"path": path, "labels": options.labels, "names": options.names}
    seen = {name: each and _seen_from(folder, each, name) for name, each in paths.items()}
    if images.function is not None:
        seen["path"] = Path(images.function)
    return Template(
        options.out.name,
        top={"metered": options.metered or None},
        images={**images.values(), **seen, "limit": limit},
        model={**model.values(), "name": None, "source": _model_from(folder, source)},
        about_images=_images_in_words(images, used, limit),
        about_model=_model_in_words(loaded, model),
        digest=images_digest(used),
    )


def _seen_from(folder: Path, path: Path, input: str) -> Path:
    """Return a path relative to a folder; an absolute path outside it stays as it is."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        given = f"{path} is a name that is not UTF-8"
        raise FileError(given, expected="one that a file can hold", input=input) from None
    start = os.path.realpath(folder)
    last = "" if path.name == ".." else path.name  # resolve links, except in the last part
    there = Path(os.path.realpath(path.parent if last else path), last)
    if path.is_absolute() and not there.is_relative_to(start):
        return path
    return Path(os.path.relpath(there, start))


def _model_from(folder: Path, source: str) -> str:
    """Return a model's source, with a path in it relative to a folder."""
    from ..models.registry import is_model_name, located, own_weights

    if not is_model_name(source) or kind_of(source, source, input="model") != "nothing":
        return str(_seen_from(folder, Path(source), "model"))
    if located(source, Path.cwd()) == source:  # a name, or an absolute path
        return source
    name = own_weights(source)[1] or source.partition(":")[2]
    return f"{source[: -len(name)]}{_seen_from(folder, Path(name), 'model')}"


def _images_in_words(spec: ImagesSpec, used: ImageSet, limit: int | None) -> str:
    from ..core.goal import class_words
    from ..data.images import image_paths

    is_folder = spec.function is None and spec.path.is_dir()
    total = len(image_paths(spec.path)) if is_folder else 0
    first = "The first " if limit is not None else ""
    of = f" of {total}" if limit is not None and total > len(used) else ""
    channels, height, width = used.images.shape[1:]
    labels = Counter(used.labels).most_common()
    named = [f"{n} of {class_words(k, used.class_names)}" for k, n in sorted(labels[:MOST_CLASSES])]
    if len(labels) > len(named):
        named.append(f"{len(labels) - len(named)} more")
    folders = ", which are its folders" if is_folder and spec.labels is None else ""
    text = (
        f"{first}{len(used)}{of} images, {width} x {height} pixels of {channels} "
        f"channel{'s' * (channels > 1)}, in {len(labels)} "
        f"class{'es' * (len(labels) > 1)}{folders}: {', '.join(map(shortened, named))}."
    )
    if used.resizing is not None:
        own = "" if spec.resizing is not None else ", as the model's own configuration says"
        text += f" Images are {used.resizing}{own}."
    return text


def _model_in_words(loaded: StudyInputs, spec: ModelSpec) -> str:
    """Return sentences about the model, and whether it classifies the first images correctly."""
    from .study_run import WHAT_TO_CHECK

    model = loaded.model(spec)
    own = model.preprocessing
    what = "gives labels" if model.classes is None else f"has {model.classes} classes"
    text = f"{spec.name} {what}"
    if own is not None and spec.mean is None and own.mean is not None:
        numbers = ", ".join(f"{value:g}" for value in own.mean)
        text += f", with a mean ({numbers}) and std of its own"
    answers = loaded.first_labels(spec)
    if answers is None:
        return f"{text}."
    right = sum(a == b for a, b in zip(answers, loaded.images.labels, strict=False))
    text += f"; of the first {len(answers)} images it classifies {right} correctly."
    return text if right else f"{text} Nothing can be measured like this: {WHAT_TO_CHECK}."
