"""The coordinator: a cell is in one worker at a time, and an epoch that is over writes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_studies import sample_record

import tollbox as tb
from tollbox.core.stop import Stop
from tollbox.engine.journal import Answered
from tollbox.studies.coordinator import MOST_DEATHS, Coordinator, pack
from tollbox.studies.events import CellEnded, Options, WorkerLost
from tollbox.studies.store.store import Store, shard_path
from tollbox.testing import half_space
from tollbox.workers.executors import Loss, Stopper

RECORD = sample_record(shards=2)
KILLED = Loss(0, "signal 9", memory=False, alone=False)


@dataclass
class Case:
    """Two shards of twenty cells each, and two workers."""

    stores: list[Store]
    events: list[Any]

    def coordinator(self, workers: int = 2, **options: Any) -> Coordinator:
        return Coordinator(self.stores, Options(**options), workers, self.events.append, Stopper())

    def answers(self, cell: int) -> list[list[int]]:
        found = self.stores[cell % 2].answers({cell})
        return [answered.labels.tolist() for answered in found.get(cell, [])]


@pytest.fixture
def case(tmp_path: Path) -> Iterator[Case]:
    with ExitStack() as stack:
        stores = []
        for shard in (0, 1):
            path = shard_path(tmp_path, shard)
            Store.create(path, replace(RECORD, shard=shard), [])
            stores.append(stack.enter_context(Store(path, write=True)))
        yield Case(stores, [])


def start(coordinator: Coordinator, job: int) -> int:
    epoch, _, _ = coordinator.answer(job, ("start", 0))
    assert isinstance(epoch, int)
    return epoch


def labels(epoch: int, cell: int, *given: int) -> tuple[Any, ...]:
    answered = Answered(cell, 0, 0, 0, np.array(given), 1.0)
    return "record", epoch, pack([answered], RECORD.shards)


def take_all(coordinator: Coordinator, job: int, epoch: int) -> list[int]:
    cells: list[int] = []
    while some := coordinator.answer(job, ("take", epoch, 0)):
        cells += [cell for cell, _ in some]
    return cells


@pytest.mark.parametrize(
    ("width", "shards", "expected"),
    [
        (7, [0, 1], [1, 3, 5, 8, 10, 12, 15, 17, 19]),
        (8, [0], [2, 6, 10, 14, 18, 22]),  # a part of the study, with every second image
    ],
)
def test_a_worker_gets_its_images_at_all_prices_first(
    tmp_path: Path, width: int, shards: list[int], expected: list[int]
) -> None:
    """Three prices: what a surrogate says about an image is computed once."""
    record = sample_record(series=("c* = 1", "c* = 2", "c* = 5"), width=width, shards=2)
    with ExitStack() as stack:
        stores = []
        for shard in shards:
            path = shard_path(tmp_path, shard)
            Store.create(path, replace(record, shard=shard), [])
            stores.append(stack.enter_context(Store(path, write=True)))
        coordinator = Coordinator(stores, Options(), 2, [].append, Stopper())
        one, two = start(coordinator, 0), start(coordinator, 1)
        cells = take_all(coordinator, 1, two)
        assert cells[: len(expected)] == expected
        assert take_all(coordinator, 0, one) == []


def test_each_cell_is_given_out_once_and_those_of_the_own_images_first(case: Case) -> None:
    coordinator = case.coordinator()
    one, two = start(coordinator, 0), start(coordinator, 1)
    assert coordinator.answer(0, ("share", one, 0)) == 20
    first = [cell for cell, _ in coordinator.answer(1, ("take", two, 0))]
    assert first == [1, 3, 5, 7, 9]
    rest = take_all(coordinator, 0, one)
    assert rest[:20] == list(range(0, 40, 2))
    assert sorted([*first, *rest]) == list(range(40))
    assert coordinator.answer(1, ("share", two, 0)) == 0


def test_what_comes_under_an_old_epoch_is_refused(case: Case) -> None:
    """An engine that was taken for dead still talks: its cell is another's by then."""
    coordinator = case.coordinator()
    old, other = start(coordinator, 0), start(coordinator, 1)
    [(cell, history), *_] = coordinator.answer(0, ("take", old, 0))
    assert history is None
    assert coordinator.answer(0, labels(old, cell, 4)) is True
    coordinator.lost(KILLED)
    for request in (labels(old, cell, 7), ("take", old, 0), ("share", old, 0)):
        assert coordinator.answer(0, request) is None
    new = start(coordinator, 0)
    assert new not in (old, other)
    taken = dict(coordinator.answer(0, ("take", new, 0)))
    assert [answered.labels.tolist() for answered in taken[cell]] == [[4]]  # it goes on from there
    assert coordinator.answer(0, labels(old, cell, 7)) is None
    coordinator.hear(("ended", old, cell, None))
    coordinator.hear(("diverged", old, cell, "", ""))
    assert case.answers(cell) == [[4]]
    assert [type(event) for event in case.events] == [WorkerLost]
    assert coordinator.outcome.diverged == {}


