"""The journal: what was recorded is told again as it was; nobody hears what is not recorded."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from options import grouped
from torch import Tensor

import tollbox as tb
from tollbox import Prices, Stop
from tollbox.attack import Cell
from tollbox.core.model import UNDECIDED, Model
from tollbox.engine.engine import Engine
from tollbox.engine.journal import Answered, History

# -- histories ------------------------------------------------------------------------------------


def piece(ask: int, run: int, first: int, labels: Sequence[int], distance: float = 1.0) -> Answered:
    return Answered(0, ask, run, first, np.array(labels, np.int64), distance)


@st.composite
def split_runs(draw: st.DrawFn) -> tuple[dict[tuple[int, int], list[int]], list[Answered]]:
    """Labels of some runs, and the same in pieces: in order in a run, any order between runs."""
    runs = draw(
        st.dictionaries(
            st.tuples(st.integers(0, 3), st.integers(0, 2)),
            st.lists(st.integers(0, 9), min_size=1, max_size=12),
            min_size=1,
            max_size=5,
        )
    )
    queues = []
    for (ask, run), labels in runs.items():
        cuts = sorted(draw(st.sets(st.integers(1, len(labels) - 1))) if len(labels) > 1 else ())
        ends = [*cuts, len(labels)]
        starts = [0, *cuts]
        queues.append(
            [
                piece(ask, run, a, labels[a:b], float(b - 1))
                for a, b in zip(starts, ends, strict=True)
            ]
        )
    order = draw(st.permutations([i for i, queue in enumerate(queues) for _ in queue]))
    return runs, [queues[i].pop(0) for i in order]


@given(split_runs(), st.booleans())
def test_any_split_into_pieces_gives_the_same_labels(drawn, again: bool) -> None:
    runs, pieces = drawn
    history = History(pieces, again)
    last = pieces[-1]
    for (ask, run), labels in runs.items():
        held = again and (last.ask, last.run) == (ask, run)
        assert history.known(ask, run) == (last.first if held else len(labels))
        assert history.labels(ask, run, 0, len(labels)).tolist() == labels
        middle = len(labels) // 2
        assert history.labels(ask, run, middle, len(labels)).tolist() == labels[middle:]
    assert history.known(9, 0) == 0
    assert history.differences == 0


@given(split_runs(), st.data())
def test_what_was_recorded_first_stands(drawn, data: st.DataObject) -> None:
    """Pieces that overlap earlier ones, with other labels, add nothing but what is new."""
    runs, pieces = drawn
    (ask, run), labels = data.draw(st.sampled_from(sorted(runs.items())))
    first = data.draw(st.integers(0, len(labels)))
    size = data.draw(st.integers(1, 15))
    later = piece(ask, run, first, [77] * size, 5.5)
    history = History([*pieces, later], again=False)
    whole = labels + [77] * max(0, first + size - len(labels))
    assert history.known(ask, run) == len(whole)
    assert history.labels(ask, run, 0, len(whole)).tolist() == whole
    fresh = len(whole) > len(labels)
    at = np.full(len(whole), -1.0)
    for one in pieces:
        if (one.ask, one.run) == (ask, run):
            at[one.first + len(one.labels) - 1] = one.distance
    at[-1] = 5.5 if fresh else at[-1]
    assert history.fits(ask, run, 0, at)  # the check of a piece that added nothing is not one


def test_the_piece_recorded_last_is_held_back() -> None:
    pieces = [piece(0, 0, 0, [1]), piece(1, 0, 0, [1, 2]), piece(1, 1, 0, [3]), piece(1, 0, 2, [4])]
    history = History(pieces, again=True)
    assert [history.known(0, 0), history.known(1, 0), history.known(1, 1)] == [1, 2, 1]
    assert history.known(1, 2) == history.known(2, 0) == 0
    known = [History(pieces, again=False).known(*run) for run in ((0, 0), (1, 0), (1, 1))]
    assert known == [1, 3, 1]


def test_a_gap_is_refused() -> None:
    with pytest.raises(ValueError, match="rows 1 to 2 are missing"):
        History([piece(0, 0, 0, [1]), piece(0, 0, 2, [1])], again=False)


def test_rows_asked_again_are_told_as_recorded_and_differences_counted() -> None:
    history = History([piece(0, 0, 0, [1, 2]), piece(0, 0, 2, [3, 4])], again=True)
    confirmed = history.confirmed(0, 0, 2, np.array([3, 9, 7]))
    assert confirmed.tolist() == [3, 4, 7]
    assert history.differences == 1
    assert history.confirmed(0, 0, 4, np.array([8])).tolist() == [8]
    assert history.confirmed(0, 1, 0, np.array([8])).tolist() == [8]
    assert history.confirmed(0, 0, 2, np.array([], np.int64)).tolist() == []
    assert history.differences == 1


def test_distances_are_compared_where_one_was_recorded() -> None:
    history = History([piece(0, 0, 0, [1, 1], 2.0), piece(0, 0, 2, [1], np.nan)], again=False)
    assert history.fits(0, 0, 0, np.array([99.0]))
    assert history.fits(0, 0, 0, np.array([99.0, 2.0, np.nan]))
    assert history.fits(0, 0, 1, np.array([2.0 * (1 + 1e-9)]))
    assert not history.fits(0, 0, 1, np.array([2.001]))
    assert not history.fits(0, 0, 0, np.array([2.0, 99.0]))
    assert not history.fits(0, 0, 1, np.array([2.0, 3.0]))
    assert history.fits(5, 0, 0, np.array([4.0]))
    zero = History([piece(0, 0, 0, [1], 0.0)], again=False)
    assert zero.fits(0, 0, 0, np.array([0.0]))
    assert not zero.fits(0, 0, 0, np.array([1e-9]))


def test_an_ask_that_is_shorter_than_recorded_is_noticed() -> None:
    history = History([piece(2, 0, 0, [1, 1]), piece(2, 1, 0, [1])], again=True)
    assert not history.longer_than(2, [2, 1])
    assert not history.longer_than(2, [5, 1, 3])
    assert history.longer_than(2, [1, 1])
    assert history.longer_than(2, [2])
    assert history.longer_than(2, [2, 0])
    assert not history.longer_than(3, [])


# -- the engine with a journal --------------------------------------------------------------------


class Memory:
    """A journal in memory, which may go on with what another recorded."""

    def __init__(self, before: Sequence[Answered] = (), again: bool = True) -> None:
        self._before, self._again = list(before), again
        self.batches: list[list[Answered]] = []
        self.ends: list[tuple[int, str]] = []

    def record(self, answers: Sequence[Answered]) -> None:
        self.batches.append(list(answers))

    def history(self, cell: int) -> History | None:
        mine = [answered for answered in self._before if answered.cell == cell]
        return History(mine, self._again) if mine else None

    def diverged(self, cell: int, why: str) -> None:
        self.ends.append((cell, why))

    def until(self, batches: int | None = None) -> list[Answered]:
        """All that is known after so many batches."""
        return [*self._before, *(a for batch in self.batches[:batches] for a in batch)]


class Net:
    """Five classes; counts the rows that it is asked."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(3)
        self._first = torch.randn(192, 32, generator=generator, dtype=torch.float64)
        self._second = torch.randn(32, 5, generator=generator, dtype=torch.float64)
        self.rows = 0

    def __call__(self, images: Tensor) -> Tensor:
        self.rows += len(images)
        return self.labels(images)

    def labels(self, images: Tensor) -> Tensor:
        flat = images.double().flatten(1) - 0.5
        hidden = torch.tanh((flat[:, :, None] * self._first).sum(1))  # row by row the same
        return (hidden[:, :, None] * self._second).sum(1).argmax(1)


