"""The switchboard: all wires of a driver, and the one address that its engines connect to.

1. A wire is made before its engine is there, with a key of its own (`wire.py`). Whoever comes with
   that key has the wire; a second who comes with it is turned away, and so is everybody else.
2. Those who come are greeted in threads of their own, so that one who says nothing holds up nobody.
   All else is done in `wait`, by whoever has the wires.
"""

from __future__ import annotations

import queue
import secrets
import selectors
import socket
import threading
import time
from contextlib import suppress

from .wire import Address, Wire, greet

KEY_BYTES = 32
PAUSE_SECONDS = 0.1
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
                time.sleep(PAUSE_SECONDS)
                continue
            threading.Thread(target=self._greet, args=(connection,), daemon=True).start()

    def _greet(self, connection: socket.socket) -> None:
        number = greet(connection, lambda number: self._expected.get(number, (None, None))[1])
        if number is None:
            connection.close()
        else:
            self._arrived.put((number, connection))
