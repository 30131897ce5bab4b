"""What the engine must do, written as plainly as possible: one image, one query at a time.

No batches, no padding, no speculation, no vectors. Tests compare the engine with this.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import torch

import tollbox as tb
from tollbox.core.ask import joined
from tollbox.core.problem import Problem
from tollbox.core.stop import Stop


@dataclass
class Outcome:
    stop: Stop | None = None
    counts: Counter = field(default_factory=Counter)  # (phase, label) -> number
    cost: float = 0.0
    queries: int = 0
    source: int = 0
    improvements: list = field(
        default_factory=list
    )  # (cost, source, queries, distance, before, alarms)
    best: torch.Tensor | None = None
    steps: list = field(default_factory=list)  # (cost, distance)
    alarms: Counter = field(default_factory=Counter)  # phase -> number
    first_alarm: tuple | None = None
    sent: list = field(default_factory=list)  # what was charged, as it was sent


def by_hand(cell: tb.attack.Cell, model: tb.models.Model) -> Outcome:
    """Run one cell, a query at a time."""
    out = Outcome()
    source = cell.image.to(model.dtype)
    problem = Problem(
        source, cell.label, cell.prices, cell.target, cell.seed, goal=cell.goal, mask=cell.mask
    )
    watch, limits = cell.detection, cell.limits
    session = None if watch is None else watch.detector.begin(0)
    alarm_price = 0.0 if watch is None else watch.alarm_price
    flagged = {cell.label} if cell.goal.flagged is None else set(cell.goal.flagged)
    target = cell.goal.target if cell.target is None else cell.target

    def of_flagged(n: int) -> float:
        """What the n-th flagged answer costs, where prices are not by class."""
        growing = cell.prices.escalation
        if growing is None:
            return cell.prices.source
        while growing.again is not None and n >= growing.again:
            n -= growing.again - 1
        return [value for first, value in growing.steps if first <= n][-1]

    def dearest() -> float:
        if cell.prices.classes is None:
            return max(cell.prices.other, of_flagged(out.source + 1))
        return max(cell.prices.other, *cell.prices.classes.values())

    def price(label: int) -> float:
        if cell.prices.classes is not None:
            return cell.prices.classes.get(label, cell.prices.other)
        return cell.prices.source if label in flagged else cell.prices.other

    def is_good(label: int) -> bool:
        return label not in flagged if target is None else label == target

    def sendable(point: torch.Tensor) -> torch.Tensor:
        """As it is sent: the source where nothing may change."""
        if cell.mask is not None:
            point = torch.where(cell.mask.expand_as(source), point, source)
        return model.sent(point[None].clone())

    def total() -> float:  # from counts, cheapest price first
        if cell.prices.escalation is not None:
            flags = sum(of_flagged(n + 1) for n in range(out.source))
            return (out.queries - out.source) * cell.prices.other + flags
        values = Counter()
        for (_, label), number in out.counts.items():
            values[price(label)] += number
        return sum((number * value for value, number in sorted(values.items())), 0.0)

    def query(point: torch.Tensor, phase: str, charged: bool) -> tuple[int, float] | None:
        if charged:
            if watch is not None and sum(out.alarms.values()) >= watch.max_alarms:
                out.stop = Stop.ALARM
                return None
            if out.queries >= limits.max_queries:
                out.stop = Stop.MAX_QUERIES
                return None
            if out.source >= limits.max_flagged:
                out.stop = Stop.MAX_FLAGGED
                return None
            if out.cost + (dearest() + alarm_price) > limits.budget:
                out.stop = Stop.BUDGET
                return None
        sent = sendable(point)
        try:
            label = int(model.predict(sent)[0])
        except RuntimeError:
            out.stop = Stop.MODEL_ERROR
            return None
        distance = float(torch.linalg.vector_norm(sent[0].double() - source.double()))
        good = is_good(label)
        best = out.improvements[-1][3] if out.improvements else math.inf
        before = out.cost
        if charged:
            out.counts[phase, label] += 1
            out.queries += 1
            out.source += label in flagged
            out.sent.append(sent[0].clone())
            if session is not None and bool(session(sent.clone())[0]):
                out.alarms[phase] += 1
                out.first_alarm = out.first_alarm or (out.queries, out.source)
            out.cost = total() + sum(out.alarms.values()) * alarm_price
        if good and distance < best:
            alarms = sum(out.alarms.values())
            spent = out.cost, out.source, out.queries
            out.improvements.append((*spent, distance, before, alarms))
            out.best = sent[0]
        return label, distance

    clean = query(source, "clean", cell.charge_clean)
    if clean is None:
        return out
    if clean[0] not in flagged:
        out.stop = Stop.ALREADY_MISCLASSIFIED
        return out
    asking, answers = cell.attack(problem), None
    while True:
        try:
            ask = asking.send(answers)
        except StopIteration as end:
            out.stop = end.value
            ask = None
        for point, *_ in problem.accepted:
            sent = sendable(point)[0]
            out.steps.append(
                (out.cost, float(torch.linalg.vector_norm(sent.double() - source.double())))
            )
        problem.accepted.clear()
        if ask is None:
            return out
        runs = []
        for run in ask.runs:
            labels, distances = [], []
            for row in range(len(run.points)):
                answer = query(run.points[row : row + 1][0], ask.phase, True)
                if answer is None:
                    return out
                labels.append(answer[0])
                distances.append(answer[1])
                good = is_good(answer[0])
                if run.until is not None and good == (run.until is tb.attack.Until.ADVERSARIAL):
                    break
            label_array = np.array(labels)
            adversarial = np.array([is_good(label) for label in labels])
            runs.append(
                tb.attack.Answers(
                    label_array, adversarial, np.array(distances), problem.goal, cell.prices
                )
            )
            assert runs[-1].prices.tolist() == [price(label) for label in labels]
            assert runs[-1].flagged.tolist() == [label in flagged for label in labels]
        answers = joined(runs)


@dataclass(frozen=True)
class Wanderer:
    """An attack that asks for anything: several runs, any `until`, sizes and phases that depend on
    everything it was told so far. If it is told something else, it asks for something else."""

    seed: int
    asks: int = 12
    transcripts: list = field(default_factory=list, compare=False)

    rows = 40

    def __call__(self, problem):
        choose = random.Random(self.seed)
        transcript = []
        self.transcripts.append(transcript)
        for step in range(self.asks):
            runs = []
            for number in range(choose.choice([1, 1, 1, 2, 3])):
                count = choose.choice([1, 1, 2, 5, 13])
                shape = tuple(problem.source.shape)  # given: so it strays outside any mask
                noise = problem.noise(f"wander{number}", step, count, shape)
                points = problem.source + choose.choice([0.05, 0.3, 1.0]) * noise[0:count]
                until = choose.choice(
                    [None, None, tb.attack.Until.ADVERSARIAL, tb.attack.Until.NOT_ADVERSARIAL]
                )
                runs.append(tb.attack.Sequential(points, until))
            answers = yield tb.attack.Ask(runs=runs, phase=choose.choice(["one", "two"]))
            transcript.append(
                [(r.labels.tolist(), [round(d, 12) for d in r.distances]) for r in answers.runs]
            )
            choose = random.Random(f"{self.seed}{transcript}{answers.prices.tolist()}")
            for run, run_answers in zip(runs, answers.runs, strict=True):
                if run_answers.adversarial[-1] and choose.random() < 0.5:
                    problem.note(step=step)
                    problem.accept(run.points[len(run_answers) - 1].clamp(0, 1))
        return choose.choice([Stop.CONVERGED, Stop.ITERATIONS])
