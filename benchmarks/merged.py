"""A table whose parts are joined (`joining.py`), read: medians in the form of the paper's Table 1,
paired ratios, curves, and ends other than the usual one, all as markdown.

1. A column is a price with its budget (or a price and a number of flagged queries). Its medians are
   over the images that are known in every row of the column, so that rows are paired: all but those
   that an error or the clock cut short, or that the model misclassifies. Others are counted below.
2. No adversarial point counts as an infinite distance.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Any, NamedTuple

import common
import numpy as np
import paired
from published import published

from tollbox.attacks import PRESETS, WITH_SURROGATE, Method
from tollbox.core.metric import Metric
from tollbox.report.ranking import cap_in, distance_ratio

USUAL = ("budget", "max_queries")
MISCLASSIFIED = "already_misclassified"


class Row(NamedTuple):
    """Where a preset stands in the table."""

    family: str
    method: str
    preset: str


class Column(NamedTuple):
    """A price, a budget, and where distances are read."""

    price: float
    budget: float
    mark: float


def row_of(preset: str) -> Row:
    """The family and the method of a preset; a name that is no preset stands alone."""
    known = {**PRESETS, **WITH_SURROGATE}.get(preset)
    return Row(preset, "", preset) if known is None else Row(known.family, known.words, preset)


def _place(row: Row) -> tuple[int, int, str]:
    families, methods = list(dict.fromkeys(p.family for p in PRESETS.values())), list(Method)
    known = PRESETS.get(row.preset)
    if known is None:
        return len(families), len(methods), row.preset
    return families.index(known.family), methods.index(known.method), row.preset


def of_sets(report: dict[str, Any], size: int, draws: int = 20_000) -> str:
    """How much a median over `size` images depends on which they are: its 95 % range over sets
    drawn from all images, for every preset, price and mark."""
    body = []
    for entry in report["entries"]:
        for mark, listed in entry["at"].items():
            values = np.array([math.inf if v is None else v for v in listed])
            rng = np.random.default_rng(0)
            drawn = np.argsort(rng.random((draws, len(values))), axis=1)[:, :size]
            low, high = np.percentile(np.median(values[drawn], axis=1), [2.5, 97.5])
            cells = [entry["preset"], f"{entry['price']:g}", thousands(float(mark))]
            body.append([*cells, f"{np.median(values):.2f}", f"[{low:.2f}, {high:.2f}]"])
    whole = len(report["settings"]["images"])
    return grid(["preset", "c*", "at", f"median of {whole}", f"of {size}, 95 % range"], body)


def thousands(value: float) -> str:
    return f"{value / 1000:g}K" if value >= 1000 else f"{value:g}"


def line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def grid(head: list[str], body: list[list[str]]) -> str:
    return "\n".join([line(head), "|" + "---|" * len(head), *map(line, body)])


def _judged(theirs: float, ours: paired.Ratio) -> list[str]:
    """The paper's number and ours with its interval, an asterisk where the first is outside."""
    inside = ours.low <= theirs <= ours.high
    return [paired.told(theirs), f"{ours}{'' if inside else ' *'}"]


