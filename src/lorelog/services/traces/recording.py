"""Noting that an operation was called: how long it took, what went wrong, and of what it was asked only what is no text.

Texts that were handed over to be remembered, recorded, searched for or summed up are not noted, only how long they were: what
a person deletes must not go on living here, and looking for secrets takes longer than a call may. Ids, numbers, days,
paths and names are noted. It never fails a call and never waits: where nothing can be written nothing is noted.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lorelog.core.errors import LorelogError

if TYPE_CHECKING:
    from lorelog.services.traces.book import TraceBook

TOLD = frozenset(
    {
        *(
            "id",
            "task_id",
            "parent_task_id",
            "artifact_id",
            "thread_id",
            "reply_to_artifact_id",
            "run_id",
            "episode_id",
        ),
        *(
            "name",
            "module",
            "container",
            "path",
            "paths",
            "source",
            "file_path",
            "place",
            "directory",
            "prefix",
            "project",
        ),
        *("lane", "fusion", "trust", "since", "until", "time_from", "time_to", "expires", "review_after", "relevance"),
        *(
            "types",
            "type",
            "status",
            "artifact_kind",
            "host",
            "session",
            "session_id",
            "moment",
            "turn",
            "by",
            "llm",
            "origin",
        ),
        *(
            "tool_name",
            "error_signature",
            "function_name",
            "branch",
            "commit",
            "transcript",
            "language",
            "kind",
            "agent_id",
            "certainty",
            "subsystem_key",
            "subsystem_keys",
        ),
    }
)
"""Arguments that are noted as they are where they are a word. Of all other texts only the length is."""
_WORD = re.compile(r"[\w.:/@~#*+-]{1,160}")
_QUOTED = re.compile(r"""(['"`])(.*?)\1""", re.DOTALL)
_MOST_FIELDS = 30
_MOST_ITEMS = 10
_ERROR = 300
_TRACE = 6_000


@dataclass(frozen=True, slots=True)
class Called:
    """An operation that was called, and what came of it."""

    op: str
    arguments: object
    seconds: float
    outcome: Mapping[str, Any] | BaseException
    """Its answer, or what it raised."""


def note_call(book: Callable[[], TraceBook], project: str, called: Called) -> None:
    """Note a call in the book of the tenant that it was for. Whatever goes wrong here is nobody's business."""
    try:
        opened = book()
        if opened.options.enabled:
            opened.note(_line(called) | {"project": project})
    except Exception:  # noqa: BLE001, S110  (a home that is not there or read-only, a disk that is full)
        pass


def told(arguments: object) -> str:
    """Return of an operation's arguments what may be noted, as JSON."""
    if not isinstance(arguments, Mapping):
        return ""
    noted: dict[str, Any] = {}
    for name, value in list(arguments.items())[:_MOST_FIELDS]:
        known = isinstance(name, str) and name.isidentifier() and len(name) <= 40
        if known and not (value is None or value is False or value in ("", [], {})):
            noted[name] = _noted(value, keeps=name in TOLD)
    return json.dumps(noted, ensure_ascii=False) if noted else ""


def counted(shape: Mapping[str, Any]) -> str:
    """Return how many there are of each thing in an answer, as JSON."""
    counts = {name: len(value) for name, value in shape.items() if isinstance(value, list)}
    return json.dumps(counts) if counts else ""


def _line(called: Called) -> dict[str, Any]:
    seconds, outcome = called.seconds, called.outcome
    line: dict[str, Any] = {
        "id": os.urandom(10).hex(),
        "at": int((time.time() - seconds) * 1000),
        "op": called.op,
        "ms": round(seconds * 1000, 3),
        "in": told(called.arguments),
        "session": _session(called.arguments),
    }
    if not isinstance(outcome, BaseException):
        return line | {"out": counted(outcome)}
    if isinstance(outcome, LorelogError):
        return line | {"failed": True, "error": f"{outcome.code}: {_without_texts(outcome.message)}"[:_ERROR]}
    return line | {"failed": True} | _fault(outcome)


def _fault(error: BaseException) -> dict[str, str]:
    """Return what is told of a fault of our own: rare enough that loading what finds secrets does not matter."""
    import traceback

    from lorelog.ingest.redact import redact

    trace = redact("".join(traceback.format_exception(error))[-_TRACE:]).text
    return {"error": redact(f"{type(error).__name__}: {error}"[:_TRACE]).text[:_ERROR], "trace": trace}


def _without_texts(message: str) -> str:
    """Return a message of ours without what it repeats of what was handed over, but for words."""
    return _QUOTED.sub(lambda found: found[0] if _WORD.fullmatch(found[2]) else f"{found[1]}…{found[1]}", message)


def _session(arguments: object) -> str:
    given = arguments.get("session") or arguments.get("session_id") if isinstance(arguments, Mapping) else ""
    return given if isinstance(given, str) and _WORD.fullmatch(given) else ""


def _noted(value: Any, *, keeps: bool) -> Any:
    if isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return value if keeps and _WORD.fullmatch(value) else f"{len(value)} characters"
    if isinstance(value, list | tuple):
        is_told = keeps and all(isinstance(one, str) and _WORD.fullmatch(one) for one in value)
        return list(value[:_MOST_ITEMS]) if is_told else f"{len(value)} items"
    return f"{len(value)} fields" if isinstance(value, Mapping) else type(value).__name__
