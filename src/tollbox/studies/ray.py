"""Workers on a Ray cluster: a pool whose workers are actors.

1. The coordinator stays in the driver, the process that the user started. Workers on a cluster run
   the same job as processes on one machine. A node needs neither the folder nor a shared file
   system, only the files that the study names.
2. Each worker is one call to an actor, which Ray places and monitors. Messages use a channel
   (`workers/channel.py`): a Ray call takes a large part of a millisecond of processor time on both
   sides, and each batch would need two.
3. A worker counts as dead when Ray says so, or when its channel is closed. Then its messages are
   ignored, and the coordinator refuses its epoch, even if its node still runs. A worker exits when
   its channel is closed, so none is left when the driver dies.
4. You may request more workers than the cluster has room for. Ray starts them when a node joins.
5. A node must have the driver's versions of tollbox, torch and numpy, or its worker is refused.
6. Only the main loop calls Ray, since a signal handler must not.
"""

from __future__ import annotations

import importlib
import logging
import math
import os
import pickle
import signal
import socket
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from .. import __version__
from ..core.device import tf32_setting
from ..core.validation import check_whole, require
from ..data.tables import in_a_line
from ..data.user_code import optional
from ..errors import InputError
from ..workers.channel import Listener
from ..workers.executors import Inbox, Job, WorkerHandle, WorkerPool

PROBE_SECONDS = 5.0
"""Time for the address of a cluster to answer."""
LEAVE_SECONDS = 5.0
"""Time for workers to exit by themselves."""
REASON_SECONDS = 10.0
"""Time for Ray to report why a channel was closed."""
MOST_CHARACTERS = 120
"""Maximum length of a message from Ray that is passed on."""


@dataclass(frozen=True)
class RayWorkers:
    """Workers on a Ray cluster: `tb.run_study(study, out, executor=RayWorkers("host:6379"))`."""

    address: str | None = None
    """Address of the head node, host:port; by default that in `RAY_ADDRESS`, or else a new
    cluster on this machine alone."""
    workers: int | None = None
    """Number of workers; by default the number that the cluster has room for at the start."""
    num_gpus: float | None = None
    """GPUs for each worker, or a fraction; by default 1 if the study runs on a GPU, else 0."""
    num_cpus: float = 1.0
    """Cores for each worker."""

    def __post_init__(self) -> None:
        _check_address(self.address, "ray")
        if self.workers is not None:
            check_whole("ray_workers", self.workers, 1)
        for name, value in (("ray_gpus", self.num_gpus), ("num_cpus", self.num_cpus)):
            right = value is None or (isinstance(value, int | float) and 0 <= value < math.inf)
            require(right, name, value, "a number, 0 or more")

    def needs(self, device: torch.device) -> dict[str, float]:
        """Return the resources that a worker needs for a study on this device."""
        gpus = float(device.type == "cuda") if self.num_gpus is None else float(self.num_gpus)
        return {"num_cpus": self.num_cpus, "num_gpus": gpus}

    def rooms(self, device: torch.device) -> list[int]:
        """Join the cluster, if this process has not; return the number of workers that fit on each
        node if it is otherwise idle. Raise InputError if there is no cluster, or no room."""
        ray = optional("ray", "workers on a cluster need it", "ray")
        if not ray.is_initialized():
            given = os.environ.get("RAY_ADDRESS")
            _join(ray, self.address or _check_address(given, "RAY_ADDRESS"))
        cpus, gpus = self.needs(device).values()
        rooms = []
        for node in ray.nodes():
            has = node["Resources"] if node["Alive"] else {}
            fits = [int(has.get(k, 0) / need) for k, need in (("CPU", cpus), ("GPU", gpus)) if need]
            rooms.append(min(fits, default=1) if has else 0)
        if not sum(rooms):
            raise InputError(
                f"no node of the Ray cluster has room for a worker ({cpus:g} CPUs, {gpus:g} GPUs)",
                remedy="give each worker less, or use a larger cluster",
            )
        return rooms


