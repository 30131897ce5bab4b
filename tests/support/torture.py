"""Kill a study at random moments, resume it each time, and hold it to an unbroken one.

    make torture            200 cells, 50 kills
    python tests/support/torture.py --kills 8 --images 2 --seeds 1 --budget 200
    python tests/support/torture.py --watch     with a detector and a limit on flagged answers

1. A kill is SIGKILL: from outside, to the whole process group, at a random time after the command
   began, after it had its lock (recorded answers are being replayed), or after its first batch; or
   from inside, before, in or after the commit of a batch or of a result. A commit that was torn is
   made from one that was whole, by cutting its frames off the end of the write-ahead log.
2. With two workers also one of the two processes alone, and after it the parent alone: the other
   must then end by itself.
3. Each finished study must equal the unbroken one in every cell: stop, reason, warnings, counts,
   improvements, steps, image. A study that is finished before all kills were made is begun anew.
4. The moments are those of --seed, as far as a clock allows.

Commands run in forks of a process that has imported all there is to import (`nursery`): a kill then
takes a second, not ten.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from small_studies import contents, write_study

PATIENCE = 120.0
"""Seconds after which a command that should have ended is taken to hang."""

STUDY = """\
name = "torture"
budget = {budget}
prices = [1, 10]
seeds = {seeds}
batch_size = 32
workers = {workers}
keep_images = true
device = "cpu"

[images]
path = "images.npz"

[[models]]
name = "net"
source = "tortured_net:net"
"""
WATCH = """
[detector]
source = "tortured_net:detector"
alarm_price = 2.5
"""
DETECTOR = """
from tollbox.testing import NearDuplicates

