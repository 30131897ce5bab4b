"""Run a study in parts, kill some of them, resume these, merge all, and hold that to the whole.

    make torture            16 parts, 3 of them killed
    python tests/support/torture_parts.py --parts 4 --killed 1 --images 2 --seeds 1

Each part is run by a process of its own, in a folder of its own. A kill is SIGKILL, at a random
moment after the part's first batch. Every cell of the merged folder must be that of the whole run:
stop, reason, warnings, counts, improvements, steps, image.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

from small_studies import contents
from torture import ATTACKS, Nursery, alive, differences, unbroken, write_studies

from tollbox.studies import merge_parts


def run_part(nursery: Nursery, source: Path, out: Path, part: str, delay: float | None) -> bool:
    """Run one part; with a delay, kill it so long after its first batch. Whether it was killed."""
    words = ["run", "study-1.toml", "--out", str(out), "--shard", part]
    pid = nursery.start(words, source, out.with_name(f"{out.name}.log"), {})
    while delay is not None and alive(pid):
        if any(log.stat().st_size for log in out.glob("*.sqlite-wal")):
            time.sleep(delay)
            os.kill(pid, signal.SIGKILL)
            break
        time.sleep(0.001)
    return nursery.ended() == -signal.SIGKILL


def torture(folder: Path, parts: int, killed: int, seed: int, **study: int) -> tuple[int, int, int]:
    """Make a study and run it in parts; how many were killed, how many of these had cells left, and
    how many cells differ."""
    rng = random.Random(seed)
    source = folder / "study"
    write_studies(source, **study)
    victims = rng.sample(range(parts), killed)
    folders = [folder / f"part-{number + 1}" for number in range(parts)]
    made = left = 0
    with Nursery() as nursery:
        expected, _ = unbroken(nursery, source, folder / "whole")
        for number, out in enumerate(folders):
            delay = rng.uniform(0, 0.05) if number in victims else None
            made += run_part(nursery, source, out, f"{number + 1}/{parts}", delay)
        for number in victims:
            before = len(contents(folders[number]))
            nursery.start(["resume", str(folders[number])], source, folder / "resume.log", {})
            if nursery.ended():
                raise SystemExit((folder / "resume.log").read_text())
            left += before < len(contents(folders[number]))
    merge_parts(folder / "merged", folders).close()
    return made, left, len(differences(contents(folder / "merged"), expected))


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description="Kill parts of a study, and merge all.")
    parser.add_argument("--parts", type=int, default=16)
    parser.add_argument("--killed", type=int, default=3)
    parser.add_argument("--images", type=int, default=8)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--budget", type=int, default=1200)
    parser.add_argument("--attacks", type=int, default=len(ATTACKS))
    parser.add_argument("--seed", type=int, default=0)
    given = vars(parser.parse_args())
    with tempfile.TemporaryDirectory(prefix="torture-parts-") as folder:
        made, left, different = torture(Path(folder), **given)
    print(
        f"{given['parts']} parts, {made} killed and resumed ({left} with cells left), merged: "
        f"{different} cells differ from the whole run."
    )
    return int(different > 0 or made < given["killed"])


if __name__ == "__main__":
    sys.exit(main())
