"""The connection to a shard's file: its journal, its lock, and its errors.

1. On a local disk, SQLite keeps a write-ahead log: it is fast, and readers never wait. Its index is
   in memory that all processes share, which is impossible across machines.
2. On a network file system, SQLite keeps a rollback journal, which needs only the file and its
   locks. A commit waits for the disk and for readers, so it takes longer.
3. The table of mounts says which file system a folder is on. The environment variable
   `TOLLBOX_JOURNAL`, `wal` or `rollback`, overrides this: set it if machines share a disk in a way
   that the table does not show, or if only one machine ever opens the folder.
4. A lock on a file next to the shard keeps other writers out. It is released when the process ends.
   Readers need no lock.
5. Disk errors, and files that are damaged or cut short, are reported in one sentence.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import sqlite3
import stat
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

from ...errors import FileError, InputError, TollboxError

VARIABLE = "TOLLBOX_JOURNAL"
WAL, ROLLBACK = "wal", "rollback"
MOUNTS = Path("/proc/self/mounts")
NETWORK = (
    *("9p", "acfs", "afs", "beegfs", "ceph", "cifs", "coda", "fhgfs", "gfs", "gfs2", "gpfs"),
    *("glusterfs", "lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "panfs", "pvfs2"),
    *("smb3", "smbfs", "vboxsf", "virtiofs", "wekafs"),
)
"""Kinds of file systems that machines share, in addition to all of FUSE except `LOCAL_FUSE`."""
LOCAL_FUSE = ("fuseblk", "fuse.fuse-overlayfs", "fuse.lxcfs")
NO_ROOM = (
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR_WRITE,
    sqlite3.SQLITE_IOERR_SHMSIZE,
    sqlite3.SQLITE_IOERR_SHMMAP,
)
"""SQLite's error codes for a full disk."""
DAMAGE = (
    *(zlib.error, struct.error, AttributeError, EOFError, LookupError, TypeError, ValueError),
    *(OverflowError, RecursionError),
)
"""Exceptions that decoding damaged bytes can raise."""
RESTORE_COPY = "restore a complete copy, or start again in another folder"
WAIT = "wait until it ends, or stop it"
MAKE_WRITABLE = "make it and its folder writable"
TO_CREATE = "Free some space, or choose another folder."
TO_RESUME = (
    "All that was recorded before is safe: free some space, or fix what is wrong, and resume with "
    "`tollbox resume`."
)
PROBE = "SELECT COUNT(*) FROM sqlite_master"
"""Statement that fails unless the file can be read; it runs no view of the file."""
BUSY_SECONDS = 30.0
"""Time that a connection waits for the commit of another one."""


class StoreError(TollboxError):
    """A failure to write to the store; everything committed before is safe."""


def journal_of(folder: Path) -> str:
    """Return the kind of journal for stores in a folder."""
    given = os.environ.get(VARIABLE, "")
    if given not in ("", WAL, ROLLBACK):
        raise InputError(
            f"the environment variable {VARIABLE} is {given!r}", expected=f"{WAL} or {ROLLBACK}"
        )
    kind = file_system(folder)
    shared = kind in NETWORK or (kind.startswith("fuse") and kind not in LOCAL_FUSE)
    return given or (ROLLBACK if shared else WAL)


def file_system(folder: Path) -> str:
    """Return the kind of file system that a folder is on; "" if it is not known."""
    try:
        lines = MOUNTS.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return ""
    where, found, longest = folder.resolve(), "", -1
    for line in lines:
        _, place, kind, *_ = line.split(" ")
        for character in " \t\n\\":  # the table writes these as octal numbers
            place = place.replace(f"\\{ord(character):03o}", character)
        mount = Path(place)
        if (where == mount or mount in where.parents) and len(mount.parts) >= longest:
            found, longest = kind, len(mount.parts)  # the later of two mounts at one path is on top
    return found


@contextlib.contextmanager
def writing(path: Path, remedy: str = TO_RESUME) -> Iterator[None]:
    """Return a context that reports disk errors in one sentence while a file is written."""
    try:
        yield
    except sqlite3.Error as error:
        raise StoreError(f"{path} cannot be written: {error}. {remedy}") from None


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Return a context that reports disk errors and damage in one sentence while a file is read."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        if _no_room(error):
            raise StoreError(f"{path} cannot be written: {error}. {TO_RESUME}") from None
        raise FileError(
            f"{path} cannot be used: {error}",
            expected="the complete file of a study",
            remedy=RESTORE_COPY,
        ) from None
    except FileError:
        raise
    except DAMAGE as error:
        raise damaged(path, f"{type(error).__name__}: {error}") from None


