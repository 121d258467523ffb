"""Tool calls of all hosts in one form: which tool, which kind of work, which files, which command, which text.

Hosts and their versions name fields differently, and tools of MCP servers have any name. A known tool's kind comes from
a table; that of any other tool from the fields it was given. Inputs may be huge, so every text is cut. Nothing here
raises: an unknown shape gives a call with fewer fields. Standard library's cheap modules only, because a hook loads it
before every tool call.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

MAX_TEXT_CHARS = 20_000
"""Characters of a command, of written text and of output."""
_MAX_PATHS = 50
_MAX_PATH_CHARS = 4_096
_MAX_EDITS = 100
_MAX_WORDS = 200

_TOOLS = {
    "run": "bash shell exec execute exec_command local_shell powershell terminal run_shell_command",
    "edit": "edit replace create multiedit write notebookedit apply_patch patch multi_edit file_write write_file",
    "read": "read notebookread view_image read_file read_many_files view file_fetch",
    "search": "grep grep_search list_directory glob ls list",
    "other": "task agent todowrite skill webfetch websearch",
}
_KINDS = {tool: kind for kind, tools in _TOOLS.items() for tool in tools.split()}
"""Kinds of the hosts' own tools, by lower-case name."""
EVERYDAY_TOOLS = frozenset({"mcp", *_KINDS})
_PATH_FIELDS = ("file_path", "filePath", "notebook_path", "path", "file", "filename", "target_file")
_PATH_LIST_FIELDS = ("paths", "files", "file_paths", "derived_paths")
_COMMAND_FIELDS = ("command", "cmd", "script")
_CONTENT_FIELDS = (
    "content",
    "new_text",
    "new_string",
    "newString",
    "newText",
    "new_source",
    "text",
    "file_text",
    "new_str",
)
_PATCH_FIELDS = ("input", "patch", "patchText", "command", "cmd")
_PATCH_START = "*** Begin Patch"
_PATCH_HEADINGS = ("*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: ")
_FAILURE_MARKS = (
    "Traceback (most recent call last)",
    "rror:",
    "rror[",
    "xception",
    "FAILED",
    "FAIL:",
    "--- FAIL",
    "failed",
    "fatal:",
    "panic:",
    "command not found",
    "No such file or directory",
    "Permission denied",
    "npm ERR!",
)


def build_call(
    tool: str, inputs: object, *, call_id: str = "", output: object = "", failed: bool = False
) -> dict[str, Any]:
    fields: Mapping[str, Any] = inputs if isinstance(inputs, dict) else {}
    command = _command(fields)
    texts = (fields.get(name) for name in _PATCH_FIELDS)
    patch = next((text for text in (*texts, command) if isinstance(text, str) and _PATCH_START in text), "")
    lines = patch.split("\n")
    patched = [
        line[len(heading) :].strip() for line in lines for heading in _PATCH_HEADINGS if line.startswith(heading)
    ]
    paths = list(dict.fromkeys([*(path for name in patched for path in _valid_paths(name)), *_named_paths(fields)]))
    kind = _KINDS.get(tool.lower(), "")
    if not kind:
        writes = "edits" in fields or any(name in fields for name in _CONTENT_FIELDS)
        kind = "run" if command else "other" if not paths else "edit" if writes else "read"
    if kind == "run":
        if patch and command.lstrip().startswith("apply_patch"):
            kind = "edit"
        else:
            paths += [path for path in _redirected_paths(command) if path not in paths]
    added = "\n".join(line[1:] for line in lines if line.startswith("+"))
    return {
        "id": call_id,
        "tool": tool[:200],
        "kind": kind,
        "paths": paths[:_MAX_PATHS],
        "command": "" if patch and kind == "edit" else command[:MAX_TEXT_CHARS],
        "content": (added if patch else _content(fields))[:MAX_TEXT_CHARS],
        "output": cut_output(output_text(output)),
        "failed": failed,
    }


