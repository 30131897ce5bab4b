"""What a study is made of, each as its file has it, checked; nothing is loaded yet.

`of` makes each from what a user writes, with what is left out filled in.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...attacks import Preset, described
from ...core.cell import check_limits
from ...core.goal import Goal
from ...core.limits import Limits
from ...core.prices import Prices
from ...core.problem import Attack
from ...errors import InputError
from ...files.functions import is_function
from ...files.price_tables import COLUMNS, prices_from
from ...files.resizing import Resizing
from ...files.starts import check_goal
from ...files.tables import kind_of
from ...models.registry import is_model_name, located, short_name


@dataclass(frozen=True)
class ImagesSpec:
    """Which images: all of a folder, an `.npz` or a function, or some of them, in an order."""

    path: Path
    """For a function, its name."""
    labels: Path | None = None
    limit: int | None = None
    """The first so many, of the list if there is one."""
    listed: Path | None = None
    """A file of content hashes: just these images, in this order."""
    digest: str | None = None
    """What `images_digest` gives for the images that are meant."""
    function: str | None = None
    """module:function, which gives them."""
    correct_only: bool = False
    """For each model those that it classifies correctly; the limit is then the first so many of
    these."""
    resizing: Resizing | None = None
    """How pictures get the size that the models take."""
    names: Path | None = None
    """A file with the names of the classes, and prompts for CLIP."""

    @classmethod
    def of(cls, source: str, *, folder: Path = Path(), **settings: Any) -> ImagesSpec:
        """A folder or file, relative to `folder`, or module:function; `settings` are the other
        fields."""
        path = folder / source
        if is_function(source) and kind_of(path, source, input="images") == "nothing":
            return cls(Path(source), function=source, **settings)
        return cls(path, **settings)


@dataclass(frozen=True)
class ModelSpec:
    """One model."""

    name: str
    source: str
    """As the file has it."""
    resolved: str
    """A path that is good from the current folder, or a name; likewise a path in that."""
    mean: tuple[float, ...] | None = None
    """One number, or one per channel."""
    std: tuple[float, ...] | None = None
    quantize: int | None = None
    dtype: str | None = None
    """What the network computes in; None: as its weights are."""
    channels_last: bool | None = None
    """None: whichever is faster."""
    compile: bool = False
    cuda_graphs: bool = False
    tf32: bool | None = None
    """None: torch's own setting."""

    @classmethod
    def of(
        cls, source: str, *, folder: Path = Path(), name: str = "", **settings: Any
    ) -> ModelSpec:
        """A file, relative to `folder`, or a name; called like it unless given a name of its own.

        `settings` are the other fields.
        """
        file = _file(source, folder, "model")
        usual = short_name(source) if file is None else file.stem
        return cls(name or usual, source, _resolved(source, file, folder), **settings)


def _file(source: str, folder: Path, input: str) -> Path | None:
    """The file that a source means; None if it is a name. `input` is what gives it."""
    path = folder / source
    named = is_model_name(source) and kind_of(path, source, input=input) == "nothing"
    return None if named else path


def _resolved(source: str, file: Path | None, folder: Path) -> str:
    """A source that is good from the current folder."""
    if file is None:
        return located(source, folder)
    return str(file) if source.strip() else source


@dataclass(frozen=True)
class SurrogateSpec:
    """Networks of the user's own, to whose gradients an attack may turn."""

    sources: tuple[str, ...]
    """As the file has them."""
    resolved: tuple[str, ...]
    """Each as that of a model."""
    mean: tuple[float, ...] | None = None
    """One number, or one per channel; for all of them."""
    std: tuple[float, ...] | None = None

    @classmethod
    def of(
        cls,
        *sources: str,
        folder: Path = Path(),
        mean: tuple[float, ...] | None = None,
        std: tuple[float, ...] | None = None,
    ) -> SurrogateSpec:
        """Files, relative to `folder`, or names."""
        resolved = (_resolved(one, _file(one, folder, "surrogate"), folder) for one in sources)
        return cls(sources, tuple(resolved), mean, std)


@dataclass(frozen=True)
class AttackSpec:
    """One attack: a preset, with some of its fields changed."""

    name: str
    preset: str
    attack: Attack
    """Without its surrogate, which is not loaded yet."""
    overrides: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """The changed fields, as the file has them."""
    surrogate: SurrogateSpec | None = None

    @classmethod
    def of(cls, name: str, surrogate: SurrogateSpec | None = None) -> AttackSpec:
        """A preset as it is."""
        preset = described(name.lower(), surrogate is not None)
        return cls(preset.name, preset.name, preset.attack, surrogate=surrogate)

    @property
    def described(self) -> Preset:
        """What is known of its preset."""
        return described(self.preset, self.surrogate is not None)


PRICE = f"a number that is 0 or more, inf, or the path of a CSV {COLUMNS}"


@dataclass(frozen=True)
class Tariff:
    """One price, with what an image may cost and take under it; infinite where not limited."""

    name: str
    prices: Prices
    budget: float
    max_queries: float
    file: Path | None = None
    """The CSV with the prices, if they are from one."""
    max_flagged: float = math.inf

    def __post_init__(self) -> None:
        check_limits(self.prices, *self.limits[:3])

    @property
    def limits(self) -> Limits:
        """What a run under it may cost and take."""
        return Limits(self.budget, self.max_queries, self.max_flagged)

    @classmethod
    def of(
        cls,
        price: float | str,
        *,
        budget: float = math.inf,
        max_queries: float = math.inf,
        max_flagged: float = math.inf,
        name: str = "",
        folder: Path = Path(),
    ) -> Tariff:
        """c*, or a CSV of prices relative to `folder`; called like it unless given a name."""
        if isinstance(price, str):
            file = folder / price
            text = str(file) if price.strip() else price
            prices = prices_from(text)
            return cls(name or file.stem, prices, budget, max_queries, file, max_flagged)
        if not price >= 0:
            raise InputError(f"is {price:g}", expected=PRICE, input="price")
        prices = Prices.flagged_only() if math.isinf(price) else Prices(source=price)
        return cls(name or f"{price:g}", prices, budget, max_queries, None, max_flagged)


@dataclass(frozen=True)
class GoalSpec:
    """The class to reach (None: any that is not flagged), the image, or images, to begin from, the
    classes that are flagged (None: the source class), and the pixels that may change."""

    target: int | None = None
    start: Path | None = None
    flagged: frozenset[int] | None = None
    flagged_file: Path | None = None
    """Where those are from, if they are from a file."""
    mask: Path | None = None
    """A picture, or a folder with one for each image: white may change."""

    def __post_init__(self) -> None:
        check_goal(self.target, self.start)
        self.goal  # noqa: B018  refuses what is wrong with it

    @property
    def goal(self) -> Goal:
        """What is flagged, and what adversarial."""
        return Goal(self.flagged, self.target)

    def for_label(self, label: int) -> Goal:
        """The goal for an image of that class."""
        return self.goal.for_label(label)
