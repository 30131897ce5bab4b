"""Executors: jobs end with a value, an error or a death, whatever happens to the processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
import torch

from tollbox.core import tf32
from tollbox.core.stop import Stop
from tollbox.engine import executors
from tollbox.engine.executors import JobEnd, Processes, SameProcess, Stopper
from tollbox.errors import InputError, TollboxError

# -- jobs, which other processes import from here -------------------------------------------------


class Unsendable(Exception):
    def __init__(self, one, two):
        super().__init__("cannot be rebuilt from this")


def its_shared(shared, link):
    return shared


def its_pid(shared, link):
    return os.getpid()


def its_tf32(shared, link):
    return tf32.setting()


def adds_up(shared, link):
    """Asks for numbers until there are none; reports each."""
    total = 0
    while (number := link.ask("next")) is not None:
        link.tell(number)
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
    link.tell(threading.Lock())


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
    link.tell("begun")
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
    ends = executor.run(jobs, tell=told.append, answer=answer, stopper=stopper or Stopper())
    return told, {end.job: end for end in ends if end is not None}


@pytest.fixture(scope="module")
def processes():
    with Processes(2, shared={"a": 1}) as pool:
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
    [("allow_tf32", True, (True, True)), ("fp32_precision", "tf32", ("tf32", "tf32"))],
)
def test_processes_compute_in_the_precision_of_their_parent(name, value, wanted):
    """Also where torch refuses to read `allow_tf32`, since it was set in the newer way."""
    matmul = torch.backends.cuda.matmul
    setattr(matmul, name, value)
    try:
        with Processes(1) as own:
            _, ends = run(own, [its_tf32])
    finally:
        matmul.allow_tf32 = False
    assert ends[0].value == wanted


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
    with Processes(2) as pool:
        _, ends = run(pool, [job, its_pid, its_pid, its_pid])
        assert ends[0] == JobEnd(0, died=how)
        assert pool.count == 1
        assert {ends[place].value for place in (1, 2, 3)} == set(pool.pids)
        _, ends = run(pool, [its_pid])
        assert [ends[0].value] == pool.pids


def test_when_all_have_died_the_jobs_that_are_left_end_too():
    with Processes(1) as pool:
        _, ends = run(pool, [dies, its_pid, its_pid])
        assert [ends[place].died for place in range(3)] == ["signal 9"] + ["no process is left"] * 2
        _, ends = run(pool, [its_pid])
        assert ends[0].died == "no process is left"


def test_a_stop_during_a_job(processes):
    stopper, told, ends = Stopper(), [], []
    events = processes.run(
        [waits_for_a_stop] * 3, tell=told.append, answer=lambda *_: None, stopper=stopper
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
        [adds_up] * 4, tell=lambda event: None, answer=lambda *_: 1, stopper=Stopper()
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
    with Processes(2) as pool:
        events = pool.run(
            [adds_up, asks_for_ever], tell=lambda _: None, answer=lambda *_: 1, stopper=Stopper()
        )
        assert next(events) is None
        os.kill(pool.pids[1], signal.SIGKILL)
        events.close()
        assert pool.count == 1
        _, ends = run(pool, [its_pid] * 2)
        assert {end.value for end in ends.values()} == set(pool.pids)


class Again:
    """Replaces the first job by another, once; a job that is overdue is killed."""

    def __init__(self, job=None, overdue=False):
        self.job, self._overdue, self.deaths = job, overdue, []

    def replacement(self, place, died):
        self.deaths.append((place, died))
        job, self.job = self.job, None
        return job

    def overdue(self, place):
        return self._overdue


@pytest.mark.parametrize(("job", "how"), [(dies, "signal 9"), (exits, "exit code 7")])
def test_a_job_whose_process_died_is_run_again_in_a_fresh_one(job, how):
    care = Again(its_pid)
    with Processes(2) as pool:
        before = pool.pids
        ends = pool.run(
            [its_pid, job], tell=print, answer=lambda *_: None, stopper=Stopper(), care=care
        )
        ends = {end.job: end for end in ends if end is not None}
        assert care.deaths == [(1, how)]
        assert ends[1].value not in before
        assert ends[1].value in pool.pids
        assert pool.count == 2


def test_a_fresh_process_that_dies_too_is_an_end():
    care = Again(dies)
    with Processes(1) as pool:
        [end] = pool.run([dies], tell=print, answer=print, stopper=Stopper(), care=care)
        assert (end.died, care.deaths) == ("signal 9", [(0, "signal 9")] * 2)


def test_a_job_that_is_overdue_is_killed(monkeypatch):
    monkeypatch.setattr(executors, "CARE_SECONDS", 0.01)
    with Processes(1) as pool:
        ends = pool.run(
            [waits_for_a_stop],
            tell=print,
            answer=print,
            stopper=Stopper(),
            care=Again(overdue=True),
        )
        [end] = [end for end in ends if end is not None]
        assert end.died == "signal 9"


def test_what_cannot_be_sent_is_refused():
    with pytest.raises(InputError, match="the model cannot be sent to another process"):
        Processes(1, shared=lambda: None)


def test_what_cannot_be_loaded_there_is_reported(tmp_path):
    with pytest.raises(InputError, match=r"could not begin .*ValueError: not here") as raised:
        Processes(2, shared=Refuses())
    assert isinstance(raised.value, TollboxError)


class Refuses:
    """Can be sent, but not loaded."""

    def __reduce__(self):
        return refuse, ()


def refuse():
    raise ValueError("not here")


def test_processes_end_when_their_parent_is_killed(tmp_path):
    script = tmp_path / "parent.py"
    script.write_text(
        textwrap.dedent(
            """
            import test_executors as jobs
            from tollbox.engine.executors import Processes, Stopper
            if __name__ == "__main__":
                with Processes(2) as pool:
                    for _ in pool.run(
                        [jobs.waits_for_a_stop] * 2,
                        tell=lambda event: print(*pool.pids, flush=True),
                        answer=lambda *_: None,
                        stopper=Stopper(),
                    ):
                        pass
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
    assert parent.stdout.readline()  # both jobs have begun
    parent.kill()
    parent.wait()
    assert parent.stdout.read() == ""  # which ends when the last process that holds it has ended
    parent.stdout.close()
    while any(is_running(pid) for pid in children):
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"
