"""Which of SQLite's two journals a store is written with.

1. A write-ahead log is fast, and readers never wait; but its index is memory that all processes
   share, which those of two machines do not. It is used on a disk of this machine.
2. On a network file system it is a rollback journal, which needs nothing but the file and its
   locks. A commit waits for the disk, so it takes longer, and for readers, which are quick.
3. Which file system a folder is on is read from the table of mounts. `TOLLBOX_JOURNAL`, `wal` or
   `rollback`, decides instead: where a disk is shared in a way that the table does not show, or one
   host alone ever opens the folder.

Opening a shard's file: for reading or for writing, by one writer, and only if it is whole.

1. A lock beside the file, which ends with the process, keeps other writers out; readers need none.
2. What the disk refuses, and a file that is damaged or cut short, is reported in one sentence.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import sqlite3
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

from ...errors import FileError, InputError, TollboxError

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


NO_ROOM = (
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR_WRITE,
    sqlite3.SQLITE_IOERR_SHMSIZE,
    sqlite3.SQLITE_IOERR_SHMMAP,
)
"""What SQLite says on a full disk."""
BRING_BACK = "bring back a whole copy, or begin anew in another folder"
DAMAGE = (
    *(zlib.error, struct.error, AttributeError, KeyError, TypeError, ValueError),
    *(OverflowError, RecursionError),
)
"""What decoding raises on bytes that are not what was written."""
BUSY_SECONDS = 30.0
"""How long a connection waits for another one's commit."""


class StoreError(TollboxError):
    """The store could not be written; what was committed before is safe."""


@contextlib.contextmanager
def making(path: Path) -> Iterator[None]:
    """While a file is made: errors of the disk in one sentence."""
    try:
        yield
    except sqlite3.Error as error:
        raise StoreError(
            f"{path} cannot be written: {error}. Make room, or choose another folder."
        ) from None


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """While a file is read: errors of the disk, and of what is in the file, in one sentence."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        if _no_room(error):
            raise _disk_full(path, str(error)) from None
        raise FileError(
            f"{path} cannot be used: {error}", expected="a study's file, whole", remedy=BRING_BACK
        ) from None
    except InputError:
        raise
    except DAMAGE as error:
        raise damaged(path, f"{type(error).__name__}: {error}") from None


def damaged(path: Path, what: str) -> FileError:
    """The error of a file that holds what was never written to it."""
    return FileError(f"{path} is damaged ({what})", remedy=BRING_BACK)


def _no_room(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", None) in NO_ROOM


def _disk_full(path: Path, error: str) -> StoreError:
    return StoreError(
        f"{path} cannot be written: {error}. All that was recorded is safe: make room, and go on "
        "with `tollbox resume`."
    )


def check_length(path: Path, connection: sqlite3.Connection) -> None:
    """Raise FileError if the file is shorter than it says. (It is not opened for this: to close it
    would end the locks of any other connection of this process.)"""
    log = path.with_name(path.name + "-wal")
    if log.exists() and log.stat().st_size:
        return  # what is missing may be there
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    (page_size,) = connection.execute("PRAGMA page_size").fetchone()
    size = path.stat().st_size
    if size < pages * page_size:
        raise FileError(
            f"{path} has been cut short ({size} of {pages * page_size} bytes)", remedy=BRING_BACK
        )


def connect(path: Path, write: bool) -> sqlite3.Connection:
    """A connection; to write, one that can."""
    address = path.absolute().as_uri()
    if write:
        connection = sqlite3.connect(f"{address}?mode=rw", uri=True, timeout=BUSY_SECONDS)
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.rollback()
        except sqlite3.DatabaseError as error:
            connection.close()
            if _no_room(error) or not isinstance(error, sqlite3.OperationalError):
                raise
            raise FileError(
                f"{path} cannot be written: {error}", remedy="make it and its folder writable"
            ) from None
        return connection
    connection = sqlite3.connect(f"{address}?mode=ro", uri=True, timeout=BUSY_SECONDS)
    try:
        connection.execute("SELECT COUNT(*) FROM about").fetchone()
    except sqlite3.DatabaseError as error:
        connection.close()
        if not isinstance(error, sqlite3.OperationalError):
            raise
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY:
            raise FileError(
                f"{path.parent} is in use by another process ({lock_holder(path) or 'unknown'}), "
                "which does not finish what it writes",
                remedy="wait until it ends, or end it",
            ) from None
        if _journal_left(path):  # of a writer that was killed in the middle of a commit
            return _recovered(path, address)
        # A folder that cannot be written, where no one writes.
        connection = sqlite3.connect(f"{address}?immutable=1", uri=True)
    return connection


def _journal_left(path: Path) -> bool:
    """Whether a rollback journal is beside a file."""
    journal = path.with_name(f"{path.name}-journal")
    return journal.exists() and journal.stat().st_size > 0


def _recovered(path: Path, address: str) -> sqlite3.Connection:
    """A connection to read what was whole before; SQLite first undoes what was half written."""
    connection = sqlite3.connect(f"{address}?mode=rw", uri=True, timeout=BUSY_SECONDS)
    try:
        connection.execute("SELECT COUNT(*) FROM about").fetchone()
        connection.execute("PRAGMA query_only=1")
    except sqlite3.OperationalError as error:
        connection.close()
        raise FileError(
            f"{path} cannot be read: its last commit was not finished, and cannot be undone here "
            f"({error})",
            remedy="make it and its folder writable",
        ) from None
    return connection


def lock(path: Path) -> int:
    """Lock a shard's file for writing; the handle holds the lock until it is closed."""
    try:
        handle = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise _disk_full(path, error.strerror or str(error)) from None
        raise FileError(
            f"{path.parent} cannot be written: {error.strerror}",
            remedy="make it writable to go on",
        ) from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EAGAIN, errno.EACCES):
            os.close(handle)
            raise FileError(
                f"{path.parent} cannot be locked: {error.strerror}",
                remedy="choose a folder on a file system that has locks",
            ) from None
        holder = _read_holder(handle) or "unknown"
        os.close(handle)
        raise FileError(
            f"{path.parent} is in use by another process ({holder})",
            remedy="wait until it ends, or end it",
        ) from None
    with contextlib.suppress(OSError):  # a full disk: it is locked all the same
        os.ftruncate(handle, 0)
        host = f" on {socket.gethostname()}" if journal_of(path.parent) == ROLLBACK else ""
        os.write(handle, f"process {os.getpid()}{host}\n".encode())
    return handle


def lock_holder(path: Path) -> str | None:
    """The process that has a shard's file locked, if one has."""
    try:
        handle = os.open(path.with_suffix(".lock"), os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return _read_holder(handle) or "another process"
    finally:
        os.close(handle)
    return None


def _read_holder(handle: int) -> str:
    return os.read(handle, 100).decode(errors="replace").strip()
