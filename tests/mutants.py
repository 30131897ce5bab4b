"""Break the engine, the ledger, the parts of `frugal` and the paper's mathematics on purpose, line
by line: for each break a test must fail.

    make mutants
    python tests/mutants.py WORDS       those whose names have these words

A mutant is one replacement in one file of a copy of the package. It is caught if its tests fail on
it: for the paper's mathematics those that docs/paper.md names for what is broken, and no others.
Ends with exit code 1 if one survives, or if a line that it breaks is no longer there.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
TESTS = (
    "tests/unit/test_noise.py",
    "tests/properties/test_settling.py",
    "tests/properties/test_rules.py",
    "tests/unit/test_prices.py",
    "tests/unit/test_parts.py",
    "tests/properties/test_engine.py",
    "tests/properties/test_mixtures.py",
    "tests/properties/test_journal.py",
)
OWN = ["tests/unit/test_overshoot.py", "tests/unit/test_turns.py", "tests/unit/test_ray_start.py"]
"""For the parts of `frugal`."""
GUARDS = [
    "tests/properties/test_known_boundaries.py::" + name
    for name in (
        "test_nothing_but_the_schedule_keeps_agrest_from_a_boundary",
        "test_agrest_has_as_many_flagged_answers_as_the_closed_form_says",
    )
]
"""For AGREST in whole runs, whatever the record of misses allows there."""


WATCHING = ["tests/properties/test_watching.py", "tests/properties/test_rules.py"]
"""For detectors and their alarms."""


def named(entry: str) -> list[str]:
    """The tests that docs/paper.md names in its entry of that name."""
    rows = (ROOT / "docs" / "paper.md").read_text().splitlines()
    [row] = [row for row in rows if row.startswith(f"| {entry} |")]
    found = re.findall(r"`(test_\w+\.py)::(test_\w+)`", row)
    return [f"{path.relative_to(ROOT)}::{test}" for file, test in found for path in _files(file)]


def _files(name: str) -> list[Path]:
    return [*(ROOT / "tests").glob(f"*/{name}")]


@dataclass(frozen=True)
class Mutant:
    name: str
    file: str
    old: str
    new: str
    tests: Sequence[str] = TESTS
    """Those that are to fail."""


RECORD = (
    "        if self._journal is not None and (recorded or not batch.recalled):\n"
    "            self._journal.record(recorded)\n"
)
ADVANCE = "        for cell_run in concerned.values():\n            self._advance(cell_run)\n"

MUTANTS = [
    Mutant(
        "growing price: of the last flagged answer, not of the next",
        "core/prices.py",
        "place + 1, side",
        "place, side",
        ["tests/unit/test_escalation.py"],
    ),
    Mutant(
        "growing price: begins again one too late",
        "core/prices.py",
        "rounds, rest = np.divmod(count, self.again - 1)",
        "rounds, rest = np.divmod(count, self.again)",
        ["tests/unit/test_escalation.py"],
    ),
    Mutant(
        "growing price: the most expensive next answer is the first flagged one",
        "core/prices.py",
        "return np.maximum(self.escalation.price(flagged), self.other)",
        "return np.maximum(self.escalation.price(0 * flagged), self.other)",
        ["tests/properties/test_rules.py", "tests/unit/test_escalation.py"],
    ),
    Mutant(
        "growing price: a metered model's worst case is that all are flagged",
        "core/prices.py",
        "return float(np.max((spent",
        "return float((lambda found: found[-1])((spent",
        ["tests/unit/test_escalation.py"],
    ),
    Mutant(
        "prefix: a cut ask is charged whole",
        "engine/settling.py",
        "account.ledger.charge(charged.labels, pending.ask.phase, alarm_count)",
        "account.ledger.charge(labels, pending.ask.phase)",
    ),
    Mutant(
        "prefix: a cut ask is not charged at all",
        "engine/settling.py",
        "account.ledger.charge(charged.labels, pending.ask.phase, alarm_count)",
        "account.ledger.charge(labels if rows == len(labels) else labels[:0], pending.ask.phase)",
    ),
    Mutant(
        "prefix: the attack is resumed after the budget ended",
        "engine/settling.py",
        "        failure, complete = None, False\n",
        "        failure = None\n",
    ),
    Mutant(
        "until: the run goes on after its answer",
        "engine/pending.py",
        "self.end = first + int(hits.argmax()) + 1",
        "self.end = None",
    ),
    Mutant(
        "until: ends one row early",
        "engine/pending.py",
        "self.end = first + int(hits.argmax()) + 1",
        "self.end = max(1, first + int(hits.argmax()))",
    ),
    Mutant(
        "until: waits for the other answer",
        "engine/pending.py",
        "if until is Until.ADVERSARIAL else",
        "if until is Until.NOT_ADVERSARIAL else",
    ),
    Mutant(
        "highest price: only the cheapest answer must fit",
        "core/ledger.py",
        "(before.cost + before.highest_next <= limits.budget)",
        "(before.cost + self.prices.cheapest <= limits.budget)",
    ),
    Mutant(
        "highest price: the next ask is not looked at",
        "core/ledger.py",
        "if self.cost + self.highest_next > limits.budget:",
        "if self.cost >= limits.budget:",
    ),
    Mutant(
        "goal: a label of the set is counted as other",
        "core/goal.py",
        "        return np.isin(labels, self._labels)\n",
        "        return np.equal(labels, self._labels[0])\n",
    ),
    Mutant(
        "goal: a clean answer must be the label",
        "engine/cell_run.py",
        "if not self.problem.goal.flags(label):",
        "if label != self.cell.label:",
    ),
    Mutant(
        "mask: it is not applied when points are sent",
        "engine/sender.py",
        "            batch = batch.index_copy(0, rows, inside)\n",
        "",
    ),
    Mutant(
        "mask: a slot keeps the mask of the cell before",
        "engine/sender.py",
        "        self._masks.pop(slot, None)\n",
        "",
    ),
    Mutant(
        "mask: the best point is reported as it was asked for",
        "engine/cell_run.py",
        "return self._model.sent(self.problem.within_mask(best.clone()))[0]",
        "return self._model.sent(best.clone())[0]",
    ),
    Mutant(
        "mask: directions are drawn everywhere",
        "parts/subspaces.py",
        "    if problem.mask is None:\n        return drawing\n",
        "    return drawing\n",
        ["tests/unit/test_masks.py"],
    ),
    Mutant(
        "double charge",
        "engine/settling.py",
        "account.ledger.charge(charged.labels, pending.ask.phase, alarm_count)",
        "account.ledger.charge(charged.labels, pending.ask.phase, alarm_count)\n"
        "        account.ledger.charge(labels[:1], pending.ask.phase)",
    ),
    Mutant(
        "padding delivered and charged",
        "engine/batch.py",
        "                decided = labels[first:end]\n",
        "                decided = labels[end - 1 :]\n",
    ),
    Mutant(
        "padding sent to a metered model",
        "engine/sender.py",
        "        if self.metered:\n            return rows\n",
        "",
    ),
    Mutant(
        "metered: rows that may not be affordable are sent",
        "engine/pending.py",
        "prices.worst_before_last(tally, ahead + rows, added)",
        "prices.worst_before_last(tally, ahead + 1, added)",
    ),
    Mutant(
        "order: rows of a batch are mixed up",
        "engine/batch.py",
        "            first = last\n",
        "            first = 0\n",
    ),
    Mutant(
        "durable: answers are delivered before they are recorded",
        "engine/engine.py",
        RECORD + ADVANCE,
        ADVANCE + RECORD,
    ),
    Mutant(
        "durable: a batch is not recorded",
        "engine/engine.py",
        "recorded = [] if batch.recalled else records(arrived)",
        "recorded = []",
    ),
    Mutant(
        "replay: what the model says now counts",
        "engine/journal.py",
        "return np.concatenate([before, labels[len(before) :]])",
        "return labels",
    ),
    Mutant(
        "replay: another run is not noticed",
        "engine/batch.py",
        "or history.fits(number, span.run_number, span.first, self.distances):",
        "or True:",
    ),
    Mutant(
        "replay: a later record counts",
        "engine/journal.py",
        "fresh = labels[self.rows - first :]",
        "fresh = labels",
    ),
    Mutant(
        "replay: what is known is asked again",
        "engine/journal.py",
        "        return recorded.rows\n\n    def labels",
        "        return 0\n\n    def labels",
    ),
    Mutant(
        "order: runs are charged back to front",
        "engine/settling.py",
        "labels = _concatenated([state.labels[:count] for state, count in states])",
        "labels = _concatenated([state.labels[:count] for state, count in states[::-1]])",
    ),
    Mutant(
        "stream key: the step is left out",
        "core/problem.py",
        'key = f"{self.seed}/{self.content}/{purpose}/{step}"',
        'key = f"{self.seed}/{self.content}/{purpose}"',
    ),
    Mutant(
        "stream key: the content is left out",
        "core/problem.py",
        'key = f"{self.seed}/{self.content}/{purpose}/{step}"',
        'key = f"{self.seed}/{purpose}/{step}"',
    ),
    Mutant(
        "noise: all rows of a stream are the same",
        "core/noise.py",
        "hashed = rows * factor + np.uint32(part % (1 << 32))",
        "hashed = rows * np.uint32(0) + np.uint32(part % (1 << 32))",
    ),
    Mutant(
        "best point not asked: it is kept before it is clipped and rounded",
        "engine/cell_run.py",
        "return self._model.sent(self.problem.within_mask(best.clone()))[0].to(best.dtype)",
        "return self.problem.within_mask(best)[0]",
    ),
    Mutant(
        "best point not asked: rows past the budget count",
        "engine/settling.py",
        "_keep_best(pending, counts, charged, account)\n    if",
        "_keep_best(pending, counts, answered, account)\n    if",
    ),
    Mutant(
        "best point: what was reached before the ask is forgotten",
        "engine/settling.py",
        "before = np.minimum.accumulate(np.concatenate([[account.distance], reached]))[:-1]",
        "before = np.minimum.accumulate(np.concatenate([[math.inf], reached]))[:-1]",
    ),
    Mutant(
        "improvements: without the query that found the point",
        "engine/settling.py",
        "included = better + 1 if account.charging else better",
        "included = better",
    ),
    Mutant(
        "improvements, few rows: without the query that found the point",
        "engine/settling.py",
        "spent = ledger.cost, ledger.flagged, ledger.queries",
        "spent = cost_before, ledger.flagged, ledger.queries - 1",
    ),
    Mutant(
        "retry after out-of-memory: the rows are lost",
        "engine/sender.py",
        "batches += self.send(front, () if batches else extra)",
        "batches += [] if batches else self.send(front, extra)",
    ),
    Mutant(
        "retry after out-of-memory: nothing is said",
        "engine/sender.py",
        "self.memory_warnings.append(",
        "str(",
    ),
    Mutant(
        "label against side: charged by side",
        "core/prices.py",
        "return np.where(goal.is_flagged(labels), low, 1 - low)",
        "return np.where(goal.is_adversarial(labels), 1 - low, low)",
    ),
    Mutant(
        "label against side: answers are flagged if they are not adversarial",
        "core/ask.py",
        "return self.goal.is_flagged(self.labels)",
        "return ~self.adversarial",
    ),
    Mutant(
        "label against side: the goal is any other class",
        "core/goal.py",
        "return np.equal(labels, self.target)",
        "return ~self.is_flagged(labels)",
    ),
    Mutant(
        "distance_at: what was spent, without the most expensive answer",
        "core/result.py",
        "np.asarray(before + (highest + alarm_price))",
        "np.asarray(before)",
        ["tests/unit/test_results.py"],
    ),
    Mutant(
        "bisection: a bad row takes its neighbours along",
        "engine/sender.py",
        "        if rows == 1:\n            failure",
        "        if rows <= 2:\n            failure",
    ),
    Mutant(
        "failure: rows behind a failed one are sent all the same",
        "engine/sender.py",
        "lost = [(span, AFTER_A_FAILURE) for span in back if self._follows(span, failed)]",
        "failed = []\n        lost = []",
    ),
    Mutant(
        "failure: a row that was not affordable fails the cell",
        "engine/cell_run.py",
        "if failure is not None and account.end is None:",
        "if failure is not None:",
    ),
    Mutant(
        "few rows: not charged",
        "engine/settling.py",
        "ledger.charge_one(label, pending.ask.phase)",
        "pass",
    ),
    Mutant(
        "few rows: the best is not kept",
        "engine/settling.py",
        "account.keep(state.run.points, best_row)",
        "pass",
    ),
    Mutant(
        "few rows: the budget is not looked at",
        "engine/settling.py",
        "if count > 1 and (worst > limits.budget or not ledger.leaves_room(count, limits)):",
        "if count > 9 and (worst > limits.budget or not ledger.leaves_room(count, limits)):",
    ),
    Mutant(
        "alarms: not charged",
        "core/ledger.py",
        "self._cost(self._levels) + self.alarms * self.alarm_price",
        "self._cost(self._levels)",
        WATCHING,
    ),
    Mutant(
        "alarms: the next one is not taken to be affordable",
        "core/ledger.py",
        "highest = self.prices.highest_next(before) + self.alarm_price",
        "highest = self.prices.highest_next(before)",
        WATCHING,
    ),
    Mutant(
        "alarms: one too many ends the run",
        "core/ledger.py",
        "& (before.alarms < self.max_alarms)",
        "& (before.alarms <= self.max_alarms)",
        WATCHING,
    ),
    Mutant(
        "alarms: distance_at does not count the next one",
        "core/result.py",
        "return np.asarray(before + (highest + alarm_price))",
        "return np.asarray(before + highest)",
        WATCHING,
    ),
    Mutant(
        "alarms: a metered model is sent rows beyond the last that may be raised",
        "engine/pending.py",
        "return fits and worst < max_alarms",
        "return fits",
        WATCHING,
    ),
    Mutant(
        "alarms: a metered model is sent rows that alarms leave no money for",
        "engine/pending.py",
        "added = worst * alarm_price, alarm_price",
        "added = alarms * alarm_price, alarm_price",
        WATCHING,
    ),
    Mutant(
        "watching: rows past the end are shown",
        "engine/alarms.py",
        "worst = np.append(self.alarms, np.ones(len(labels) - known, np.bool_))",
        "worst = np.append(self.alarms, np.zeros(len(labels) - known, np.bool_))",
        WATCHING,
    ),
    Mutant(
        "watching: an image that is not charged is shown",
        "engine/alarms.py",
        "if self.failure is not None or not account.charging:",
        "if self.failure is not None:",
        WATCHING,
    ),
    Mutant(
        "watching: points are shown as they were asked for, not as sent",
        "engine/alarms.py",
        "return self._model.sent(self._problem.within_mask(points))",
        "return points",
        WATCHING,
    ),
    Mutant(
        "watching: what was recorded does not stand",
        "engine/alarms.py",
        "np.concatenate([self.alarms, before, fresh])",
        "np.concatenate([self.alarms, answers])",
        WATCHING,
    ),
    Mutant(
        "watching: on replay the detector is not shown the rows",
        "engine/alarms.py",
        "self._session(self._points(pending, rows))",
        "self._session(self._points(pending, rows)[-1:].repeat(rows, 1, 1, 1))",
        WATCHING,
    ),
    Mutant(
        "watching: alarms are not recorded",
        "engine/engine.py",
        "recorded += detect(concerned.values())",
        "detect(concerned.values())",
        WATCHING,
    ),
    Mutant(
        "watching: the last alarms are asked again of the model",
        "engine/journal.py",
        "            if answered.run != ALARMS:\n                last",
        "            if True:\n                last",
        WATCHING,
    ),
    Mutant(
        "few rows: the limit on flagged answers is not looked at",
        "core/ledger.py",
        "return limits.max_flagged == math.inf or self.flagged + rows <= limits.max_flagged",
        "return True",
    ),
    Mutant(
        "limit on flagged answers: one more is asked",
        "core/ledger.py",
        "& (before.flagged < limits.max_flagged)",
        "& (before.flagged <= limits.max_flagged)",
    ),
    Mutant(
        "limit on flagged answers: nothing ends at it between two asks",
        "core/ledger.py",
        "if limits.max_flagged != math.inf and self.flagged >= limits.max_flagged:",
        "if limits.max_flagged != math.inf and self.flagged > limits.max_flagged:",
    ),
    Mutant(
        "limit on flagged answers: a metered model is sent rows beyond it",
        "engine/pending.py",
        "share = 1.0 if metered else flagged",
        "share = 0.0 if metered else flagged",
    ),
    Mutant(
        "limit on flagged answers: of runs before this one nothing is counted",
        "engine/pending.py",
        "                flagged += int(",
        "                flagged = int(",
    ),
    Mutant(
        "limit on flagged answers: distance_at goes on beyond it",
        "core/result.py",
        '("source", Stop.MAX_FLAGGED): limits.max_flagged',
        '("source", Stop.MAX_FLAGGED): math.inf',
        ["tests/unit/test_results.py"],
    ),
    Mutant(
        "linear points: the second term is left out",
        "engine/points.py",
        "torch._foreach_add_(longer, torch._foreach_mul(seconds, factors))",
        "pass",
    ),
    Mutant(
        "linear points: written into other rows",
        "engine/sender.py",
        "linear.update(enumerate(terms, first))",
        "linear.update(enumerate(terms[::-1], first))",
    ),
    Mutant(
        "few shapes: batches are not padded",
        "engine/sender.py",
        "return next(shape for shape in self.shapes if shape >= rows)",
        "return rows",
    ),
    Mutant(
        "overshoot: scores of the two answers are swapped",
        "attacks/frugal/overshoot_belief.py",
        "Scores(density / share, density / (1 - share), share)",
        "Scores(density / (1 - share), density / share, share)",
        tests=OWN,
    ),
    Mutant(
        "overshoot: the slack is ignored",
        "attacks/frugal/overshoot_belief.py",
        "bends, variances, min(slack, LARGEST_SLACK))",
        "bends, variances, 0 * slack)",
        tests=OWN,
    ),
    Mutant(
        "overshoot: the belief is not widened",
        "attacks/frugal/overshoot_belief.py",
        "weights, means, squares = powers @ _widening(drift).T",
        "weights, means, squares = powers",
        tests=OWN,
    ),
    Mutant(
        "overshoot: boundaries do not bend",
        "attacks/frugal/overshoot_belief.py",
        "np.full_like(weights, BEND_SPREAD**2)",
        "np.full_like(weights, 1e-18)",
        tests=OWN,
    ),
    Mutant(
        "overshoot: aims are around the middle of the slack",
        "attacks/frugal/overshoot_belief.py",
        "middle = float(places @ self._likely)",
        "middle = -float((self._slack[0] / self._slopes).mean())",
        tests=OWN,
    ),
    Mutant(
        "overshoot: every answer costs the same",
        "attacks/frugal/overshoot_belief.py",
        "rates = information / (self._ratio + (1 - self._ratio) * share)",
        "rates = information",
        tests=OWN,
    ),
    Mutant(
        "calibrated: a folded chunk is lost",
        "attacks/frugal/calibrated.py",
        "            self._weigh(first, scores)\n",
        "",
        tests=OWN,
    ),
    Mutant(
        "turns: what is wanted does not depend on the search",
        "attacks/frugal/turn_belief.py",
        "_best_y(q * search)",
        "_best_y(q * 10)",
        tests=OWN,
    ),
    Mutant(
        "turns: the middle of the belief is off",
        "attacks/frugal/turn_belief.py",
        "return (mean + math.log(information)) / 2,",
        "return mean / 2,",
        tests=OWN,
    ),
    Mutant(
        "turns: the prior that is believed best is not tried against the other",
        "attacks/frugal/turn_belief.py",
        "np.argmax([mean + math.sqrt(variance) for",
        "np.argmax([mean for",
        tests=OWN,
    ),
    Mutant(
        "turns: what one prior told is taken for what both have",
        "attacks/frugal/turn_belief.py",
        "direction = self._covariance @ self._rows[prior]",
        "direction = self._covariance @ self._rows[0]",
        tests=OWN,
    ),
    Mutant(
        "ray start: a ray is not dropped",
        "attacks/frugal/ray_start.py",
        "            far = best.radius * RADIUS_STEP",
        "            far = LARGEST_RADIUS * scale",
        tests=OWN,
    ),
    Mutant(
        "ray start: the radius of the bin before",
        "attacks/frugal/ray_start.py",
        "ray.radius(place / count)",
        "ray.radius((place - 1) / count)",
        tests=OWN,
    ),
    Mutant(
        "ray start: fine rays are reported as smooth",
        "attacks/frugal/ray_start.py",
        "KINDS[kind].shortest >= SMOOTH or None",
        "KINDS[kind].shortest < SMOOTH or None",
        tests=OWN,
    ),
    Mutant(
        "ray start: doubted rays come first",
        "attacks/frugal/ray_start.py",
        "if given is not None and doubted:",
        "if given is not None and not doubted:",
        tests=OWN,
    ),
    Mutant(
        "ray start: a fresh ray of another kind is added",
        "attacks/frugal/ray_start.py",
        "blend(best.way, KINDS[best.kind].ray(problem, number))",
        "blend(best.way, KINDS[0].ray(problem, number))",
        tests=OWN,
    ),
    Mutant(
        "ray start: a given ray is changed as long as others are",
        "attacks/frugal/ray_start.py",
        "failures == PATIENCE",
        "failures == 9 * PATIENCE",
        tests=OWN,
    ),
    Mutant(
        "linf: patterns need no lead",
        "attacks/frugal/linf.py",
        "(LEAD if replaces else RADIUS_STEP)",
        "RADIUS_STEP",
        tests=["tests/unit/test_frugal_linf.py"],
    ),
    Mutant(
        "linf: flips are compared at any price",
        "attacks/frugal/linf.py",
        "if limit_ratio(problem.prices.ratio) >= EXPENSIVE:",
        "if limit_ratio(problem.prices.ratio) >= 1e9:",
        tests=["tests/unit/test_frugal_linf.py"],
    ),
    Mutant(
        "patterns: the source remains",
        "attacks/frugal/patterns.py",
        "self.contrast * (1 - 2 * source)",
        "self.contrast * (1 - source)",
        tests=["tests/unit/test_patterns.py"],
    ),
    Mutant(
        "patterns: half keeps the other side of a line elsewhere",
        "attacks/frugal/patterns.py",
        "right = columns / width - 0.35 - 0.3 * draws[1]",
        "right = columns / width - 0.75 - 0.3 * draws[1]",
        tests=["tests/unit/test_patterns.py"],
    ),
    Mutant(
        "ray start: from afar the farthest first",
        "attacks/frugal/ray_start.py",
        "distances.argsort(stable=True)",
        "distances.argsort(stable=True, descending=True)",
        tests=OWN,
    ),
    Mutant(
        "ray start: fresh rays are those of the start",
        "attacks/frugal/ray_start.py",
        "first = max(self.tries, len(KINDS)) + number * self.tries",
        "first = number * self.tries",
        tests=OWN,
    ),
    Mutant(
        "frugal: a start that leads nowhere is kept",
        "attacks/frugal/attack.py",
        "stuck = stuck and turn.iterate.distance >",
        "stuck = stuck and turn.iterate.distance <",
        tests=["tests/whole/test_frugal.py"],
    ),
    Mutant(
        "turns: what is hoped of a way does not depend on its cost",
        "attacks/frugal/turn_belief.py",
        "* information) / cost",
        "* information)",
        tests=OWN,
    ),
    Mutant(
        "surrogate: back to the source class",
        "attacks/surrogates.py",
        "return rival - flagged",
        "return flagged - rival",
        tests=["tests/whole/test_surrogates.py"],
    ),
    Mutant(
        "surrogate: a network that answers alike for all images is used",
        "attacks/surrogates.py",
        "if first and not any(others):",
        "if first:",
        tests=["tests/whole/test_surrogates.py"],
    ),
    Mutant(
        "surrogate: a network with its own labels confirms others",
        "attacks/surrogates.py",
        "if first and not own:",
        "if first:",
        tests=["tests/whole/test_surrogates.py"],
    ),
    Mutant(
        "surrogate: rays are not those of the mask",
        "attacks/transfer.py",
        "unit_rows(problem.only_mask(total))",
        "unit_rows(total)",
        tests=["tests/whole/test_surrogates.py"],
    ),
    Mutant(
        "surrogate: networks with their own labels are not doubted",
        "attacks/transfer.py",
        "return (known, True) if known else (usable, False)",
        "return usable, True",
        tests=["tests/whole/test_surrogates.py"],
    ),
    Mutant(
        "surrogate: followed whatever it brought",
        "attacks/frugal/attack.py",
        "if members and _guided_gain(guided, ratio, rate) > gain:",
        "if members:",
        tests=["tests/whole/test_surrogates.py"],
    ),
    Mutant(
        "sender: what a full batch leaves is not looked at",
        "engine/sender.py",
        "if self.is_worth_it(rows) and self.is_worth_it(rest))",
        "if self.is_worth_it(rows))",
        tests=["tests/unit/test_flights.py"],
    ),
    Mutant(
        "metric: every row but those of its own",
        "engine/sender.py",
        "[each is not norm for each in norms]",
        "[each is norm for each in norms]",
        tests=["tests/unit/test_metric.py"],
    ),
    Mutant(
        "metric: an attack runs in one that it is not made for",
        "core/metric.py",
        "expect(norm in metrics, ",
        "expect(bool(metrics), ",
        tests=["tests/unit/test_metric.py"],
    ),
    Mutant(
        "metric: a part may be made for another one",
        "core/metric.py",
        "all(each in some for some in limits)",
        "True",
        tests=["tests/whole/test_surrogates.py"],
    ),
    Mutant(
        "rays: the radius that a search found is forgotten",
        "attacks/rays.py",
        "radius * (1 - reach * moved.theta)",
        "radius",
        tests=["tests/unit/test_rays.py"],
    ),
    Mutant(
        "opt: up the slope",
        "attacks/opt.py",
        "(np.array(lengths) - iterate.distance)",
        "(iterate.distance - np.array(lengths))",
        tests=["tests/whole/test_ray_search.py"],
    ),
    Mutant(
        "sign-opt: a flagged answer counts nothing",
        "attacks/opt.py",
        "torch.sub(everything, passed, alpha=2)",
        "torch.neg(passed)",
        tests=["tests/whole/test_ray_search.py"],
    ),
    Mutant(
        "radii: whatever the dimension",
        "parts/estimates.py",
        "iterate.distance / problem.dimension**self.power",
        "iterate.distance",
        tests=["tests/unit/test_geometric.py"],
    ),
    Mutant(
        "ttba: the whole of a long bridge",
        "attacks/ttba.py",
        "return LONG_SHARE * bridge",
        "return bridge",
        tests=["tests/unit/test_geometric.py"],
    ),
    Mutant(
        "paper: Algorithm 2 with t^-2m",
        "theory/caps.py",
        "math.pow(t, -m)",
        "math.pow(t, -2 * m)",
        tests=named("Algorithm 2 (scheduler step), 3.2"),
    ),
    Mutant(
        "paper: x'' with half the radius",
        "attacks/geoda.py",
        "step = mean * torch.linalg.vector_norm(iterate.point - problem.source)",
        "step = mean * torch.linalg.vector_norm(iterate.point - problem.source) / 2",
        tests=named("x″, D"),
    ),
    Mutant(
        "paper: phi-hat with the weights swapped",
        "parts/estimates.py",
        "return unit((1 - share) * passed + share * failed)",
        "return unit(share * passed + (1 - share) * failed)",
        tests=named("φ̂, 3.2"),
    ),
    Mutant(
        "paper: c_t raised by 13 %",
        "parts/estimates.py",
        "cost = queries * (ratio + 1) / 2",
        "cost = 1.13 * queries * (ratio + 1) / 2",
        tests=named("c_t = n′_t (c* + 1)/2, 3.2"),
    ),
    Mutant(
        "paper: the factor that the proof of Theorem 4 leaves out",
        "theory/caps.py",
        "gammaln((d + 1) / 2)) / math.sqrt(math.pi))",
        "gammaln((d + 1) / 2)) / math.sqrt(math.pi) / 2)",
        tests=named("Theorem 4, 3.2"),
    ),
    Mutant(
        "AGREST: no overshoot",
        "parts/estimates.py",
        "return x * self.delta / theory.scheduled_cosine(t, first, self.m)",
        "return 0 * x * self.delta / theory.scheduled_cosine(t, first, self.m)",
        tests=GUARDS,
    ),
    Mutant(
        "AGREST: the overshoot is towards the source",
        "parts/estimates.py",
        "return x * self.delta / theory.scheduled_cosine(t, first, self.m)",
        "return -x * self.delta / theory.scheduled_cosine(t, first, self.m)",
        tests=GUARDS,
    ),
    Mutant(
        "AGREST: the overshoot is 1.2 times too large",
        "parts/estimates.py",
        "return x * self.delta / theory.scheduled_cosine(t, first, self.m)",
        "return 1.2 * x * self.delta / theory.scheduled_cosine(t, first, self.m)",
        tests=GUARDS,
    ),
]


def tested(source: Path, tests: Sequence[str], timeout: float | None) -> tuple[int, str]:
    """Exit code and output of tests on the package below `source`."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests],
        cwd=ROOT,
        env={
            **os.environ,
            "PYTHONPATH": str(source),
            "OMP_NUM_THREADS": "1",
            "HYPOTHESIS_PROFILE": "mutants",
        },
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def caught(mutant: Mutant, timeout: float) -> tuple[Mutant, str]:
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "src", Path(folder) / "src")
        path = Path(folder) / "src" / "tollbox" / mutant.file
        text = path.read_text()
        if text.count(mutant.old) != 1:
            return mutant, "the line to break is not there"
        path.write_text(text.replace(mutant.old, mutant.new))
        try:
            code, output = tested(Path(folder) / "src", mutant.tests, timeout)
        except subprocess.TimeoutExpired:
            return mutant, ""  # it hangs, where the sound package took a fraction of the time
    if code == 0:
        return mutant, "survived"
    failed = any(line.startswith(("FAILED", "ERROR")) for line in output.splitlines())
    return mutant, "" if failed else f"no test ran: {output[-600:]}"


def main() -> int:
    chosen = [m for m in MUTANTS if len(sys.argv) < 2 or sys.argv[1] in m.name]
    began = time.monotonic()
    tests = dict.fromkeys(test for mutant in chosen for test in mutant.tests)
    code, output = tested(ROOT / "src", [*tests], None)
    if code:
        print(f"the tests fail without a mutant:\n{output[-2000:]}")
        return 1
    timeout = 60 + 4 * (time.monotonic() - began)
    alive = 0
    with ThreadPoolExecutor(2) as pool:
        for mutant, trouble in pool.map(lambda m: caught(m, timeout), chosen):
            print(f"{trouble or 'caught':>10}  {mutant.file}: {mutant.name}", flush=True)
            alive += bool(trouble)
    print(f"{len(chosen) - alive} of {len(chosen)} mutants caught")
    return int(alive > 0)


if __name__ == "__main__":
    sys.exit(main())
