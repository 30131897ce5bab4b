"""Several processes: the results of one, whatever happens to the processes."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import tollbox as tb
from tollbox import Prices, Stop
from tollbox.attack import Cell
from tollbox.workers import Workers
from tollbox.workers.executors import Stopper
from tollbox.workers.pool import _CellCoordinator

SHAPE = (1, 4, 4)
DEADLY = 0.987654321


class Plane(nn.Module):
    """Two classes on both sides of a plane; kills its process at a certain first pixel."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(3)
        self.weight = nn.Parameter(torch.randn(16, generator=generator, dtype=torch.float64))

    def forward(self, images):
        if bool((images[:, 0, 0, 0] == DEADLY).any()):
            os.kill(os.getpid(), signal.SIGKILL)
        score = (images.flatten(1) - 0.5) @ self.weight
        return torch.stack([-score, score], 1)


def model() -> tb.models.Model:
    return tb.models.from_torch(Plane(), dtype=torch.float64, classes=2)  # so it is not tried here


def cells(count: int, budget: float = 400.0) -> list[Cell]:
    generator = torch.Generator().manual_seed(5)
    images = torch.rand((count, *SHAPE), generator=generator, dtype=torch.float64)
    labels = model()(images).tolist()
    attacks = [tb.preset("surfree"), tb.preset("a-hsja")]
    return [
        Cell(
            attacks[i % 2],
            images[i],
            labels[i],
            Prices(4, 1),
            tb.Limits(budget),
            name=f"number {i}",
        )
        for i in range(count)
    ]


@pytest.fixture(scope="module")
def workers():
    with Workers(model(), 2, force=True) as pool:
        yield pool


def same(one: tb.Result, other: tb.Result) -> bool:
    return (
        (one.index, one.name, one.stop) == (other.index, other.name, other.stop)
        and one.ledger == other.ledger
        and one.improvements == other.improvements
        and one.trace == other.trace
        and torch.equal(one.adversarial, other.adversarial)
    )


def test_results_are_those_of_one_process(workers):
    listed = cells(12)
    alone = tb.attack.run_cells(listed, model())
    shared = tb.attack.run_cells(listed, model(), execution=tb.Execution(workers=workers))
    assert len(shared) == 12
    assert all(same(a, b) for a, b in zip(alone, shared, strict=True))


def test_progress_adds_up_over_workers(workers):
    seen = []
    results = tb.attack.run_cells(
        cells(6), model(), execution=tb.Execution(workers=workers), progress=seen.append
    )
    assert seen[-1].done == 6 == sum(len(now.finished) for now in seen)
    assert seen[-1].queries == sum(r.ledger.queries for r in results)
    assert seen[-1].live == 0
    assert seen[-1].rows >= seen[-1].queries


def test_a_stream_may_be_left_early_and_the_workers_used_again(workers):
    endless = (cell.image for cell in cells(2) for _ in range(10**6))
    labels = (0 for _ in range(10**9))
    attack = tb.preset("hsja")
    stream = tb.stream(
        attack, model(), endless, labels, budget=30, execution=tb.Execution(live=4, workers=workers)
    )
    assert [next(stream).limits.budget for _ in range(3)] == [30] * 3
    stream.close()
    assert [
        r.stop
        for r in tb.attack.run_cells(cells(3), model(), execution=tb.Execution(workers=workers))
    ] == [Stop.BUDGET] * 3


def test_stop_ends_all_and_those_that_had_not_begun(workers):
    listed = cells(80, budget=1e9)[::2]
    results = tb.attack.run_cells(
        listed,
        model(),
        execution=tb.Execution(live=4, workers=workers),
        progress=lambda now: workers.stop(),
    )
    assert len(results) == 40
    assert {r.stop for r in results} == {Stop.INTERRUPTED}


def test_the_time_limit_holds_in_every_worker(workers):
    began = time.monotonic()
    listed = cells(8, budget=1e9)[::2]  # those of SurFree, which has far to go
    results = tb.attack.run_cells(
        listed, model(), execution=tb.Execution(workers=workers, time_limit=0.5)
    )
    assert {r.stop for r in results} == {Stop.TIME_LIMIT}
    assert time.monotonic() - began < 20


def test_an_error_of_whoever_makes_the_images_comes_after_what_was_under_way(workers):
    listed = cells(3)

    def images():
        yield from (cell.image for cell in listed)
        raise OSError("the disk is gone")

    attack, indices = tb.preset("surfree"), []
    labels = [cell.label for cell in listed] + [0]
    stream = tb.stream(
        attack, model(), images(), labels, budget=50, execution=tb.Execution(workers=workers)
    )
    with pytest.raises(OSError, match="the disk is gone"):
        indices.extend(result.index for result in stream)
    assert sorted(indices) == [0, 1, 2]


def test_a_view_takes_only_its_own_pixels_along():
    many = torch.rand(500, *SHAPE, dtype=torch.float64)
    cell = Cell(tb.preset("hsja"), many[7], 0, limits=tb.Limits(9))
    index, content = _CellCoordinator([cell], 1, Stopper()).answer(0, None)
    assert index == 0
    assert len(content) < 4000 < many.numel() * 8
    assert torch.equal(pickle.loads(content).image, many[7])


def test_a_worker_that_dies_takes_only_its_cells_along():
    listed = cells(8)
    deadly = torch.full(SHAPE, 0.5, dtype=torch.float64)
    deadly[0, 0, 0] = DEADLY
    listed.insert(3, Cell(tb.preset("hsja"), deadly, 0, limits=tb.Limits(10), name="deadly"))
    results = tb.attack.run_cells(listed, model(), execution=tb.Execution(workers=2))
    lost = [r for r in results if r.stop is Stop.MODEL_ERROR]
    assert "deadly" in {r.name for r in lost}
    assert all("the worker process died (signal 9)" in r.reason for r in lost)
    finished = [r for r in results if r.stop is Stop.BUDGET]
    assert len(finished) + len(lost) == 9
    assert len(finished) >= 3


