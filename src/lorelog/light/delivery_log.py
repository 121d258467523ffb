"""The log of deliveries: which memories were shown to which session, when, why, and how many tokens that cost.

One append-only file per session, `<tenant>/deliveries/<host>.<digest of the session>.jsonl`. A hook appends a line with
one `write`, so that parallel hooks never mix lines, and reads the same file to show no memory twice in a session. A
line is never required: if the file cannot be read or written, the agent's work goes on and the memory is shown.

The log holds ids and no text of memories or calls: deleting a memory leaves no copy here. `services.usage.history`
reads all sessions, and sums up old ones.
"""

from __future__ import annotations

import os
import time

from lorelog.core.atomic_file import append_line
from lorelog.light.delivery_files import read_end, short_digest
from lorelog.light.quick_json import dumps, read_objects

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any


LOG_SUFFIX = ".jsonl"
USED_SUFFIX = ".used.jsonl"
"""Suffix of the file beside a session's log that says which memories were used."""
KINDS = ("standing", "recall", "cue", "guard", "why")
_MAX_READ_BYTES = 4_000_000
"""Only the end of a longer log is read: about 20,000 deliveries."""
_MAX_TEXT_CHARS = 1_000
_MAX_MEMORIES = 200
_MAX_COMMAND_CHARS = 1_000
"""Characters of a command that identify a call; transcripts keep no more."""
_CHARS_PER_TOKEN = 4


def session_log(folder: str, host: str, session: str) -> str:
    """Return the path of a session's log. Hosts with odd characters in their name are named by a digest."""
    name = host if host.isascii() and host.replace("-", "a").isalnum() and len(host) <= 40 else short_digest(host)
    return os.path.join(folder, f"{name}.{short_digest(session)}{LOG_SUFFIX}")


def estimate_tokens(text: str) -> int:
    """Return about how many tokens a text costs. A tokenizer would take longer to load than the hook may run."""
    return -(-len(text.encode("utf-8", "replace")) // _CHARS_PER_TOKEN)


def call_digest(command: str, paths: Iterable[str] = ()) -> str:
    """Return a digest of a command or of file names; empty without either. See `target_digest`."""
    words = " ".join(command[:_MAX_COMMAND_CHARS].split())
    names = sorted(path.rpartition("/")[2] for path in paths)
    return short_digest("\0".join((words, *names))) if words or names else ""


def target_digest(call: Mapping[str, Any]) -> str:
    """Return the digest by which a tool call, as the hosts' adapters return it, is found again in the transcript.

    The log stores this and not the command, which may contain a secret.
    """
    command = str(call.get("command") or "") if call.get("kind") == "run" else ""
    return call_digest(command, () if command else [str(path) for path in call.get("paths") or ()])


def append_delivery(folder: str, host: str, session: str, delivery: Mapping[str, Any]) -> None:
    """Append one delivery. Raise OSError if it cannot be written, and no other error.

    Its fields are `project`, `moment`, `kind` (one of `KINDS`), `memories` (ids), `tokens`, and, where they apply,
    `cue` (the cue that matched), `call` (the host's id of the tool call), `target` (its `target_digest`), `guard` (the
    guard's id) and `action` (what was done to the call: warn or block by a guard, hold because of a memory).
    """
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    line = {"at": at, "host": host, "session": session, **delivery}
    data = dumps({name: _bounded(value) for name, value in line.items()}, ensure_ascii=False)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    append_line(session_log(folder, host, session), data.encode("utf-8", "replace"))


def read_lines(file: str, max_bytes: int = _MAX_READ_BYTES) -> list[dict[str, Any]]:
    """Return the JSON objects of the lines at the end of a file, oldest first. Torn and invalid lines are skipped."""
    data, is_part = read_end(file, max_bytes)
    return read_objects(data[data.find(b"\n") + 1 :] if is_part else data)


def read_deliveries(file: str) -> list[dict[str, Any]]:
    """Return the lines of a session's log, oldest first; unreadable lines and ids that are not text are skipped."""
    lines = [line for line in read_lines(file) if isinstance(line.get("memories"), list)]
    for line in lines:
        line["memories"] = [memory for memory in line["memories"] if isinstance(memory, str)]
    return lines


def _bounded(value: Any) -> Any:
    """Return a value within limits: an oversized field of a host must not make the log grow."""
    if isinstance(value, list):
        return [str(part)[:_MAX_TEXT_CHARS] for part in value[:_MAX_MEMORIES]]
    return value if isinstance(value, (int, float)) or value is None else str(value)[:_MAX_TEXT_CHARS]


def prompted_memories(folder: str, host: str, session: str) -> frozenset[str]:
    """Return the memories that a session was shown after its start: with prompts and tool calls."""
    lines = read_deliveries(session_log(folder, host, session))
    later = (line for line in lines if line.get("moment") not in ("session-start", "subagent-start"))
    return frozenset(memory for line in later for memory in line["memories"])
