"""A request as it came over the socket, and the threads that see to requests."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from lorelog.core.errors import UsageError

_STAYS_S = 30.0
"""Seconds that a thread without work stays."""


@dataclass(frozen=True, slots=True)
class Request:
    """One line, read."""

    op: str
    arguments: dict[str, Any]
    directory: str
    environment: dict[str, str]
    own: bool
    """Whether it is asked for the person at this machine, who may name files to be read."""
    umask: int | None
    """What the caller's new files may not be; None where it was not said."""
    zone: list[Any] | None
    """The caller's time zone, as `local_zone` tells it."""
    wants_progress: bool
    protocol: int
    version: str


@dataclass(slots=True, eq=False)
class Job:
    """Something that a thread sees to while its line waits."""

    begin: Callable[[Job], None]
    request: Request | None = None
    raw: bytes = b""
    answer: bytes = b""
    cancelled: bool = False
    """Whether nobody waits for it any more."""
    told: tuple[str, int, int] | None = None
    """The newest progress that has not been sent."""
    posted: float = 0.0
    since: float = field(default_factory=time.monotonic)
    said: float = field(default_factory=time.monotonic)
    """When its line last heard something."""


class Crew:
    """Threads that come when there is work and go when there is none."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._queue: deque[Job] = deque()
        self._changed = threading.Condition()
        self._threads = 0
        self._free = 0
        """Threads that wait. Those that were called and have not come yet are among them, and their jobs in the queue."""

    def take(self, job: Job) -> None:
        """Have a thread see to a job, at once if one is free or may be made."""
        with self._changed:
            self._queue.append(job)
            if self._free < len(self._queue) and self._threads < self._most:
                self._threads += 1
                threading.Thread(target=self._work, name="lorelog-worker", daemon=True).start()
            else:
                self._changed.notify()

    def waiting(self) -> int:
        """Return how many jobs nobody sees to yet."""
        return len(self._queue)

    def _work(self) -> None:
        while (job := self._next()) is not None:
            job.begin(job)
            del job  # what it answered must not be kept until the next one comes

    def _next(self) -> Job | None:
        """Wait for a job; None when there is none for long."""
        with self._changed:
            self._free += 1
            self._changed.wait_for(lambda: self._queue, _STAYS_S)
            self._free -= 1
            if self._queue:
                return self._queue.popleft()
            self._threads -= 1
            return None


def read_request(line: bytes) -> Request:
    """Return the request that a line holds. Raise UsageError that says what is wrong with it."""
    try:
        given = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the request is not valid JSON: {str(error)[:200]}") from None
    if not isinstance(given, dict):
        raise UsageError("the request must be a JSON object, one a line")
    caller = _typed(given, "caller", dict, {})
    environment = _typed(caller, "environment", dict, {})
    if not all(isinstance(value, str) for value in environment.values()):
        raise UsageError("the caller's environment must hold texts")
    op = _typed(given, "op", str, "")
    if not op:
        raise UsageError("the request names no op", hint="'lorelog ops' lists them")
    return Request(
        op=op,
        arguments=_typed(given, "arguments", dict, {}),
        directory=_typed(caller, "directory", str, "/"),
        environment=environment,
        own=_typed(caller, "own", bool, True),
        umask=_typed(caller, "umask", int, None),
        zone=_typed(caller, "zone", list, None),
        wants_progress=_typed(given, "progress", bool, False),
        protocol=_typed(given, "protocol", int, 0),
        version=_typed(given, "version", str, ""),
    )


def _typed(given: dict[str, Any], name: str, kind: type, default: Any) -> Any:
    value = given.get(name)
    if value is None:
        return default
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise UsageError(f"{name!r} of the request must be {_KINDS[kind]}")
    return value


_KINDS = {dict: "an object", str: "a text", bool: "true or false", int: "a whole number", list: "a list"}
