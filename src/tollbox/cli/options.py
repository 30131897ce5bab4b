"""Options shared by several commands, each declared once.

1. Options of `attack`, `audit` and `init` that are also keys of a study file take their help from
   the schema (`studies/schema.py`). The help of any other option is the text below its field.
2. A type that a shell can complete is a union with str, so that the parser accepts any text, and
   tollbox reports a wrong name with the closest one. The shell offers what the other member lists.
3. Nothing here imports torch or numpy at import time.
4. Annotations are not postponed: cyclopts resolves those of a subclass in the subclass's module.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from cyclopts import Parameter, Token

from ..attacks.presets import PRESETS, WITH_SURROGATE
from ..core.execution import Execution
from ..core.metric import Metric, norm_of
from ..core.validation import DTYPES, checked_seconds
from ..data.classes import flagged_classes
from ..data.resizing import INTERPOLATIONS, Side, pair
from ..data.tables import shortened
from ..errors import InputError, UnknownNameError, mention
from ..report import DistanceRule
from ..studies.kinds import FLAG
from ..studies.schema import ALL, find, keys

if TYPE_CHECKING:
    from ..studies.specs import ImagesSpec, ModelSpec, SurrogateSpec
    from ..studies.study import Study


Choice = TypeVar("Choice", bound=StrEnum)


def offered(names: Iterable[str]) -> Any:
    """Return a type that accepts any text and for which a shell offers these names."""
    return Literal[tuple(map(str, names))] | str


def whole(kind: Any, tokens: Sequence[Token]) -> int:  # noqa: ARG001
    """Convert text to a whole number for cyclopts, without rounding."""
    text = tokens[0].value
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"it is {shortened(text)!r}: expected a whole number.") from None


if TYPE_CHECKING:
    PresetName = str
    NormName = str
    InterpolationName = str
    DtypeName = str
    ReadingName = str
    FileOrText = str
else:
    PresetName = offered([*PRESETS, *WITH_SURROGATE])
    NormName = offered(Metric)
    InterpolationName = offered(INTERPOLATIONS)
    DtypeName = offered(DTYPES)
    ReadingName = offered(DistanceRule)
    FileOrText = str | Path


Folder = Annotated[Path, Parameter(help="The folder of the results: the one that was --out.")]
FORCE_HELP = "Start as many processes as `workers` says, even if there are fewer cores."
TIME_HELP = "Time after which the run stops, such as 90s, 8m or 1h30m; exit code 3 if unfinished."
TRUST_HELP = (
    "Load .pt2 and TorchScript files, which can run code. Use it only for files that you trust."
)
SEED_HELP = "Seed of the random numbers."


def option(table: str | type, name: str, **settings: Any) -> Parameter:
    """Return the option for a key in a table of a study file, with the key's help."""
    key = find(ALL[table] if isinstance(table, str) else table, name)
    if key.kind.is_whole:
        settings["converter"] = whole
    if key.kind is FLAG and key.default is None:
        settings["negative"] = None  # so that there is --no-NAME as well
    hyphen = name in ("mean", "std", "ratio")
    return Parameter(**{"help": key.help, "allow_leading_hyphen": hyphen, **settings})


MODEL = option("models", "source", metavar="MODEL")
IMAGES = option("images", "path")


@dataclass(frozen=True, kw_only=True)
class InputOptions:
    """The options of `attack`, `audit` and `init` for the model and the images."""

    model: Annotated[FileOrText | None, MODEL] = None
    images: Annotated[Path | None, IMAGES] = None
    labels: Annotated[Path | None, option("images", "labels")] = None
    limit: Annotated[int | None, option("images", "limit")] = None
    resize: Annotated[str | None, option("images", "resize")] = None
    crop: Annotated[str | None, option("images", "crop")] = None
    interpolation: Annotated[
        InterpolationName | None, option("images", "interpolation", metavar="FILTER")
    ] = None
    names: Annotated[Path | None, option("images", "names")] = None
    mean: Annotated[str | None, option("models", "mean")] = None
    std: Annotated[str | None, option("models", "std")] = None
    metered: Annotated[bool, option("study", "metered")] = False
    trust_model: Annotated[bool, Parameter(help=TRUST_HELP)] = False

    def given(self, table: str) -> dict[str, Any]:
        """Return the values of those options of the command that are keys of a table."""
        names = [key.name for key in keys(ALL[table])]
        return {name: getattr(self, name) for name in names if hasattr(self, name)}

    def images_spec(self, **changes: Any) -> "ImagesSpec":
        """Return the images that the options describe, with some fields changed."""
        from ..studies.specs import ImagesSpec

        sides = {name: side(name, getattr(self, name)) for name in ("resize", "crop")}
        return ImagesSpec.of(str(self.images), **self.given("images") | sides | changes)

    def model_spec(self, name: str = "") -> "ModelSpec":
        """Return the model that the options describe; by default it is named after its source."""
        from ..studies.specs import ModelSpec

        numbers_of = {each: numbers(each, getattr(self, each)) for each in ("mean", "std")}
        return ModelSpec.of(str(self.model), name=name, **self.given("models") | numbers_of)

    def study(self, command: str, **settings: Any) -> "Study":
        """Return the study that the options describe; `settings` adds or overrides its fields."""
        from ..studies.specs import GoalSpec
        from ..studies.study import Study

        goal, top = self.given("goal"), self.given("study")
        if goal.get("flagged") is not None:
            goal["flagged"] = flagged_classes(goal["flagged"])
        execution = {name: top[name] for name in top if name in Execution.__dataclass_fields__}
        described: dict[str, Any] = {
            "images": self.images_spec(),
            "models": [self.model_spec("model")],
            "goal": GoalSpec(**goal),
            "execution": Execution(**execution),
            "norm": norm_of(top.get("norm", "l2")),
            "device": top.get("device"),
        }
        return Study(where=f"tollbox {command}", **described | settings)


