"""A worker of a cluster as the driver sees it, and its actor; Ray is replaced by a stand-in."""

from __future__ import annotations

import pickle
import queue
import socket
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from types import SimpleNamespace
from typing import Any

import pytest

import tollbox as tb
from tollbox.errors import InputError
from tollbox.studies import ray as ray_module
from tollbox.studies.ray import RayHandle, actor_class
from tollbox.workers import channel as channel_module
from tollbox.workers.channel import Listener, connect

PATIENCE = 20.0


class Died(Exception):
    """What Ray raises."""


class Ray:
    """Answers what it is told to, and remembers who was killed."""

    def __init__(self) -> None:
        self.exceptions = SimpleNamespace(RayError=Died)
        self.answer: Any = None
        self.killed: list[Any] = []

    def get(self, reference: object) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def kill(self, handle: object, no_restart: bool) -> None:
        assert no_restart
        self.killed.append(handle)


class Driver:
    """Handles of workers with a common inbox, and how it is read."""

    def __init__(self, ray: Ray) -> None:
        self.ray, self.listener = ray, Listener("127.0.0.1")
        self.inbox: queue.SimpleQueue[tuple[Any, Any]] = queue.SimpleQueue()

    def handle(self) -> tuple[RayHandle, int]:
        made = RayHandle(self.ray, self.inbox)
        made.actor, made.serving = "handle", "serving"
        return made, self.listener.expect(made.channel)

    def meet(self) -> tuple[RayHandle, Connection]:
        """A worker that is connected, and its own end."""
        made, number = self.handle()
        end = connect(self.listener.address, number, self.listener.key)
        while not made.channel.connected:
            time.sleep(0.01)
        return made, end

    def next(self) -> Any:
        """The next message; None if a channel has ended, and the reason is not known."""
        worker, content = self.inbox.get(timeout=PATIENCE)
        message = pickle.loads(content) if isinstance(content, bytes) else content
        return worker.disconnected() if message is None else message


@pytest.fixture
def ray() -> Ray:
    return Ray()


@pytest.fixture
def driver(ray: Ray) -> Iterator[Driver]:
    made = Driver(ray)
    yield made
    made.listener.close()


def test_its_messages_come_before_its_death_and_nothing_after(driver: Driver, ray: Ray) -> None:
    worker, end = driver.meet()
    end.send_bytes(pickle.dumps(("ask", 1)))
    time.sleep(0.1)
    ray.answer = Died("the node is gone\nmore")
    worker.learn_end()
    assert driver.next() == ("ask", 1)
    worker.send("answer", True)  # to nobody
    assert driver.next() == ("died", "the node is gone")
    assert driver.inbox.empty()
    with pytest.raises((EOFError, OSError)):
        end.recv_bytes()


def test_ray_may_say_why_after_the_channel_has_ended(driver: Driver, ray: Ray) -> None:
    worker, end = driver.meet()
    end.close()
    assert driver.next() is None
    worker.check()
    ray.answer = Died("out of memory")
    worker.learn_end()
    assert driver.next() == ("died", "out of memory")
    assert not ray.killed


def test_a_worker_without_a_channel_is_dead_though_ray_says_nothing(
    driver: Driver, ray: Ray, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, end = driver.meet()
    end.close()
    assert driver.next() is None
    worker.check()
    assert driver.inbox.empty()  # Ray has time to say why
    assert not ray.killed
    monkeypatch.setattr(ray_module, "REASON_SECONDS", 0.0)
    worker.check()
    assert ray.killed == ["handle"]
    assert driver.next() == ("died", "its connection to the driver ended")
    worker.check()
    assert driver.inbox.empty()


def test_a_worker_that_is_not_connected_yet_can_be_stopped(driver: Driver, ray: Ray) -> None:
    worker, _ = driver.handle()
    worker.send("job", b"")
    assert driver.inbox.empty()
    worker.send("stop", tb.Stop.INTERRUPTED)
    assert not ray.killed  # this may be in a signal handler
    assert driver.next() == ("value", None)
    worker.check()
    assert ray.killed == ["handle"]
    assert worker.ended


@pytest.mark.parametrize("connected", [False, True])
def test_a_refusal_is_an_error_of_the_run(driver: Driver, ray: Ray, connected: bool) -> None:
    worker, _ = driver.meet() if connected else driver.handle()
    ray.answer = {"given": "it has other versions", "remedy": "install the same"}
    worker.learn_end()
    kind, error = driver.next()
    assert kind == "error"
    assert isinstance(error, InputError)
    assert str(error) == "it has other versions; install the same."


def test_an_address_that_this_machine_has_not_is_refused() -> None:
    ray = SimpleNamespace(util=SimpleNamespace(get_node_ip_address=lambda: "192.0.2.1"))
    with pytest.raises(InputError, match=r"workers cannot connect to 192\.0\.2\.1"):
        ray_module._listen(ray)


def test_an_actor_says_why_it_cannot_begin(ray: Ray, monkeypatch: pytest.MonkeyPatch) -> None:
    actor = actor_class(ray)()
    nobody = socket.create_server(("127.0.0.1", 0))
    host, port = nobody.getsockname()
    nobody.close()
    meeting = (host, port), 0, b"key"
    told = actor.serve({"tollbox": "0.0", "torch": "0"}, [], meeting, b"")
    assert f"other versions (tollbox is {tb.__version__} there and 0.0 here, torch" in told["given"]
    assert "all recorded answers are kept" in told["remedy"]
    monkeypatch.setattr(channel_module, "CONNECT_SECONDS", 0.0)
    told = actor.serve({"tollbox": tb.__version__}, [], meeting, b"")
    assert f"does not reach this machine (127.0.0.1:{port}: " in told["given"]
    assert "refused" in told["given"]
    assert "all recorded answers are kept" in told["remedy"]
