"""Whether a model resolves the radius at which an attack samples: what engine/resolution.py found.

Results and stores keep a `Resolution`, so it is plain data and does not need torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Any, NamedTuple

UNRESOLVED = "the model does not resolve"
"""Start of the warning about a radius that is too small."""
LOWER_PRECISIONS = ("TF32", "bfloat16", "float16")


class Found(StrEnum):
    """The outcome of the check."""

    RESOLVED = "resolved"
    UNRESOLVED = "not resolved"
    NOT_CHECKED = "not checked"
    NO_RADIUS = "no fixed radius"


class Resolution(NamedTuple):
    """What the check found at one image."""

    found: Found = Found.NOT_CHECKED
    setting: str = ""
    """The setting that determines the radius, such as `estimate.delta`."""
    value: float = 0.0
    smallest: float = 0.0
    """The smallest value that the model resolves, if it does not resolve `value`."""
    precision: str = ""
    """What the model computes in, such as TF32 or 8-bit images, if it is known."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warning for the result, if there is one."""
        return (self._sentence(),) if self.found is Found.UNRESOLVED else ()

    def _sentence(self, count: str = "") -> str:
        rounds = f" in {self.precision}" if self.precision else ""
        what = f"{self.setting} = {self.value:g}{rounds}{count}: rounding hides steps this small"
        other = ", or run the model in float32" if self.precision in LOWER_PRECISIONS else ""
        return f"{UNRESOLVED} {what}; set {self.setting} to at least {self.smallest:g}{other}"


UNKNOWN = Resolution()


def warnings_of(runs: Iterable[Any], owner: Callable[[Any], str] = lambda _: "") -> list[str]:
    """Return the warnings of results, or of records of results, each once; see `unresolved`."""
    known = list(runs)
    texts = {text for run in known for text in run.warnings if text not in run.resolution.warnings}
    return sorted(texts) + unresolved(known, owner)


def unresolved(runs: Iterable[Any], owner: Callable[[Any], str] = lambda _: "") -> list[str]:
    """Return a warning for each setting, value and precision that the model does not resolve in at
    least half of the runs in which this was checked: the median distance then suffers. Runs are
    counted by their `owner`, words for the attack and the model, if there are several."""
    groups: dict[tuple[Any, ...], list[Resolution]] = {}
    for run in runs:
        each: Resolution = run.resolution
        if each.found in (Found.RESOLVED, Found.UNRESOLVED):
            key = owner(run), each.setting, each.value, each.precision
            groups.setdefault(key, []).append(each)
    sentences = []
    for (name, *_), group in groups.items():
        lost = [each for each in group if each.found is Found.UNRESOLVED]
        if 2 * len(lost) >= len(group):
            worst = max(lost, key=lambda each: each.smallest)
            sentences.append(worst._sentence(f" ({len(lost)} of {len(group)} runs{name})"))
    return sentences
