"""Executors: jobs end with a value, an error or a death, whatever happens to the processes."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch

from tollbox.core.device import tf32_setting
from tollbox.core.stop import Stop
from tollbox.errors import InputError, TollboxError
from tollbox.workers import executors
from tollbox.workers.executors import JobEnd, Loss, OnLoss, SameProcess, Stopper
from tollbox.workers.process import ProcessPool

# -- jobs, which other processes import from here -------------------------------------------------


class Unsendable(Exception):
    def __init__(self, one, two):
        super().__init__("cannot be rebuilt from this")


def its_shared(shared, link):
    return shared


def its_pid(shared, link):
    return os.getpid()


def its_tf32(shared, link):
    return tf32_setting()


def adds_up(shared, link):
    """Asks for numbers until there are none; reports each."""
    total = 0
    while (number := link.ask("next")) is not None:
        link.report(number)
        total += number
    return total


def fails(shared, link):
    raise KeyError("lost")


def is_refused(shared, link):
    raise InputError("is 0", expected="1 or more", input="count")


def fails_unsendably(shared, link):
    raise Unsendable(1, 2)


def returns_a_lock(shared, link):
    return threading.Lock()


def tells_a_lock(shared, link):
    link.report(threading.Lock())


def dies(shared, link):
    os.kill(os.getpid(), signal.SIGKILL)


def exits(shared, link):
    os._exit(7)


def waits_for_a_stop(shared, link):
    stopped = threading.Event()
    reasons = []

    def stop(reason):
        reasons.append(reason)
        stopped.set()

    link.on_stop(stop)
    link.report("begun")
    stopped.wait()
    return reasons[0]


def asks_for_ever(shared, link):
    count = 0
    while link.ask(count) is not None:
        count += 1
    return count


def ignores_a_large_answer(shared, link):
    return len(link.ask("large"))


# -- helpers --------------------------------------------------------------------------------------


def run(executor, jobs, answer=lambda job, request: None, stopper=None):
    """All that is told, and the ends by job."""
    told = []
    ends = executor.run(jobs, report=told.append, answer=answer, stopper=stopper or Stopper())
    return told, {end.job: end for end in ends if end is not None}


@pytest.fixture(scope="module")
def processes():
    with ProcessPool(2, shared={"a": 1}) as pool:
        yield pool
        assert pool.count == 2  # every test here leaves them as they were


@pytest.fixture(params=["same", "processes"])
def executor(request, processes):
    return SameProcess({"a": 1}) if request.param == "same" else processes


# -- both executors -------------------------------------------------------------------------------


def test_values_come_by_job(executor):
    _, ends = run(executor, [its_shared] * 5)
    assert ends == {place: JobEnd(place, {"a": 1}) for place in range(5)}


def test_jobs_ask_and_tell(executor):
    numbers = iter(range(10))
    told, ends = run(executor, [adds_up] * 3, answer=lambda job, request: next(numbers, None))
    assert sorted(told) == list(range(10))
    assert sum(end.value for end in ends.values()) == 45


def test_a_question_comes_with_the_place_of_its_job(executor):
    asked = []
    run(executor, [asks_for_ever] * 3, answer=lambda job, request: asked.append((job, request)))
    assert sorted(asked) == [(0, 0), (1, 0), (2, 0)]


def test_a_stop_before_the_beginning_reaches_every_job(executor):
    stopper = Stopper()
    stopper(Stop.TIME_LIMIT)
    stopper(Stop.INTERRUPTED)  # the first reason stands
    for _ in range(20):  # whether the stop or the beginning of the job is noticed first
        _, ends = run(executor, [waits_for_a_stop] * 4, stopper=stopper)
        assert [ends[place].value for place in range(4)] == [Stop.TIME_LIMIT] * 4


def test_no_jobs(executor):
    assert run(executor, []) == ([], {})


# -- other processes ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [("allow_tf32", True, ("high", True)), ("fp32_precision", "tf32", ("tf32", "tf32"))],
)
def test_processes_compute_in_the_precision_of_their_parent(name, value, wanted):
    """Also where torch refuses to read `allow_tf32`, since it was set in the newer way."""
    matmul = torch.backends.cuda.matmul
    setattr(matmul, name, value)
    try:
        with ProcessPool(1) as own:
            _, ends = run(own, [its_tf32])
    finally:
        matmul.allow_tf32 = False
    assert ends[0].value[:2] == wanted


def test_jobs_run_elsewhere_and_processes_are_used_again(processes):
    _, first = run(processes, [its_pid] * 4)
    _, second = run(processes, [its_pid] * 4)
    pids = {end.value for end in (*first.values(), *second.values())}
    assert pids == set(processes.pids)
    assert os.getpid() not in pids


@pytest.mark.parametrize(
    ("job", "error", "words"),
    [
        (fails, KeyError, "lost"),
        (is_refused, InputError, "count is 0: expected 1 or more."),
        (fails_unsendably, RuntimeError, "cannot be rebuilt from this"),
        (returns_a_lock, TypeError, "lock"),
        (tells_a_lock, TypeError, "lock"),
    ],
)
def test_an_error_ends_its_job_and_no_other(processes, job, error, words):
    _, ends = run(processes, [its_shared, job, its_shared])
    assert isinstance(ends[1].error, error)
    assert words in str(ends[1].error)
    if error is KeyError:  # a bug: where it happened comes along
        assert "in fails" in ends[1].error.__notes__[0]
    assert [ends[0].value, ends[2].value] == [{"a": 1}] * 2


def test_an_error_in_the_same_process_is_raised_as_it_is():
    with pytest.raises(KeyError, match="lost"):
        run(SameProcess(), [fails])


@pytest.mark.parametrize(("job", "how"), [(dies, "signal 9"), (exits, "exit code 7")])
def test_a_process_that_dies_ends_its_job_and_the_others_go_on(job, how):
    with ProcessPool(2) as pool:
        _, ends = run(pool, [job, its_pid, its_pid, its_pid])
        assert ends[0] == JobEnd(0, died=how)
        assert pool.count == 1
        assert {ends[place].value for place in (1, 2, 3)} == set(pool.pids)
        _, ends = run(pool, [its_pid])
        assert [ends[0].value] == pool.pids


def test_when_all_have_died_the_jobs_that_are_left_end_too():
    with ProcessPool(1) as pool:
        _, ends = run(pool, [dies, its_pid, its_pid])
        assert [ends[place].died for place in range(3)] == ["signal 9"] + ["no process is left"] * 2
        _, ends = run(pool, [its_pid])
        assert ends[0].died == "no process is left"


def test_a_stop_during_a_job(processes):
    stopper, told, ends = Stopper(), [], []
    events = processes.run(
        [waits_for_a_stop] * 3, report=told.append, answer=lambda *_: None, stopper=stopper
    )
    for end in events:
        ends += [] if end is None else [end.value]
        if len(told) == 2:  # both processes wait; the third job is stopped when it begins
            stopper(Stop.TIME_LIMIT)
    assert ends == [Stop.TIME_LIMIT] * 3


def test_a_stop_while_a_large_message_is_sent(processes):
    """As a signal handler does it: in the middle of whatever the parent does."""
    stopper = Stopper()
    before = signal.signal(signal.SIGALRM, lambda *_: stopper(Stop.INTERRUPTED))
    try:
        for _ in range(5):
            stopper.reason = None
            signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
            large = bytes(20_000_000)
            _, ends = run(
                processes, [ignores_a_large_answer] * 2, lambda *_, large=large: large, stopper
            )
            signal.setitimer(signal.ITIMER_REAL, 0)
            assert [ends[0].value, ends[1].value] == [len(large)] * 2
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_caller_may_go_early(processes):
    events = processes.run(
        [adds_up] * 4, report=lambda event: None, answer=lambda *_: 1, stopper=Stopper()
    )
    assert next(events) is None
    events.close()
    _, ends = run(processes, [its_pid] * 2)
    assert {end.value for end in ends.values()} <= set(processes.pids)


@pytest.mark.parametrize("broken", ["raises", "cannot be sent"])
def test_an_error_in_an_answer_is_raised_and_nobody_waits_for_ever(processes, broken):
    def answer(job, request):
        if broken == "raises":
            raise OSError("the disk is gone")
        return threading.Lock()

    with pytest.raises((OSError, TypeError), match=r"the disk is gone|lock"):
        run(processes, [asks_for_ever] * 3, answer)
    _, ends = run(processes, [its_pid] * 2)
    assert {end.value for end in ends.values()} <= set(processes.pids)


def test_a_process_that_dies_while_nobody_listens_is_not_used_again():
    with ProcessPool(2) as pool:
        events = pool.run(
            [adds_up, asks_for_ever], report=lambda _: None, answer=lambda *_: 1, stopper=Stopper()
        )
        assert next(events) is None
        os.kill(pool.pids[1], signal.SIGKILL)
        events.close()
        assert pool.count == 1
        _, ends = run(pool, [its_pid] * 2)
        assert {end.value for end in ends.values()} == set(pool.pids)


class Says:
    """What becomes of jobs that lose their process, one word after another; then they end."""

    def __init__(self, *words, overdue=False):
        self._words, self._overdue, self.losses = list(words), overdue, []

    def lost(self, loss):
        self.losses.append(loss)
        return self._words.pop(0) if self._words else OnLoss.END

    def overdue(self, place):
        return self._overdue


class Once:
    """Does something the first time, wherever that is; then it gives its process's id."""

    def __init__(self, file, job):
        self.file, self.job = file, job

    def __call__(self, shared, link):
        try:
            self.file.touch(exist_ok=False)
        except FileExistsError:
            return os.getpid()
        return self.job(shared, link)