detector = NearDuplicates(0.5, window=30, every=3)
"""
ATTACKS = ("surfree", "a-hsja", "stealthy-hsja", "cgba", "a-geoda")


def write_studies(
    folder: Path, images: int, seeds: int, budget: float, attacks: int, watch: bool = False
) -> None:
    """The network, the images, and the study with one worker and with two."""
    for workers in (1, 2):
        text = STUDY.format(budget=budget, seeds=list(range(seeds)), workers=workers)
        for attack in ATTACKS[:attacks]:
            text += f'\n[[attacks]]\npreset = "{attack}"\n'
        if watch:
            text = f"max_flagged = {budget // 4:.0f}\n{text}{WATCH}"
        study = write_study(folder, "tortured_net", text, images)
        exact = study.code.read_text().replace("Net().eval()", "Net().double().eval()")
        study.code.write_text(
            exact + DETECTOR * watch
        )  # in float32 a row's logits may depend on its place
        study.file.rename(folder / f"study-{workers}.toml")


def differences(one: dict[int, Any], other: dict[int, Any]) -> list[int]:
    """Cells that are not the same in both."""
    return sorted(c for c in one.keys() | other.keys() if one.get(c) != other.get(c))


# -- processes ------------------------------------------------------------------------------------


class Nursery:
    """A process that has imported all there is, and forks for each command."""

    def __init__(self) -> None:
        settings = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).resolve()), "--nursery"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **settings},
        )
        self._hear()  # all is imported

    def __enter__(self) -> Nursery:
        return self

    def __exit__(self, *error: object) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process.wait(PATIENCE)

    def start(self, arguments: list[str], cwd: Path, log: Path, hook: dict[str, Any]) -> int:
        """Start `tollbox` in a process group of its own; its number."""
        order = {"arguments": arguments, "cwd": str(cwd), "log": str(log), "hook": hook}
        self._say(json.dumps(order))
        return int(self._hear())

    def ended(self) -> int:
        """Wait for it; its exit code, negative for a signal."""
        return int(self._hear())

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def _hear(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the nursery is gone")
        return line


def nursery() -> None:
    """Fork for each line of stdin."""
    import tollbox.attacks
    import tollbox.cli
    import tollbox.cli.study_run
    import tollbox.studies.create  # noqa: F401

    print("ready", flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if child == 0:
            code = 70
            try:
                code = _fork(order)
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        print(child, flush=True)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _fork(order: dict[str, Any]) -> int:
    from tollbox.cli.app import main

    os.setsid()
    log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    empty = os.open(os.devnull, os.O_RDONLY)
    for number, file in enumerate((empty, log, log)):
        os.dup2(file, number)
    os.chdir(order["cwd"])
    if order["hook"]:
        _hooked(**order["hook"])
    try:
        main(order["arguments"])
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _hooked(what: str, when: str, call: int, torn: str) -> None:
    """Die at a certain call of `Store.record` or `Store.save`: before it, in it, or after it."""
    from tollbox.studies.store.store import Store

    original = getattr(Store, what)
    calls = itertools.count(1)

    def never_committed(self: Store, statement: str, *rows: Any) -> None:
        self._connection.executemany(statement, rows)
        _die()

    def dying(self: Store, *given: Any) -> None:
        if next(calls) != call:
            original(self, *given)
            return
        if when == "before":
            _die()
        if when == "open":
            Store._commit = never_committed  # type: ignore[method-assign]
        log = self.path.with_name(self.path.name + "-wal")
        before = log.stat().st_size if log.exists() else 0
        original(self, *given)
        Path(torn).write_text(f"{before} {log.stat().st_size}")
        _die()

    setattr(Store, what, dying)


# -- kills ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kill:
    """How one command is to die."""

    kind: str
    """early, replay, batch, child; or inside."""
    delay: float = 0.0
    hook: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        if self.hook:
            return f"{self.hook['when']} {self.hook['what']} number {self.hook['call']}"
        return f"{self.kind} + {self.delay:.2f} s"


def kills_of(seed: int, mean: float, workers: int, torn: Path) -> Iterator[Kill]:
    """Kills without end; `mean` is the average delay in seconds of those from outside."""
    rng = random.Random(f"{seed} {workers}")
    for number in itertools.count():
        delay = rng.uniform(0, 2 * mean)
        if workers > 1:
            kind = ("batch", "child", "replay")[number % 3]
            yield Kill(kind, delay)
        elif number % 2:
            what = "save" if rng.random() < 0.4 else "record"
            when = rng.choice(["before", "open", "torn", "after"])
            call = rng.randint(1, 4 if what == "save" else max(2, round(150 * mean)))
            hook = {"what": what, "when": when, "call": call, "torn": str(torn)}
            yield Kill("inside", hook=hook)
        elif number % 8 == 0:
            yield Kill("early", rng.uniform(0, 0.6))
        else:
            yield Kill("replay" if number % 8 == 4 else "batch", delay)


def locked(path: Path) -> bool:
    """Has some process this lock?"""
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False


def alive(pid: int) -> bool:
    """Does it run, or wait to be waited for?"""
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return state not in "ZX"


def children(pid: int) -> list[int]:
    """The processes that a process has begun, in order."""
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        return sorted(int(n) for task in tasks for n in (task / "children").read_text().split())
    except OSError:
        return []


class Torture:
    """One study in a folder, killed again and again."""

    def __init__(
        self,
        source: Path,
        out: Path,
        workers: int,
        count: int,
        kills: Iterator[Kill],
        expected: dict[int, Any],
        say: Callable[[str], None],
    ) -> None:
        self._source, self._out, self._workers = source, out, workers
        self._count, self._kills, self._expected, self._say = count, kills, expected, say
        self._log = out.with_name(out.name + ".log")
        self._torn = out.with_name(out.name + ".torn")
        self._left = 0
        self._engines: list[int] = []
        """Processes whose parent was killed alone."""
        self.made: Counter[str] = Counter()
        """Kills that were made, by kind."""
        self.missed = 0
        self.finished = 0
        self.wrong: list[str] = []
        self.different: set[int] = set()
        """Cells that were finished, and not as in the unbroken study."""

    def run(self, nursery: Nursery) -> None:
        """Make all kills, and finish; what went wrong is in `wrong`, what differs `different`."""
        for kill in itertools.islice(self._kills, 5 * self._count):
            self._one(nursery, kill)
            if self.made.total() >= self._count:
                break
        else:
            self.wrong.append(f"only {self.made.total()} of {self._count} kills came in time")
        self._one(nursery, None)
        if self._left:
            self.wrong.append("the last resume did not finish the study")

    # A name for each shard's files.
    def _file(self, shard: int, kind: str) -> Path:
        return self._out / f"shard-{shard}.{kind}"

    def _one(self, nursery: Nursery, kill: Kill | None) -> None:
        """One command, to its end or to its death."""
        begun = self._file(0, "sqlite").exists()
        arguments = ["resume", str(self._out)]
        if not begun:
            arguments = ["run", f"study-{self._workers}.toml", "--out", str(self._out)]
        before = self._standing()
        self._torn.unlink(missing_ok=True)
        self._log.write_bytes(b"")
        pid = nursery.start(arguments, self._source, self._log, kill.hook if kill else {})
        if kill is not None and not kill.hook:
            self._strike(pid, kill, before)
        code = nursery.ended()
        with contextlib.suppress(ProcessLookupError):  # what is left of the group of a killed one
            if code < 0:
                os.killpg(pid, signal.SIGKILL)
        self._wait_for_locks()
        if kill is not None and kill.hook and kill.hook["when"] == "torn":
            self._tear(kill)
        self._judge(kill, code)

    def _standing(self) -> list[tuple[int, int]]:
        """What changes with every commit."""
        found = []
        for shard in range(self._workers):
            try:
                stat = os.stat(self._file(shard, "sqlite-wal"))
                found.append((stat.st_size, stat.st_mtime_ns))
            except OSError:
                found.append((0, 0))
        return found

    def _strike(self, pid: int, kill: Kill, before: list[tuple[int, int]]) -> None:
        """Wait for the moment, and kill."""

        def began() -> bool:
            if kill.kind == "early":
                return True
            if kill.kind == "replay":
                return locked(self._file(0, "lock"))
            now = self._standing()
            return any(size and (size, at) != b for (size, at), b in zip(now, before, strict=True))

        end = time.monotonic() + PATIENCE
        while not began():
            if not alive(pid):
                return
            if time.monotonic() > end:
                self.wrong.append(f"{kill}: nothing was recorded in {PATIENCE:g} s")
                break
            time.sleep(0.005)
        time.sleep(kill.delay)
        if kill.kind != "child":
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
            return
        self._engines = children(pid)
        for victim in (*self._engines[-1:], pid):  # the other one must end by itself
            with contextlib.suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
            time.sleep(kill.delay / 2)

    def _wait_for_locks(self) -> None:
        end = time.monotonic() + PATIENCE
        locks = [self._file(shard, "lock") for shard in range(self._workers)]
        while any(map(locked, locks)) or any(map(alive, self._engines)):
            if time.monotonic() > end:
                self.wrong.append("a process goes on though its parent is gone")
                return
            time.sleep(0.01)

    def _tear(self, kill: Kill) -> None:
        """Make the last commit one that was not whole."""
        if not self._torn.exists():
            return
        before, after = map(int, self._torn.read_text().split())
        if after > before > 0:
            size = random.Random(str(kill)).randrange(before, after)
            os.truncate(self._file(0, "sqlite-wal"), size)

    def _judge(self, kill: Kill | None, code: int) -> None:
        told = self._log.read_text(errors="replace")
        begun = self._file(0, "sqlite").exists()
        done = contents(self._out) if begun else {}
        self._left = len(self._expected) - len(done)
        name = "to the end" if kill is None else str(kill)
        self._say(f"{self._out.name}: {name}: code {code}, {len(done)}/{len(self._expected)}")
        if "Traceback" in told or code not in (0, -signal.SIGKILL):
            self.wrong.append(f"{name}: code {code}: {textwrap.shorten(told[-800:], 800)}")
        self.different |= {cell for cell in done if done[cell] != self._expected.get(cell)}
        if code == 0 and self._left:
            self.wrong.append(f"{name}: {self._left} cells are left, and the exit code is 0")
        if kill is not None:
            self.made[kill.kind] += code < 0
            self.missed += code >= 0
        if begun and not self._left:
            self.finished += 1
            if kill is not None:
                shutil.rmtree(self._out)


def unbroken(nursery: Nursery, source: Path, out: Path) -> tuple[dict[int, Any], float]:
    """The study run in one go, and the seconds that took."""
    log = out.with_name(out.name + ".log")
    began = time.monotonic()
    nursery.start(["run", "study-1.toml", "--out", str(out)], source, log, {})
    code = nursery.ended()
    if code != 0:
        raise SystemExit(f"the unbroken study ended with code {code}: {log.read_text()}")
    return contents(out), time.monotonic() - began


def torture(
    folder: Path,
    kills: dict[int, int],
    seed: int,
    say: Callable[[str], None],
    **study: Any,
) -> list[Torture]:
    """Make a study, run it unbroken, and torture it: `kills` by number of workers, side by side."""
    source = folder / "study"
    write_studies(source, **study)
    with contextlib.ExitStack() as opened:
        nurseries = [opened.enter_context(Nursery()) for _ in kills]
        expected, seconds = unbroken(nurseries[0], source, folder / "unbroken")
        total = sum(kills.values())
        say(f"unbroken: {len(expected)} cells in {seconds:.1f} s; {total} kills to come")
        made = []
        for workers, count in kills.items():
            out = folder / f"workers-{workers}"
            mean = min(2.0, max(0.03, 0.7 * seconds / max(1, count)))
            moments = kills_of(seed, mean, workers, out.with_name(out.name + ".torn"))
            made.append(Torture(source, out, workers, count, moments, expected, say))
        with ThreadPoolExecutor(len(made)) as pool:
            list(pool.map(lambda pair: pair[0].run(pair[1]), zip(made, nurseries, strict=True)))
    return made


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description="Kill a study again and again.")
    parser.add_argument("--nursery", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--images", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--budget", type=float, default=1200)
    parser.add_argument("--attacks", type=int, default=len(ATTACKS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--watch", action="store_true")
    given = parser.parse_args()
    if given.nursery:
        nursery()
        return 0
    began = time.monotonic()
    two = given.kills // 4
    with tempfile.TemporaryDirectory(prefix="torture-") as folder:
        done = torture(
            Path(folder),
            {1: given.kills - two, 2: two},
            given.seed,
            lambda text: print(f"{time.monotonic() - began:6.1f} s  {text}", flush=True),
            images=given.images,
            seeds=given.seeds,
            budget=given.budget,
            attacks=given.attacks,
            watch=given.watch,
        )
    made: Counter[str] = sum((one.made for one in done), Counter())
    wrong = [text for one in done for text in one.wrong]
    for one in done:
        if one.different:
            wrong.append(f"cells {sorted(one.different)} are not those of the unbroken study")
    print(
        f"{sum(made.values())} kills ({', '.join(f'{n} {kind}' for kind, n in made.items())}), "
        f"{sum(one.missed for one in done)} too late, {sum(one.finished for one in done)} studies "
        f"finished, seed {given.seed}, {time.monotonic() - began:.0f} s: "
        f"{'all cells as in the unbroken study' if not wrong else f'{len(wrong)} differences'}."
    )
    for text in wrong:
        print(text)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
