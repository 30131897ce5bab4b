"""The desk: cells go to one engine at a time, and an epoch that is over writes nothing."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_studies import sample_record

import tollbox as tb
from tollbox.core.stop import Stop
from tollbox.engine.journal import Answered
from tollbox.studies.coordinator import (
    MOST_DEATHS,
    Begin,
    Desk,
    Diverged,
    Ended,
    Open,
    Record,
    Take,
    Unfinished,
    pack,
    writing,
)
from tollbox.studies.events import CellEnded, Options
from tollbox.studies.store.store import Store
from tollbox.testing import half_space

RECORD = sample_record(shards=2)


@dataclass
class Case:
    """Two shards of twenty cells each, and two engines."""

    stores: dict[int, Store]
    events: list[Any]

    def desk(self, engines: int = 2, **options: Any) -> Desk:
        how = Options(**options)
        return Desk(self.stores, range(engines), how, lambda: math.inf, self.events.append)

    def answers(self, cell: int) -> list[list[int]]:
        found = self.stores[cell % 2].answers({cell})
        return [answered.labels.tolist() for answered in found.get(cell, [])]


@pytest.fixture
def case(tmp_path: Path) -> Iterator[Case]:
    paths = {shard: tmp_path / f"shard-{shard}.sqlite" for shard in (0, 1)}
    for shard, path in paths.items():
        Store.create(path, replace(RECORD, shard=shard), [])
    with writing(paths) as stores:
        yield Case(stores, [])


def begin(desk: Desk, place: int) -> int:
    epoch = desk.answer(place, Begin()).epoch
    assert isinstance(epoch, int)
    return epoch


def labels(epoch: int, cell: int, *given: int) -> Record:
    return Record(epoch, pack([Answered(cell, 0, 0, 0, np.array(given), 1.0)], RECORD))


def take_all(desk: Desk, place: int, epoch: int) -> list[int]:
    cells: list[int] = []
    while some := desk.answer(place, Take(epoch, 0)):
        cells += [cell for cell, _ in some]
    return cells


def test_each_cell_is_given_out_once_and_those_of_the_own_shard_first(case: Case) -> None:
    desk = case.desk()
    one, two = begin(desk, 0), begin(desk, 1)
    assert desk.answer(0, Open(one, 0)) == 20
    first = [cell for cell, _ in desk.answer(1, Take(two, 0))]
    assert first == [1, 3, 5, 7, 9]
    rest = take_all(desk, 0, one)
    assert rest[:20] == list(range(0, 40, 2))
    assert sorted([*first, *rest]) == list(range(40))
    assert desk.answer(1, Open(two, 0)) == 0


def test_what_comes_under_an_old_epoch_is_refused(case: Case) -> None:
    """An engine that was taken for dead still talks: its cell is another's by then."""
    desk = case.desk()
    old, other = begin(desk, 0), begin(desk, 1)
    [(cell, history), *_] = desk.answer(0, Take(old, 0))
    assert history is None
    assert desk.answer(0, labels(old, cell, 4)) is True
    desk.take_back(0)
    for request in (labels(old, cell, 7), Take(old, 0), Open(old, 0)):
        assert desk.answer(0, request) is None
    new = begin(desk, 0)
    assert new not in (old, other)
    taken = dict(desk.answer(0, Take(new, 0)))
    assert [answered.labels.tolist() for answered in taken[cell]] == [[4]]  # it goes on from there
    assert desk.answer(0, labels(old, cell, 7)) is None
    desk.hear(Ended(old, cell, None))  # type: ignore[arg-type]
    desk.hear(Diverged(old, cell, "", ""))
    assert case.answers(cell) == [[4]]
    assert (case.events, desk.outcome.diverged) == ([], {})


def test_an_engine_writes_of_its_own_cells_only(case: Case) -> None:
    desk = case.desk()
    one, two = begin(desk, 0), begin(desk, 1)
    cell = desk.answer(0, Take(one, 0))[0][0]
    assert desk.answer(1, labels(two, cell, 3)) is None
    assert case.answers(cell) == []


def test_a_cell_whose_engines_die_is_given_up_unless_it_gets_on(case: Case) -> None:
    desk = case.desk(engines=1)
    for death in range(MOST_DEATHS):
        epoch = begin(desk, 0)
        held = take_all(desk, 0, epoch)
        assert held == [*range(0, 40, 2), *range(1, 40, 2)], death
        desk.answer(0, labels(epoch, 6, death))
        desk.take_back(0)
    assert take_all(desk, 0, begin(desk, 0)) == [6]
    assert not desk.finished
    assert set(desk.end().unfinished) == set(range(40))


def test_a_cell_that_does_not_ask_the_same_is_begun_anew_if_that_is_wanted(case: Case) -> None:
    for rerun in (False, True):
        desk = case.desk(engines=1, rerun=rerun)
        epoch = begin(desk, 0)
        take_all(desk, 0, epoch)
        desk.answer(0, labels(epoch, 5, 1, 2))
        desk.hear(Diverged(epoch, 5, "it asks more", "torch is another"))
        again = desk.answer(0, Take(epoch, 0))
        assert again == ([(5, None)] if rerun else [])
        assert desk.outcome.restarted == rerun
        assert desk.outcome.diverged == ({} if rerun else {5: "it asks more (torch is another)"})


def test_what_is_interrupted_is_unfinished_and_what_ended_is_told(case: Case) -> None:
    desk = case.desk(engines=1)
    epoch = begin(desk, 0)
    cells = take_all(desk, 0, epoch)
    boundary = half_space(distance=0.3, shape=(3, 8, 8))
    images = boundary.source[None]
    [result] = tb.run(tb.preset("surfree"), boundary.model(), images, [0], budget=60)
    desk.hear(Unfinished(epoch, cells[0], replace(result, stop=Stop.INTERRUPTED)))
    desk.hear(Ended(epoch, cells[1], result))
    [event] = case.events
    assert isinstance(event, CellEnded)
    assert (event.engine, event.cell, event.stop) == (0, cells[1], result.stop)
    assert [end.cell for end in case.stores[cells[1] % 2].results()] == [cells[1]]
    unfinished = desk.end().unfinished
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
    with writing({0: path}) as stores:
        desk = Desk(stores, [0], Options(), lambda: math.inf, lambda _: None, lambda: now)
        epoch = begin(desk, 0)
        now = 150.0  # the model is being loaded: that is nobody's
        desk.answer(0, Open(epoch, 0))
        take_all(desk, 0, epoch)
        now = 152.0
        both = [Answered(0, 0, 0, 0, np.zeros(1), 1.0), Answered(5, 0, 0, 0, np.zeros(3), 1.0)]
        assert desk.answer(0, Record(epoch, pack(both, record))) is True
        assert stores[0].seconds() == {0: 0.5, 1: 1.5}
        now = 153.0
        desk.answer(0, labels(epoch, 2, 7))
        assert desk.answer(0, labels(epoch + 1, 2, 7)) is None
        assert stores[0].seconds() == {0: 0.5, 1: 1.5}
        desk.end()
        assert stores[0].seconds() == {0: 1.5, 1: 1.5}
