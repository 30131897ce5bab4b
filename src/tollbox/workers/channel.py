"""A wire: messages between a driver and an engine on another machine, over TCP.

1. A message is its length, in 8 bytes, and its bytes. The engine's end (`EngineEnd`) waits, like a
   pipe. The driver's (`Wire`) never does: what cannot be sent yet stays, half of a message stays
   until the rest has come, and so a machine that falls silent holds up nobody else.
2. Messages are pickles, so none is read before either side has proved that it has the key of this
   wire, which travelled another way: each sends a number that was never used, and gives back the
   HMAC-SHA-256 of both. Nothing is encrypted.
3. A machine that has not answered for `SILENT_SECONDS` is taken for gone (by the kernel, which also
   answers while a process computes). A wire that has ended stays so.

The switchboard: all wires of a driver, and the one address that its engines connect to.

1. A wire is made before its engine is there, with a key of its own (`wire.py`). Whoever comes with
   that key has the wire; a second who comes with it is turned away, and so is everybody else.
2. Those who come are greeted in threads of their own, so that one who says nothing holds up nobody.
   All else is done in `wait`, by whoever has the wires.
"""

from __future__ import annotations

import hmac
import queue
import secrets
import selectors
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress

LENGTH = struct.Struct("!Q")
NONCE_BYTES = 32
READ_BYTES = 1 << 20
"""Taken at a time."""
GREETING_SECONDS = 10.0
"""How long the two sides are given to prove that they have the key."""
CONNECT_SECONDS = 30.0
"""How long an engine tries to reach its driver."""
PAUSE_SECONDS = 0.5
"""Between two tries."""
SILENT_SECONDS = 30

Address = tuple[str, int]


class EngineEnd:
    """The engine's end: sends and receives bytes as a pipe of `multiprocessing` does."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection, self._reader = connection, connection.makefile("rb")

    def send_bytes(self, content: bytes) -> None:
        """Send a message."""
        self._connection.sendall(LENGTH.pack(len(content)) + content)

    def recv_bytes(self) -> bytes:
        """Wait for the next message; EOFError or OSError if there will be none."""
        (size,) = LENGTH.unpack(self._exactly(LENGTH.size))
        return self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        content = self._reader.read(size)
        if len(content) < size:
            raise EOFError
        return content


class Wire:
    """The driver's end, which may be spoken into before anyone is there."""

    def __init__(self) -> None:
        self.connection: socket.socket | None = None
        """None before an engine is there, and after the end."""
        self.joined = False
        """An engine is there, or was."""
        self.messages: deque[bytes] = deque()
        """What has come and was not taken."""
        self.ended: float | None = None
        """When it ended."""
        self._outbox: deque[memoryview] = deque()
        self._sending = threading.Lock()
        self._incoming = bytearray()

    def join(self, connection: socket.socket) -> None:
        """An engine is there."""
        connection.setblocking(False)
        self.connection, self.joined = connection, True
        self.flush()

    @property
    def unsent(self) -> bool:
        """Something is to be sent, and somebody is there."""
        return bool(self._outbox) and self.connection is not None

    def send(self, content: bytes) -> None:
        """Send a message, now or when there is room; a signal handler may call this while another
        is being sent."""
        if self.ended is None:
            self._outbox.append(memoryview(LENGTH.pack(len(content)) + content))
            self.flush()

    def flush(self) -> None:
        """Send as much as there is room for."""
        while self.unsent and self._sending.acquire(blocking=False):
            try:
                while self._outbox and self.connection is not None:
                    sent = self.connection.send(self._outbox[0])
                    if sent == len(self._outbox[0]):
                        self._outbox.popleft()
                    else:
                        self._outbox[0] = self._outbox[0][sent:]
            except BlockingIOError:
                return
            except OSError:  # it is gone, which is noticed when it is heard
                self._outbox.clear()
            except BaseException:  # a part may have been sent, and must not be sent again
                self.close()
                raise
            finally:
                self._sending.release()

    def receive(self) -> None:
        """Take what has come; `ended` if there will be no more."""
        if self.connection is None:
            return
        try:
            content = self.connection.recv(READ_BYTES)
            self._incoming += content
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            content = b""
        except BaseException:  # a part may be lost
            self.close()
            raise
        if not content:
            self.close()
        first, incoming = 0, self._incoming
        while len(incoming) - first >= LENGTH.size:
            last = first + LENGTH.size + LENGTH.unpack_from(incoming, first)[0]
            if last > len(incoming):
                break
            self.messages.append(bytes(incoming[first + LENGTH.size : last]))
            first = last
        del incoming[:first]

    def close(self) -> None:
        """End it; the engine notices."""
        self.ended = time.monotonic() if self.ended is None else self.ended
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.close()


# -- how the two meet -----------------------------------------------------------------------------


def connect(address: Address, number: int, key: bytes) -> EngineEnd:
    """Reach the driver, as the engine of wire `number`; raises OSError if that cannot be done."""
    end = time.monotonic() + CONNECT_SECONDS
    while True:
        try:
            connection = socket.create_connection(address, max(1.0, end - time.monotonic()))
            break
        except OSError:
            if time.monotonic() + PAUSE_SECONDS > end:
                raise
            time.sleep(PAUSE_SECONDS)
    try:
        connection.settimeout(GREETING_SECONDS)
        own = secrets.token_bytes(NONCE_BYTES)
        connection.sendall(LENGTH.pack(number) + own)
        other = _exactly(connection, NONCE_BYTES)
        proof = _exactly(connection, len(_proof(key, b"", b"", b"")))
        if not hmac.compare_digest(proof, _proof(key, b"driver", own, other)):
            raise ConnectionError("who answers there is not the driver")
        connection.sendall(_proof(key, b"engine", own, other))
        _watched(connection)
        connection.settimeout(None)
    except BaseException:
        connection.close()
        raise
    return EngineEnd(connection)


