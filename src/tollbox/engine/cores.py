"""How many processes, and threads of each: no more than cores unless they are forced."""

from __future__ import annotations

import os

import torch

MOST_PROCESSES = 256
"""Even if they are forced."""


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def within_cores(count: int, force: bool) -> int:
    """A number of processes: no more than cores, unless they are forced."""
    return count if force else min(count, cores())


def fewer_notice(workers: int, work: int, force: bool, switch: str) -> str | None:
    """A sentence if so many workers, for so many pieces of work, are more than cores; None if they
    are not, or are forced. `switch` is what forces them."""
    if within_cores(min(workers, work), force) == min(workers, work):
        return None
    most = "1 core" if cores() == 1 else f"{cores()} cores"
    return (
        f"workers is {workers}, and this machine has {most}: no more processes than cores are "
        f"used; {switch} lifts that."
    )


def threads_each(count: int) -> int:
    """How many threads each of so many processes has."""
    return max(1, torch.get_num_threads() // count)
