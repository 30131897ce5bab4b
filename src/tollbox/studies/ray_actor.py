"""The actor of an engine on a Ray cluster: one call, which lasts as long as the engine.

1. It compares versions, connects to the driver (`engine/wire.py`) and does what the driver says
   (`job_process.work`), until that is over or the driver has gone. What it answers is why it could
   not begin.
2. The class is made inside a function, and asks for tollbox by name, so that it travels by value: a
   node with another version can then say so.
"""

from __future__ import annotations

import importlib
import pickle
from typing import Any

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
                pipe = importlib.import_module("tollbox.engine.wire").connect(*meeting)
            except OSError as error:
                return ADDRESS, "{}:{}: {}".format(*meeting[0], error)
            process = importlib.import_module("tollbox.engine.job_process")
            process.work(pipe, ray.get(shared.pop()), threads, pickle.loads(precision))
            return None

    return TollboxEngine
