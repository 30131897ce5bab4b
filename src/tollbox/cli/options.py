"""Options that several commands have, each declared once.

1. The options of `attack`, `audit` and `init` that a study file has as keys take their help from
   the schema (`studies/schema.py`).
2. A type that a shell can complete is a union with str, which accepts any text: tollbox reports
   what is wrong with it, with the closest name. The shell offers what the other side of the union
   lists.
3. Nothing here imports torch or numpy at import time.
4. Annotations are not postponed: cyclopts resolves those of a subclass in the subclass's module.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from ..attacks.presets import PRESETS, WITH_SURROGATE
from ..core.execution import Execution
from ..core.metric import Metric
from ..core.validation import DTYPES
from ..data.classes import flagged_classes
from ..data.resizing import INTERPOLATIONS
from ..report import DistanceRule
from ..studies.kinds import FLAG, MEAN, RATIO, STD
from ..studies.schema import ALL, find
from .parsing import numbers, side, whole

if TYPE_CHECKING:
    from ..studies.specs import ImagesSpec, ModelSpec


def offered(names: Iterable[str]) -> Any:
    """Return the type of a text for which a shell offers these names."""
    return Literal[tuple(map(str, names))] | str


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


FOLDER = Parameter(help="The folder of the results: the one that was --out.")
CHECK_HELP = find(ALL["study"], "check").help
FORCE_HELP = "Start as many processes as `workers` says, even if there are fewer cores."


def option(table: str | type, name: str, **settings: Any) -> Parameter:
    """Return an option that a table of a study file has as a key, with the key's help."""
    key = find(ALL[table] if isinstance(table, str) else table, name)
    if key.kind.is_whole:
        settings["converter"] = whole
    if key.kind is FLAG and key.default is not None:
        settings["negative"] = ""
    hyphen = key.kind in (MEAN, STD, RATIO)
    given = {"help": key.help, "show_choices": False, "allow_leading_hyphen": hyphen, **settings}
    return Parameter(**given)


def flag(text: str) -> Parameter:
    return Parameter(help=text, negative="")


MODEL = option("models", "source", metavar="MODEL")
IMAGES = option("images", "path")


@dataclass(frozen=True, kw_only=True)
class InputOptions:
    """The options of `attack`, `audit` and `init` on the model and the images."""

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

    def images_spec(self, **changes: Any) -> "ImagesSpec":
        """Return the images that the options describe, with some fields changed."""
        from ..studies.specs import ImagesSpec

        given: dict[str, Any] = {
            "labels": self.labels,
            "limit": self.limit,
            "resize": side("resize", self.resize),
            "crop": side("crop", self.crop),
            "interpolation": self.interpolation,
            "names": self.names,
        }
        return ImagesSpec.of(str(self.images), **given | changes)

    def model_spec(self, **settings: Any) -> "ModelSpec":
        """Return the model that the options describe, with further settings."""
        from ..studies.specs import ModelSpec

        mean, std = numbers("mean", self.mean), numbers("std", self.std)
        return ModelSpec.of(str(self.model), mean=mean, std=std, **settings)


@dataclass(frozen=True, kw_only=True)
class ModelOptions(InputOptions):
    """The options of `attack` and `audit`, which run a model."""

    quantize: Annotated[int | None, option("models", "quantize")] = None
    flagged: Annotated[Path | None, option("goal", "flagged")] = None
    seed: Annotated[int, Parameter(help="Seed of the random numbers.", converter=whole)] = 0
    device: Annotated[str | None, option("study", "device")] = None
    batch_size: Annotated[int | None, option("study", "batch_size")] = None
    workers: Annotated[int, option("study", "workers")] = 1
    exact: Annotated[bool, option("study", "exact")] = False

    def execution(self, **settings: Any) -> Execution:
        """Return how the models are run, with further settings."""
        return Execution(
            batch_size=self.batch_size,
            workers=self.workers,
            metered=self.metered,
            exact=self.exact,
            **settings,
        )

    @property
    def flagged_classes(self) -> frozenset[int] | None:
        return None if self.flagged is None else flagged_classes(self.flagged)


@dataclass(frozen=True, kw_only=True)
class RunningOptions:
    """How a study is run; none of these changes a result."""

    time_limit: Annotated[float | None, Parameter(help="Seconds after which the run stops.")] = None
    force_workers: Annotated[
        bool,
        flag(FORCE_HELP),
    ] = False
    ray: Annotated[
        list[str] | None,
        Parameter(
            help="Run on a Ray cluster, at ADDRESS (host:port). Default: that of RAY_ADDRESS, or a "
            "new one on this machine.",
            negative="",
            consume_multiple=(0, 1),
        ),
    ] = None
    ray_workers: Annotated[
        int | None,
        Parameter(help="Number of workers. Default: as many as the cluster has room for."),
    ] = None
    ray_gpus: Annotated[
        float | None,
        Parameter(help="GPUs per worker, such as 0.5. Default: 1 if the study runs on a GPU."),
    ] = None
