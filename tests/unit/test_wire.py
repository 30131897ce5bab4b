"""Wires: messages arrive whole and in order, only from those who have the key, and nobody waits."""

from __future__ import annotations

import contextlib
import itertools
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from tollbox.workers import channel as wire_module
from tollbox.workers.channel import EngineEnd, Switchboard, Wire, connect, greet

HOST = "127.0.0.1"
PATIENCE = 20.0


@pytest.fixture(autouse=True)
def closed_after(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Close what a test has opened."""
    ends: list[EngineEnd | socket.socket] = []
    begin, pair = EngineEnd.__init__, socket.socketpair

    def kept(self: EngineEnd, connection: socket.socket) -> None:
        begin(self, connection)
        ends.append(self)

    def kept_pair() -> tuple[socket.socket, socket.socket]:
        ends.extend(made := pair())
        return made

    monkeypatch.setattr(EngineEnd, "__init__", kept)
    monkeypatch.setattr(socket, "socketpair", kept_pair)
    yield
    for end in ends:
        leave(end) if isinstance(end, EngineEnd) else end.close()


def leave(engine: EngineEnd) -> None:
    engine._reader.close()
    engine._connection.close()


@pytest.fixture
def board() -> Iterator[Switchboard]:
    made = Switchboard(HOST)
    yield made
    made.close()


def until(board: Switchboard, what: Callable[[], object]) -> None:
    """Let the board work until something holds."""
    end = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < end
        board.wait(0.05)


def joined(board: Switchboard) -> tuple[Wire, EngineEnd]:
    wire, number, key = board.wire()
    engine = connect(board.address, number, key)
    until(board, lambda: wire.joined)
    return wire, engine


def is_turned_away(connection: socket.socket) -> bool:
    connection.settimeout(PATIENCE)
    with contextlib.suppress(ConnectionError):
        while connection.recv(1000):
            pass
    return True


def test_messages_go_both_ways_whole_and_in_order(board: Switchboard) -> None:
    contents = [b"", b"a", bytes(range(256)) * 30_000, b"z"]
    wire, number, key = board.wire()
    wire.send(b"early")  # before anybody is there
    engine = connect(board.address, number, key)
    until(board, lambda: wire.joined)
    sender = threading.Thread(target=lambda: [engine.send_bytes(c) for c in contents])
    sender.start()
    until(board, lambda: len(wire.messages) == len(contents))
    sender.join()
    assert list(wire.messages) == contents
    received: list[bytes] = []
    reader = threading.Thread(
        target=lambda: received.extend(engine.recv_bytes() for _ in range(5)), daemon=True
    )
    for content in contents:
        wire.send(content)
    reader.start()
    until(board, lambda: len(received) == 5)
    assert received == [b"early", *contents]


def test_an_engine_that_does_not_read_holds_up_nobody(board: Switchboard) -> None:
    deaf, end = joined(board)
    wire, engine = joined(board)
    content = bytes(1 << 26)
    deaf.send(content)  # more than any buffer takes
    assert deaf.unsent
    engine.send_bytes(b"ask")
    until(board, lambda: wire.messages)
    wire.send(b"answer")
    assert engine.recv_bytes() == b"answer"
    assert deaf.unsent
    received: list[bytes] = []
    threading.Thread(target=lambda: received.append(end.recv_bytes()), daemon=True).start()
    until(board, lambda: received)
    assert received == [content]
    assert not deaf.unsent


def test_half_a_message_holds_up_nobody(board: Switchboard) -> None:
    slow, end = joined(board)
    wire, engine = joined(board)
    whole = wire_module.LENGTH.pack(4) + b"word"
    end._connection.sendall(whole[:10])
    engine.send_bytes(b"ask")
    until(board, lambda: wire.messages)
    assert not slow.messages
    end._connection.sendall(whole[10:])
    until(board, lambda: slow.messages)
    assert list(slow.messages) == [b"word"]


def test_an_end_is_noticed_after_what_came_before_it(board: Switchboard) -> None:
    wire, engine = joined(board)
    engine.send_bytes(b"last")
    leave(engine)
    until(board, lambda: wire.ended is not None)
    assert list(wire.messages) == [b"last"]
    wire.send(b"nobody hears this")
    assert not wire.unsent
    other, engine = joined(board)  # it may have the same file
    engine.send_bytes(b"here")
    until(board, lambda: other.messages)


def test_an_engine_notices_that_its_wire_was_ended(board: Switchboard) -> None:
    wire, engine = joined(board)
    board.hang_up(wire)
    with pytest.raises((EOFError, OSError)):
        engine.recv_bytes()


def test_a_closed_board_lets_nobody_in(board: Switchboard) -> None:
    _, number, key = board.wire()
    board.close()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wire_module, "CONNECT_SECONDS", 0.0)
        with pytest.raises(ConnectionRefusedError):
            connect(board.address, number, key)


def test_without_the_key_nobody_is_let_in(board: Switchboard) -> None:
    wire, number, key = board.wire()
    with pytest.raises(ConnectionError, match="not the driver"):
        connect(board.address, number, bytes(32))
    with pytest.raises(ConnectionError):
        connect(board.address, number + 1, key)
    with socket.create_connection(board.address) as stranger:  # who trusts any driver
        stranger.sendall(wire_module.LENGTH.pack(number) + bytes(32) + bytes(32))
        assert is_turned_away(stranger)
    board.wait(0.0)
    assert not wire.joined
    connect(board.address, number, key)
    until(board, lambda: wire.joined)


def test_a_proof_is_of_one_meeting_and_one_side() -> None:
    """What was heard of one meeting opens no other, nor does the driver's own proof."""
    key = b"k" * 32
    for replay in (True, False):
        here, there = socket.socketpair()
        found: list[int | None] = []
        thread = threading.Thread(
            target=lambda end=there, found=found: found.append(greet(end, {3: key}.get))
        )
        thread.start()
        own = bytes(32)
        here.sendall(wire_module.LENGTH.pack(3) + own)
        answer = here.recv(64, socket.MSG_WAITALL)
        other_meeting = wire_module._proof(key, b"engine", own, bytes(32))
        here.sendall(other_meeting if replay else answer[32:])
        thread.join()
        assert found == [None]


def test_a_key_is_for_one_engine(board: Switchboard) -> None:
    wire, number, key = board.wire()
    first = connect(board.address, number, key)
    second = connect(board.address, number, key)  # before the board has looked
    until(board, lambda: wire.joined)
    with pytest.raises(ConnectionError):
        connect(board.address, number, key)
    kept = wire.connection
    board.wait(0.05)
    assert wire.connection is kept
    wire.send(b"hello")
    heard = []
    for engine in (first, second):
        with contextlib.suppress(EOFError, OSError):
            heard.append(engine.recv_bytes())
    assert heard == [b"hello"]


def test_one_who_says_nothing_keeps_nobody_out(board: Switchboard) -> None:
    with contextlib.ExitStack() as strangers:
        for _ in range(20):
            strangers.enter_context(socket.create_connection(board.address))
        joined(board)


def test_one_who_says_nothing_is_turned_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire_module, "GREETING_SECONDS", 0.1)
    here, there = socket.socketpair()
    assert greet(there, {0: b"key"}.get) is None
    here.close()


