"""Engines on a Ray cluster, all in network namespaces of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torture_ray

TESTS = Path(torture_ray.__file__).parent
CLUSTER = """
import sys
from pathlib import Path

from ray.cluster_utils import Cluster
from small_studies import contents
from torture import write_studies

import tollbox as tb
from tollbox.errors import InputError

write_studies(Path("."), images=2, seeds=1, budget=250, attacks=2)
study = tb.Study.from_toml("study-1.toml")
tb.run_study(study, "local").close()
wanted = contents(Path("local"))
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "num_gpus": 1})

def refused(config, out="refused"):
    try:
        tb.run_study(study, out, executor=config).close()
    except InputError as error:
        return str(error)
    raise AssertionError("not refused")
"""
VERSIONS = """
import ray
from tollbox.studies import ray_engines

real, ray.__version__ = ray.__version__, "2.0.0"
told = refused(tb.studies.RayEngines(cluster.address))
assert "cannot be used" in told and "expected one of Ray 2.0.0" in told, told
assert "\\n" not in told and not Path("refused").exists()
ray.__version__ = real
version, ray_engines.__version__ = ray_engines.__version__, "9.9"
told = refused(tb.studies.RayEngines(cluster.address))
assert f"other versions (tollbox is {version} there and 9.9 here)" in told, told
ray_engines.__version__ = version
told = refused(tb.studies.RayEngines(cluster.address, num_gpus=2), "large")
assert "no node of the Ray cluster has room for an engine (1 CPUs, 2 GPUs)" in told, told
assert not Path("large").exists()
tb.run_study(study, "refused").close()  # without Ray
assert contents(Path("refused")) == wanted
"""
HALVES = """
import time
import ray
from tollbox.studies.store.connection import StoreError
from tollbox.studies.store.store import Store

# Two engines on one GPU: nothing goes on before both have their halves.
left = []

def tell(event):
    end = time.monotonic() + 60
    while not left and ray.available_resources().get("GPU", 0) and time.monotonic() < end:
        time.sleep(0.1)
    left.append(ray.available_resources().get("GPU", 0))

halves = tb.studies.RayEngines(cluster.address, num_gpus=0.5)
tb.run_study(study, "halves", executor=halves, tell=tell).close()
assert contents(Path("halves")) == wanted
assert left[0] == 0, left

# More engines than there is room for: the others wait, and nobody waits for them.
tb.run_study(study, "many", executor=tb.studies.RayEngines(cluster.address, engines=7)).close()
assert contents(Path("many")) == wanted

# A full disk: one sentence, and nothing is lost.
record, calls = Store.record, []

def full(self, content):
    calls.append(content)
    if len(calls) > 20:
        raise StoreError("the disk is full")
    record(self, content)

Store.record = full
try:
    tb.run_study(study, "full", executor=tb.studies.RayEngines(cluster.address)).close()
    raise AssertionError("not refused")
except StoreError as error:
    assert str(error) == "the disk is full"
Store.record = record
tb.run_study(study, "full", executor=tb.studies.RayEngines(cluster.address)).close()
assert contents(Path("full")) == wanted
"""
CUT = """
from tollbox.workers.channel import Switchboard
from tollbox.studies.events import EngineLost
from tollbox.studies.store.store import Store

# The network between an engine and the driver is cut, twice, while both are there.
wires, calls, events, record, make = [], [], [], Store.record, Switchboard.wire

def kept(self):
    made = make(self)
    wires.append(made[0])
    return made

def cut(self, content):
    record(self, content)
    calls.append(content)
    if len(calls) in (20, 60):
        next(wire for wire in wires if wire.connection is not None).close()

Store.record, Switchboard.wire = cut, kept
cluster = tb.studies.RayEngines(cluster.address)
tb.run_study(study, "cut", executor=cluster, tell=events.append).close()
assert contents(Path("cut")) == wanted
assert sum(isinstance(event, EngineLost) for event in events) == 2, events
"""
INTERRUPTED = """
import signal, subprocess, time

text = Path("study-1.toml").read_text().replace("budget = 250", "budget = 4000")
Path("long.toml").write_text(text)
run = [sys.executable, "-m", "tollbox", "run", "long.toml", "--out"]
assert subprocess.run([*run, "whole"]).returncode == 0
for number in (signal.SIGINT, signal.SIGTERM):
    out = Path(f"stopped-{number}")
    driver = subprocess.Popen([*run, str(out), "--ray", cluster.address])
    while not (written := out / "shard-0.sqlite-wal").exists() or not written.stat().st_size:
        assert driver.poll() is None
        time.sleep(0.01)
    driver.send_signal(number)
    assert driver.wait(60) == 128 + number
    assert len(contents(out)) < len(wanted)
    resume = [sys.executable, "-m", "tollbox", "resume", str(out)]
    assert subprocess.run(resume).returncode == 0
    assert contents(out) == contents(Path("whole"))
"""


def run_inside(command: list[str], folder: Path) -> str:
    """A command in a namespace with the loopback alone; what it says."""
    paths = [str(TESTS), *filter(None, sys.path)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(paths)}
    probe = subprocess.run(["unshare", "--map-root-user", "--net", "true"], capture_output=True)
    if probe.returncode:
        pytest.skip("there can be no network namespace here")
    line = 'ip link set lo up && exec "$@"'
    ended = subprocess.run(
        ["unshare", "--map-root-user", "--net", "sh", "-c", line, "sh", *command],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stdout
    return ended.stdout


def test_a_node_an_engine_and_the_driver_are_killed(tmp_path: Path) -> None:
    words = ["--kills", "3", "--images", "2", "--seeds", "2", "--attacks", "3"]
    command = ["env", f"{torture_ray.INSIDE}=1", sys.executable, torture_ray.__file__, *words]
    told = run_inside(command, tmp_path)
    assert "24 cells" in told
    assert all(f"1 {kind}s" in told for kind in torture_ray.KINDS)
    assert told.rstrip().endswith("0 wrong")


@pytest.mark.parametrize(
    "script",
    [VERSIONS, HALVES, CUT, INTERRUPTED],
    ids=["versions", "halves", "cut", "interrupted"],
)
def test_on_a_cluster(tmp_path: Path, script: str) -> None:
    file = tmp_path / "script.py"
    file.write_text(CLUSTER + script + "\nprint('done')\n")
    assert "done" in run_inside([sys.executable, str(file)], tmp_path)
