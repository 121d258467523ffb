"""What a tool call did: the files it was to write, the command it ran, and how it failed.

Every host has its own tools and names; what they share is the shape of the arguments. So the arguments are looked at, and a
name only where it must be known whether a file was written or merely read.
"""

from __future__ import annotations

import json
import re
from typing import Any

from lorelog.core.session import Deed
from lorelog.core.trace import FoundTrace

ERROR_CHARS = 200
COMMAND_CHARS = 1000
_FILES = 20
"""Of one call."""
_LOOKED_AT = 20_000
"""Characters of a result in which a reason is looked for, at its beginning and at its end."""
_WRITES = re.compile(r"write|edit|patch|create|replace|insert|notebook|rename|move|delete", re.IGNORECASE)
_PATHS = ("file_path", "filePath", "notebook_path", "path", "filename", "file", "target_file")
_PATCHES = ("patch", "patchText", "patch_text", "input", "diff")
_PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$|^\*\*\* Move to: (.+)$|^\+\+\+ b/(.+)$", re.MULTILINE)
_EDITOR = frozenset({"view", "create", "str_replace", "insert", "undo_edit"})
"""Words that stand where others have a command."""
_SHELLS = re.compile(r"(?:^|/)(?:ba|z|da|fi)?sh$")
_EXIT = re.compile(
    r"^(?:Process exited with code|Exit code:?|exit status|\(exit code) ?(-?\d+)", re.MULTILINE | re.IGNORECASE
)
_WRAPPED = re.compile(r"</?(?:tool_use_error|error|output|stderr|stdout)>")
_REASON = re.compile(
    r"error|exception|fail|cannot|can't|not found|no such|denied|refused|unexpected|invalid|undefined|missing|rejected",
    re.IGNORECASE,
)
_TOLD_IN = 100_000
"""Characters of a result in which errors are looked for, at its beginning and at its end."""
_FAULTS = 10
_SHOWS = re.compile(
    r"\s*(?:cd\s+\S+\s*(?:&&|;)\s*)?(?:cat|bat|head|tail|less|more|e?grep|rg|ag|ack|sed|awk|ls|find|echo|printf|jq|wc|diff|tree|man|"
    r"git\s+(?:log|show|diff|grep|blame|stash)|lorelog)\b"
)
"""Commands whose output is somebody else's words."""
_REJECTED = "The user doesn't want to proceed with this tool use"
_NO_REASON = re.compile(
    r"^(?:Exit code:? -?\d+|Chunk ID: .*|Wall time: .*|Process exited with .*|Original token count: .*|Output:|"
    r"Command failed.*:|[=_*-]{3,} .* [=_*-]{3,}|Traceback \(most recent call last\):|[\W_]*)$",
    re.IGNORECASE,
)


def deed_of(name: str, given: object) -> Deed:
    """Return what a call with these arguments is to do."""
    given = _parsed(given)
    if isinstance(given, str):
        patched = _patched(given)
        return Deed(name, patched) if patched or name == "apply_patch" else Deed(name)
    if isinstance(given, list):
        given = {"command": given}
    if not isinstance(given, dict):
        return Deed(name)
    command = _command(given)
    files = _patched(command) if "*** Begin Patch" in command else ()
    if not command:
        files = _written(name, given)
    return Deed(name, files, "" if files else command)


def failure_of(text: str, *, failed: bool) -> tuple[bool, str]:
    """Return whether a tool's answer tells of a failure, and the line of it that says why."""
    ended = _EXIT.search(text[:1000])
    failed = failed or bool(ended and ended[1] != "0")
    return failed, _reason(text) if failed else ""


def faults_of(text: str, deed: Deed) -> tuple[FoundTrace, ...]:
    """Return the errors that an answer tells: all of one that failed; of another command those with a place.

    A command may have failed although the last one of its pipe did not. What a command only shows, or another tool reads, was
    somebody's error at another time.
    """
    if not deed.failed and (not deed.command or _SHOWS.match(deed.command)):
        return ()
    if text.startswith(_REJECTED) or deed.error == "rejected by the user":
        return ()
    from lorelog.ingest.stacks import find_traces, may_tell, shortened
    from lorelog.ingest.stacks_messages import said_alone

    text = text if len(text) <= 2 * _TOLD_IN else f"{text[:_TOLD_IN]}\n{text[-_TOLD_IN:]}"
    found = find_traces(text, _FAULTS) if may_tell(text) else []
    if not deed.failed:
        found = [one for one in found if one.trace.frames]
    elif not found and deed.error:
        found = [FoundTrace(said_alone(deed.error), deed.error, 1, 1)]
    return tuple(map(shortened, found))


def _reason(text: str) -> str:
    text = text if len(text) <= 2 * _LOOKED_AT else f"{text[:_LOOKED_AT]}\n{text[-_LOOKED_AT:]}"
    lines = [line.strip() for line in _WRAPPED.sub("", text).splitlines()]
    said = [line for line in lines if line and not _NO_REASON.match(line)]
    if said and said[0].startswith(_REJECTED):
        return "rejected by the user"
    if "Traceback (most recent call last):" in lines and said:
        return said[-1][:ERROR_CHARS]
    found = next((line for line in said if _REASON.search(line)), said[0] if said else "")
    return found[:ERROR_CHARS]


def _parsed(given: object) -> object:
    if isinstance(given, str) and given.lstrip()[:1] in {"{", "["}:
        try:
            parsed: object = json.loads(given)
        except (ValueError, RecursionError):
            return given
        return parsed
    return given


def _command(given: dict[str, Any]) -> str:
    command = given.get("command") or given.get("cmd")
    if isinstance(command, list) and all(isinstance(word, str) for word in command):
        shell = len(command) > 2 and _SHELLS.search(command[0]) and command[1].startswith("-")
        command = command[-1] if shell else " ".join(command)
    further = given.get("args")
    if isinstance(command, str) and isinstance(further, list) and all(isinstance(word, str) for word in further):
        command = " ".join([command, *further])
    if not isinstance(command, str) or command in _EDITOR:
        return ""
    return command if "*** Begin Patch" in command else command[:COMMAND_CHARS]


def _written(name: str, given: dict[str, Any]) -> tuple[str, ...]:
    for key in _PATCHES:
        if isinstance(given.get(key), str) and (patched := _patched(given[key])):
            return patched
    if given.get("command") == "view" or not _WRITES.search(name):
        return ()
    edits = given.get("edits") if isinstance(given.get("edits"), list) else []
    holders = [given, *(edit for edit in edits or () if isinstance(edit, dict))]
    found = (holder.get(key) for holder in holders for key in _PATHS)
    return tuple(dict.fromkeys(path.strip() for path in found if isinstance(path, str) and path.strip()))[:_FILES]


def _patched(text: str) -> tuple[str, ...]:
    found = (next(filter(None, match.groups())).strip() for match in _PATCHED.finditer(text))
    return tuple(dict.fromkeys(found))[:_FILES]
