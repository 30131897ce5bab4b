"""Worker processes on this machine: the pool that starts them, and the code that runs in each.

1. Processes are spawned, and keep the shared object from one run to the next. If memory does not
   suffice for all processes, the pool has fewer.
2. Only the parent handles Ctrl-C: a KeyboardInterrupt after a stop kills the workers. A worker
   whose parent is gone exits at once, even while it starts (`job_start.py`).
3. Every worker runs `work`, also on a cluster: it loads the shared object and runs one job after
   another. A thread reads messages, so that a stop takes effect during a job.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import queue
import signal
import subprocess
import threading
import traceback
from functools import partial
from multiprocessing import spawn
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from ..core.device import TF32Setting, is_out_of_memory, set_tf32, tf32_setting
from ..errors import InputError, TollboxError
from .executors import Inbox, Job, Link, Stopper, WorkerHandle, WorkerPool, threads_each
from .job_start import PARENT_GONE

LEAVE_SECONDS = 10.0
"""Time that a process has to exit by itself."""
START = Path(__file__).with_name("job_start.py")


def dumped(value: Any, what: str) -> bytes:
    """Return a value pickled for another process; `what` names it in the error."""
    try:
        return pickle.dumps(value)
    except Exception as error:
        raise InputError(
            f"{what} cannot be sent to another process ({type(error).__name__}: {error})",
            expected="an object that can be pickled, such as an instance of a class in a module",
            remedy="use one process otherwise",
        ) from None


class ProcessHandle(WorkerHandle):
    """The handle of a worker process on this machine."""

    def __init__(self, inbox: Inbox, alone: bool) -> None:
        """Start the process, which runs `job_start.py`; raise OSError if it cannot be started."""
        super().__init__(inbox, alone)
        parent_end, worker_end = multiprocessing.Pipe()
        by_main_thread = threading.current_thread() is threading.main_thread()
        flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
        numbers = worker_end.fileno(), os.getpid(), int(by_main_thread)
        python = [os.fsdecode(spawn.get_executable()), *flags, "-P"]
        with worker_end:
            self.process = subprocess.Popen(
                [*python, str(START), *map(str, numbers)],
                stdin=subprocess.DEVNULL,
                pass_fds=[worker_end.fileno()],
            )
        self.channel.attach(parent_end)

    def disconnected(self) -> tuple[str, str]:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(LEAVE_SECONDS)
        code = self.process.returncode
        return "died", f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"

    def kill(self) -> None:
        self.process.kill()

    def end(self) -> None:
        try:
            self.process.wait(LEAVE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.channel.close()


class ProcessPool(WorkerPool[ProcessHandle]):
    """Worker processes on this machine, each with a copy of `shared`."""

    def __init__(self, count: int, shared: Any = None, threads: int | None = None) -> None:
        super().__init__()
        self._shared = shared
        self._threads = threads or threads_each(count)
        try:
            self._spawn(count)
            reason: object = "out of memory"
            starting = dict.fromkeys(self._workers, 0)
            for worker, (kind, *content) in self._messages(starting):
                del starting[worker]
                if kind != "ready":
                    reason = content[0]
                    self._remove(worker)
                if kind == "failed":  # the others would fail as well
                    self.close()
                    break
            if not self._workers:
                failure = f"a worker process could not start ({reason})"
                raise InputError(failure, remedy="use one process")
        except BaseException:
            self.close()
            raise

    @property
    def pids(self) -> list[int]:
        return [worker.process.pid for worker in self._workers]

    def _spawn(self, count: int) -> None:
        preparation = spawn.get_preparation_data("tollbox")
        del preparation["authkey"]  # a secret that cannot be pickled and is not needed
        function = serve, (self._threads, tf32_setting())
        messages = [pickle.dumps(preparation), pickle.dumps(function)]
        messages.append(dumped(self._shared, "the model"))
        alone = count == 1 and not self._workers
        # Processes inherit this mask, so that Ctrl-C does not reach them before they ignore it.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            for _ in range(count):
                self._workers.append(ProcessHandle(self._inbox, alone))
                for message in messages:
                    self._workers[-1].channel.send(message)
        except OSError:  # memory allows no more processes
            pass
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _pack(self, job: Job) -> bytes:
        return dumped(job, "the work")


def serve(connection: Connection, threads: int, precision: TF32Setting) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        content = [connection.recv_bytes()]
    except (EOFError, OSError):
        os._exit(PARENT_GONE)
    work(connection, content.pop(), threads, precision)


def work(connection: Connection, content: bytes, threads: int, precision: TF32Setting) -> None:
    """Run one job after another; `content` is the shared object, pickled."""
    torch.set_num_threads(threads)
    set_tf32(precision)
    worker = _Worker(connection)
    try:
        shared = pickle.loads(content)
    except Exception as error:
        kind = "memory" if is_out_of_memory(error) else "failed"
        worker.send(kind, RuntimeError(f"{type(error).__name__}: {error}"))
        return
    del content
    worker.send("ready")
    while (job := worker.jobs.get()) is not None:
        link = Link(partial(worker.send, "report"), worker.ask, worker.stopper.attach)
        try:
            worker.send("value", pickle.loads(job)(shared, link))
        except Exception as error:
            worker.send("memory" if is_out_of_memory(error) else "error", _sendable(error))
        worker.stopper.stop = None


class _Worker:
    def __init__(self, connection: Connection) -> None:
        self._connection, self._lock = connection, threading.Lock()
        self._answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.jobs: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self.stopper = Stopper()
        threading.Thread(target=self._read, daemon=True).start()

    def send(self, *message: Any) -> None:
        content = pickle.dumps(message)
        try:
            with self._lock:
                self._connection.send_bytes(content)
        except OSError:
            os._exit(PARENT_GONE)

    def ask(self, request: Any) -> Any:
        self.send("ask", request)
        return self._answers.get()

    def _read(self) -> None:
        while True:
            try:
                kind, *content = pickle.loads(self._connection.recv_bytes())
            except (EOFError, OSError):
                os._exit(PARENT_GONE)
            if kind == "answer":
                self._answers.put(content[0])
            elif kind == "job":  # earlier messages belong to the previous job
                self._answers, self.stopper = queue.SimpleQueue(), Stopper()
                self.jobs.put(content[0])
            elif kind == "stop":
                self.stopper(content[0])
            else:
                self.jobs.put(None)
                return


def _sendable(error: Exception) -> Exception:
    """Return the error, or one that can be pickled in its place; a bug keeps its traceback."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError("".join(traceback.format_exception(error)))
    if not isinstance(error, TollboxError):
        error.add_note("".join(traceback.format_exception(error)))
    return error