def _check_address(address: str | None, name: str) -> str | None:
    """Return an address; raise InputError unless it is host:port or None."""
    host, _, port = str(address).rpartition(":")
    right = address is None or bool(host and "//" not in host and port.isdecimal())
    require(right, name, address, "host:port, as 10.0.0.1:6379")
    return address


def _join(ray: Any, address: str | None) -> None:
    if address is not None:
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host, int(port)), PROBE_SECONDS).close()
        except (OSError, OverflowError) as error:
            raise InputError(
                f"the Ray cluster at {address} does not answer ({error})",
                remedy="give the address that `ray start --head` prints",
            ) from None
    main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGTERM) if main else None
    try:
        ray.init(address or "local", logging_level=logging.ERROR, log_to_driver=False)
    except Exception as error:
        where = "the Ray cluster" + (f" at {address}" if address else "")
        raise InputError(
            f"{where} cannot be used ({in_a_line(error)[: 2 * MOST_CHARACTERS]})",
            expected=f"a cluster of Ray {ray.__version__}, this Python, and this user's token",
        ) from None
    finally:
        if main:
            signal.signal(signal.SIGTERM, before)  # Ray sets its own handler


def actor_class(ray: Any) -> type:
    """Return the class of the actor. It is defined here and imports tollbox by name, so that Ray
    sends it by value: a node with another version of tollbox can then report that."""

    class TollboxWorker:
        """The Ray actor that runs the jobs of one worker."""

        def serve(
            self, versions: dict[str, str], shared: list[Any], meeting: tuple[Any, ...], how: bytes
        ) -> dict[str, str] | None:
            """Run jobs until the coordinator has no more; return the fields of an InputError if
            the node is unsuitable. `shared` has a reference to the shared object; `meeting` is the
            address of the coordinator, the number of this worker and the key; `how` has the number
            of threads and the TF32 setting, pickled."""
            here = {name: importlib.import_module(name).__version__ for name in versions}
            differences = [
                f"{name} is {here[name]} there and {version} here"
                for name, version in versions.items()
                if here[name] != version
            ]
            if differences:
                return {
                    "given": f"a node of the Ray cluster has other versions "
                    f"({', '.join(differences)})",
                    "expected": "those of this machine",
                    "remedy": "install the same on all nodes; all recorded answers are kept",
                }
            try:
                connection = importlib.import_module("tollbox.workers.channel").connect(*meeting)
            except OSError as error:
                why = "{}:{}: {}".format(*meeting[0], error)
                return {
                    "given": f"a node of the Ray cluster does not reach this machine ({why})",
                    "expected": "that nodes can connect to the driver, at any port",
                    "remedy": "open the ports, or start the run on another machine; all recorded "
                    "answers are kept",
                }
            process = importlib.import_module("tollbox.workers.process")
            process.work(connection, ray.get(shared.pop()), *pickle.loads(how))
            return None

    return TollboxWorker