class Table:
    """A report, read."""

    def __init__(self, report: dict[str, Any]) -> None:
        self._settings, self._parts = report["settings"], report["parts"]
        self._entries = {(e["preset"], e["price"], e["budget"]): e for e in report["entries"]}
        self.rows = sorted({row_of(preset) for preset, _, _ in self._entries}, key=_place)
        self._runs = sorted({(price, budget) for _, price, budget in self._entries})
        self._by_source = self._settings["by"] == "source"
        self._steps = 255.0 if self._settings.get("norm") == "linf" else 1.0
        """Distances in l∞ are shown in steps of 8 bits."""

    def ran(self, price: float) -> set[str]:
        """The presets that were run at a price."""
        return {preset for preset, at, _ in self._entries if at == price}

    def marks(self, price: float, budget: float, some: bool = False) -> list[float]:
        """The marks that all entries of a price and budget have, or some of them."""
        have = [set(e["at"]) for (_, p, b), e in self._entries.items() if (p, b) == (price, budget)]
        return sorted(float(mark) for mark in (set.union if some else set.intersection)(*have))

    @property
    def columns(self) -> list[Column]:
        """The table's columns: whole budgets, or all numbers of flagged queries."""
        return [
            Column(price, budget, mark)
            for price, budget in self._runs
            for mark in (self.marks(price, budget) if self._by_source else [budget])
        ]

    def _kept(self, column: Column) -> list[int]:
        """The images that are known in every row of a column."""
        lost: set[int] = set()
        for (_, price, budget), entry in self._entries.items():
            if (price, budget) == (column.price, column.budget):
                cut = entry["cut"].items()
                lost |= {int(n) for n, (_, known) in cut if (known or 0) < column.mark}
                lost |= {n for n, stop in enumerate(entry["stop"]) if stop == MISCLASSIFIED}
        return [n for n in range(len(self._settings["images"])) if n not in lost]

    def values(self, preset: str, column: Column) -> paired.Values | None:
        """Distances over the kept images; None if the preset was not run or not read there."""
        entry = self._entries.get((preset, column.price, column.budget))
        at = {} if entry is None else {float(mark): values for mark, values in entry["at"].items()}
        found = at.get(column.mark)
        if found is None:
            return None
        kept = [found[number] for number in self._kept(column)]
        return np.array([math.inf if value is None else self._steps * value for value in kept])

    def _title(self, column: Column) -> str:
        unit = " flagged" if self._by_source else ""
        return f"c*={column.price:g}, {thousands(column.mark)}{unit}"

    def _told(self, values: paired.Values | None, best: float = math.nan) -> str:
        if values is None or len(values) == 0:
            return "–"
        median, share = paired.median(values), paired.success(values)
        text = paired.told(median)
        if math.isfinite(median) and text == paired.told(best):
            text = f"**{text}**"
        return text if share == 1 else f"{text} ({100 * share:.0f} %)"

    def medians(self) -> str:
        """Table 1: the best of each attack's variants in bold, success rates below 100 % beside."""
        body = []
        for row in self.rows:
            cells = []
            for column in self.columns:
                family = [self.values(r.preset, column) for r in self.rows if r[0] == row.family]
                medians = [paired.median(values) for values in family if values is not None]
                best = min(medians, default=math.nan) if len(medians) > 1 else math.nan
                cells.append(self._told(self.values(row.preset, column), best))
            body.append([row.family, row.method, *cells])
        return grid(["attack", "method", *map(self._title, self.columns)], body)

    def within(self, steps: float = 8.0) -> str:
        """Shares of images that come within so many steps of 8 bits, for l∞."""
        body = [
            [row.family, row.method, *(self._share(row.preset, c, steps) for c in self.columns)]
            for row in self.rows
        ]
        return grid(["attack", "method", *map(self._title, self.columns)], body)

    def _share(self, preset: str, column: Column, steps: float) -> str:
        values = self.values(preset, column)
        return "–" if values is None else f"{np.mean(values <= steps):.2f}"

    def ratios(self) -> str:
        """Each variant's median over that of its family's first row, paired."""
        body = []
        for family in dict.fromkeys(row.family for row in self.rows):
            base, *variants = [row for row in self.rows if row.family == family]
            for row in variants:
                cells = []
                for column in self.columns:
                    ours, theirs = (self.values(r.preset, column) for r in (row, base))
                    if ours is None or theirs is None:
                        cells.append("–")
                    else:
                        cells.append(str(paired.ratio(ours, theirs)))
                body.append([family, f"{row.method} / {base.method}", *cells])
        return grid(["attack", "ratio", *map(self._title, self.columns)], body)

    def beside_the_paper(self) -> str:
        """At the paper's budgets: its median and ours with an interval; its ratio to the family's
        first row and ours; an asterisk where the paper's lies outside of our interval."""
        blocks = []
        for column in self.columns:
            body = []
            for row in self.rows:
                base = next(r.preset for r in self.rows if r.family == row.family)
                theirs, first = (
                    published(preset, column.price, column.budget) for preset in (row.preset, base)
                )
                ours, ours_first = (self.values(preset, column) for preset in (row.preset, base))
                if theirs is None or first is None or ours is None or ours_first is None:
                    continue
                cells = _judged(theirs, paired.ratio(ours, np.ones(len(ours))))
                if row.preset != base:
                    cells += _judged(theirs / first, paired.ratio(ours, ours_first))
                body.append([row.family, row.method, *cells, *[""] * (4 - len(cells))])
            if body:
                head = ["attack", "method", "paper", "here", "paper, to the first", "here"]
                blocks.append(f"{self._title(column)}:\n\n" + grid(head, body))
        return "\n\n".join(blocks)

    def curves(self, presets: list[str]) -> str:
        """Medians of some presets at all marks, with intervals where all have a start."""
        blocks = []
        for price, budget in self._runs:
            columns = [Column(price, budget, mark) for mark in self.marks(price, budget, some=True)]
            body = [[p, *(self._spread(self.values(p, c)) for c in columns)] for p in presets]
            blocks.append(grid(["preset", *map(self._title, columns)], body))
        return "\n\n".join(blocks)

    def adbd(self, presets: list[str]) -> str:
        """Means of some presets at all marks: RayS's average decision boundary distance, of images
        that are classified correctly."""
        blocks = []
        for price, budget in self._runs:
            columns = [Column(price, budget, mark) for mark in self.marks(price, budget, some=True)]
            rows = [(p, [self.values(p, column) for column in columns]) for p in presets]
            body = [
                [p, *("–" if v is None else f"{float(np.mean(v)) / 255:.4f}" for v in values)]
                for p, values in rows
            ]
            blocks.append(grid(["preset", *map(self._title, columns)], body))
        return "\n\n".join(blocks)

    def against(self, base: str) -> str:
        """The median of every row over that of one of them, at all marks, paired by image."""
        blocks = []
        for price, budget in self._runs:
            columns = [Column(price, budget, mark) for mark in self.marks(price, budget)]
            body = []
            for row in self.rows:
                pairs = [(self.values(row.preset, c), self.values(base, c)) for c in columns]
                if any(ours is None for ours, _ in pairs) or row.preset == base:
                    continue
                cells = [
                    "–" if theirs is None or ours is None else str(paired.ratio(ours, theirs))
                    for ours, theirs in pairs
                ]
                body.append([row.preset, *cells])
            blocks.append(grid([f"/ {base}", *map(self._title, columns)], body))
        return "\n\n".join(blocks)

    def reached(self, base: str) -> str:
        """The first mark at which each row's median is at most that of a preset at the largest
        budget of the price."""
        body = []
        for price in sorted({price for price, _ in self._runs}):
            budget = max(b for preset, p, b in self._entries if (preset, p) == (base, price))
            wanted = self._median(base, Column(price, budget, budget))
            body.append([f"{price:g}", thousands(budget), paired.told(wanted)])
            for row in self.rows:
                columns = [
                    Column(*at[1:], float(mark))
                    for at, entry in self._entries.items()
                    for mark in (entry["at"] if at[:2] == (row.preset, price) else ())
                ]
                near = [c.mark for c in columns if self._median(row.preset, c) <= wanted]
                body[-1].append(thousands(min(near)) if near else "–")
        return grid(["c*", "budget", base, *(row.preset for row in self.rows)], body)

    def _median(self, preset: str, column: Column) -> float:
        values = self.values(preset, column)
        return math.inf if values is None else paired.median(values)

    def ranking(self, base: str) -> str:
        """G of every row at every price, beside a preset."""
        runs = [run for run in self._runs if (base, *run) in self._entries]
        if not runs:
            return ""
        found = self.rankings(base)
        head = ["G", *(f"c*={p:g}, {self._range(p, b)}" for p, b in runs)]
        body = [
            [row.preset, *(found.get((row.preset, p), "–") for p, _ in runs)] for row in self.rows
        ]
        return grid(head, body)

    def rankings(self, base: str) -> dict[tuple[str, float], str]:
        """G by preset and price, where it and the base were run, with an interval that draws images
        (`tollbox.report.ranking`). Marks should be equal ratios apart. As in a report, no
        adversarial point yet counts as half of the range in every pixel, so that no third row has a
        part."""
        found = {}
        linf = self._settings.get("norm") == "linf"
        cap = cap_in(Metric.LINF if linf else Metric.L2, common.SIZES[self._settings["net"]])
        for price, budget in self._runs:
            if (base, price, budget) not in self._entries:
                continue
            columns = [Column(price, budget, mark) for mark in self.marks(price, budget)]
            kept = min((self._kept(column) for column in columns), key=len)
            distances = {}
            for row in self.rows:
                entry = self._entries.get((row.preset, price, budget))
                if entry is not None:
                    at = {float(mark): values for mark, values in entry["at"].items()}
                    values = np.array([[at[c.mark][n] for n in kept] for c in columns], float).T
                    distances[row.preset] = np.nan_to_num(values, nan=math.inf)
            for preset, ours in distances.items():
                gain = distance_ratio(ours, distances[base], np.array(kept), cap)
                found[preset, price] = str(paired.Ratio(gain.value, gain.low, gain.high))
        return found

    def _range(self, price: float, budget: float) -> str:
        marks = self.marks(price, budget)
        return f"{thousands(marks[0])} to {thousands(marks[-1])}"

    def _spread(self, values: Any) -> str:
        if values is None or not np.isfinite(values).all():
            return self._told(values)
        return str(paired.ratio(values, np.ones(len(values))))

    def ends(self) -> str:
        """Ends other than the budget or the cap on queries, and images left out."""
        lines = []
        for (preset, price, _), entry in self._entries.items():
            odd = Counter(stop for stop in entry["stop"] if stop not in USUAL)
            if odd:
                told = ", ".join(f"{count} {stop}" for stop, count in sorted(odd.items()))
                lines.append(f"- {preset}, c*={price:g}: {told}")
        for column in self.columns:
            lost = len(self._settings["images"]) - len(self._kept(column))
            if lost:
                lines.append(f"- {self._title(column)}: {lost} images left out of the column")
        return "\n".join(lines) or "- none"

    def markdown(
        self,
        curves: list[str],
        against: str | None = None,
        paper: bool = False,
        ranking: str | None = None,
    ) -> str:
        """All of it."""
        s = self._settings
        devices = sorted({f"{part['device']}, torch {part['torch']}" for part in self._parts})
        what = (
            f"{s['net']}, {len(s['images'])} images, delta {s['delta'] or 'as published'}, "
            f"{'TF32' if s['tf32'] else 'fp32'}, seed {s['seed']}; {'; '.join(devices)}."
            + (f" Images of {s['quantize']} bits a pixel." if s.get("quantize") else "")
        )
        unit = "l2 distance" if self._steps == 1.0 else "l∞ distance, in 1/255"
        cap = "" if s["max_queries"] is None else f" At most {s['max_queries']} queries an image."
        blocks = [
            f"Median {unit}. {what}{cap} No adversarial point counts as infinite; the share "
            "of images with one is given where it is below 100 %.",
            self.medians(),
            "Ratio of medians with a 95 % interval (bootstrap, paired by image); below 1 the "
            "variant is nearer.",
            self.ratios(),
        ]
        if self._steps != 1.0:
            blocks += ["Share of images within 8/255.", self.within()]
        if paper:
            blocks += [
                "Beside the paper's Table 1 (medians over 500 images): medians and their ratios to "
                "the first row of the family, ours with 95 % intervals; * where the paper's number "
                "lies outside.",
                self.beside_the_paper() or "No column has the paper's budget.",
            ]
        if curves:
            blocks += ["Medians at smaller costs.", self.curves(curves)]
        if curves and self._steps != 1.0:
            blocks += ["Means, in units of the range (ADBD).", self.adbd(curves)]
        if against is not None:
            blocks += [f"Ratio of medians to that of `{against}`, paired.", self.against(against)]
        if ranking is not None:
            blocks += [
                f"G, the distance beside that of `{ranking}`: geometric mean over images and marks "
                "(no adversarial point yet: half of the range in every pixel).",
                self.ranking(ranking),
            ]
        commands = "\n".join(part["command"] for part in self._parts)
        blocks += ["Other ends of runs:", self.ends(), f"Made by:\n\n```\n{commands}\n```"]
        return "\n\n".join(blocks)
