"""The actor of an engine on a Ray cluster: one call, which lasts as long as the engine.

1. It compares versions, connects to the driver (`workers/channel.py`) and does what the driver says
   (`job_process.work`), until that is over or the driver has gone. What it answers is why it could
   not begin.
2. The class is made inside a function, and asks for tollbox by name, so that it travels by value: a
   node with another version can then say so.

Engines on a Ray cluster: a crew whose processes are actors.

1. The desk stays with the driver, the process that was started by hand: it is where the folder is,
   where Ctrl-C is pressed and where progress is shown, and it is what an engine of one machine
   talks to. So engines of a cluster are the same job in the same loop (`crew.py`), and a node needs
   neither the folder nor a common file system for it; only what the study itself names.
2. Ray places engines and watches over them: each is one call of an actor (`ray_actor.py`) that
   lasts as long as it. Messages go over a wire (`workers/channel.py`), since a call of Ray takes a
   large part of a millisecond of processor time on either side, and each batch would want two.
3. An engine has died when Ray says so, or when its wire has ended; then nobody listens to it any
   more (and the desk refuses its epoch), though its node may be there. An engine whose wire has
   ended ends itself, so none is left when the driver dies; and Ray ends its actors, too.
4. More engines may be asked for than there is room: Ray begins the others when a node comes. The
   cells of a node that goes are taken by the engines that are there.
5. A node has the same versions of tollbox, torch and numpy as the driver, or its engine is refused.
6. Ray is called from the loop alone, since a signal handler must not.
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
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from .. import __version__
from ..core.tf32 import setting
from ..core.validation import check_whole, shown
from ..data.tables import in_a_line
from ..data.user_code import optional
from ..errors import InputError
from ..workers.channel import Switchboard, Wire
from ..workers.crew import Crew, Member
from ..workers.executors import Job

VERSIONS, ADDRESS = "versions", "address"
"""What an engine may be refused for."""


def actor_class(ray: Any) -> type:
    """The actor's class."""

    class TollboxEngine:
        """Runs jobs."""

        def serve(
            self,
            versions: dict[str, str],
            shared: list[Any],
            meeting: tuple[Any, int, bytes],
            threads: int,
            precision: bytes,
        ) -> tuple[str, str] | None:
            """Run them; what it is refused for, and why. `shared` has a reference to what they
            share; `meeting` is the driver's address, the number of the wire and its key."""
            here = {name: importlib.import_module(name).__version__ for name in versions}
            differences = [
                f"{name} is {here[name]} there and {version} here"
                for name, version in versions.items()
                if here[name] != version
            ]
            if differences:
                return VERSIONS, ", ".join(differences)
            try:
                pipe = importlib.import_module("tollbox.workers.channel").connect(*meeting)
            except OSError as error:
                return ADDRESS, "{}:{}: {}".format(*meeting[0], error)
            process = importlib.import_module("tollbox.workers.job_process")
            process.work(pipe, ray.get(shared.pop()), threads, pickle.loads(precision))
            return None

    return TollboxEngine


ANSWER_SECONDS = 5.0
"""How long an address is given to answer."""
LOOK_SECONDS = 0.2
"""Time between two looks at what Ray says."""
LEAVE_SECONDS = 5.0
"""How long engines are given to end on their own."""
REASON_SECONDS = 10.0
"""How long Ray is given to say why a wire has ended."""
MOST_WORDS = 120
"""Letters of what Ray says that are passed on."""


