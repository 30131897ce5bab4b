"""The actor of an engine on a Ray cluster: a pipe to the driver, for a thread that works.

1. What is said to it goes to the thread (`job_process.work`); what the thread says waits until the
   driver asks for it. Messages to it are numbered: Ray does not promise to deliver calls in order.
2. The class is made inside a function, and asks for tollbox by name, so that it travels by value: a
   node with another version can then say so.
"""

from __future__ import annotations

import importlib
import pickle
import queue
import threading
from typing import Any

GROUPS = {"hear": 1, "say": 1}
"""Methods of an actor that wait for nothing but themselves, and their threads."""


def actor_class(ray: Any) -> type:
    """The actor's class."""

    class TollboxEngine:
        """Runs jobs in a thread; what it says waits until the driver asks for it."""

        def __init__(self) -> None:
            self.lock = threading.Lock()
            self.inbox: Any = queue.SimpleQueue()
            self.outbox: Any = queue.SimpleQueue()
            self.early: dict[int, bytes] = {}
            self.next = 0

        def begin(
            self, versions: dict[str, str], shared: bytes, threads: int, precision: bytes
        ) -> str | None:
            """Begin to serve; what is different here, in words, if anything is."""
            here = {name: importlib.import_module(name).__version__ for name in versions}
            differences = [
                f"{name} is {here[name]} there and {version} here"
                for name, version in versions.items()
                if here[name] != version
            ]
            if differences:
                return ", ".join(differences)
            process = importlib.import_module("tollbox.engine.job_process")
            self.say(0, shared)
            arguments = (self, threads, pickle.loads(precision))
            threading.Thread(target=process.work, args=arguments, daemon=True).start()
            return None

        def send_bytes(self, content: bytes) -> None:
            """As a pipe: what the driver is to hear."""
            self.outbox.put(content)

        def recv_bytes(self) -> bytes:
            """As a pipe: what the driver said."""
            content: bytes = self.inbox.get()
            return content

        @ray.method(concurrency_group="hear")  # type: ignore[untyped-decorator]
        def hear(self) -> list[bytes]:
            """All that is to be heard; waits until there is something."""
            contents = [self.outbox.get()]
            while not self.outbox.empty():
                contents.append(self.outbox.get())
            return contents

        @ray.method(concurrency_group="say")  # type: ignore[untyped-decorator]
        def say(self, number: int, content: bytes) -> None:
            """Message `number` of the driver."""
            with self.lock:
                self.early[number] = content
                while self.next in self.early:
                    self.inbox.put(self.early.pop(self.next))
                    self.next += 1

    return TollboxEngine