def images(count: int) -> tuple[Tensor, list[int]]:
    generator = torch.Generator().manual_seed(1)
    pixels = (torch.rand(count, 3, 8, 8, generator=generator, dtype=torch.float64) * 255).round()
    return pixels / 255, Net().labels(pixels / 255).tolist()


PRESETS = ("surfree", "a-hsja", "stealthy-hsja", "cgba")
PLAIN: dict[str, Any] = {}


def cells(targeted: bool = False, budget: float = 150.0, seed: int = 0) -> list[Cell]:
    """Several attacks; stealthy-hsja asks several runs with `until` at once."""
    given, labels = images(5)
    listed = []
    for number, name in enumerate(PRESETS):
        cell = Cell(
            tb.preset(name),
            given[number],
            labels[number],
            Prices(4, 1),
            tb.Limits(budget),
            seed=seed,
        )
        if targeted:
            other = next(i for i in range(5) if labels[i] != labels[number])
            cell = replace(cell, target=labels[other], start=given[other])
        listed.append(cell)
    return listed


def model(net: Any, quantize: int | None = None) -> Model:
    return tb.models.from_callable(net, dtype=torch.float64, quantize=quantize)


def run(
    listed: list[Cell], net: Any, journal: Any = None, quantize: int | None = None, **options: Any
) -> list[tb.Result]:
    options = {"batch_size": 16, **options}
    engine = Engine(model(net, quantize), journal=journal, **grouped(options))
    return sorted(engine.run(listed), key=lambda r: r.index)


