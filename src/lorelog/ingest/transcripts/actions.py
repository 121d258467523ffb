"""Extract from a tool call the files it writes, the command it runs, and how it failed.

Hosts have different tools and names but similar arguments. So the arguments decide, and the tool's name only where
writing a file must be distinguished from reading it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Any

from lorelog.core.session import FileEdit, LocatedTrace, ToolAction

MAX_ERROR_CHARS = 200
MAX_COMMAND_CHARS = 1000
_MAX_FILES = 20
"""Files of one call that are kept."""
_MAX_REASON_CHARS = 20_000
"""Characters at the start and at the end of a result that are searched for a reason."""
_WRITE_WORDS = ("write", "edit", "patch", "create", "replace", "insert", "notebook", "rename", "move", "delete")
"""Words in the name of a tool that writes files."""
PATH_KEYS = ("file_path", "filePath", "notebook_path", "path", "filename", "file", "target_file")
PATCH_KEYS = ("patch", "patchText", "patch_text", "input", "diff")
_PATCH_FILE_LINE = re.compile(
    r"^\*\*\* (?:Add|Update|Delete) File: (.+)$|^\*\*\* Move to: (.+)$|^\+\+\+ b/(.+)$", re.MULTILINE
)
_PURPOSE_KEYS = ("description", "justification")
_OLD_KEYS, _NEW_KEYS = (
    ("old_string", "oldString", "old_str", "old_text"),
    ("new_string", "newString", "new_str", "new_text", "content", "file_text", "insert_text", "new_source"),
)
_HEREDOC = re.compile(
    r"\b(?:cat|tee)\s+(?:>>?\s*)?([^\s<>|&;'\"]+)\s*<<-?\s*(['\"]?)(\w+)\2\s*\n(.*?)\n\s*\3\b"
    r"|\bcat\s*<<-?\s*(['\"]?)(\w+)\5\s*>>?\s*([^\s<>|&;'\"]+)\s*\n(.*?)\n\s*\6\b",
    re.DOTALL,
)
_MAX_COMPARED = 250_000
"""Lines before by lines after an edit that are compared in order; a larger one is compared as a set."""
_EDITOR_COMMANDS = frozenset({"view", "create", "str_replace", "insert", "undo_edit"})
"""Sub-commands of an editor tool in the argument that other tools use for a shell command."""
_SHELLS = frozenset({"sh", "bash", "zsh", "dash", "fish"})
_EXIT_CODE = re.compile(
    r"^(?:Process exited with code|Exit code:?|exit status|\(exit code) ?(-?\d+)", re.MULTILINE | re.IGNORECASE
)
_WRAPPER_TAG = re.compile(r"</?(?:tool_use_error|error|output|stderr|stdout)>")
_REASON_WORD = re.compile(
    r"error|exception|fail|cannot|can't|not found|no such|denied|refused|unexpected|invalid|undefined|missing|rejected",
    re.IGNORECASE,
)
_MAX_ERROR_SCAN_CHARS = 100_000
"""Characters at the start and at the end of a result that are searched for errors."""
_MAX_ERRORS = 10
_READ_ONLY_COMMAND = re.compile(
    r"\s*(?:cd\s+\S+\s*(?:&&|;)\s*)?(?:cat|bat|head|tail|less|more|e?grep|rg|ag|ack|sed|awk|ls|find|echo|printf|jq|wc|diff|tree|man|"
    r"git\s+(?:log|show|diff|grep|blame|stash)|lorelog)\b"
)
"""Commands that only show text; errors in their output happened elsewhere."""
REJECTION_STARTS = (
    "The user doesn't want to",
    "Permission for this tool use was denied",
    "The user rejected",
    "User rejected",
)
"""How hosts begin to say that the user refused a call."""
REJECTED = "rejected by the user"
"""The error of such a call."""
_NOISE_LINE = re.compile(
    r"^(?:Exit code:? -?\d+|Chunk ID: .*|Wall time: .*|Process exited with .*|Original token count: .*|Output:|"
    r"Command failed.*:|[=_*-]{3,} .* [=_*-]{3,}|Traceback \(most recent call last\):|[\W_]*)$",
    re.IGNORECASE,
)


def parse_arguments(arguments: object) -> object:
    """Return a call's arguments; some hosts store them as JSON in a text."""
    if isinstance(arguments, str) and arguments.lstrip()[:1] in {"{", "["}:
        try:
            parsed: object = json.loads(arguments)
        except (ValueError, RecursionError):
            return arguments
        return parsed
    return arguments


