"""Exactness: what the answer for a row depends on, besides the row itself.

The model check looks for dependences with a few probes: those that it finds are real, but others
may exist. Comparing labels reveals little, since labels rarely change. Results and stores keep an
`Exactness`, so it is plain data and does not need torch.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from .resolution import UNRESOLVED

WITHOUT_GRAPHS = "the network runs without CUDA graphs"
"""Start of the warning about a network that cannot be recorded: the check has run it so as well."""


class Seen(StrEnum):
    """The outputs that the check compared, or the reason why it compared none."""

    LOGITS = "logits"
    LABELS = "labels"
    NOT_CHECKED = "not checked"
    METERED = "metered"
    FAILED = "failed"
    NOT_KNOWN = "not known"


REASONS = {
    Seen.NOT_CHECKED: "Not checked",
    Seen.METERED: "Not probed, since each row of a metered model is a query",
    Seen.FAILED: "Not known, since the model failed when it was checked",
    Seen.NOT_KNOWN: "Not known",
}


@dataclass(frozen=True)
class Exactness:
    """The dependences found for a model in one precision and layout, at certain batch shapes."""

    seen: Seen = Seen.NOT_CHECKED
    matters: tuple[str, ...] = ()
    """Dependences of a row, such as "its place in the batch"."""
    shapes: tuple[int, ...] = ()
    """Batch sizes that were checked, in ascending order."""
    layout: str = ""
    precision: str = ""
    digest: str = ""
    """Digest of the model's answers to the probes; an exact study compares it when it resumes."""
    ended: str = ""
    """Reasons why the run did not stay exact; empty if there are none."""

    @property
    def known(self) -> bool:
        return self.seen in (Seen.LOGITS, Seen.LABELS)

    @property
    def exact(self) -> bool:
        """Whether no dependence was found in any batch of the run."""
        return self.known and not self.matters and not self.ended

    @property
    def sentence(self) -> str:
        if not self.known:
            return f"{REASONS[self.seen]}: repeated runs may or may not agree bit for bit."
        by = ", compared by labels only" if self.seen is Seen.LABELS else ""
        batches = " to ".join(map(str, dict.fromkeys((self.shapes[0], self.shapes[-1]))))
        layout = f", {self.layout}" if self.layout else ""
        where = f"in batches of {batches} ({self.precision}{layout})"
        if self.matters:
            found = f"a row's {self.seen} depend on {listed(self.matters)}, {where}"
            return f"Repeated runs may differ in the last digits or more: {found}."
        found = f"a row's {self.seen} depend on nothing but the row, {where}"
        if self.ended:
            return f"Exact{by} at first only: {found}. What ended it: {self.ended}."
        return f"Exact{by}: {found}."

    def after(self, warnings: Iterable[str]) -> Exactness:
        """Return the exactness of a run whose results have these warnings. Any of them, except the
        `harmless` ones, means that it did not stay exact: batches became smaller, or an answer
        changed when repeated."""
        harmless = WITHOUT_GRAPHS, UNRESOLVED
        texts = sorted({text for text in warnings if not text.startswith(harmless)})
        return replace(self, ended="; ".join(texts)) if self.known and texts else self


NOT_CHECKED = Exactness()


def listed(words: Iterable[str]) -> str:
    """Return words joined as in "a, b and c"."""
    known = list(words)
    return " and ".join(filter(None, (", ".join(known[:-1]), *known[-1:])))
