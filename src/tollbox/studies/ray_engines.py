"""Engines on a Ray cluster: a crew whose processes are actors.

1. The desk stays with the driver, the process that was started by hand: it is where the folder is,
   where Ctrl-C is pressed and where progress is shown, and it is what an engine of one machine
   talks to. So engines of a cluster are the same job in the same loop (`crew.py`), and a node needs
   neither the folder nor a common file system for it; only what the study itself names.
2. An actor never calls the driver. The driver asks each for its next messages, and Ray answers when
   there are some: a node that was taken for dead may still talk, but nobody listens (and the desk
   refuses its epoch). When the driver dies, Ray ends its actors.
3. More engines may be asked for than there is room: Ray begins the others when a node comes. The
   cells of a node that goes are taken by the engines that are there.
4. A node has the same versions of tollbox, torch and numpy as the driver, or its engine is refused.
5. Messages to an actor (`ray_actor.py`) are sent from the loop alone, since a signal handler must
   not call Ray.
"""

from __future__ import annotations

import logging
import math
import os
import pickle
import signal
import socket
import threading
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from .. import __version__
from ..core.arguments import check_whole, shown
from ..core.tf32 import setting
from ..engine.crew import Crew, Member
from ..engine.executors import Job
from ..errors import InputError
from ..files.packages import optional
from ..files.tables import in_a_line
from .ray_actor import GROUPS, actor_class

ANSWER_SECONDS = 5.0
"""How long an address is given to answer."""
LOOK_SECONDS = 0.2
"""Time between two looks at what is to be said."""
MOST_WORDS = 120
"""Letters of what Ray says that are passed on."""


@dataclass(frozen=True)
class RayEngines:
    """Where engines run: `tb.run_study(study, out, executor=tb.RayEngines("10.0.0.1:6379"))`."""

    address: str | None = None
    """Of the head, host:port; None: what `RAY_ADDRESS` says, or else a fresh one, of this machine
    alone."""
    engines: int | None = None
    """How many; None: as many as there is room for when the run begins."""
    num_gpus: float | None = None
    """GPUs of each, which may be a fraction; None: 1 if the study runs on a GPU, else 0."""
    num_cpus: float = 1.0
    """Cores of each."""

    def __post_init__(self) -> None:
        _checked(self.address, "ray")
        if self.engines is not None:
            check_whole("ray_engines", self.engines, 1)
        for name, value in (("ray_gpus", self.num_gpus), ("num_cpus", self.num_cpus)):
            if value is not None and not (isinstance(value, int | float) and 0 <= value < math.inf):
                raise InputError(f"is {shown(value)}", expected="a number, 0 or more", input=name)

    def needs(self, device: torch.device) -> dict[str, float]:
        """What an engine of a study on this device takes of a node."""
        gpus = float(device.type == "cuda") if self.num_gpus is None else float(self.num_gpus)
        return {"num_cpus": self.num_cpus, "num_gpus": gpus}

    def rooms(self, device: torch.device) -> list[int]:
        """Join the cluster, if this process is in none; how many engines each node has room for, if
        nobody else uses it. Raises InputError if there is no cluster, or no room."""
        ray = optional("ray", "engines on a cluster need it", "ray")
        if not ray.is_initialized():
            _connect(ray, self.address or _checked(os.environ.get("RAY_ADDRESS"), "RAY_ADDRESS"))
        cpus, gpus = self.needs(device).values()
        rooms = []
        for node in ray.nodes():
            has = node["Resources"] if node["Alive"] else {}
            fits = [int(has.get(k, 0) / need) for k, need in (("CPU", cpus), ("GPU", gpus)) if need]
            rooms.append(min(fits, default=1) if has else 0)
        if not sum(rooms):
            raise InputError(
                f"no node of the Ray cluster has room for an engine ({cpus:g} CPUs, {gpus:g} GPUs)",
                remedy="give engines less, or use a cluster with more",
            )
        return rooms


def _checked(address: str | None, name: str) -> str | None:
    """An address; raises InputError if it is none."""
    host, _, port = str(address).rpartition(":")
    if address is None or (host and "//" not in host and port.isdecimal()):
        return address
    raise InputError(f"is {shown(address)}", expected="host:port, as 10.0.0.1:6379", input=name)


