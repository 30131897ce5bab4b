"""A cable is pulled between two machines: both ends of a wire notice, though nobody says a word.

The machines are two network namespaces with a cable of their own.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

NAMESPACE = ["unshare", "--map-root-user", "--net"]
MACHINES = """
ip link set lo up
unshare --net sleep 120 &
there=$!
until [ "$(readlink /proc/$there/ns/net)" != "$(readlink /proc/$$/ns/net)" ]; do sleep 0.1; done
ip link add here type veth peer name there netns $there || exit 77
ip addr add 10.9.0.1/24 dev here && ip link set here up
nsenter -t $there -n sh -c 'ip addr add 10.9.0.2/24 dev there && ip link set there up'
"$@" $there; code=$?
kill $there
exit $code
"""
SILENT_SECONDS = 6
DRIVER = """
import subprocess, sys, time
from tollbox.workers import channel as wire
from tollbox.workers.channel import Switchboard

wire.SILENT_SECONDS = {seconds}
board = Switchboard("10.9.0.1")
made, number, key = board.wire()
command = ["nsenter", "-t", sys.argv[1], "-n", "--", sys.executable, "engine.py"]
engine = subprocess.Popen([*command, *map(str, board.address), str(number), key.hex()])
while not made.messages:
    board.wait(0.1)
began = time.monotonic()
subprocess.run(["ip", "link", "set", "here", "down"], check=True)
if {speaks}:
    made.send(b"nobody hears this")
while made.ended is None and time.monotonic() < began + 60:
    board.wait(0.1)
assert made.ended is not None
assert engine.wait(60) == 0
print(f"both noticed after {{time.monotonic() - began:.0f}} s")
"""
ENGINE = """
import sys
from tollbox.workers import channel as wire

wire.SILENT_SECONDS = {seconds}
host, port, number, key = sys.argv[1:]
engine = wire.connect((host, int(port)), int(number), bytes.fromhex(key))
engine.send_bytes(b"here")
try:
    engine.recv_bytes()
except (EOFError, OSError):
    sys.exit(0)
sys.exit("something was heard")
"""


@pytest.mark.skipif(shutil.which("ip") is None, reason="there is no `ip` here")
@pytest.mark.parametrize("speaks", [False, True])
def test_a_pulled_cable_is_noticed(tmp_path: Path, speaks: bool) -> None:
    if subprocess.run([*NAMESPACE, "true"], capture_output=True).returncode:
        pytest.skip("there can be no network namespace here")
    (tmp_path / "driver.py").write_text(DRIVER.format(seconds=SILENT_SECONDS, speaks=speaks))
    (tmp_path / "engine.py").write_text(ENGINE.format(seconds=SILENT_SECONDS))
    ended = subprocess.run(
        [*NAMESPACE, "bash", "-c", MACHINES, "machines", sys.executable, "driver.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=200,
    )
    if ended.returncode == 77:
        pytest.skip("there can be no cable here")
    assert ended.returncode == 0, ended.stderr
    assert "both noticed" in ended.stdout