def greet(connection: socket.socket, key_of: Callable[[int], bytes | None]) -> int | None:
    """The number of the wire that somebody who came is for; None if they have not its key, or
    nobody is waited for under it."""
    try:
        connection.settimeout(GREETING_SECONDS)
        (number,) = LENGTH.unpack(_exactly(connection, LENGTH.size))
        other, own = _exactly(connection, NONCE_BYTES), secrets.token_bytes(NONCE_BYTES)
        key = key_of(number)
        if key is None:
            return None
        connection.sendall(own + _proof(key, b"driver", other, own))
        proof = _exactly(connection, len(_proof(key, b"", b"", b"")))
        _watched(connection)
    except OSError:
        return None
    return number if hmac.compare_digest(proof, _proof(key, b"engine", other, own)) else None


def _proof(key: bytes, who: bytes, engines: bytes, drivers: bytes) -> bytes:
    """What only somebody with the key can know, of the numbers of both sides."""
    return hmac.digest(key, who + engines + drivers, "sha256")


def _exactly(connection: socket.socket, size: int) -> bytes:
    end, content = time.monotonic() + GREETING_SECONDS, b""
    while len(content) < size:
        piece = connection.recv(size - len(content))
        if not piece or time.monotonic() > end:
            raise ConnectionError("the other side has gone")
        content += piece
    return content


def _watched(connection: socket.socket) -> None:
    """Have messages sent at once, and silence noticed, as far as the system can."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", SILENT_SECONDS // 3),
        ("TCP_KEEPINTVL", SILENT_SECONDS // 6),
        ("TCP_KEEPCNT", 4),
        ("TCP_USER_TIMEOUT", 1000 * SILENT_SECONDS),
    ):
        with suppress(OSError, AttributeError):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


KEY_BYTES = 32
ACCEPT_PAUSE_SECONDS = 0.1
"""Before somebody else is let in if that failed, for want of files for instance."""


class Switchboard:
    """Listens at an address of this machine."""

    def __init__(self, host: str) -> None:
        """Raises OSError if nobody can listen there."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._server = socket.create_server((host, 0), family=family)
        self.address: Address = self._server.getsockname()[:2]
        self._expected: dict[int, tuple[Wire, bytes]] = {}
        """By number, wires that nobody has come for yet, and their keys."""
        self._made = 0
        self._arrived: queue.SimpleQueue[tuple[int, socket.socket]] = queue.SimpleQueue()
        self._selector = selectors.DefaultSelector()
        self._watched: dict[Wire, tuple[socket.socket, int]] = {}
        """Those that are joined, and what each is watched for."""
        self._closed = False
        threading.Thread(target=self._listen, daemon=True).start()

    def wire(self) -> tuple[Wire, int, bytes]:
        """A fresh wire; its number and its key are for the engine."""
        wire, number, key = Wire(), self._made, secrets.token_bytes(KEY_BYTES)
        self._expected[number] = wire, key
        self._made += 1
        return wire, number, key

    def wait(self, seconds: float) -> None:
        """Send and receive what can be; waits until something has come, at most so long."""
        for wire in list(self._watched):
            self._watch(wire)  # before others come, who may have the file of one that has ended
        while not self._arrived.empty():
            number, connection = self._arrived.get()
            expected, _ = self._expected.pop(number, (None, b""))
            if expected is None or expected.ended is not None:
                connection.close()
            else:
                expected.join(connection)
                self._watch(expected)
        for key, events in self._selector.select(seconds):
            if events & selectors.EVENT_WRITE:
                key.data.flush()
            if events & selectors.EVENT_READ:
                key.data.receive()
                self._watch(key.data)

    def _watch(self, wire: Wire) -> None:
        """Have a wire watched for what concerns it, if anything does."""
        before, now = self._watched.get(wire), wire.connection
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if wire.unsent else 0)
        if before is not None and now is None:
            self._selector.unregister(before[0])
            del self._watched[wire]
        elif now is not None and before != (now, events):
            (self._selector.register if before is None else self._selector.modify)(
                now, events, wire
            )
            self._watched[wire] = now, events

    def hang_up(self, wire: Wire) -> None:
        """End a wire."""
        wire.close()
        self._watch(wire)

    def close(self) -> None:
        """End all of them, and listen no more."""
        self._closed = True
        for wire in list(self._watched):
            self.hang_up(wire)
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)  # wakes the thread that listens
        self._server.close()
        self._selector.close()

    # -- in other threads -------------------------------------------------------------------------

    def _listen(self) -> None:
        while not self._closed:
            try:
                connection, _ = self._server.accept()
            except OSError:
                time.sleep(ACCEPT_PAUSE_SECONDS)
                continue
            threading.Thread(target=self._greet, args=(connection,), daemon=True).start()

    def _greet(self, connection: socket.socket) -> None:
        number = greet(connection, lambda number: self._expected.get(number, (None, None))[1])
        if number is None:
            connection.close()
        else:
            self._arrived.put((number, connection))