class RayCrew(Crew["_Engine"]):
    """Engines of a cluster; use it as a context."""

    def __init__(self, config: RayEngines, device: torch.device, shared: Any) -> None:
        super().__init__()
        rooms, self._needs = config.rooms(device), config.needs(device)
        self.ray = optional("ray", "engines on a cluster need it", "ray")
        self.wanted = config.engines or sum(rooms)
        """How many engines there are to be."""
        gpus = self._needs["num_gpus"]
        self.share = min(1.0, gpus) if gpus else 1 / max(rooms)
        """Of a node's memory, or of a GPU's, that an engine has."""
        try:
            self._shared = self.ray.put(self.ray.cloudpickle.dumps(shared))
            self._actor = self.ray.remote(concurrency_groups=GROUPS)(actor_class(self.ray))
            self._hire(self.wanted)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> RayCrew:
        return self

    def _hire(self, count: int) -> None:
        threads = max(1, round(self._needs["num_cpus"]))
        versions = {"tollbox": __version__, "torch": torch.__version__, "numpy": np.__version__}
        for _ in range(count):
            handle = self._actor.options(**self._needs, max_restarts=0).remote()
            ready = handle.begin.remote(versions, self._shared, threads, pickle.dumps(setting()))
            self._members.append(_Engine(self.ray, handle, ready))

    def _packed(self, job: Job) -> bytes:
        return bytes(self.ray.cloudpickle.dumps(job))

    def _with_messages(self, members: list[_Engine], seconds: float | None = None) -> list[_Engine]:
        waited = 0.0
        while True:
            for member in members:
                member.flush()
            found = [member for member in members if member.news]
            if found or (seconds is not None and waited >= seconds):
                return found
            pending = {member.pending: member for member in members}
            ready, _ = self.ray.wait([*pending], num_returns=1, timeout=LOOK_SECONDS)
            if len(pending) > 1 and ready:  # and all others that have something, too
                ready, _ = self.ray.wait([*pending], num_returns=len(pending), timeout=0)
            for reference in ready:
                pending[reference].fetch()
            waited += 0.0 if ready else LOOK_SECONDS


class _Engine(Member):
    """An actor, as the driver sees it."""

    def __init__(self, ray: Any, handle: Any, ready: Any) -> None:
        """`ready` is what its beginning answers."""
        super().__init__(alone=False)
        self._ray, self._handle = ray, handle
        self.pending = ready
        """What Ray answers when it has something to say,"""
        self.news: deque[Any] = deque()
        """and what it has said."""
        self._outbox: deque[bytes] = deque()
        self._said = 1  # the first is what is shared
        self._begun = self._ended = False

    def say(self, *message: Any) -> None:
        """Have the loop send a message. One that has no node yet need not wait to be stopped."""
        if message[0] == "stop" and not self._begun:
            self._ended = True
            self.news.append(("value", None))
        self._outbox.append(pickle.dumps(message))

    def flush(self) -> None:
        """Send what is to be said."""
        if self._ended:
            self.kill()
        while self._outbox and not self._ended:
            self._handle.say.remote(self._said, self._outbox.popleft())
            self._said += 1

    def fetch(self) -> None:
        """Take what Ray has answered."""
        try:
            answer = self._ray.get(self.pending)
        except self._ray.exceptions.RayError as error:
            self._ended = True
            self.news.append(("died", in_a_line(error)[:MOST_WORDS]))
            return
        if not self._begun and answer is not None:
            self.news.append(("error", _another_version(answer)))
            self._ended = True
            return
        self.news.extend(map(pickle.loads, answer or ()))
        self._begun = True
        self.pending = self._handle.hear.remote()

    def hear(self) -> Any:
        """Its next message."""
        return self.news.popleft()

    def kill(self) -> None:
        """End it at once."""
        with suppress(self._ray.exceptions.RayError):
            self._ray.kill(self._handle, no_restart=True)

    def end(self) -> None:
        """The same: what counts is at the desk."""
        self.kill()


def _another_version(differences: str) -> InputError:
    return InputError(
        f"a node of the Ray cluster has other versions ({differences})",
        expected="those of this machine",
        remedy="install the same on all nodes; all that was recorded is kept",
    )


def _connect(ray: Any, address: str | None) -> None:
    """Join the cluster; raises InputError if that cannot be done."""
    if address is not None:
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host, int(port)), ANSWER_SECONDS).close()
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
            f"{where} cannot be used ({in_a_line(error)[: 2 * MOST_WORDS]})",
            expected=f"one of Ray {ray.__version__}, this Python, and this user's token",
        ) from None
    finally:
        if main:
            signal.signal(signal.SIGTERM, before)  # Ray sets one of its own
