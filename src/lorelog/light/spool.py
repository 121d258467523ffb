"""The spool: events that hooks leave for the daemon, one small file each, in `<home>/spool`.

A hook must finish within milliseconds, whatever else is broken. So an event is written to a temporary file and renamed, and not
synced: a kill loses nothing, and a power failure at most the events of the last seconds, whose turns are captured at the
next event of their session, from the host's transcript. Its name is a UUIDv7, so names sort by time.

An event points to a conversation and never contains its text: that is read later, from the host's own files, and
redacted before it is written anywhere. `services.sessions.drain` reads the events.

Beside it, `<home>/paused` notes which sessions are off the record and since when: a file per session, with ids and times only.
Whoever reads conversations asks `PauseNotes`. A note that cannot be read counts as a pause: nothing is captured.
"""

from __future__ import annotations

import os
import time

from lorelog.core.atomic_file import append_line, sync_folder, write_atomic
from lorelog.core.errors import StoreDamaged, StoreUnwritable, UsageError
from lorelog.core.ids import new_id
from lorelog.light.quick_json import dumps, loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


MAX_EVENT_BYTES = 65_536
"""Size limit of one event."""
_EVENT_VERSION = 1
OFF, READ_ONLY, WORDS, HOOKS_OFF, ON = "off", "read-only", "off the record", "hooks off", "on"
"""What a note says: paused by a person, the same with memories delivered, by the words in a prompt, by LORELOG_HOOKS; resumed."""
CLOCK_SLACK_S = 2.0
"""Tolerance between a hook's time and the host's: the clock is the same, but the two are not taken at once."""


def write_event(home: str, event: dict[str, Any]) -> str:
    """Write an event and return its path. Raise StoreUnwritable or UsageError."""
    identity = str(event.get("id") or new_id())
    line = dumps({**event, "v": _EVENT_VERSION, "id": identity}).encode() + b"\n"
    if len(line) > MAX_EVENT_BYTES:
        raise UsageError(f"the event has {len(line):,} bytes; the limit is {MAX_EVENT_BYTES:,}")
    folder = f"{home}/spool"
    final = f"{folder}/{identity}.json"
    try:
        try:
            write_atomic(final, line, durable=False)
        except FileNotFoundError:
            # makedirs applies the mode to the last folder only.
            for missing in (home, folder):
                os.makedirs(missing, 0o700, exist_ok=True)
            write_atomic(final, line, durable=False)
    except OSError as error:
        raise _unwritable(folder, error) from error
    return final


def _unwritable(folder: str, error: OSError) -> StoreUnwritable:
    message = f"{folder} cannot be written: {error.strerror or error}"
    return StoreUnwritable(message, hint="make it writable, or set LORELOG_HOME")


def count_waiting(home: str) -> tuple[int, float]:
    """Return the number of waiting events, and the age of the oldest in seconds."""
    folder = f"{home}/spool"
    try:
        names = [name for name in os.listdir(folder) if is_event_name(name)]
    except OSError:
        return 0, 0.0
    while names:
        oldest = min(names)
        try:
            return len(names), max(0.0, time.time() - os.stat(f"{folder}/{oldest}").st_mtime)
        except OSError:
            names.remove(oldest)  # another process has just removed it
    return 0, 0.0


def is_event_name(name: str) -> bool:
    return name.endswith(".json") and not name.startswith(".")


def is_off_record(text: str) -> bool:
    """Return whether a prompt takes its session off the record."""
    return f"[{WORDS}]" in text.lower()


class PauseNotes:
    """When a session was paused and resumed. Raise StoreDamaged if that cannot be read."""

    def __init__(self, home: str, session: str) -> None:
        self._session, self._folder = session, f"{home}/paused"
        self._file = f"{self._folder}/{session.replace('/', '-')[:200]}.jsonl"
        self.changes: list[tuple[float, str]] = []
        """Times, in order, and what each note says. A broken line is a pause at the time of the one before it."""
        try:
            with open(self._file, "rb") as file:
                lines = file.read().splitlines() or [b""]
        except FileNotFoundError:
            return
        except OSError as error:
            message = f"{self._file} cannot be read: {error.strerror or error}; nothing is captured"
            raise StoreDamaged(message, hint="it says whether the session is off the record") from error
        for line in lines:
            try:
                note = loads(line)
                self.changes.append((float(note["at"]), str(note["state"])))
            except (ValueError, KeyError, TypeError):
                self.changes.append((self.last_change, OFF))
        self.changes.sort(key=lambda change: change[0])

    @property
    def last_change(self) -> float:
        """Time of the last note; 0 if there is none."""
        return self.changes[-1][0] if self.changes else 0.0

    @property
    def state(self) -> str:
        """What the last note says."""
        return self.changes[-1][1] if self.changes else ON

    def add(self, state: str, at: float, *, durable: bool = True) -> None:
        """Note that the session is paused or resumed, on disk unless this is a dry run. Raise StoreUnwritable."""
        self.changes = sorted((*self.changes, (at, state)), key=lambda change: change[0])
        if durable:
            line = dumps({"session": self._session, "at": at, "state": state}).encode()
            try:
                os.makedirs(self._folder, 0o700, exist_ok=True)
                append_line(self._file, line, durable=True)
                sync_folder(self._folder)
            except OSError as error:
                raise _unwritable(self._folder, error) from error

    def covers(self, begun: float | None, ended: float, until: float = float("inf")) -> bool:
        """Return whether a pause noted up to a time covers a turn, by its start and that of the next one.

        A turn that was running when a person paused the session is covered, and so is one without a time.
        """
        ends = [*(at for at, _ in self.changes[1:]), float("inf")]
        for (at, state), resumed in zip(self.changes, ends, strict=False):
            since = at - CLOCK_SLACK_S
            is_running = state in {OFF, READ_ONLY} and ended >= since
            is_within = begun is None or (begun < resumed and (begun >= since or is_running))
            if state != ON and at <= until and is_within:
                return True
        return False
