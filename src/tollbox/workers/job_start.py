"""The start of a worker process on this machine, which exits when its parent is gone.

1. This file is run as a script and imports nothing from tollbox. The imports that follow, of the
   user's main module and torch, take seconds, during which the parent may die.
2. Linux kills the process when the thread that started it exits, even while a library is loading
   and no Python code runs. This is requested only if that thread is the main thread.
3. For other systems, and for a parent that died before the request, a thread polls the parent's id.
4. Two messages are read: the preparation data of `multiprocessing`, which set up the process like
   its parent; and the function to call with the connection, with its further arguments.
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
CHECK_SECONDS = 0.5
PR_SET_PDEATHSIG = 1


def main(handle: int, parent: int, by_main_thread: int) -> None:
    if by_main_thread and sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    threading.Thread(target=_exit_with, args=(parent,), daemon=True).start()
    connection, here = Connection(handle), process.current_process()
    here._inheriting = True  # type: ignore[attr-defined]  # rejects an unguarded main module
    try:
        spawn.prepare(pickle.loads(connection.recv_bytes()))
        function, arguments = pickle.loads(connection.recv_bytes())
    except (EOFError, ConnectionError):
        os._exit(PARENT_GONE)
    finally:
        del here._inheriting  # type: ignore[attr-defined]
    function(connection, *arguments)


def _exit_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(CHECK_SECONDS)
    os._exit(PARENT_GONE)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