def damaged(path: Path, what: str) -> FileError:
    return FileError(f"{path} is damaged ({what})", remedy=RESTORE_COPY)


def _no_room(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", None) in NO_ROOM


def check_regular(path: Path) -> None:
    """Raise FileError if a file next to a shard is a pipe, a link or a device. SQLite would wait
    for it, or write to what it points to."""
    for suffix in (".sqlite-wal", ".sqlite-shm", ".sqlite-journal", ".lock"):
        other = path.with_suffix(suffix)
        if os.path.lexists(other) and not stat.S_ISREG(other.lstat().st_mode):
            raise FileError(f"{other} is not a regular file", remedy="remove it")


def in_use(folder: Path, holder: str | None, how: str = "") -> FileError:
    holder = holder or "unknown"
    return FileError(f"{folder} is in use by another process ({holder}){how}", remedy=WAIT)


def check_length(path: Path, connection: sqlite3.Connection) -> None:
    """Raise FileError if the file is shorter than its header says. The file itself is not opened:
    closing it would release the locks of all other connections in this process."""
    if _holds_bytes(path, "-wal"):
        return  # the log may have the missing pages
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    (page_size,) = connection.execute("PRAGMA page_size").fetchone()
    size = path.stat().st_size
    if size < pages * page_size:
        raise FileError(
            f"{path} has been cut short ({size} of {pages * page_size} bytes)", remedy=RESTORE_COPY
        )


def _holds_bytes(path: Path, suffix: str) -> bool:
    """Return whether the file with the suffix `-wal` or `-journal` exists and has content."""
    other = path.with_name(path.name + suffix)
    return other.exists() and other.stat().st_size > 0


def connect(path: Path, write: bool) -> sqlite3.Connection:
    """Return a connection that can read the file, and write to it if `write` is set."""
    try:
        if write:
            return _connection(path, "mode=rw", "BEGIN IMMEDIATE", "ROLLBACK")
        return _connection(path, "mode=ro", PROBE)
    except sqlite3.OperationalError as error:
        if write and _no_room(error):
            raise
        if write:
            raise FileError(f"{path} cannot be written: {error}", remedy=MAKE_WRITABLE) from None
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY:
            how = ", which does not finish its commit"
            raise in_use(path.parent, lock_holder(path), how) from None
    if not _holds_bytes(path, "-journal"):
        return _connection(path, "immutable=1")  # a read-only folder, where no one writes
    try:  # a writer was killed in the middle of a commit, which SQLite undoes
        return _connection(path, "mode=rw", PROBE, "PRAGMA query_only=1")
    except sqlite3.OperationalError as error:
        raise FileError(
            f"{path} cannot be read: its last commit was not finished and cannot be undone here "
            f"({error})",
            remedy=MAKE_WRITABLE,
        ) from None


def _connection(path: Path, mode: str, *statements: str) -> sqlite3.Connection:
    """Return a connection on which the statements have succeeded."""
    address = path.absolute().as_uri()
    connection = sqlite3.connect(f"{address}?{mode}", uri=True, timeout=BUSY_SECONDS)
    try:
        for statement in statements:
            connection.execute(statement).fetchone()
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def lock(path: Path) -> int:
    """Lock a shard's file for writing; the handle holds the lock until it is closed. A file with
    several names would have several locks, and is refused."""
    if path.is_symlink() or path.stat().st_nlink > 1:
        raise FileError(f"{path} is a link to a file elsewhere", remedy="replace it by a copy")
    try:
        handle = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StoreError(f"{path} cannot be written: {error.strerror}. {TO_RESUME}") from None
        raise FileError(
            f"{path.parent} cannot be written: {error.strerror}",
            remedy="make it writable to resume",
        ) from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        holder = _read_holder(handle)
        os.close(handle)
        if error.errno in (errno.EAGAIN, errno.EACCES):
            raise in_use(path.parent, holder) from None
        raise FileError(
            f"{path.parent} cannot be locked: {error.strerror}",
            remedy="choose a folder on a file system that has locks",
        ) from None
    with contextlib.suppress(OSError):  # a full disk; the lock holds without the text
        os.ftruncate(handle, 0)
        host = f" on {socket.gethostname()}" if journal_of(path.parent) == ROLLBACK else ""
        os.write(handle, f"process {os.getpid()}{host}\n".encode())
    return handle


def lock_holder(path: Path) -> str | None:
    """Return the process that has locked a shard's file; None if the file is free."""
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