@dataclass(frozen=True, kw_only=True)
class ModelOptions(InputOptions):
    """The options of `attack` and `audit`, which run a model."""

    quantize: Annotated[int | None, option("models", "quantize")] = None
    flagged: Annotated[Path | None, option("goal", "flagged")] = None
    surrogate: Annotated[
        tuple[FileOrText, ...],
        option("attacks", "surrogate", metavar="NETWORK", show_default=False),
    ] = ()
    surrogate_mean: Annotated[tuple[str, ...], option("surrogate", "mean", show_default=False)] = ()
    surrogate_std: Annotated[tuple[str, ...], option("surrogate", "std", show_default=False)] = ()
    surrogate_size: Annotated[tuple[str, ...], option("surrogate", "size", show_default=False)] = ()
    surrogate_labels: Annotated[str | None, option("surrogate", "labels")] = None
    seed: Annotated[int, Parameter(help=SEED_HELP, converter=whole)] = 0
    device: Annotated[str | None, option("study", "device")] = None
    batch_size: Annotated[int | None, option("study", "batch_size")] = None
    retries: Annotated[int, option("study", "retries")] = 0
    workers: Annotated[int, option("study", "workers")] = 1
    exact: Annotated[bool, option("study", "exact")] = False

    def surrogate_spec(self) -> "SurrogateSpec | None":
        """Return the surrogate that the options describe; None if there is none."""
        from ..studies.specs import SurrogateSpec

        settings: dict[str, Any] = {"labels": self.surrogate_labels}
        for name in ("mean", "std", "size"):
            option = f"surrogate_{name}"
            read: Any = sides if name == "size" else numbers
            values = tuple(read(option, text) for text in getattr(self, option))
            settings[name] = values if len(values) > 1 else next(iter(values), None)
        self.check_complete("surrogate", *(f"surrogate_{name}" for name in settings))
        return SurrogateSpec.of(*self.surrogate, **settings) if self.surrogate else None

    def check_complete(self, needed: str, *names: str) -> None:
        """Raise InputError if an option in `names` is given and `needed` is not."""
        for name in names if not getattr(self, needed) else ():
            if getattr(self, name) not in (None, ()):
                given = f"is given, and {mention(needed)} is not"
                raise InputError(given, expected="both, or neither", input=name)


@dataclass(frozen=True, kw_only=True)
class RunningOptions:
    """The options for running a study; none of them changes a result."""

    time_limit: Annotated[str | None, Parameter(help=TIME_HELP)] = None
    force_workers: Annotated[bool, Parameter(help=FORCE_HELP)] = False
    trust_model: Annotated[bool, Parameter(help=TRUST_HELP)] = False
    ray: Annotated[list[str] | None, Parameter(consume_multiple=(0, 1))] = None
    """Run on the Ray cluster at ADDRESS (host:port). Default: RAY_ADDRESS, or a new cluster on this
    machine."""
    ray_workers: int | None = None
    """Number of workers. Default: all that the cluster has room for."""
    ray_gpus: float | None = None
    """GPUs per worker, such as 0.5. Default: 1 if the study runs on a GPU."""


def within(name: str, value: float | None, least: float, most: float = math.inf) -> None:
    """Raise InputError unless the value is None or from `least` to `most`."""
    if value is not None and not least <= value <= most:
        expected = f"{least} or more" if math.isinf(most) else f"{least} to {most}"
        raise InputError(f"is {value}", expected=expected, input=name)


def chosen(names: type[Choice], kind: str, text: str) -> Choice:
    """Return the member of `names` with this text; raise UnknownNameError if there is none."""
    if text not in list(names):
        raise UnknownNameError(kind, text, list(names))
    return names(text)


def seconds(text: str | None) -> float:
    """Return a time limit in seconds; infinite for None."""
    return math.inf if text is None else checked_seconds("time_limit", text)


def number_in(text: str) -> float:
    """Return the number in a text; raise ValueError for one that is too large, such as 1e400."""
    value = float(text)
    if math.isinf(value) and "inf" not in text.lower():
        raise ValueError(f"{text} is too large")
    return value


def numbers(name: str, text: str | None) -> tuple[float, ...] | None:
    """Return the numbers in a text such as '0.5' or '0.485,0.456,0.406'."""
    if text is None:
        return None
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        expected = "a number, or numbers separated by commas, one per channel"
        raise InputError(f"is {text!r}", expected=expected, input=name) from None


def side(name: str, text: str | None) -> Side | None:
    """Return the length in a text such as '224', or the height and width in '48,192'."""
    if text is None:
        return None
    try:
        lengths = [int(part) for part in text.split(",")]
    except ValueError:
        lengths = []
    if len(lengths) not in (1, 2):
        expected = "a whole number, or a height and a width separated by a comma"
        raise InputError(f"is {shortened(text)!r}", expected=expected, input=name)
    return lengths[0] if len(lengths) == 1 else (lengths[0], lengths[1])


def sides(name: str, text: str) -> tuple[int, int]:
    """Return the height and width in such a text."""
    return pair(side(name, text) or 0)