def needs_too_much(shared, link):
    raise MemoryError("a whole tensor")


def fails_for_lack_of_memory(shared, link):
    try:
        needs_too_much(shared, link)
    except MemoryError:
        raise InputError("the model cannot be loaded") from None


def waits_for(file):
    return functools.partial(_waits_for, file)


def _waits_for(file, shared, link):
    while not file.exists():
        time.sleep(0.01)
    return os.getpid()


def cared_for(pool, jobs, care):
    ends = pool.run(jobs, report=print, answer=lambda *_: None, stopper=Stopper(), policy=care)
    return {end.job: end for end in ends if end is not None}


@pytest.mark.parametrize(("job", "how"), [(dies, "signal 9"), (exits, "exit code 7")])
def test_a_job_whose_process_died_goes_on_in_a_fresh_one(job, how, tmp_path):
    care = Says(OnLoss.NOW)
    with ProcessPool(2) as pool:
        before = pool.pids
        first = Once(tmp_path / "died", job)
        # the other process is busy until that job has died
        ends = cared_for(pool, [waits_for(tmp_path / "died"), first], care)
        assert care.losses == [Loss(1, how, memory=False, alone=False)]
        assert ends[1].value in pool.pids
        assert pool.count <= 2
        assert ends[0].value in before


def test_a_job_that_is_to_go_on_later_waits_for_a_process(tmp_path):
    care = Says(OnLoss.LATER)
    with ProcessPool(2) as pool:
        first = Once(tmp_path / "died", dies)
        ends = cared_for(pool, [first, waits_for(tmp_path / "died"), its_pid], care)
        assert {end.value for end in ends.values()} == set(pool.pids)
        assert pool.count == 1


