"""A study that is killed again and again ends as an unbroken one: `make torture`, smaller."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import torture
import torture_parts
from small_studies import contents
from torture import Kill, Nursery, Torture, children, differences, unbroken, write_studies


def test_killed_at_random_moments_and_resumed(tmp_path: Path) -> None:
    said: list[str] = []
    [one] = torture.torture(
        tmp_path, {1: 8}, 1, said.append, images=2, seeds=1, budget=250, attacks=3
    )
    assert (one.wrong, one.different) == ([], set()), said
    assert one.made.total() == 8
    assert one.finished >= 1


def test_a_watched_study_is_killed_at_random_moments_and_resumed(tmp_path: Path) -> None:
    said: list[str] = []
    [one] = torture.torture(
        tmp_path, {1: 8}, 2, said.append, images=2, seeds=1, budget=250, attacks=3, watch=True
    )
    assert (one.wrong, one.different) == ([], set()), said
    assert one.made.total() == 8
    stops = {end[0] for end in contents(tmp_path / "unbroken").values()}
    assert stops >= {"budget", "max_flagged"}


def test_one_of_two_processes_is_killed(tmp_path: Path) -> None:
    """That is said at once, another goes on, and the study is as if nothing had happened."""
    source, out, log = tmp_path / "study", tmp_path / "out", tmp_path / "log"
    write_studies(source, images=2, seeds=1, budget=250, attacks=2)
    with Nursery() as nursery:
        expected, _ = unbroken(nursery, source, tmp_path / "unbroken")
        command = nursery.start(["run", "study-2.toml", "--out", str(out)], source, log, {})
        written = out / "shard-1.sqlite-wal"
        while not (written.exists() and written.stat().st_size):
            os.kill(command, 0)  # it is there
            time.sleep(0.005)
        os.kill(children(command)[1], signal.SIGKILL)
        assert nursery.ended() == 0, log.read_text()
    assert "the process of worker 1 died (signal 9); another process continues" in log.read_text()
    assert differences(contents(out), expected) == []


def test_a_part_is_killed_and_resumed_and_all_are_merged(tmp_path: Path) -> None:
    killed = torture_parts.torture(tmp_path, 4, 1, 3, images=2, seeds=1, budget=400, attacks=3)
    assert killed == (1, 1, 0)


def test_every_moment_of_a_commit(tmp_path: Path) -> None:
    """Before, in and after the commit of a batch and of a result."""
    source = tmp_path / "study"
    write_studies(source, images=2, seeds=1, budget=120, attacks=2)
    with Nursery() as nursery:
        expected, _ = unbroken(nursery, source, tmp_path / "unbroken")
        out = tmp_path / "out"
        torn = out.with_name("out.torn")
        kills = [
            Kill("inside", hook={"what": what, "when": when, "call": call, "torn": str(torn)})
            for what, call in (("record", 6), ("save", 1))
            for when in ("before", "open", "torn", "after")
        ]
        random.Random(4).shuffle(kills)
        said: list[str] = []
        one = Torture(source, out, 1, len(kills), iter(kills), expected, said.append)
        one.run(nursery)
    assert (one.wrong, one.different) == ([], set()), said
    assert one.made == {"inside": 8}
    assert differences(contents(out), expected) == []
    other = Torture(source, out, 1, 0, iter([]), {**expected, 1: ()}, said.append)
    other._judge(None, 0)
    assert other.different == {1}  # it would have been seen
