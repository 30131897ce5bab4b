"""An engine of a cluster as the driver sees it, and the actor that it is; Ray itself is played."""

from __future__ import annotations

import pickle
import socket
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import tollbox as tb
from tollbox.errors import InputError
from tollbox.studies import ray as ray_engines
from tollbox.studies.ray import ADDRESS, VERSIONS, _Engine, actor_class
from tollbox.workers import channel as wire_module
from tollbox.workers.channel import EngineEnd, Switchboard, connect


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


@pytest.fixture
def board() -> Iterator[Switchboard]:
    made = Switchboard("127.0.0.1")
    yield made
    made.close()


@pytest.fixture
def ray() -> Ray:
    return Ray()


def meet(board: Switchboard, ray: Ray) -> tuple[_Engine, EngineEnd]:
    """An engine that is there, and its own end."""
    wire, number, key = board.wire()
    engine = _Engine(ray, "handle", "serving", board, wire)
    end = connect(board.address, number, key)
    while not wire.joined:
        board.wait(0.05)
    return engine, end


def leave(end: EngineEnd) -> None:
    end._reader.close()
    end._connection.close()


def test_what_it_said_is_heard_before_its_death_and_nothing_after(
    board: Switchboard, ray: Ray
) -> None:
    engine, end = meet(board, ray)
    end.send_bytes(pickle.dumps(("ask", 1)))
    ray.answer = Died("the node is gone\nmore")
    engine.learn()
    assert engine.hear() == ("ask", 1)
    engine.say("answer", True)  # to nobody
    assert engine.hear() == ("died", "the node is gone")
    assert not engine.has_news
    with pytest.raises((EOFError, OSError)):
        end.recv_bytes()
    leave(end)


def test_an_engine_without_a_wire_is_dead_though_ray_says_nothing(
    board: Switchboard, ray: Ray, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, end = meet(board, ray)
    leave(end)
    while engine.is_there:
        board.wait(0.05)
    engine.look()
    assert not engine.has_news  # Ray has time to say why
    assert not ray.killed
    monkeypatch.setattr(ray_engines, "REASON_SECONDS", 0.0)
    engine.look()
    assert ray.killed == ["handle"]
    assert engine.hear() == ("died", "its connection to the driver ended")
    engine.look()
    assert not engine.has_news


def test_one_that_is_not_there_yet_can_be_stopped(board: Switchboard, ray: Ray) -> None:
    wire, _, _ = board.wire()
    engine = _Engine(ray, "handle", "serving", board, wire)
    engine.say("job", b"")
    assert not engine.has_news
    engine.say("stop", tb.Stop.INTERRUPTED)
    assert not ray.killed  # a signal handler may have said it
    assert engine.hear() == ("value", None)
    engine.look()
    assert ray.killed == ["handle"]
    assert engine.ended


@pytest.mark.parametrize(
    ("what", "told"),
    [(VERSIONS, "a node of the Ray cluster has other versions (why)"), (ADDRESS, "(why)")],
)
def test_a_refusal_is_an_error_of_the_run(
    board: Switchboard, ray: Ray, what: str, told: str
) -> None:
    engine, end = meet(board, ray)
    ray.answer = what, "why"
    engine.learn()
    kind, error = engine.hear()
    assert kind == "error"
    assert isinstance(error, InputError)
    assert told in str(error)
    assert "all that was recorded is kept" in str(error)
    leave(end)


def test_an_address_that_this_machine_has_not_is_refused() -> None:
    ray = SimpleNamespace(util=SimpleNamespace(get_node_ip_address=lambda: "192.0.2.1"))
    with pytest.raises(InputError, match=r"engines cannot connect to 192\.0\.2\.1"):
        ray_engines._switchboard(ray)


def test_an_actor_says_why_it_cannot_begin(ray: Ray, monkeypatch: pytest.MonkeyPatch) -> None:
    actor = actor_class(ray)()
    nobody = socket.create_server(("127.0.0.1", 0))
    host, port = nobody.getsockname()
    nobody.close()
    meeting = (host, port), 0, b"key"
    told = actor.serve({"tollbox": "0.0", "torch": "0"}, [], meeting, 1, b"")
    assert told[0] == VERSIONS
    assert told[1].startswith(f"tollbox is {tb.__version__} there and 0.0 here, torch is ")
    monkeypatch.setattr(wire_module, "CONNECT_SECONDS", 0.0)
    what, why = actor.serve({"tollbox": tb.__version__}, [], meeting, 1, b"")
    assert what == ADDRESS
    assert why.startswith(f"127.0.0.1:{port}: ")
    assert "refused" in why
