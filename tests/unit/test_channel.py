"""Channels: messages arrive whole and in order, only from workers with the key, without delay."""

from __future__ import annotations

import contextlib
import hmac
import os
import queue
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing import Pipe
from multiprocessing.connection import Connection

import pytest

from tollbox.workers import channel as channel_module
from tollbox.workers.channel import Channel, Listener, connect

HOST = "127.0.0.1"
PATIENCE = 20.0


class Received(Channel):
    """A channel that keeps its messages."""

    def __init__(self) -> None:
        self.messages: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        super().__init__(self.messages.put)

    def next(self) -> bytes | None:
        return self.messages.get(timeout=PATIENCE)


@pytest.fixture
def listener() -> Iterator[Listener]:
    made = Listener(HOST)
    yield made
    made.close()


def until(what: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < end
        time.sleep(0.005)


def joined(listener: Listener) -> tuple[Received, Connection]:
    channel = Received()
    worker = connect(listener.address, listener.expect(channel), listener.key)
    until(lambda: channel.connected)
    return channel, worker


def is_closed(connection: socket.socket) -> bool:
    connection.settimeout(PATIENCE)
    with contextlib.suppress(ConnectionError):
        while connection.recv(1000):
            pass
    return True


@pytest.mark.parametrize("host", [HOST, "::1"])
def test_messages_go_both_ways_whole_and_in_order(host: str) -> None:
    try:
        listener = Listener(host)
    except OSError:
        pytest.skip("this machine does not have the address")
    contents = [b"", b"a", bytes(range(256)) * 30_000, b"z"]
    channel = Received()
    channel.send(b"early")  # before there is a worker
    worker = connect(listener.address, listener.expect(channel), listener.key)
    for content in contents:
        channel.send(content)
    assert [worker.recv_bytes() for _ in range(5)] == [b"early", *contents]
    for content in contents:
        worker.send_bytes(content)
    assert [channel.next() for _ in contents] == contents
    channel.close()
    listener.close()


def test_a_worker_that_does_not_read_delays_no_other(listener: Listener) -> None:
    deaf, deaf_worker = joined(listener)
    channel, worker = joined(listener)
    content = bytes(1 << 26)  # more than any buffer takes
    deaf.send(content)
    worker.send_bytes(b"ask")
    assert channel.next() == b"ask"
    channel.send(b"answer")
    assert worker.recv_bytes() == b"answer"
    assert deaf_worker.recv_bytes() == content


def test_half_a_message_delays_no_other(listener: Listener) -> None:
    slow, slow_worker = joined(listener)
    channel, worker = joined(listener)
    whole = b"\0\0\0\4word"
    os.write(slow_worker.fileno(), whole[:6])
    worker.send_bytes(b"ask")
    assert channel.next() == b"ask"
    assert slow.messages.empty()
    os.write(slow_worker.fileno(), whole[6:])
    assert slow.next() == b"word"


def test_an_end_is_noticed_after_the_messages_before_it(listener: Listener) -> None:
    channel, worker = joined(listener)
    worker.send_bytes(b"last")
    worker.close()
    assert [channel.next(), channel.next()] == [b"last", None]
    channel.send(b"to nobody")
    other, worker = joined(listener)  # may have the same file descriptor
    channel.close()
    worker.send_bytes(b"here")
    assert other.next() == b"here"


@pytest.mark.parametrize("remote", [False, True])
def test_a_closed_channel_keeps_what_has_arrived_and_the_worker_notices(
    listener: Listener, remote: bool
) -> None:
    if remote:
        channel, worker = joined(listener)
    else:
        channel = Received()
        end, worker = Pipe()
        channel.attach(end)
    held, release = threading.Event(), threading.Event()
    keep = channel._receive

    def slowly(content: bytes | None) -> None:
        held.set()
        release.wait(PATIENCE)
        keep(content)

    channel._receive = slowly  # type: ignore[method-assign]
    worker.send_bytes(b"first")
    held.wait(PATIENCE)
    worker.send_bytes(b"second")
    time.sleep(0.1)
    channel.close()
    release.set()
    assert [channel.next() for _ in range(3)] == [b"first", b"second", None]
    with pytest.raises((EOFError, OSError)):
        worker.recv_bytes()


def test_a_closed_listener_accepts_nobody(
    listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = listener.expect(Received())
    listener.close()
    monkeypatch.setattr(channel_module, "CONNECT_SECONDS", 0.0)
    with pytest.raises(ConnectionRefusedError):
        connect(listener.address, number, listener.key)


def test_a_channel_that_was_closed_before_its_worker_came_refuses_it(listener: Listener) -> None:
    channel = Received()
    channel.close()
    worker = connect(listener.address, listener.expect(channel), listener.key)
    with pytest.raises((EOFError, OSError)):
        worker.recv_bytes()
    assert not channel.connected


def test_nobody_is_accepted_without_the_key(listener: Listener) -> None:
    channel = Received()
    number = listener.expect(channel)
    with pytest.raises(ConnectionError, match="not proved that it has the key"):
        connect(listener.address, number, bytes(32))
    with socket.create_connection(listener.address) as stranger:
        stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")  # a message of a billion bytes, as it seems
        assert is_closed(stranger)
    assert not channel.connected
    connect(listener.address, number, listener.key)
    until(lambda: channel.connected)


def test_a_proof_is_of_one_meeting(listener: Listener) -> None:
    """The answer to another challenge, as one that was overheard, is of no use."""
    overheard = hmac.digest(listener.key, bytes(20), "md5")
    with socket.create_connection(listener.address) as stranger:
        end = Connection(os.dup(stranger.fileno()))
        assert end.recv_bytes().startswith(b"#CHALLENGE#")
        end.send_bytes(overheard)
        assert end.recv_bytes() == b"#FAILURE#"
        assert is_closed(stranger)


def test_a_worker_does_not_trust_an_address_without_the_key() -> None:
    """Whoever answers there gets one proof, and sends nothing that is unpickled."""
    server = socket.create_server((HOST, 0))

    def pretend() -> None:
        peer, _ = server.accept()
        end = Connection(peer.detach())
        end.send_bytes(b"#CHALLENGE#" + bytes(20))
        end.recv_bytes()
        end.send_bytes(b"#WELCOME#")
        end.recv_bytes()
        end.send_bytes(bytes(16))

    threading.Thread(target=pretend, daemon=True).start()
    with pytest.raises(ConnectionError, match="not proved"):
        connect(server.getsockname(), 1, b"k" * 32)
    server.close()


def test_a_number_is_for_one_worker(listener: Listener) -> None:
    channel = Received()
    number = listener.expect(channel)
    workers = [connect(listener.address, number, listener.key) for _ in range(2)]
    workers.append(connect(listener.address, number + 1, listener.key))
    until(lambda: channel.connected)
    channel.send(b"hello")
    received = []
    for worker in workers:
        with contextlib.suppress(EOFError, OSError):
            received.append(worker.recv_bytes())
    assert received == [b"hello"]


def test_silent_strangers_keep_nobody_out(listener: Listener) -> None:
    with contextlib.ExitStack() as strangers:
        for _ in range(20):
            strangers.enter_context(socket.create_connection(listener.address))
        joined(listener)


def test_any_number_of_strangers_keeps_nobody_out(
    listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than are kept; the oldest ones are turned away."""
    monkeypatch.setattr(channel_module, "MOST_STRANGERS", 5)
    before = threading.active_count()
    with contextlib.ExitStack() as strangers:
        made = [
            strangers.enter_context(socket.create_connection(listener.address)) for _ in range(20)
        ]
        joined(listener)
        assert all(is_closed(stranger) for stranger in made[:14])
        until(lambda: threading.active_count() <= before + 5 + 2)  # 2 of the worker's channel


def test_the_listener_survives_when_no_thread_can_be_started(
    listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, refused = threading.Thread.start, list[threading.Thread]()

    def fails(thread: threading.Thread) -> None:
        if len(refused) == 3:
            start(thread)
        else:
            refused.append(thread)
            raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", fails)
    for _ in range(3):
        with socket.create_connection(listener.address) as stranger:
            assert is_closed(stranger)
    assert len(refused) == 3
    joined(listener)


def test_a_silent_stranger_is_turned_away(
    listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel_module, "HANDSHAKE_SECONDS", 0.1)
    with socket.create_connection(listener.address) as stranger:
        assert is_closed(stranger)


def test_a_signal_handler_may_send_at_any_time(listener: Listener) -> None:
    channel, worker = joined(listener)
    before = signal.signal(signal.SIGALRM, lambda *_: channel.send(b"stop"))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        for _ in range(200):
            channel.send(b"an answer")
            worker.send_bytes(b"ask")
            assert channel.next() == b"ask"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    channel.send(b"last")
    received = list(iter(worker.recv_bytes, b"last"))
    assert received.count(b"an answer") == 200
    assert set(received) <= {b"an answer", b"stop"}
