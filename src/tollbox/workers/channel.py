"""Channels: messages between a coordinator and its workers, on this machine or on others.

1. A channel is a `multiprocessing.connection.Connection`: a pipe to a process of this machine, or
   a TCP socket to a worker on another one. The worker uses the connection directly.
2. The coordinator never waits for a single worker: each `Channel` has a thread that reads and one
   that writes.
3. Over TCP, both sides prove with the challenge of `multiprocessing` that they have the run's key,
   before any message is unpickled. The worker receives the key separately. Nothing is encrypted.
4. `multiprocessing.connection.Listener` and `Client` run this challenge without a time limit, one
   peer at a time, and support IPv4 only. Here every peer has its own thread, and each read has a
   time limit. At most `MOST_STRANGERS` peers without a proof are kept: the oldest one is turned
   away, also if there is no memory for another thread, so that strangers keep no worker out.
5. The kernel closes the connection to a machine that is silent for `SILENT_SECONDS`. A busy worker
   is not silent: its kernel answers.
"""

from __future__ import annotations

import os
import queue
import secrets
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge

KEY_BYTES = 32
HANDSHAKE_SECONDS = 10.0
"""Maximum time of one read while the two sides authenticate each other."""
CONNECT_SECONDS = 30.0
"""Time for which a worker tries to reach its coordinator."""
RETRY_SECONDS = 0.5
SILENT_SECONDS = 30
MOST_STRANGERS = 64

Address = tuple[str, int]
Proof = Callable[[Connection, bytes], None]
_PROOFS: Sequence[Proof] = (deliver_challenge, answer_challenge)
"""Steps of the coordinator, in order; a worker takes them in reverse order."""


class Channel:
    """The coordinator's end of the connection to one worker."""

    def __init__(self, receive: Callable[[bytes | None], None]) -> None:
        """`receive` is called in another thread with each message, and with None at the end."""
        self._receive = receive
        self._outbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._connection: Connection | None = None
        self._closed = False

    @property
    def connected(self) -> bool:
        """Whether there is, or was, a worker at the other end."""
        return self._connection is not None

    def attach(self, connection: Connection) -> None:
        """Send what was queued, and start to receive."""
        with self._lock:
            if self._closed:
                connection.close()
                return
            self._connection = connection
        writer = threading.Thread(target=self._write, args=(connection,), daemon=True)
        writer.start()
        threading.Thread(target=self._read, args=(connection, writer), daemon=True).start()

    def send(self, content: bytes) -> None:
        """Queue a message; a signal handler may call this at any time."""
        if not self._closed:
            self._outbox.put(content)

    def close(self) -> None:
        """Close the connection; messages that have already arrived are still received."""
        with self._lock:
            self._closed = True
            if self._connection is not None and not self._connection.closed:
                with suppress(OSError), _socket_of(self._connection) as end:
                    end.shutdown(socket.SHUT_RDWR)  # wakes both threads

    def _write(self, connection: Connection) -> None:
        with suppress(OSError):  # the reader reports the end
            while (content := self._outbox.get()) is not None:
                connection.send_bytes(content)

    def _read(self, connection: Connection, writer: threading.Thread) -> None:
        try:
            with suppress(EOFError, OSError):
                while True:
                    content = connection.recv_bytes()
                    self._receive(content)
        finally:
            self.close()
            self._outbox.put(None)
            writer.join()
            with self._lock:
                connection.close()
            self._receive(None)