def output_text(value: object, depth: int = 0) -> str:
    """Return the text of a tool's result, whatever its shape."""
    if isinstance(value, str):
        return value
    if depth > 4:
        return ""
    if isinstance(value, list):
        return "\n".join(filter(None, (output_text(part, depth + 1) for part in value[:_MAX_EDITS])))
    if isinstance(value, dict):
        names = ("stdout", "stderr", "error", "text", "output", "content", "message")
        return "\n".join(filter(None, (output_text(value.get(name), depth + 1) for name in names)))
    return ""


def cut_output(text: str) -> str:
    """Return a text without its middle if it is long: errors are named at the end, and the cause at the beginning."""
    if len(text) <= MAX_TEXT_CHARS:
        return text
    head = MAX_TEXT_CHARS // 5
    return f"{text[:head]}\n…\n{text[-(MAX_TEXT_CHARS - head - 3) :]}"


def exit_failed(result: object) -> bool:
    """Return True if a tool's result says that it failed."""
    if not isinstance(result, dict):
        return False
    if any(result.get(name) is True for name in ("is_error", "isError", "interrupted", "timed_out")):
        return True
    codes = (result.get(name) for name in ("exit_code", "exitCode", "exit", "returncode"))
    return any(isinstance(code, int) and not isinstance(code, bool) and code != 0 for code in codes)


def names_exit_code(text: object) -> bool:
    """Return True if output says that a command ended with a status other than 0."""
    if not isinstance(text, str):
        return False
    for line in (*text[:2000].split("\n"), *text[-2000:].split("\n")):
        before, found, status = line.lower().partition("exit code")
        digits = status.strip(" :>)")
        if found and digits.lstrip("-").isdigit() and digits != "0" and (not before or before.startswith("<shellid")):
            return True
    return False


def looks_failed(text: str) -> bool:
    """Return True if output contains a usual mark of an error, for hosts that report no exit status."""
    return any(mark in text for mark in _FAILURE_MARKS)


def _command(fields: Mapping[str, Any]) -> str:
    for name in _COMMAND_FIELDS:
        value = fields.get(name)
        if isinstance(value, str) and value:
            return value
        if isinstance(value, list) and value and all(isinstance(word, str) for word in value[:_MAX_WORDS]):
            words = value[:_MAX_WORDS]
            # A shell with its script as the last word: the script is the command.
            is_script = (
                len(words) >= 3 and words[0].rpartition("/")[2] in {"bash", "sh", "zsh"} and words[1].startswith("-")
            )
            return words[-1] if is_script else " ".join(words)
    return ""


def _named_paths(fields: Mapping[str, Any]) -> Iterator[str]:
    for name in _PATH_FIELDS:
        yield from _valid_paths(fields.get(name))
    for name in _PATH_LIST_FIELDS:
        values = fields.get(name)
        for value in values[:_MAX_PATHS] if isinstance(values, list) else ():
            yield from _valid_paths(value.get("path") if isinstance(value, dict) else value)


def _valid_paths(value: object) -> Iterator[str]:
    if (
        isinstance(value, str)
        and value
        and len(value) <= _MAX_PATH_CHARS
        and value.isprintable()
        and "://" not in value
    ):
        yield value


def _redirected_paths(command: str) -> Iterator[str]:
    """Yield the files that the first line of a command writes by redirection."""
    words = command.partition("\n")[0].split()[:_MAX_WORDS]
    for index, word in enumerate(words):
        target = word.lstrip("12&").lstrip(">") if ">" in word[:3] else None
        if target == "" and index + 1 < len(words):
            target = words[index + 1]
        if target and not target.startswith(("&", "/dev/", "(", ">")):
            yield from _valid_paths(target.strip("'\";"))


def _content(fields: Mapping[str, Any]) -> str:
    texts = [fields[name] for name in _CONTENT_FIELDS if isinstance(fields.get(name), str)]
    edits = fields.get("edits")
    for edit in edits[:_MAX_EDITS] if isinstance(edits, list) else ():
        if isinstance(edit, dict):
            texts += [edit[name][:MAX_TEXT_CHARS] for name in _CONTENT_FIELDS if isinstance(edit.get(name), str)]
    return "\n".join(text[:MAX_TEXT_CHARS] for text in texts)