def test_when_all_workers_died_the_cells_that_are_left_are_reported():
    deadly = torch.full(SHAPE, 0.5, dtype=torch.float64)
    deadly[0, 0, 0] = DEADLY
    listed = [
        Cell(tb.preset("hsja"), deadly, 0, limits=tb.Limits(10), name=f"{i}") for i in range(40)
    ]
    with Workers(model(), 2) as pool:
        results = tb.attack.run_cells(listed, model(), execution=tb.Execution(live=2, workers=pool))
        assert [r.index for r in results] == list(range(40))
        assert {r.stop for r in results} == {Stop.MODEL_ERROR}
        assert "all worker processes died (signal 9, signal 9)" in results[-1].reason
        with pytest.raises(tb.errors.InputError, match="closed"):
            tb.attack.run_cells(listed, model(), execution=tb.Execution(workers=pool))
    images, labels = (cell.image for cell in listed), [0] * 40
    with pytest.raises(tb.errors.TollboxError, match="all worker processes died"):
        list(
            tb.stream(
                tb.preset("hsja"),
                model(),
                images,
                labels,
                budget=9,
                execution=tb.Execution(live=2, workers=2),
            )
        )


def test_there_are_no_more_processes_than_cells(monkeypatch):
    begun = []

    class Counting(Workers):
        def __init__(self, model, count):
            begun.append(count)
            super().__init__(model, count)

    monkeypatch.setattr("tollbox._run.Workers", Counting)
    assert (
        len(tb.attack.run_cells(cells(2, budget=20), model(), execution=tb.Execution(workers=200)))
        == 2
    )
    assert begun == [2]
    assert (
        len(tb.attack.run_cells(cells(1, budget=20), model(), execution=tb.Execution(workers=200)))
        == 1
    )
    assert begun == [2]  # a single cell needs no other process
    with pytest.raises(tb.errors.InputError, match="workers is 1000"):
        tb.attack.run_cells(cells(1), model(), execution=tb.Execution(workers=1000))


def test_there_are_no_more_processes_than_cores_unless_forced(monkeypatch):
    monkeypatch.setattr("tollbox.workers.executors.cores", lambda: 1)
    words = "and this machine has 1 core: no more processes than cores are used"
    with pytest.warns(UserWarning, match=f"workers is 2, {words}.*; force=True lifts that"):
        pool = Workers(model(), 2)
    assert pool.count == 1
    pool.close()
    with Workers(model(), 2, force=True) as pool:
        assert pool.count == 2

    class Never(Workers):
        def __init__(self, *_):
            pytest.fail("a single core needs no other process")

    monkeypatch.setattr("tollbox._run.Workers", Never)
    with pytest.warns(UserWarning, match=rf"workers is 7, {words}.*Workers\(.*force=True\)"):
        results = tb.attack.run_cells(
            cells(3, budget=20), model(), execution=tb.Execution(workers=7)
        )
    assert len(results) == 3


class Scarce(Plane):
    """There is memory for a single copy of it in other processes."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def __setstate__(self, state):
        super().__setstate__(state)
        try:
            (self.folder / "one").touch(exist_ok=False)
        except FileExistsError:
            raise MemoryError("no room for a second") from None


def test_a_worker_that_cannot_load_the_model_leaves_its_cells_to_others(tmp_path):
    scarce = tb.models.from_torch(Scarce(tmp_path).eval(), dtype=torch.float64)
    with Workers(scarce, 2, force=True) as pool:
        assert pool.count == 1
        assert {
            r.stop
            for r in tb.attack.run_cells(cells(4), scarce, execution=tb.Execution(workers=pool))
        } == {Stop.BUDGET}


def test_what_cannot_be_sent_is_told():
    lonely = tb.models.from_callable(lambda images: np.zeros(len(images), int))
    with pytest.raises(
        tb.errors.InputError, match=r"the model cannot be sent to another process .*lambda"
    ):
        tb.attack.run_cells(cells(2), lonely, execution=tb.Execution(workers=2))


@pytest.mark.parametrize("count", [0, -1, 1.5, True, 1000, "two"])
def test_a_wrong_number_of_workers_is_refused(count):
    with pytest.raises(
        tb.errors.InputError, match=r"workers is .*expected a whole number from 1 to 256"
    ):
        Workers(model(), count)


def test_closed_workers_are_refused():
    pool = Workers(model(), 1)
    pool.close()
    with pytest.raises(tb.errors.InputError, match="closed"):
        list(pool.run_cells(cells(1)))


def test_workers_end_when_their_parent_is_killed(tmp_path):
    script = tmp_path / "parent.py"
    script.write_text(
        textwrap.dedent(
            """
            import test_workers, tollbox as tb
            if __name__ == "__main__":
                with tb.workers.Workers(test_workers.model(), 2) as pool:
                    print(*pool.pids, flush=True)
                    listed = test_workers.cells(4, budget=1e12)
                    both = tb.Execution(workers=pool)
                    tb.attack.run_cells(listed, test_workers.model(), execution=both)
            """
        )
    )
    paths = [str(Path(__file__).parent), *sys.path]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    parent = subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, text=True, env=environment
    )
    assert parent.stdout is not None
    children = [int(pid) for pid in parent.stdout.readline().split()]
    assert len(children) == 2
    time.sleep(0.5)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    end = time.monotonic() + 20
    while time.monotonic() < end and any(_runs(pid) for pid in children):
        time.sleep(0.1)
    assert not any(_runs(pid) for pid in children)


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"