def parse_action(name: str, arguments: object) -> ToolAction:
    arguments = parse_arguments(arguments)
    if isinstance(arguments, str):
        patched = _patched_files(arguments)
        edits = tuple(_patch_edits(arguments)) if patched else ()
        return ToolAction(name, patched, edits=edits) if patched or name == "apply_patch" else ToolAction(name)
    if isinstance(arguments, list):
        arguments = {"command": arguments}
    if not isinstance(arguments, dict):
        return ToolAction(name)
    command = _command_text(arguments)
    files = _patched_files(command) if "*** Begin Patch" in command else ()
    if not command:
        files = _written_files(name, arguments)
    edits = tuple(_edits(arguments, command) if files or command else ())
    purpose = _first_text(arguments, _PURPOSE_KEYS) if command and not files else ""
    opened = "" if command or files or "pattern" in arguments else _first_text(arguments, PATH_KEYS)
    return ToolAction(name, files, "" if files else command, edits=edits, purpose=purpose, opened=opened)


def _first_text(arguments: dict[str, Any], keys: tuple[str, ...]) -> str:
    return next((text for key in keys if isinstance(text := arguments.get(key), str)), "").strip()


def _edits(arguments: dict[str, Any], command: str) -> Iterator[FileEdit]:
    """Yield the lines that a call writes to each file."""
    texts = [command, *(arguments.get(key) for key in PATCH_KEYS)]
    if patch := next((text for text in texts if isinstance(text, str) and _PATCH_FILE_LINE.search(text)), ""):
        yield from _patch_edits(patch)
        return
    if command:
        whole = arguments.get("command") or arguments.get("cmd")
        for match in _HEREDOC.finditer(whole if isinstance(whole, str) else command):
            yield FileEdit(match[1] or match[7], tuple((match[4] or match[8] or "").splitlines()))
        return
    edits = arguments.get("edits")
    path = next((path for key in PATH_KEYS if isinstance(path := arguments.get(key), str)), "")
    for holder in [arguments, *(edit for edit in (edits if isinstance(edits, list) else ()) if isinstance(edit, dict))]:
        old, new = (
            next((text for key in keys if isinstance(text := holder.get(key), str)), "")
            for keys in (_OLD_KEYS, _NEW_KEYS)
        )
        own = next((own for key in PATH_KEYS if isinstance(own := holder.get(key), str)), path)
        if new and own:
            yield FileEdit(own, _added(old.splitlines(), new.splitlines()))


def _patch_edits(patch: str) -> Iterator[FileEdit]:
    file, old, new = "", list[str](), list[str]()
    for line in [*patch.splitlines(), "*** End"]:
        if match := _PATCH_FILE_LINE.match(line) or line.startswith("*** End"):
            if file and new:
                yield FileEdit(file, _added(old, new))
            old, new = ([], []) if match is True or not match[2] else (old, new)  # a file that is moved keeps its hunks
            file = "" if match is True else next(filter(None, match.groups())).strip()
        elif line.startswith("+"):
            new.append(line[1:])
        elif line.startswith("-"):
            old.append(line[1:])


def _added(old: list[str], new: list[str]) -> tuple[str, ...]:
    """Return the lines of a new text that the old one does not have at their place, in order."""
    if not old:
        return tuple(new)
    old_words, new_words = ([" ".join(line.split()) for line in lines] for lines in (old, new))
    if len(old) * len(new) <= _MAX_COMPARED:
        opcodes = SequenceMatcher(None, old_words, new_words, autojunk=False).get_opcodes()
        return tuple(line for tag, _, _, start, end in opcodes if tag != "equal" for line in new[start:end])
    known = set(old_words)
    return tuple(line for line, words in zip(new, new_words, strict=True) if words not in known)