def test_a_fresh_process_that_dies_too_is_an_end():
    care = Says(OnLoss.NOW)
    with ProcessPool(1) as pool:
        ends = cared_for(pool, [dies], care)
        assert ends == {0: JobEnd(0, died="signal 9")}
        assert care.losses == [Loss(0, "signal 9", False, True)] * 2


@pytest.mark.parametrize("job", [needs_too_much, fails_for_lack_of_memory])
def test_a_job_that_has_not_enough_memory_leaves_its_process(job, tmp_path):
    care = Says(OnLoss.LATER)
    with ProcessPool(2) as pool:
        first = Once(tmp_path / "short", job)
        ends = cared_for(pool, [first, waits_for(tmp_path / "short"), its_pid], care)
        [loss] = care.losses
        assert (loss.job, loss.memory, loss.alone) == (0, True, False)
        assert {end.value for end in ends.values()} == set(pool.pids)
        assert pool.count == 1


def test_the_last_process_is_replaced_and_is_alone_then():
    care = Says(OnLoss.LATER, OnLoss.LATER)
    with ProcessPool(2) as pool:
        ends = cared_for(pool, [needs_too_much] * 2, care)
        assert [end.died for end in ends.values()] == ["a whole tensor"] * 2
        assert [loss.alone for loss in care.losses] == [False, False, True, True]
        assert [loss.job for loss in care.losses[2:]] == [loss.job for loss in care.losses[:2]]


def test_without_care_too_little_memory_is_an_error(processes):
    _, ends = run(processes, [needs_too_much, its_shared])
    assert isinstance(ends[0].error, MemoryError)
    assert ends[1].value == {"a": 1}


class Large:
    """There is memory for so many of them only."""

    def __init__(self, folder, most):
        self.folder, self.most = folder, most

    def __reduce__(self):
        return take_memory, (self.folder, self.most)


def take_memory(folder, most):
    for number in range(most):
        try:
            (folder / str(number)).touch(exist_ok=False)
        except FileExistsError:
            continue
        return number
    raise MemoryError("no more")


def test_there_are_as_many_processes_as_there_is_memory_for(tmp_path):
    with ProcessPool(3, Large(tmp_path, 2)) as pool:
        assert pool.count == 2
        _, ends = run(pool, [its_shared] * 3)
        assert {end.value for end in ends.values()} <= {0, 1}
    with pytest.raises(InputError, match=r"could not start \(MemoryError: no more\)"):
        ProcessPool(2, Large(tmp_path, 2))


