"""Whether a model resolves the radius at which an attack samples: what engine/resolution.py found.

Results and stores keep a `Resolution`, so it is plain data and does not need torch.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple, Protocol

UNRESOLVED = "the model does not resolve"
"""Start of the warning about a radius that is too small."""


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
    where: str = ""
    """The precision or grid that rounds, such as "in TF32"; empty if unknown."""
    remedy: str = ""
    """What to do other than to change the setting."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warning for the result, if there is one."""
        return (self._sentence(),) if self.found is Found.UNRESOLVED else ()

    def _sentence(self, count: str = "") -> str:
        what = " ".join(filter(None, (f"{self.setting} = {self.value:g}", self.where, count)))
        setting = f"set {self.setting} to at least {self.smallest:g}"
        remedies = ", or ".join(filter(None, (setting, self.remedy)))
        return f"{UNRESOLVED} {what}: rounding hides what the attack samples; {remedies}"


UNKNOWN = Resolution()


class Run(Protocol):
    """A result, or the record of one."""

    @property
    def warnings(self) -> tuple[str, ...]: ...

    @property
    def resolution(self) -> Resolution: ...


def warnings_of(runs: Iterable[Run]) -> list[str]:
    """Return the warnings of many runs, each once; see also `unresolved`."""
    known = list(runs)
    texts = {text for run in known for text in run.warnings if text not in run.resolution.warnings}
    return sorted(texts) + unresolved(known)


def unresolved(runs: Iterable[Run]) -> list[str]:
    """Return a warning for each setting, value and precision that some of these runs had, and that
    the model does not resolve."""
    groups: dict[tuple[str, float], list[Resolution]] = {}
    for run in runs:
        groups.setdefault(run.resolution[1:3], []).append(run.resolution)
    sentences = []
    for group in groups.values():
        wrong = [each for each in group if each.found is Found.UNRESOLVED]
        for where in dict.fromkeys(each.where for each in wrong):
            own = [each for each in wrong if each.where == where]
            worst = max(own, key=lambda each: each.smallest)
            sentences.append(worst._sentence(f"in {len(own)} of {len(group)} runs"))
    return sentences
