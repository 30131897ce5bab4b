"""Which of SQLite's two journals a store is written with.

1. A write-ahead log is fast, and readers never wait; but its index is memory that all processes
   share, which those of two machines do not. It is used on a disk of this machine.
2. On a network file system it is a rollback journal, which needs nothing but the file and its
   locks. A commit waits for the disk, so it takes longer, and for readers, which are quick.
3. Which file system a folder is on is read from the table of mounts. `TOLLBOX_JOURNAL`, `wal` or
   `rollback`, decides instead: where a disk is shared in a way that the table does not show, or one
   host alone ever opens the folder.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from ...errors import InputError

VARIABLE = "TOLLBOX_JOURNAL"
WAL, ROLLBACK = "wal", "rollback"
MOUNTS = Path("/proc/self/mounts")
NETWORK = frozenset(
    (
        *("9p", "acfs", "afs", "beegfs", "ceph", "cifs", "coda", "fhgfs", "gfs", "gfs2", "gpfs"),
        *("glusterfs", "lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "panfs", "pvfs2"),
        *("smb3", "smbfs", "vboxsf", "virtiofs", "wekafs"),
    )
)
"""Kinds of file systems that machines share; besides these, all of FUSE but what is local."""
LOCAL_FUSE = frozenset({"fuseblk", "fuse.fuse-overlayfs", "fuse.lxcfs"})


def journal_of(folder: Path) -> str:
    """The journal for stores in a folder."""
    given = os.environ.get(VARIABLE, "")
    if given not in ("", WAL, ROLLBACK):
        raise InputError(
            f"the environment variable {VARIABLE} is {given!r}", expected=f"{WAL} or {ROLLBACK}"
        )
    return given or (ROLLBACK if is_shared(file_system(folder)) else WAL)


def is_shared(kind: str) -> bool:
    """Whether machines share file systems of a kind."""
    return kind in NETWORK or (kind.startswith("fuse") and kind not in LOCAL_FUSE)


def file_system(folder: Path) -> str:
    """The kind of file system that a folder is on; "" if that is not known."""
    try:
        lines = MOUNTS.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return ""
    where, found, longest = folder.resolve(), "", -1
    for line in lines:
        _, place, kind, *_ = line.split(" ")
        mount = Path(_unescaped(place))
        if (where == mount or mount in where.parents) and len(mount.parts) >= longest:
            found, longest = kind, len(mount.parts)  # of two at one place the later is on top
    return found


def _unescaped(place: str) -> str:
    """Spaces and the like are written as octal numbers in the table."""
    for character in " \t\n\\":
        place = place.replace(f"\\{ord(character):03o}", character)
    return place


def set_journal(connection: sqlite3.Connection, journal: str) -> None:
    """Have a store written with a journal."""
    if journal == WAL:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        return
    connection.execute("PRAGMA journal_mode=TRUNCATE")
    connection.execute("PRAGMA synchronous=FULL")
