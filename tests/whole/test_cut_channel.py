"""A cable is pulled between two machines: both ends of a channel notice without a message.

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
import queue, subprocess, sys, time
from tollbox.workers import channel

channel.SILENT_SECONDS = {seconds}
listener = channel.Listener("10.9.0.1")
messages = queue.SimpleQueue()
made = channel.Channel(messages.put)
number = listener.expect(made)
command = ["nsenter", "-t", sys.argv[1], "-n", "--", sys.executable, "worker.py"]
words = [*map(str, listener.address), str(number), listener.key.hex()]
worker = subprocess.Popen([*command, *words])
assert messages.get(timeout=60) == b"here"
began = time.monotonic()
subprocess.run(["ip", "link", "set", "here", "down"], check=True)
if {speaks}:
    made.send(b"to nobody")
assert messages.get(timeout=60) is None
assert worker.wait(60) == 0
print(f"both noticed after {{time.monotonic() - began:.0f}} s")
"""
WORKER = """
import sys
from tollbox.workers import channel

channel.SILENT_SECONDS = {seconds}
host, port, number, key = sys.argv[1:]
end = channel.connect((host, int(port)), int(number), bytes.fromhex(key))
end.send_bytes(b"here")
try:
    end.recv_bytes()
except (EOFError, OSError):
    sys.exit(0)
sys.exit("a message was received")
"""


@pytest.mark.skipif(shutil.which("ip") is None, reason="there is no `ip` here")
@pytest.mark.parametrize("speaks", [False, True])
def test_a_pulled_cable_is_noticed(tmp_path: Path, speaks: bool) -> None:
    if subprocess.run([*NAMESPACE, "true"], capture_output=True).returncode:
        pytest.skip("there can be no network namespace here")
    (tmp_path / "driver.py").write_text(DRIVER.format(seconds=SILENT_SECONDS, speaks=speaks))
    (tmp_path / "worker.py").write_text(WORKER.format(seconds=SILENT_SECONDS))
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
