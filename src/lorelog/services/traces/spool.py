"""Taking in what operations have noted (`book` says how they do).

A file is taken away before it is read. One that somebody was stopped over is taken again, and what was kept of it already is
not kept twice.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from lorelog.services.traces.names import SPOOL
from lorelog.services.traces.values import OPERATION, Origin, TracedCall, TracedError

_LEFT_S = 60.0
"""A file that was taken so long ago was left by whoever took it."""


class Spool:
    """What waits to be taken in for one tenant."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / SPOOL

    def is_waiting(self) -> bool:
        """Say whether there is anything to take in."""
        return self._path.exists() or any(self._left())

    def taken(self) -> Iterator[Noted]:
        """Take what is there away, a file at a time; what others have left comes first."""
        for path in self._left():
            yield Noted(path)
        mine = self._path.with_name(f"{SPOOL}.{time.time_ns()}-{os.getpid()}")
        try:
            self._path.rename(mine)
        except FileNotFoundError:
            return
        yield Noted(mine)

    def _left(self) -> Iterator[Path]:
        now = time.time()
        for path in sorted(self._path.parent.glob(f"{SPOOL}.*")):
            with suppress(OSError, ValueError):
                since = int(path.name.removeprefix(f"{SPOOL}.").partition("-")[0]) / 1e9
                if not 0 <= now - since < _LEFT_S:
                    yield path


class Noted:
    """A file that was taken out of the spool."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None

    def read(self) -> tuple[list[TracedCall], list[TracedError]]:
        """Return what was noted. A line that cannot be read was torn, and is passed over."""
        try:
            self._file = self._path.open("rb")
        except FileNotFoundError:
            return [], []
        fcntl.flock(
            self._file, fcntl.LOCK_EX
        )  # whoever writes to it just now has written, and nobody does until it is gone
        lines = self._file.read().split(b"\n")
        calls: list[TracedCall] = []
        errors: list[TracedError] = []
        for line in lines:
            with suppress(ValueError, LookupError, TypeError):
                entry = json.loads(line)
                calls.append(_call(entry))
                if entry.get("trace"):
                    errors += _errors(entry)
        return calls, errors

    def drop(self) -> None:
        """Let it go."""
        with suppress(OSError):
            self._path.unlink()
        self.close()

    def close(self) -> None:
        """Leave it to whoever comes next."""
        if self._file is not None:
            self._file.close()


def _call(entry: dict[str, Any]) -> TracedCall:
    return TracedCall(
        str(entry["id"]),
        int(entry["at"]),
        str(entry["op"]),
        _origin(entry),
        str(entry.get("in", "")),
        str(entry.get("out", "")),
        str(entry.get("error", "")),
        bool(entry.get("failed")),
        float(entry["ms"]),
    )


def _errors(entry: dict[str, Any]) -> list[TracedError]:
    from lorelog.ingest.stacks import find_traces
    from lorelog.ingest.stacks_signature import family, signature
    from lorelog.services.traces.values import cleaned

    found = [cleaned(one, str) for one in find_traces(str(entry["trace"]), 1)]
    return [
        TracedError(
            f"{entry['id']}e", int(entry["at"]), signature(one.trace), family(one.trace), one.trace, _origin(entry),
            str(entry["op"]), text=one.text,
        )
        for one in found
    ]  # fmt: skip


def _origin(entry: dict[str, Any]) -> Origin:
    return Origin(OPERATION, str(entry.get("project", "")), str(entry.get("session", "")))
