"""The person at the page: whose word a call counts as, what must be confirmed, and their editor."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from lorelog.core.caller import AGENT_MARKERS, without_agent_markers
from lorelog.core.editor import editor_command, windowed_editor
from lorelog.core.errors import LorelogError
from lorelog.operations.dispatch import BoundCall, ClientIdentity
from lorelog.surfaces.http.errors import HttpRefusalError

CONFIRMED_OPERATIONS = frozenset({"memory.forget", "memory.delete"})
"""Operations that the page must confirm with the id of the memory, in the header `CONFIRM_HEADER`."""
CONFIRM_HEADER = "x-lorelog-confirm"
_MIN_TYPED_CHARS = 8
_CONDITIONS = ("match", "session", "since", "until")


def identify_caller(server: ClientIdentity, agent: str) -> ClientIdentity:
    """Return the identity of who opened the page: a person, or the agent whose shell asked for the ticket.

    The server's own environment does not tell: a hook of an agent may have started it.
    """
    environment = {**server.environment, **without_agent_markers(server.environment)}
    if agent:
        marker = next((name for name, known in AGENT_MARKERS.items() if known == agent), "AI_AGENT")
        environment[marker] = "1"
    return replace(server, own=True, names_files=False, environment=environment)


def call_confirmed(call: BoundCall, op: str, arguments: Mapping[str, Any], typed: str) -> dict[str, Any]:
    """Call an operation that takes a memory away. Raise HttpRefusalError unless the typed id is that of this memory."""
    changes = op == "memory.delete" or not (arguments.get("dry_run") or arguments.get("complete"))
    if changes:
        identity = _find_target(op, arguments)
        scope = {"project": arguments["project"]} if arguments.get("project") else {}
        memory = call("memory.get", {"id": identity, **scope})["memory"] or {}
        # The first characters of a memory's own id are a time, and shared by many; those of a chunk's are a hash.
        is_shown = len(typed) >= _MIN_TYPED_CHARS and str(memory.get("id", "")).startswith(typed)
        if not is_shown and typed not in {identity, (memory.get("anchor") or {}).get("memory")}:
            raise HttpRefusalError(
                400,
                "confirmation",
                "this must be confirmed with the id of the memory",
                hint=f"at least {_MIN_TYPED_CHARS} characters of it, in the header {CONFIRM_HEADER}",
            )
    return call(op, dict(arguments))


def _find_target(op: str, arguments: Mapping[str, Any]) -> str:
    """Return the id of the only memory that a request names."""
    if op == "memory.delete":
        return str(arguments.get("id", ""))
    ids = arguments.get("ids") or []
    if len(ids) != 1 or any(arguments.get(name) for name in _CONDITIONS):
        raise HttpRefusalError(
            400, "confirmation", "the page forgets one memory at a time", hint="'lorelog forget' takes conditions"
        )
    return str(ids[0])


def find_editor() -> str:
    """Return the name of the user's editor if it opens a window; otherwise ''."""
    return windowed_editor(os.environ, has_display=sys.platform == "darwin")


def open_editor(call: BoundCall, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Open the file of a memory in the user's editor, at its line. The request names a memory, never a file."""
    section = call("memory.expand", {**arguments, "lines": 0})
    command = f"lorelog open {section['id'][:8]}"
    if not find_editor() or not os.path.isfile(section["source"]):  # noqa: PTH113
        return {"opened": False, "command": command}
    words = editor_command(section["source"], section["start_line"], os.environ)
    try:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        raise LorelogError(f"the editor {words[0]!r} does not start: {error.strerror}", hint=command) from None
    threading.Thread(target=process.wait, name="lorelog-editor", daemon=True).start()
    return {"opened": True, "command": command}
