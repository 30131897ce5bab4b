"""Memory that a CPU frees is kept for the next batch."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

FAULTS = """
import resource, torch
from tollbox.core.device import keep_freed

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        torch.ones(4 * 2**20)  # 16 MiB: 4096 pages
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

torch.set_num_threads(1)
unkept = faults()
assert keep_freed()
faults()
print(unkept, faults())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc's malloc")
def test_a_second_batch_takes_no_new_pages():
    told = subprocess.run([sys.executable, "-c", FAULTS], capture_output=True, text=True)
    assert told.returncode == 0, told.stderr
    unkept, kept = map(int, told.stdout.split())
    assert kept < 4096
    assert unkept > kept


ENGINE = """
import torch, tollbox as tb
from tollbox.core.device import keep_freed

model = tb.models.from_callable(lambda batch: batch.flatten(1).argmax(1), classes=12)
tb.run(tb.preset("hsja"), model, torch.rand(1, 3, 2, 2), [0], budget=5)
print(keep_freed.cache_info().currsize)
"""


@pytest.mark.slow
def test_a_run_on_a_cpu_has_it_kept():
    told = subprocess.run([sys.executable, "-c", ENGINE], capture_output=True, text=True)
    assert told.stdout.strip() == "1", told.stderr
