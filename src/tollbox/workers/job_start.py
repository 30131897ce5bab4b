"""The first lines of a process of `processes.Processes`: it ends when its parent is gone.

1. This file is run as a script and imports nothing of tollbox. What follows, the user's main module
   and torch, takes seconds, in which the parent may die.
2. Linux kills the process when the thread that began it ends; so that is asked for only if it was
   the main one. It also holds while a library is loaded and no Python runs.
3. A thread looks at the parent's id all the time: elsewhere, and if the parent was gone before.
4. Then come, through the pipe: how to become like the parent, as multiprocessing does it; and the
   function to call with the pipe, with its other arguments.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import signal
import sys
import threading
import time
from multiprocessing import process, spawn
from multiprocessing.connection import Connection

PARENT_GONE = 3
"""Exit code of a process whose parent is gone."""
LOOK_SECONDS = 0.5
PR_SET_PDEATHSIG = 1


def main(handle: int, parent: int, by_main_thread: int) -> None:
    """Watch the parent, become like it, and do what it says."""
    if by_main_thread and sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()
    pipe, here = Connection(handle), process.current_process()
    here._inheriting = True  # type: ignore[attr-defined]  # a main module without its `if` is refused
    try:
        spawn.prepare(pickle.loads(pipe.recv_bytes()))
        function, arguments = pickle.loads(pipe.recv_bytes())
    except (EOFError, ConnectionError):
        os._exit(PARENT_GONE)
    finally:
        del here._inheriting  # type: ignore[attr-defined]
    function(pipe, *arguments)


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(LOOK_SECONDS)
    os._exit(PARENT_GONE)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
