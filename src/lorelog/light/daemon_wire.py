"""Wire protocol of the daemon: JSON objects, one per line.

    request    {"protocol", "version", "op", "arguments", "caller": {…}, "progress"}
    caller     {"directory", "environment", "own", "names_files", "umask", "zone", "wants_value", "code"}
    responses  {"progress": {"stage", "done", "total"}} or {"working": seconds}, any number of times, then one of
               {"ok": true, "result": {…}, "daemon": {"pid", "version", "protocol"}}
               {"ok": false, "error": {"code", "message", "hint"}, "daemon": {…}}

`working` is sent every two seconds, so that a client can tell a slow daemon from a dead one. It is also sent just before
a write begins: a client that loses the connection after that does not know whether the write happened and must not repeat it.
"""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

PROTOCOL = 2
"""Incremented for incompatible changes. Client and daemon refuse to work with another number."""
MAX_REQUEST_BYTES = 16 * 1024 * 1024
HEARTBEAT_S = 2.0
SILENCE_S = 15.0
"""Seconds without any message after which a client considers the daemon dead."""
_ONCE = (
    # generated: once (scripts/generate_reference.py)
    "artifact.create",
    "artifact.decision",
    "artifact.find_related",
    "artifact.review",
    "artifact.revision",
    "artifact.verification",
    "backup.restore",
    "delivery.approve",
    "delivery.refuse",
    "guard.dismiss",
    "memory.add",
    "memory.add_batch",
    "memory.compact",
    "memory.consolidate_episode",
    "memory.edit",
    "memory.forget",
    "memory.supersede",
    "session.handoff",
    "task.add_evidence",
    "task.finish",
    "task.progress",
    "task.run_finish",
    "task.run_start",
    "task.start",
    # end: once
)
NON_IDEMPOTENT = frozenset((*_ONCE, *(name.removeprefix("memory.") for name in _ONCE)))
"""Operations that must not be repeated when the reply is lost, under all their names. Repeating any other is harmless."""
FORWARDED_VARIABLES = (
    *("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_DATA_HOME", "OPENCLAW_STATE_DIR"),
    *("GEMINI_CLI_HOME", "QWEN_HOME", "COPILOT_HOME"),
    *("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "OLLAMA_HOST", "GOOGLE_GENAI_USE_VERTEXAI"),
)
"""Variables defined by other programs that lorelog reads."""


def forwarded_environment(environment: Mapping[str, str], home: str) -> dict[str, str]:
    """Return the variables of `environment` that lorelog reads, with LORELOG_HOME set to `home`."""
    from lorelog.core.caller import AGENT_MARKERS  # a hook that only wakes the daemon sends no variables

    forwarded = {
        name: value
        for name, value in environment.items()
        if name.startswith("LORELOG_")
        or name.endswith("_API_KEY")
        or name in FORWARDED_VARIABLES
        or (name in AGENT_MARKERS and value)
    }
    forwarded["LORELOG_HOME"] = home
    return forwarded


def local_zone() -> list[int]:
    """Return this process's time zone as three offsets: standard time, daylight saving time and now."""
    return [time.timezone, time.altzone, time.localtime().tm_gmtoff]


def version_key(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version, for comparison."""
    numbers: list[int] = []
    for part in version.split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        numbers.append(int(digits[:9]))
    return tuple(numbers)