def numbers(result: tb.Result) -> tuple[Any, ...]:
    image = None if result.adversarial is None else result.adversarial.numpy().tobytes()
    ends = (result.index, result.stop, result.reason, result.warnings)
    return (*ends, result.ledger.counts, result.improvements, result.trace, image)


def same(one: list[tb.Result], other: list[tb.Result]) -> None:
    for a, b in zip(one, other, strict=True):
        assert numbers(a) == numbers(b)


MODES = {
    "plain": (PLAIN, PLAIN),
    "metered": (PLAIN, {"metered": True}),
    "8 bits": (PLAIN, {"quantize": 8}),
    "targeted": ({"targeted": True}, PLAIN),
    "targeted, 8 bits, metered": ({"targeted": True}, {"quantize": 8, "metered": True}),
}


@pytest.mark.parametrize("mode", MODES)
def test_a_journal_changes_nothing_and_a_resumed_run_is_the_unbroken_one(mode: str) -> None:
    what, how = MODES[mode]
    listed, metered = cells(**what), "metered" in how
    plain = run(listed, Net(), **how)
    assert len({r.stop for r in plain} - {Stop.BUDGET}) == 0
    whole, net = Memory(), Net()
    same(run(listed, net, whole, **how), plain)
    asked = net.rows
    if metered:
        assert asked == sum(r.ledger.queries for r in plain)
    rng = random.Random(mode)
    for cut in [1, *rng.sample(range(2, len(whole.batches)), 4), len(whole.batches)]:
        net = Net()
        resumed = Memory(whole.until(cut), again=not metered)
        size = rng.choice([16, 5, 64])
        again = run(listed, net, resumed, **{**how, "batch_size": size, "shuffle": rng.shuffle})
        same(again, plain)
        assert resumed.ends == []
        if metered:  # what was recorded is not asked again
            known = sum(len(a.labels) for a in whole.until(cut))
            assert net.rows == asked - known


def test_killed_again_and_again() -> None:
    listed = cells()
    plain = run(listed, Net())
    journal, rng = Memory(), random.Random(5)
    for _ in range(8):
        done = run(listed, Net(), journal, batch_size=rng.choice([4, 16]))
        same(done, plain)
        journal = Memory(journal.until(rng.randrange(len(journal.batches)) + 1))


def test_a_full_replay_asks_the_model_for_the_last_pieces_only() -> None:
    listed, whole = cells(), Memory()
    plain = run(listed, Net(), whole)
    again = Memory(whole.until())
    same(run(listed, Net(), again), plain)
    held = {a.cell: a for a in whole.until()}
    asked = again.until()[len(whole.until()) :]
    assert {a.cell for a in asked} <= held.keys()
    for a in asked:
        assert a.ask == held[a.cell].ask
        if a.run == held[a.cell].run:
            assert a.first >= held[a.cell].first
    silent = Memory(whole.until(), again=False)
    net = Net()
    same(run(listed, net, silent), plain)
    assert net.rows == 0
    assert not any(silent.batches)


# -- durable before sent --------------------------------------------------------------------------


@dataclass(frozen=True)
class Spy:
    """Asks a few points at a time, and writes down what it hears."""

    heard: list[tuple[str, int, list[int]]] = field(default_factory=list, compare=False)

    def __call__(self, problem: tb.attack.Problem):
        for step in range(1, 6):
            points = problem.source + 0.02 * step * torch.arange(1, 5).view(-1, 1, 1, 1)
            answers = yield tb.attack.Ask(points, phase="probe")
            self.heard.append((problem.content, step, answers.labels.tolist()))
        return Stop.CONVERGED