class Interrupted:
    """A connection in the middle of whose work something is called."""

    def __init__(self, connection: socket.socket, call: Callable[[], None]) -> None:
        self._connection, self._call = connection, call

    def send(self, content: memoryview) -> int:
        sent = self._connection.send(content[:3])
        self._call()
        return sent

    def recv(self, size: int) -> bytes:
        content = self._connection.recv(size)
        self._call()
        return content

    def close(self) -> None:
        self._connection.close()


def test_a_signal_handler_may_speak_while_a_message_is_sent() -> None:
    here, there = socket.socketpair()
    wire, engine = Wire(), EngineEnd(there)
    calls = itertools.count()

    def handler() -> None:
        if next(calls) == 1:
            wire.send(b"stop")

    wire.connection = Interrupted(here, handler)  # type: ignore[assignment]
    wire.send(b"an answer that is long")
    assert [engine.recv_bytes(), engine.recv_bytes()] == [b"an answer that is long", b"stop"]


@pytest.mark.parametrize("receives", [False, True])
def test_an_interrupted_wire_is_ended_rather_than_garbled(receives: bool) -> None:
    here, there = socket.socketpair()
    wire, engine = Wire(), EngineEnd(there)

    def interrupt() -> None:
        raise KeyboardInterrupt

    wire.connection = Interrupted(here, interrupt)  # type: ignore[assignment]
    engine.send_bytes(b"ask")
    with pytest.raises(KeyboardInterrupt):
        wire.receive() if receives else wire.send(b"answer")
    assert wire.ended is not None
    assert wire.connection is None
    with pytest.raises((EOFError, OSError)):
        engine.recv_bytes()
