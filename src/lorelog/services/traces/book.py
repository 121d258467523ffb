"""A tenant's book of traces, as everybody who does something else has it: open for a note, and closed for the rest.

A note costs one short write to a file that is only appended to. Nothing is loaded for it and no database is opened, as every
operation notes that it was called, also in a command that lives for a tenth of a second. What reads and keeps traces
(`tables`) is loaded when somebody asks for them, or when so much was noted that it is taken in, beside whoever is answered.
"""

from __future__ import annotations

import fcntl
import json
import os
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lorelog.core.options import TraceOptions
from lorelog.services.traces.names import SPOOL

if TYPE_CHECKING:
    from lorelog.services.traces.tables import TraceTables

_FULL = 512_000
"""Bytes from which on what was noted is taken in."""
_MOST = 8_000_000
"""Bytes that may wait where nobody takes them in; then it is begun anew."""
_LINE = 8_000
_taking = threading.Lock()


class TraceBook:
    """The traces of one tenant. Threads may share it. Nothing is made on disk before something is noted or kept."""

    def __init__(self, path: Path, options: TraceOptions) -> None:
        self.path = path
        self.options = options
        self._spool = path.with_name(SPOOL)
        self._lock = threading.Lock()
        self._tables: TraceTables | None = None

    def tables(self) -> TraceTables:
        """Return what was traced, to be asked and added to."""
        with self._lock:
            if self._tables is None:
                from lorelog.services.traces.tables import TraceTables

                self._tables = TraceTables(self.path, self.options)
            return self._tables

    def note(self, line: Mapping[str, Any]) -> None:
        """Write down that something was called. Raise OSError where nothing can be written."""
        text = json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
        if len(text) < _LINE and self._append(text + b"\n") > _FULL and _taking.acquire(blocking=False):
            threading.Thread(
                target=_take_in, args=(self.path, self.options), name="lorelog-traces", daemon=True
            ).start()

    def close(self) -> None:
        """Let go of the file. May be called twice; asked again, it is opened again."""
        with self._lock:
            if self._tables is not None:
                self._tables.close()
            self._tables = None

    def _append(self, text: bytes) -> int:
        """Append to the spool, and return how much waits there."""
        for _ in range(3):
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            descriptor = os.open(self._spool, flags, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
                status = os.fstat(descriptor)
                if status.st_nlink and status.st_size < _MOST:
                    os.write(descriptor, text)
                    return status.st_size + len(text)
                if status.st_nlink:
                    self._spool.unlink(missing_ok=True)
            except BlockingIOError:
                continue
            finally:
                os.close(descriptor)
            # It was taken in just now, or let go: the next one is another file.
        return 0


def _take_in(path: Path, options: TraceOptions) -> None:
    """Take in what was noted. With tables of its own: those of an engine may be closed at any time."""
    from lorelog.core.errors import LorelogError
    from lorelog.services.traces.tables import TraceTables

    try:
        with suppress(LorelogError, OSError):
            tables = TraceTables(path, options)
            try:
                tables.absorb()
            finally:
                tables.close()
    finally:
        _taking.release()
