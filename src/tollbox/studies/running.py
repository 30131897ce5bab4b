"""Running a study: one process for each shard, in this one if there is only one.

1. A process opens its shard, loads the images and models itself, checks them against what the study
   was begun with, and runs what is left.
2. What happens comes to one `tell`, whichever process it is from.
3. If a process dies, the others go on to their end; its shard can be resumed.
4. A process whose parent dies ends with its next batch.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import pickle
import signal
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import torch

from ..core.model import Model
from ..core.stop import Stop
from ..errors import FileError, InputError, TollboxError
from .loading import Loaded, load
from .shard import Event, Options, Outcome, Shard, Tell
from .store.folder import shards, study_of
from .store.store import Store, StoreError

ERRORS: tuple[type[TollboxError], ...] = (StoreError, FileError, InputError, TollboxError)
"""What can be sent from one process to another."""


class ProcessDied(TollboxError):
    """A shard's process ended without a word."""


@dataclass
class Stopper:
    """Ends a run from outside, a signal handler for instance."""

    ends: Callable[[Stop], None] | None = None
    came: Stop | None = None

    def __call__(self, reason: Stop = Stop.INTERRUPTED) -> None:
        """End after the batches under way."""
        self.came = self.came or reason
        if self.ends is not None:
            self.ends(self.came)

    def attach(self, ends: Callable[[Stop], None]) -> None:
        """What to call; at once, if the end has come already."""
        self.ends = ends
        if self.came is not None:
            ends(self.came)


def run_folder(
    folder: Path,
    options: Options,
    tell: Tell,
    stopper: Stopper,
    loaded: Loaded | None = None,
    models: Mapping[str, Model] | None = None,
) -> Outcome:
    """Run what is left of the study in a folder; `loaded` is that study, if it is at hand, and
    `models` are used instead of loading them."""
    paths = shards(folder)
    models = loaded.given if loaded is not None else models
    if len(paths) == 1:
        return _run_shard(paths[0], options, tell, stopper.attach, loaded, models)
    given = {name: pickle.dumps(model) for name, model in (models or {}).items()}
    context = multiprocessing.get_context("spawn")
    threads = max(1, torch.get_num_threads() // len(paths))
    options = replace(options, share=1 / len(paths))
    others: list[_Other] = []
    try:
        for path in paths:
            ours, theirs = context.Pipe()
            arguments = (theirs, path, options, given, threads)
            process = context.Process(target=_work, args=arguments, daemon=True)
            process.start()
            theirs.close()
            others.append(_Other(process, ours, path))

        def stop_all(reason: Stop) -> None:
            for other in others:
                other.stop(reason)

        stopper.attach(stop_all)
        return _followed(others, tell)
    finally:
        for other in others:
            other.end()


def _run_shard(
    path: Path,
    options: Options,
    tell: Tell,
    attach: Callable[[Callable[[Stop], None]], None],
    loaded: Loaded | None,
    models: Mapping[str, Model] | None,
) -> Outcome:
    with Store.open(path, write=True) as store:
        if loaded is None:
            loaded = load(study_of(store.about, files=not models), models)
        shard = Shard(store, loaded, options, tell)
        attach(shard.stop)
        return shard.run()


def _followed(others: list[_Other], tell: Tell) -> Outcome:
    """Hear all processes to their end."""
    outcome = Outcome()
    first: BaseException | None = None
    died: list[str] = []
    busy = list(others)
    while busy:
        for other in [other for other in busy if other.pipe in wait([o.pipe for o in busy])]:
            kind, content = other.hear()
            if kind == "event":
                tell(content)
                continue
            busy.remove(other)
            if kind == "done":
                outcome.add(content)
            elif kind == "error":
                first = first or content
                for rest in busy:
                    rest.stop(Stop.INTERRUPTED)
            else:
                died.append(f"{other.path.name} ({content})")
    if first is not None:
        raise first
    if died:
        raise ProcessDied(
            f"the process of {', '.join(died)} died; all that it had recorded is safe: go on with "
            f"`tollbox resume {others[0].path.parent}`."
        )
    return outcome


class _Other:
    """A shard's process, as its parent sees it."""

    def __init__(self, process: Any, pipe: Connection, path: Path) -> None:
        self.process, self.pipe, self.path = process, pipe, path

    def hear(self) -> tuple[str, Any]:
        try:
            kind, content = pickle.loads(self.pipe.recv_bytes())
            return kind, content
        except (EOFError, OSError):
            self.process.join(5)
            code = self.process.exitcode
            return "died", f"signal {-code}" if code is not None and code < 0 else f"code {code}"

    def stop(self, reason: Stop) -> None:
        with contextlib.suppress(OSError):
            self.pipe.send_bytes(pickle.dumps(reason))

    def end(self) -> None:
        self.pipe.close()
        self.process.join(10)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()


def _work(
    pipe: Connection, path: Path, options: Options, given: dict[str, bytes], threads: int
) -> None:
    """The life of a shard's process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    torch.set_num_threads(threads)
    ends: list[Callable[[Stop], None]] = []

    def listen() -> None:
        while ends and pipe.poll():
            ends[0](pickle.loads(pipe.recv_bytes()))  # raises EOFError if the parent is gone

    def tell(event: Event) -> None:
        pipe.send_bytes(pickle.dumps(("event", event)))
        listen()

    with contextlib.suppress(EOFError, OSError):
        try:
            models = {name: pickle.loads(content) for name, content in given.items()}
            outcome = _run_shard(path, options, tell, ends.append, None, models)
            pipe.send_bytes(pickle.dumps(("done", outcome)))
        except TollboxError as error:
            kind = next(kind for kind in ERRORS if isinstance(error, kind))
            pipe.send_bytes(pickle.dumps(("error", kind(str(error)))))
        except (EOFError, BrokenPipeError):
            raise
        except Exception:  # a bug of ours: its traceback goes along
            told = RuntimeError(f"{path.name}: {traceback.format_exc()}")
            pipe.send_bytes(pickle.dumps(("error", told)))