class Listener:
    """The address of a coordinator, to which workers on other machines connect."""

    def __init__(self, host: str) -> None:
        """Listen on any free port of `host`; raise OSError if this machine does not have it."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._server = socket.create_server((host, 0), family=family)
        self.address: Address = self._server.getsockname()[:2]
        self.key = secrets.token_bytes(KEY_BYTES)
        self._expected: dict[int, Channel] = {}
        self._count = 0
        self._closed = False
        self._strangers: dict[socket.socket, bool] = {}
        """Copies of the sockets of peers without a proof, the oldest first."""
        threading.Thread(target=self._accept, daemon=True).start()

    def expect(self, channel: Channel) -> int:
        """Return the number under which one worker may connect to `channel`."""
        self._count += 1
        self._expected[self._count] = channel
        return self._count

    def close(self) -> None:
        """Accept no more workers; open channels stay open."""
        self._closed = True
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._server.close()

    def _accept(self) -> None:
        while not self._closed:
            ends: list[socket.socket] = []
            try:
                ends.append(self._server.accept()[0])
                ends.append(ends[0].dup())
                self._strangers[ends[1]] = True
                if len(self._strangers) > MOST_STRANGERS:
                    self._turn_away_oldest()
                threading.Thread(target=self._admit, args=ends, daemon=True).start()
            except (OSError, RuntimeError, MemoryError):
                # closed, or for example too many open files, or no thread can be started
                for end in ends:
                    self._strangers.pop(end, None)
                    end.close()
                self._turn_away_oldest()
                time.sleep(0.1)

    def _turn_away_oldest(self) -> None:
        for stranger in list(self._strangers)[:1]:
            if self._strangers.pop(stranger, None):  # it has not been admitted
                with suppress(OSError):
                    stranger.shutdown(socket.SHUT_RDWR)  # ends its thread, which closes it

    def _admit(self, peer: socket.socket, stranger: socket.socket) -> None:
        with stranger, suppress(OSError, EOFError):
            try:
                connection = authenticate(peer, self.key, _PROOFS)
                number = connection.recv()
            finally:
                waited = self._strangers.pop(stranger, None)
            channel = self._expected.pop(number, None) if waited else None
            if channel is None:
                connection.close()
                return
            try:
                channel.attach(connection)
            except RuntimeError:  # no thread can be started
                channel.close()


def connect(address: Address, number: int, key: bytes) -> Connection:
    """Return the worker's connection to its coordinator; raise OSError if it cannot connect."""
    end = time.monotonic() + CONNECT_SECONDS
    while True:
        try:
            peer = socket.create_connection(address, max(1.0, end - time.monotonic()))
            break
        except OSError:
            if time.monotonic() + RETRY_SECONDS > end:
                raise
            time.sleep(RETRY_SECONDS)
    connection = authenticate(peer, key, _PROOFS[::-1])
    connection.send(number)
    return connection


def authenticate(peer: socket.socket, key: bytes, proofs: Sequence[Proof]) -> Connection:
    """Return a connection once both sides have proved that they have the key; raise ConnectionError
    if one of them fails to."""
    peer.settimeout(None)
    _set_time_limit(peer, HANDSHAKE_SECONDS)
    connection = Connection(peer.detach())
    try:
        for proof in proofs:
            proof(connection, key)
    except (OSError, EOFError, AuthenticationError, AssertionError) as error:
        connection.close()
        raise ConnectionError(f"the peer has not proved that it has the key: {error}") from None
    with _socket_of(connection) as end:
        _set_time_limit(end, 0)
        _detect_silence(end)
    return connection


def _socket_of(connection: Connection) -> socket.socket:
    return socket.socket(fileno=os.dup(connection.fileno()))


def _set_time_limit(peer: socket.socket, seconds: float) -> None:
    """Limit the time of one read and one write; 0 is no limit. Connections cannot use the
    non-blocking file descriptor that `settimeout` makes."""
    limit = struct.pack("ll", int(seconds), int(seconds % 1 * 1e6))
    for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        peer.setsockopt(socket.SOL_SOCKET, option, limit)


def _detect_silence(peer: socket.socket) -> None:
    """Send without delay, and have the kernel close the connection to a silent machine, as far as
    the system can."""
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_NODELAY", 1),
        ("TCP_KEEPIDLE", SILENT_SECONDS // 3),
        ("TCP_KEEPINTVL", SILENT_SECONDS // 6),
        ("TCP_KEEPCNT", 4),
        ("TCP_USER_TIMEOUT", 1000 * SILENT_SECONDS),
    ):
        with suppress(OSError, AttributeError):
            peer.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