class RayHandle(WorkerHandle):
    """The driver's handle for an actor."""

    def __init__(self, ray: Any, inbox: Inbox) -> None:
        super().__init__(inbox, alone=False)
        self._ray = ray
        self.actor: Any = None
        self.serving: Any = None
        """Reference to the return value of the call to the actor."""
        self.ended = False
        """Whether nothing more will be learned about the worker."""
        self._called_off = False
        """Whether the worker was stopped before it was connected."""
        self._last_message: tuple[Any, ...] | None = None
        self._disconnected: float | None = None

    def send(self, *message: Any) -> None:
        if message[0] == "stop" and not self.channel.connected:
            self._called_off = True
        if message[0] == "stop" and self._called_off:
            self._inbox.put((self, ("value", None)))
        super().send(*message)

    def disconnected(self) -> tuple[Any, ...] | None:
        self._disconnected = time.monotonic()
        return self._last_message

    def learn_end(self) -> None:
        """Report what Ray says about the end of the worker, after all messages from the worker."""
        self.ended = True
        try:
            refusal = self._ray.get(self.serving)
        except self._ray.exceptions.RayError as error:
            self._last_message = "died", in_a_line(error)[:MOST_CHARACTERS]
        else:
            died = "died", "its job has ended"
            self._last_message = died if refusal is None else ("error", InputError(**refusal))
        self.channel.close()
        if self._disconnected is not None or not self.channel.connected:
            self._inbox.put((self, self._last_message))

    def check(self) -> None:
        """End a worker that was called off, or whose channel closed without a report from Ray."""
        if self._called_off and not self.ended:
            self.end()
        since = self._disconnected
        if not self.ended and since is not None and time.monotonic() - since > REASON_SECONDS:
            self.end()
            self._inbox.put((self, ("died", "its connection to the driver ended")))

    def kill(self) -> None:
        if self.actor is not None:
            with suppress(self._ray.exceptions.RayError):
                self._ray.kill(self.actor, no_restart=True)

    def end(self) -> None:
        self.ended = True
        self.channel.close()
        self.kill()
        self.actor = self.serving = None  # frees the actor: the handle may live longer


class RayPool(WorkerPool[RayHandle]):
    """The workers on a Ray cluster. Use it as a context manager."""

    def __init__(self, config: RayWorkers, device: torch.device, shared: Any) -> None:
        super().__init__()
        rooms, self._needs = config.rooms(device), config.needs(device)
        self.ray = optional("ray", "workers on a cluster need it", "ray")
        self.wanted = config.workers or sum(rooms)
        gpus = self._needs["num_gpus"]
        self.share = min(1.0, gpus) if gpus else 1 / max(rooms)
        """Share of a node's memory, or of a GPU's, that a worker may use."""
        self._listener = _listen(self.ray)
        self._shared: Any = None
        try:
            self._shared = self.ray.put(self.ray.cloudpickle.dumps(shared))
            self._actor = self.ray.remote(actor_class(self.ray))
            self._spawn(self.wanted)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> RayPool:
        return self

    def close(self) -> None:
        for worker in self._workers:
            worker.send("close")
        leaving = [w.serving for w in self._workers if w.channel.connected and not w.ended]
        if leaving:
            self.ray.wait(leaving, num_returns=len(leaving), timeout=LEAVE_SECONDS)
        super().close()
        self._listener.close()
        self._shared = None  # otherwise Ray tries to recover it when the cluster stops

    def _spawn(self, count: int) -> None:
        how = pickle.dumps((max(1, round(self._needs["num_cpus"])), tf32_setting()))
        versions = {"tollbox": __version__, "torch": torch.__version__, "numpy": np.__version__}
        for _ in range(count):
            worker = RayHandle(self.ray, self._inbox)
            number = self._listener.expect(worker.channel)
            meeting = self._listener.address, number, self._listener.key
            worker.actor = self._actor.options(**self._needs, max_restarts=0).remote()
            worker.serving = worker.actor.serve.remote(versions, [self._shared], meeting, how)
            self._workers.append(worker)

    def _pack(self, job: Job) -> bytes:
        return bytes(self.ray.cloudpickle.dumps(job))

    def _check(self) -> None:
        serving = {worker.serving: worker for worker in self._workers if not worker.ended}
        if serving:
            ready, _ = self.ray.wait([*serving], num_returns=len(serving), timeout=0)
            for reference in ready:
                serving[reference].learn_end()
        for worker in self._workers:
            worker.check()


def _listen(ray: Any) -> Listener:
    """Listen on the address at which the nodes of the Ray cluster reach this machine."""
    host = ray.util.get_node_ip_address()
    try:
        return Listener(host)
    except OSError as error:
        raise InputError(
            f"workers cannot connect to {host}, which Ray takes for this machine ({error})",
            remedy="give Ray an address that this machine has (`ray start --node-ip-address`)",
        ) from None
