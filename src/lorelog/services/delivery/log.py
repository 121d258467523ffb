"""The log of deliveries: which memories were shown to which session, when, why, and how many tokens that cost.

One append-only file per session, `<tenant>/deliveries/<host>.<digest of the session>.jsonl`. A hook appends a line with
one `write`, so that parallel hooks never mix lines, and reads the same file to show no memory twice in a session. A
line is never required: if the file cannot be read or written, the agent's work goes on and the memory is shown.
"""

from __future__ import annotations

import json
import os
import time

from lorelog.services.delivery.files import short_digest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

# ruff: noqa: PTH103, PTH118, PTH123  (pathlib takes 10 ms to import)

_MAX_LOG_BYTES = 4_000_000
_CHARS_PER_TOKEN = 4


def session_log(folder: str, host: str, session: str) -> str:
    """Return the path of a session's log."""
    return os.path.join(folder, f"{host}.{short_digest(session)}.jsonl")


def estimate_tokens(text: str) -> int:
    """Return about how many tokens a text costs. A tokenizer would take longer to load than the hook may run."""
    return -(-len(text.encode("utf-8", "replace")) // _CHARS_PER_TOKEN)


def append_delivery(folder: str, host: str, session: str, delivery: Mapping[str, Any]) -> None:
    """Append one delivery. Its fields are:

    `project`, `moment`, `kind` (standing, recall, cue, guard or why), `memories` (ids), `tokens`, and, where they
    apply, `cue` (the cue that matched), `call` (the host's id of the tool call) and `guard` (the guard's id).
    """
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    line = {"at": at, "host": host, "session": session, **delivery}
    os.makedirs(folder, mode=0o700, exist_ok=True)
    data = json.dumps(line, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
    descriptor = os.open(session_log(folder, host, session), flags, 0o600)
    try:
        os.write(descriptor, data)
    finally:
        os.close(descriptor)


def read_deliveries(file: str) -> list[dict[str, Any]]:
    """Return the lines of a session's log, oldest first; unreadable lines are skipped."""
    try:
        with open(file, "rb") as stream:
            data = stream.read(_MAX_LOG_BYTES)
    except OSError:
        return []
    lines: list[dict[str, Any]] = []
    for text in data.split(b"\n"):
        try:
            line = json.loads(text) if text else None
        except ValueError:
            continue
        if isinstance(line, dict) and isinstance(line.get("memories"), list):
            lines.append(line)
    return lines


def delivered_memories(folder: str, host: str, session: str) -> frozenset[str]:
    """Return the ids of the memories that a session was shown."""
    lines = read_deliveries(session_log(folder, host, session))
    return frozenset(memory for line in lines for memory in line["memories"] if isinstance(memory, str))