@dataclass(frozen=True)
class RayEngines:
    """Where engines run: `tb.run_study(study, out, executor=RayEngines("10.0.0.1:6379"))`."""

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
        self._board = _switchboard(self.ray)
        self._next_look = 0.0
        try:
            self._shared = self.ray.put(self.ray.cloudpickle.dumps(shared))
            self._actor = self.ray.remote(actor_class(self.ray))
            self._hire(self.wanted)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> RayCrew:
        return self

    def close(self) -> None:
        """End all of them; those that are there leave by themselves, or Ray says that they died."""
        for member in self._members:
            member.say("close")
        leaving = [member.serving for member in self._members if member.is_there]
        if leaving:
            self.ray.wait(leaving, num_returns=len(leaving), timeout=LEAVE_SECONDS)
        super().close()
        self._board.close()

    def _hire(self, count: int) -> None:
        threads = max(1, round(self._needs["num_cpus"]))
        versions = {"tollbox": __version__, "torch": torch.__version__, "numpy": np.__version__}
        for _ in range(count):
            wire, number, key = self._board.wire()
            meeting = self._board.address, number, key
            handle = self._actor.options(**self._needs, max_restarts=0).remote()
            serving = handle.serve.remote(
                versions, [self._shared], meeting, threads, pickle.dumps(setting())
            )
            self._members.append(_Engine(self.ray, handle, serving, self._board, wire))

    def _packed(self, job: Job) -> bytes:
        return bytes(self.ray.cloudpickle.dumps(job))

    def _with_messages(self, members: list[_Engine], seconds: float | None = None) -> list[_Engine]:
        end = math.inf if seconds is None else time.monotonic() + seconds
        while True:
            if time.monotonic() >= self._next_look:
                self._look()
            found = [member for member in members if member.has_news]
            if found or time.monotonic() >= end:
                return found
            self._board.wait(LOOK_SECONDS)

    def _look(self) -> None:
        """See what Ray says of engines."""
        self._next_look = time.monotonic() + LOOK_SECONDS
        serving = {member.serving: member for member in self._members if not member.ended}
        ready = []
        if serving:
            ready, _ = self.ray.wait([*serving], num_returns=len(serving), timeout=0)
        for reference in ready:
            serving[reference].learn()
        for member in self._members:
            member.look()


class _Engine(Member):
    """An actor, as the driver sees it."""

    def __init__(self, ray: Any, handle: Any, serving: Any, board: Switchboard, wire: Wire) -> None:
        super().__init__(alone=False)
        self._ray, self._handle = ray, handle
        self.serving = serving
        """What Ray answers when it has ended."""
        self._board, self._wire = board, wire
        self._news: deque[Any] = deque()
        """What is said of it, after all that it says itself."""
        self.ended = self._called_off = False
        """Nothing more is to be learnt of it; it is not wanted any more, and was not there yet."""

    @property
    def has_news(self) -> bool:
        """Whether there is a message."""
        return bool(self._wire.messages or self._news)

    @property
    def is_there(self) -> bool:
        """Whether it could hear what is said."""
        return not self.ended and self._wire.connection is not None

    def say(self, *message: Any) -> None:
        """Send a message. One that has no node yet need not wait to be stopped."""
        if message[0] == "stop" and not self._wire.joined:
            self._called_off = True
        if message[0] == "stop" and self._called_off:
            self._news.append(("value", None))
        self._wire.send(pickle.dumps(message))

    def hear(self) -> Any:
        """Its next message."""
        if self._wire.messages:
            return pickle.loads(self._wire.messages.popleft())
        return self._news.popleft()

    def learn(self) -> None:
        """It has ended: take what Ray says of it."""
        self.ended = True
        try:
            refusal = self._ray.get(self.serving)
        except self._ray.exceptions.RayError as error:
            refusal, how = None, in_a_line(error)[:MOST_WORDS]
        else:
            how = "it has ended"
        self._wire.receive()
        self._board.hang_up(self._wire)
        self._news.append(("died", how) if refusal is None else ("error", _refused(*refusal)))

    def look(self) -> None:
        """End it if it is not wanted; or if its wire has ended, but give Ray time to say why."""
        since = self._wire.ended
        if self._called_off and not self.ended:
            self.end()
        if not self.ended and since is not None and time.monotonic() - since > REASON_SECONDS:
            self.ended = True
            self.kill()
            self._news.append(("died", "its connection to the driver ended"))

    def kill(self) -> None:
        """End it at once."""
        with suppress(self._ray.exceptions.RayError):
            self._ray.kill(self._handle, no_restart=True)

    def end(self) -> None:
        """The same: what counts is at the desk."""
        self.ended = True
        self._board.hang_up(self._wire)
        self.kill()


def _switchboard(ray: Any) -> Switchboard:
    """Where engines connect to: at the address by which Ray's nodes know this machine."""
    host = ray.util.get_node_ip_address()
    try:
        return Switchboard(host)
    except OSError as error:
        raise InputError(
            f"engines cannot connect to {host}, which Ray takes for this machine ({error})",
            remedy="give Ray an address that this machine has (`ray start --node-ip-address`)",
        ) from None


def _refused(what: str, why: str) -> InputError:
    if what == VERSIONS:
        return InputError(
            f"a node of the Ray cluster has other versions ({why})",
            expected="those of this machine",
            remedy="install the same on all nodes; all that was recorded is kept",
        )
    return InputError(
        f"a node of the Ray cluster does not reach this machine ({why})",
        expected="that nodes can connect to the driver, at any port",
        remedy="let them, or start the run where they can; all that was recorded is kept",
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