def test_a_job_that_is_overdue_is_killed(monkeypatch):
    monkeypatch.setattr(executors, "CHECK_SECONDS", 0.01)
    with ProcessPool(1) as pool:
        ends = pool.run(
            [waits_for_a_stop],
            report=print,
            answer=print,
            stopper=Stopper(),
            policy=Says(overdue=True),
        )
        [end] = [end for end in ends if end is not None]
        assert end.died == "signal 9"


def test_what_cannot_be_sent_is_refused():
    with pytest.raises(InputError, match="the model cannot be sent to another process"):
        ProcessPool(1, shared=lambda: None)


def test_what_cannot_be_loaded_there_is_reported(tmp_path):
    with pytest.raises(InputError, match=r"could not start .*ValueError: not here") as raised:
        ProcessPool(2, shared=Refuses())
    assert isinstance(raised.value, TollboxError)


class Refuses:
    """Can be sent, but not loaded."""

    def __reduce__(self):
        return refuse, ()


def refuse():
    raise ValueError("not here")


PARENT = """
import os, sys, threading, time
{heavy}
if __name__ == "__main__":
    import test_executors as jobs
    from tollbox.workers.executors import Stopper
    from tollbox.workers.process import ProcessHandle, ProcessPool
    start = ProcessHandle.__init__
    def announce(self, inbox, alone):
        start(self, inbox, alone)
        print(self.process.pid, flush=True)
    ProcessHandle.__init__ = announce
    with ProcessPool(2) as pool:
        for _ in pool.run(
            [jobs.waits_for_a_stop] * 2,
            report=lambda event: print("runs", flush=True),
            answer=lambda *_: None,
            stopper=Stopper(),
        ):
            pass
"""
HEAVY = "time.sleep(0 if __name__ == '__main__' else 60)"
"""Stands for imports that take long."""
STUCK = "import ctypes\nif __name__ != '__main__': ctypes.PyDLL(None).sleep(60)"
"""Likewise, in C and without letting other threads run, as when a library is loaded."""


@contextlib.contextmanager
def begun(folder, heavy=""):
    """A parent whose two processes have been begun, and their ids."""
    script = folder / "parent.py"
    script.write_text(PARENT.format(heavy=heavy))
    paths = [str(Path(__file__).parent), *sys.path]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    command = [sys.executable, str(script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as parent:
        children = []
        try:
            children = [int(parent.stdout.readline()) for _ in range(2)]
            yield parent, children
        finally:
            parent.kill()
            for pid in filter(is_running, children):
                os.kill(pid, signal.SIGKILL)


def all_end(children, seconds=2.0):
    end = time.monotonic() + seconds
    while time.monotonic() < end and any(map(is_running, children)):
        time.sleep(0.01)
    return not any(map(is_running, children))


def test_processes_end_when_their_parent_is_killed(tmp_path):
    with begun(tmp_path) as (parent, children):
        assert [parent.stdout.readline() for _ in range(2)] == ["runs\n"] * 2
        parent.kill()
        assert all_end(children)


@pytest.mark.parametrize("heavy", ["", HEAVY, STUCK])
@pytest.mark.parametrize("seconds", [0.0, 0.05, 0.5])
def test_processes_that_begin_end_when_their_parent_is_killed(tmp_path, heavy, seconds):
    if heavy == STUCK and sys.platform != "linux":
        pytest.skip("the kernel does not help")
    with begun(tmp_path, heavy) as (parent, children):
        time.sleep(seconds)
        parent.kill()
        assert all_end(children)


def test_without_the_kernels_help_a_thread_watches_the_parent(tmp_path):
    heavy = f"{HEAVY}\nfrom tollbox.workers import process\n"
    heavy += "process.threading.main_thread = lambda: None"  # as if begun in another thread
    with begun(tmp_path, heavy) as (parent, children):
        time.sleep(0.5)
        parent.kill()
        assert all_end(children)


def test_processes_outlive_the_thread_that_began_them():
    made = []
    thread = threading.Thread(target=lambda: made.append(ProcessPool(1)))
    thread.start()
    thread.join()
    with made[0] as pool:
        time.sleep(0.2)
        _, ends = run(pool, [its_pid])
        assert [ends[0].value] == pool.pids


def test_a_main_module_that_begins_processes_when_it_is_imported_is_refused(tmp_path):
    script = tmp_path / "no_if.py"
    script.write_text("from tollbox.workers.process import ProcessPool\nProcessPool(1)\n")
    ended = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert "before the\n        current process has finished its bootstrapping" in ended.stderr
    assert "a worker process could not start (exit code 1)" in ended.stderr


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"