class Failing(Memory):
    """Can write so many batches, and no more."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def record(self, answers: Sequence[Answered]) -> None:
        if len(self.batches) == self._most:
            raise OSError("no room")
        super().record(answers)


@pytest.mark.parametrize("most", [0, 1, 2, 5, 9])
def test_nobody_hears_what_could_not_be_recorded(most: int) -> None:
    spy = Spy()
    given, labels = images(4)
    listed = [
        Cell(spy, image, label, limits=tb.Limits(max_queries=100))
        for image, label in zip(given, labels, strict=True)
    ]
    journal = Failing(most)
    with pytest.raises(OSError, match="no room"):
        run(listed, Net(), journal, batch_size=8)
    contents = [tb.attack.Problem(image, 0).content for image in given]
    known = {}
    for a in journal.until():
        known[contents[a.cell], a.ask] = known.get((contents[a.cell], a.ask), 0) + len(a.labels)
    for content, step, labels in spy.heard:
        assert known[content, step] == len(labels) == 4
    assert (len(spy.heard) > 0) == (most > 1)
    everything = Memory()
    run(listed, Net(), everything, batch_size=8)
    assert len(everything.batches) > 9


def test_batches_are_recorded_before_they_are_heard() -> None:
    """Whenever an attack hears an answer, the journal has it."""
    journal = Memory()

    @dataclass(frozen=True)
    class Checking:
        def __call__(self, problem: tb.attack.Problem):
            for step in range(1, 4):
                points = problem.source + 0.02 * step * torch.arange(1, 8).view(-1, 1, 1, 1)
                answers = yield tb.attack.Ask(points, phase="probe")
                rows = [a for a in journal.until() if a.ask == step]
                assert [n for a in rows for n in a.labels.tolist()] == answers.labels.tolist()
            return Stop.CONVERGED

    [image], [label] = images(1)
    [result] = run(
        [Cell(Checking(), image, label, limits=tb.Limits(max_queries=99))],
        Net(),
        journal,
        batch_size=3,
    )
    assert (result.stop, result.reason) == (Stop.CONVERGED, "")
    assert len(journal.batches) > 6


# -- what is not as it was ------------------------------------------------------------------------


def cut_short() -> tuple[list[Cell], Memory, list[tb.Result], int]:
    listed, whole = cells(), Memory()
    plain = run(listed, Net(), whole)
    return listed, whole, plain, len(whole.batches) // 2


@pytest.mark.parametrize("change", ["seed", "attack", "shorter"])
def test_a_cell_that_asks_something_else_ends_and_no_other(change: str) -> None:
    listed, whole, plain, half = cut_short()
    which = 1
    other = {
        "seed": replace(listed[which], seed=9),
        "attack": replace(listed[which], attack=tb.preset("surfree")),
        "shorter": replace(listed[which], attack=tb.preset("geoda")),
    }[change]
    changed = [other if i == which else cell for i, cell in enumerate(listed)]
    resumed = Memory(whole.until(half))
    results = run(changed, Net(), resumed)
    [(cell, why)] = resumed.ends
    assert cell == which
    assert why.startswith("ask ")
    assert results[which].stop is Stop.INTERRUPTED
    assert results[which].reason == why
    same(
        [r for r in results if r.index != which],
        [r for r in plain if r.index != which],
    )


def test_a_cell_that_diverged_elsewhere_goes_on_where_it_was_begun() -> None:
    """What it was answered at other points is not recorded: its history stays as it was."""
    listed, whole, plain, half = cut_short()
    for cut in range(2, half, 3):
        elsewhere = Memory(whole.until(cut))
        run([replace(cell, seed=9) for cell in listed], Net(), elsewhere, batch_size=32)
        assert elsewhere.ends
        back = Memory(elsewhere.until())
        same(run(listed, Net(), back), plain)
        assert back.ends == []


def test_a_model_that_answers_differently_is_noticed_and_what_was_recorded_stands() -> None:
    listed, whole, plain, _ = cut_short()

    class Moody(Net):
        def __call__(self, images: Tensor) -> Tensor:
            return (super().__call__(images) + 1) % 5

    resumed = Memory(whole.until())
    results = run(listed, Moody(), resumed)
    for now, then in zip(results, plain, strict=True):
        assert now.ledger == then.ledger
        assert now.improvements == then.improvements
        assert any("differently when they were asked again" in text for text in now.warnings)
    metered = Memory(whole.until(), again=False)
    assert [r.warnings for r in run(listed, Moody(), metered, metered=True)] == [()] * len(plain)


@settings(max_examples=15)
@given(st.integers(0, 6), st.integers(0, 20), st.sampled_from([3, 8, 16]))
def test_rows_behind_one_that_is_not_answered_leave_no_gap(bad: int, seed: int, size: int) -> None:
    """A row whose scores are not numbers ends its cell, wherever it is; the cell can be rerun."""

    @dataclass(frozen=True)
    class Climb:
        def __call__(self, problem: tb.attack.Problem):
            points = problem.source + 0.01 * torch.arange(1, 8).view(-1, 1, 1, 1)
            runs = [
                tb.attack.Sequential(points, until) for until in (tb.attack.Until.ADVERSARIAL, None)
            ]
            yield tb.attack.Ask(runs=runs, phase="climb")
            return Stop.CONVERGED

    class Undecided(Net):
        def __call__(self, images: Tensor) -> Tensor:
            labels = super().__call__(images) * 0
            apart = (images.mean((1, 2, 3)) - 0.3) / 0.01 - 1
            return torch.where((apart - bad).abs() < 0.1, UNDECIDED, labels)

    class Zero(Net):
        def __call__(self, images: Tensor) -> Tensor:
            return super().__call__(images) * 0

    image = torch.full((3, 4, 4), 0.3, dtype=torch.float64)
    cell = Cell(Climb(), image, 0, limits=tb.Limits(max_queries=50), seed=seed)
    broken = Memory()

    class Sized(Undecided):
        labels = staticmethod(lambda images: torch.zeros(len(images), dtype=torch.long))

    class SizedZero(Zero):
        labels = staticmethod(lambda images: torch.zeros(len(images), dtype=torch.long))

    [result] = run([cell], Sized(), broken, batch_size=size)
    assert result.stop is Stop.MODEL_ERROR
    resumed = Memory(broken.until())
    [mended] = run([cell], SizedZero(), resumed, batch_size=size)
    assert (mended.stop, mended.ledger.queries) == (Stop.CONVERGED, 15)


@dataclass(frozen=True)
class Ramps:
    """Asks so many points in each of some runs, so far apart; the first goes on until the end."""

    sizes: tuple[int, ...]
    apart: tuple[float, ...]

    def __call__(self, problem: tb.attack.Problem):
        runs = [
            tb.attack.Sequential(
                problem.source + far * torch.arange(1, size + 1).view(-1, 1, 1, 1),
                None if number else tb.attack.Until.ADVERSARIAL,
            )
            for number, (size, far) in enumerate(zip(self.sizes, self.apart, strict=True))
        ]
        yield tb.attack.Ask(runs=runs, phase="ramps")
        return Stop.CONVERGED


def ramps(attack: Ramps, journal: Memory, batch_size: int = 4) -> tb.Result:
    image = torch.full((3, 4, 4), 0.3, dtype=torch.float64)

    def zero(images: Tensor) -> Tensor:
        return torch.zeros(len(images), dtype=torch.long)

    cell = Cell(attack, image, 0, limits=tb.Limits(max_queries=99))
    [result] = run([cell], zero, journal, batch_size=batch_size)
    return result


def test_fewer_points_than_were_recorded_are_another_run() -> None:
    """Though all that are left are where they were."""
    whole = Memory()
    assert ramps(Ramps((9, 9), (0.01, 0.01)), whole).stop is Stop.CONVERGED
    resumed = Memory(whole.until())
    assert ramps(Ramps((9, 5), (0.01, 0.01)), resumed).stop is Stop.INTERRUPTED
    assert resumed.ends == [(0, "ask 1 (ramps) had more points when it was recorded")]
    assert ramps(Ramps((9,), (0.01,)), Memory(whole.until())).stop is Stop.INTERRUPTED


def test_nothing_of_an_ask_that_differs_is_recorded() -> None:
    """Not the rows of its other runs either, which have no distance to compare with yet."""
    whole = Memory()
    ramps(Ramps((9, 9), (0.01, 0.01)), whole)
    resumed = Memory(whole.until(2))  # the clean image, then some rows of both
    assert {a.run for a in whole.batches[1]} == {0, 1}
    result = ramps(Ramps((9, 9), (0.01, 0.02)), resumed, batch_size=32)
    assert result.stop is Stop.INTERRUPTED
    assert [cell for cell, _ in resumed.ends] == [0]
    assert not any(resumed.batches)
    assert result.ledger.queries == 1