def parse_failure(text: str, *, failed: bool) -> tuple[bool, str]:
    """Return whether a tool's result reports a failure, and the line with the reason."""
    exit_code = _EXIT_CODE.search(text[:1000])
    failed = failed or bool(exit_code and exit_code[1] != "0")
    return failed, _find_reason(text) if failed else ""


def extract_errors(text: str, action: ToolAction) -> tuple[LocatedTrace, ...]:
    """Return the errors in a result: all if the action failed, else only those of a command with a location.

    A command may have failed although the last part of its pipe succeeded. Errors in text that a command only shows, or
    that another tool reads, happened at another time.
    """
    if not action.failed and (not action.command or _READ_ONLY_COMMAND.match(action.command)):
        return ()
    if text.startswith(REJECTION_STARTS) or action.error == REJECTED:
        return ()
    from lorelog.ingest.tracebacks.blocks import message_trace
    from lorelog.ingest.tracebacks.finder import find_traces, shorten_trace

    text = _keep_ends(text, _MAX_ERROR_SCAN_CHARS)
    traces = find_traces(text, _MAX_ERRORS)
    if not action.failed:
        traces = [located for located in traces if located.trace.frames]
    elif not traces and action.error:
        traces = [LocatedTrace(message_trace(action.error), action.error, 1, 1)]
    return tuple(map(shorten_trace, traces))


def _keep_ends(text: str, size: int) -> str:
    return text if len(text) <= 2 * size else f"{text[:size]}\n{text[-size:]}"


def _find_reason(text: str) -> str:
    lines = [line.strip() for line in _WRAPPER_TAG.sub("", _keep_ends(text, _MAX_REASON_CHARS)).splitlines()]
    candidates = [line for line in lines if line and not _NOISE_LINE.match(line)]
    if not candidates:
        return ""
    if candidates[0].startswith(REJECTION_STARTS):
        return REJECTED
    if "Traceback (most recent call last):" in lines:
        return candidates[-1][:MAX_ERROR_CHARS]
    return next((line for line in candidates if _REASON_WORD.search(line)), candidates[0])[:MAX_ERROR_CHARS]


def _command_text(arguments: dict[str, Any]) -> str:
    command = arguments.get("command") or arguments.get("cmd")
    if isinstance(command, list) and all(isinstance(word, str) for word in command):
        shell = len(command) > 2 and command[0].rpartition("/")[2] in _SHELLS and command[1].startswith("-")
        command = command[-1] if shell else " ".join(command)
    words = arguments.get("args")
    if isinstance(command, str) and isinstance(words, list) and all(isinstance(word, str) for word in words):
        command = " ".join([command, *words])
    if not isinstance(command, str) or command in _EDITOR_COMMANDS:
        return ""
    return command if "*** Begin Patch" in command else command[:MAX_COMMAND_CHARS]


def _written_files(name: str, arguments: dict[str, Any]) -> tuple[str, ...]:
    for key in PATCH_KEYS:
        if isinstance(arguments.get(key), str) and (patched := _patched_files(arguments[key])):
            return patched
    if arguments.get("command") == "view" or not any(word in name.lower() for word in _WRITE_WORDS):
        return ()
    edits = arguments.get("edits") if isinstance(arguments.get("edits"), list) else []
    holders = [arguments, *(edit for edit in edits or () if isinstance(edit, dict))]
    paths = (holder.get(key) for holder in holders for key in PATH_KEYS)
    return tuple(dict.fromkeys(path.strip() for path in paths if isinstance(path, str) and path.strip()))[:_MAX_FILES]


def _patched_files(text: str) -> tuple[str, ...]:
    paths = (next(filter(None, match.groups())).strip() for match in _PATCH_FILE_LINE.finditer(text))
    return tuple(dict.fromkeys(paths))[:_MAX_FILES]