def test_an_engine_writes_of_its_own_cells_only(case: Case) -> None:
    coordinator = case.coordinator()
    one, two = start(coordinator, 0), start(coordinator, 1)
    cell = coordinator.answer(0, ("take", one, 0))[0][0]
    assert coordinator.answer(1, labels(two, cell, 3)) is None
    assert case.answers(cell) == []


def test_a_cell_whose_engines_die_is_given_up_unless_it_gets_on(case: Case) -> None:
    coordinator = case.coordinator(workers=1)
    for death in range(MOST_DEATHS):
        epoch = start(coordinator, 0)
        held = take_all(coordinator, 0, epoch)
        assert held == [*range(40)], death
        coordinator.answer(0, labels(epoch, 6, death))
        coordinator.lost(KILLED)
    assert take_all(coordinator, 0, start(coordinator, 0)) == [6]
    assert not coordinator.finished
    assert set(coordinator.end().unfinished) == set(range(40))


def test_a_cell_that_does_not_ask_the_same_is_begun_anew_if_that_is_wanted(case: Case) -> None:
    for rerun in (False, True):
        coordinator = case.coordinator(workers=1, rerun=rerun)
        epoch = start(coordinator, 0)
        take_all(coordinator, 0, epoch)
        coordinator.answer(0, labels(epoch, 5, 1, 2))
        coordinator.hear(("diverged", epoch, 5, "it asks more", "torch is another"))
        again = coordinator.answer(0, ("take", epoch, 0))
        assert again == ([(5, None)] if rerun else [])
        assert coordinator.outcome.restarted == rerun
        assert coordinator.outcome.diverged == (
            {} if rerun else {5: "it asks more (torch is another)"}
        )


def test_what_is_interrupted_is_unfinished_and_what_ended_is_told(case: Case) -> None:
    coordinator = case.coordinator(workers=1)
    epoch = start(coordinator, 0)
    cells = take_all(coordinator, 0, epoch)
    boundary = half_space(distance=0.3, shape=(3, 8, 8))
    images = boundary.source[None]
    [result] = tb.run(tb.preset("surfree"), boundary.model(), images, [0], budget=60)
    coordinator.hear(("ended", epoch, cells[0], replace(result, stop=Stop.INTERRUPTED)))
    coordinator.hear(("ended", epoch, cells[1], result))
    [event] = case.events
    assert isinstance(event, CellEnded)
    assert (event.worker, event.cell, event.stop) == (0, cells[1], result.stop)
    assert [end.cell for end in case.stores[cells[1] % 2].results()] == [cells[1]]
    unfinished = coordinator.end().unfinished
    assert set(unfinished) == set(range(40)) - {cells[1]}
    reached = unfinished[cells[0]]
    assert reached is not None
    assert reached.index == cells[0]


def test_the_time_between_batches_is_that_of_their_series_by_rows(tmp_path: Path) -> None:
    """Two series of four cells; what was written stays, what is not yet is written at the end."""
    record = sample_record(series=("one", "two"), width=4)
    path = tmp_path / "shard-0.sqlite"
    Store.create(path, record, [])
    now = 100.0
    with Store(path, write=True) as store:
        coordinator = Coordinator(
            [store], Options(), 1, lambda _: None, Stopper(), clock=lambda: now
        )
        epoch = start(coordinator, 0)
        now = 150.0  # the model is being loaded: that is nobody's
        coordinator.answer(0, ("share", epoch, 0))
        take_all(coordinator, 0, epoch)
        now = 152.0
        both = [Answered(0, 0, 0, 0, np.zeros(1), 1.0), Answered(5, 0, 0, 0, np.zeros(3), 1.0)]
        assert coordinator.answer(0, ("record", epoch, pack(both, record.shards))) is True
        assert store.seconds() == {0: 0.5, 1: 1.5}
        now = 153.0
        coordinator.answer(0, labels(epoch, 2, 7))
        assert coordinator.answer(0, labels(epoch + 1, 2, 7)) is None
        assert store.seconds() == {0: 0.5, 1: 1.5}
        coordinator.end()
        assert store.seconds() == {0: 1.5, 1: 1.5}
