"""Kill nodes, workers and drivers of studies on a Ray cluster, and hold them to a local one.

    make torture-ray        400 cells over two nodes, 10 kills
    python tests/support/torture_ray.py --kills 3 --images 2 --seeds 1 --attacks 2

1. All is inside a network namespace of its own, with nothing but the loopback: Ray binds to the
   host's address otherwise. Where there can be none, it says so, with exit code 3.
2. Three kinds of kills, in random order: a node (its raylet dies, and all workers there; another
   comes a little later), a worker's process, the driver (`tollbox resume` goes on, by Ray,
   or without it after the last kill). Each comes at a random moment while labels are recorded.
3. Each finished study must equal the local one in every cell: stop, reason, warnings, counts,
   improvements, steps, image; so each label was charged once. A study that is finished before all
   kills were made is begun anew.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from small_studies import contents
from torture import PATIENCE, alive, differences, write_studies

KINDS = ("node", "worker", "driver")
NO_NAMESPACE = 3
INSIDE = "TOLLBOX_TORTURE_INSIDE"


def tollbox(*words: str, cwd: Path, log: Path) -> subprocess.Popen[bytes]:
    """The command, in a process group of its own."""
    with log.open("ab") as file:
        command = [sys.executable, "-m", "tollbox", *words]
        return subprocess.Popen(
            command, cwd=cwd, stdout=file, stderr=file, stdin=subprocess.DEVNULL
        )


def workers() -> list[int]:
    """The processes of workers that are there."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            words = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if folder.name.isdecimal() and words.startswith(b"ray::") and b"TollboxWorker" in words:
            found.append(int(folder.name))
    return sorted(found)


class RayTorture:
    """A study by two nodes, killed again and again."""

    def __init__(self, source: Path, expected: dict[int, Any], seed: int) -> None:
        from ray.cluster_utils import Cluster

        self._source, self._expected, self._random = source, expected, random.Random(seed)
        self._cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
        self._node = self._cluster.add_node(num_cpus=1)
        self._log = source / "log"
        self.made: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.finished = 0

    def close(self) -> None:
        self._cluster.shutdown()

    def run(self, kills: int) -> None:
        """Studies until all kills were made, and the last is finished."""
        order = [KINDS[n % len(KINDS)] for n in range(kills)]
        self._random.shuffle(order)
        while order or not self.finished:
            self._study(self._source / f"out-{self.finished}", order)
            self.finished += 1

    def _study(self, out: Path, order: list[str]) -> None:
        """One study to its end, with the kills that come in time."""
        driver = self._start("run", "study-1.toml", "--out", str(out))
        while driver is not None:
            if not order or not self._wait_for_labels(out, driver):
                code = driver.wait(PATIENCE)
                done = contents(out)
                unlike = differences(done, self._expected)
                print(f"{out.name}: code {code}, {len(done)} cells, {len(unlike)} differ")
                if code or unlike:
                    told = self._log.read_text(errors="replace")[-1500:]
                    self.wrong.append(f"{out.name}: code {code}, {unlike} differ: {told}")
                return
            time.sleep(self._random.uniform(0, 1.0))
            driver = self._kill(order.pop(0), driver, out, bool(order))

    def _start(self, *words: str, ray: bool = True) -> subprocess.Popen[bytes]:
        cluster = ["--ray", self._cluster.address, "--ray-workers", "2"] if ray else []
        return tollbox(*words, *cluster, cwd=self._source, log=self._log)

    def _wait_for_labels(self, out: Path, driver: subprocess.Popen[bytes]) -> bool:
        """Wait until more is recorded; False if the driver has ended before."""
        written, before = out / "shard-0.sqlite-wal", None
        end = time.monotonic() + PATIENCE
        while driver.poll() is None and time.monotonic() < end:
            stat = written.stat() if written.exists() else None
            now = (stat.st_size, stat.st_mtime_ns) if stat is not None and stat.st_size else None
            if now is not None and before is not None and now != before:
                return True
            before = now or before
            time.sleep(0.02)
        return False

    def _kill(
        self, kind: str, driver: subprocess.Popen[bytes], out: Path, more: bool
    ) -> subprocess.Popen[bytes]:
        """One kill; gives the driver that goes on. `more`: others will follow."""
        victims = workers()
        if driver.poll() is not None:
            return driver
        self.made[kind] += 1
        print(f"{out.name}: {kind} is killed", flush=True)
        if kind == "node":
            self._cluster.remove_node(self._node, allow_graceful=False)
            time.sleep(self._random.uniform(0, 2.0))
            self._node = self._cluster.add_node(num_cpus=1)
        elif kind == "worker" and victims:
            os.kill(self._random.choice(victims), signal.SIGKILL)
        elif kind == "driver":
            driver.kill()
            driver.wait()
            self._all_end(victims)
            return self._start("resume", str(out), ray=more)
        return driver

    def _all_end(self, victims: list[int]) -> None:
        """Workers must end by themselves when their driver is gone."""
        end = time.monotonic() + PATIENCE
        while any(map(alive, victims)):
            if time.monotonic() > end:
                self.wrong.append("a worker continues although its driver is gone")
                return
            time.sleep(0.05)


def inside(arguments: argparse.Namespace) -> int:
    """The torture, in a namespace."""
    with tempfile.TemporaryDirectory(prefix="torture-ray-") as folder:
        source = Path(folder)
        write_studies(
            source, arguments.images, arguments.seeds, arguments.budget, arguments.attacks
        )
        log = source / "local.log"
        if tollbox("run", "study-1.toml", "--out", "local", cwd=source, log=log).wait():
            print(log.read_text())
            return 1
        expected = contents(source / "local")
        torture = RayTorture(source, expected, arguments.seed)
        try:
            torture.run(arguments.kills)
        finally:
            torture.close()
    for line in torture.wrong:
        print(line)
    made = ", ".join(f"{count} {kind}s" for kind, count in torture.made.items())
    print(
        f"{len(expected)} cells, killed: {made}; {torture.finished} studies finished, "
        f"{len(torture.wrong)} wrong"
    )
    return 1 if torture.wrong or torture.made.total() < arguments.kills else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--images", type=int, default=8)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--attacks", type=int, default=5)
    parser.add_argument("--budget", type=float, default=600)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    if os.environ.get(INSIDE):
        return inside(arguments)
    probe = ["unshare", "--map-root-user", "--net", "true"]
    try:
        allowed = subprocess.run(probe, capture_output=True).returncode == 0
    except OSError:
        allowed = False
    if not allowed:
        print("there can be no network namespace here")
        return NO_NAMESPACE
    words = ["ip link set lo up && exec", sys.executable, __file__, *sys.argv[1:]]
    return subprocess.run(
        ["unshare", "--map-root-user", "--net", "sh", "-c", " ".join(words)],
        env={
            **os.environ,
            INSIDE: "1",
            "OMP_NUM_THREADS": "1",
            "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
        },
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
