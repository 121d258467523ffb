"""What goes over the socket: JSON objects, one a line.

    request   {"protocol", "version", "op", "arguments", "caller": {"directory", "environment", "own", "umask", "zone"}, "progress"}
    answers   {"progress": {"stage", "done", "total"}} or {"working": seconds}, any number of times, then one of
              {"ok": true, "result": {…}, "daemon": {"pid", "version", "protocol"}}
              {"ok": false, "error": {"code", "message", "hint"}, "daemon": {…}}

A `working` comes every two seconds, so that whoever waits can tell slow from dead. Before a write begins, one comes at once:
who has seen it and then hears nothing more does not know whether it was written, and must not do it again.
"""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

PROTOCOL = 1
"""Raised when an older side could not understand a newer one. Other protocols are not spoken with at all."""
MOST_BYTES = 16 * 1024 * 1024
"""Of one request."""
BEAT_S = 2.0
"""Seconds between two signs of life."""
SILENCE_S = 15.0
"""Seconds without any sign after which whoever waits takes the daemon for dead."""
ONCE = frozenset(
    {
        *("memory.add", "memory.add_batch", "memory.supersede", "memory.consolidate_episode"),
        *("add", "add_batch", "supersede", "consolidate_episode"),
        *("memory.compact", "compact"),  # a second one would pay for a model while the first still asks it
        *("task.start", "task.progress", "task.run_start", "task.run_finish", "task.add_evidence", "task.finish"),
        *("artifact.create", "artifact.review", "artifact.revision", "artifact.decision", "artifact.verification"),
        "artifact.find_related",
    }
)
"""Operations that must not be done twice when nobody knows whether they were done; doing others again does no harm."""


ALSO = ("CLAUDE_CONFIG_DIR", "OPENAI_BASE_URL", "OLLAMA_HOST", "GOOGLE_GENAI_USE_VERTEXAI")
"""What lorelog reads of variables that others have named."""


def forwarded(environment: Mapping[str, str], home: str) -> dict[str, str]:
    """Return what a caller's environment says about lorelog, with the home as it was understood here."""
    told = {
        name: value
        for name, value in environment.items()
        if name.startswith("LORELOG_") or name.endswith("_API_KEY") or name in ALSO
    }
    told["LORELOG_HOME"] = home
    return told


def local_zone() -> list[int]:
    """Return what tells this process's time zone from others: its offsets in winter, in summer and now."""
    return [time.timezone, time.altzone, time.localtime().tm_gmtoff]


def version_key(version: str) -> tuple[int, ...]:
    """Return what versions are compared by: their leading numbers."""
    numbers: list[int] = []
    for part in version.split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        numbers.append(int(digits[:9]))
    return tuple(numbers)
