"""Tool calls of all hosts are read into one form."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorelog.hosts import HOSTS, host_adapter
from lorelog.hosts.tool_calls import MAX_TEXT_CHARS, build_call

FIELDS = {"id", "tool", "kind", "paths", "command", "content", "output", "failed"}
PATCH = "*** Begin Patch\n*** Update File: src/db.py\n\n-a\n+b = 1\n*** Add File: new.py\n+x\n*** End Patch\n"


@pytest.mark.parametrize(
    ("tool", "inputs", "kind", "paths"),
    [
        ("Bash", {"command": "npm install"}, "run", []),
        ("Edit", {"file_path": "/p/a.py", "old_string": "a", "new_string": "b"}, "edit", ["/p/a.py"]),
        ("MultiEdit", {"file_path": "/p/a.py", "edits": [{"new_string": "b"}]}, "edit", ["/p/a.py"]),
        ("Write", {"file_path": "/p/a.py", "content": "x"}, "edit", ["/p/a.py"]),
        ("NotebookEdit", {"notebook_path": "/p/a.ipynb", "new_source": "x"}, "edit", ["/p/a.ipynb"]),
        ("Read", {"file_path": "/p/a.py"}, "read", ["/p/a.py"]),
        ("Grep", {"pattern": "x", "path": "src"}, "search", ["src"]),
        ("Glob", {"pattern": "**/*.py"}, "search", []),
        ("Task", {"prompt": "look around"}, "other", []),
        ("write", {"filePath": "/p/a.py", "content": "x"}, "edit", ["/p/a.py"]),
        ("edit", {"path": "/p/a.py", "edits": [{"oldText": "a", "newText": "b"}]}, "edit", ["/p/a.py"]),
        ("exec", {"command": "ls"}, "run", []),
        ("apply_patch", {"input": PATCH}, "edit", ["src/db.py", "new.py"]),
        ("Bash", {"command": f"apply_patch <<'EOF'\n{PATCH}EOF"}, "edit", ["src/db.py", "new.py"]),
        ("shell", {"command": ["bash", "-lc", "make test"]}, "run", []),
        ("mcp__files__write_file", {"path": "/p/a.py", "content": "x"}, "edit", ["/p/a.py"]),
        ("mcp__files__stat", {"path": "/p/a.py"}, "read", ["/p/a.py"]),
        ("mcp__run__start", {"command": "make"}, "run", []),
        ("mcp__web__get", {"path": "https://example.org/x"}, "other", []),
        ("Bash", {"command": "echo x > out.txt 2>/dev/null"}, "run", ["out.txt"]),
        ("Bash", {"command": "echo x >>log/out.txt"}, "run", ["log/out.txt"]),
        ("Bash", {"command": "make 2>&1"}, "run", []),
    ],
)
def test_a_tool_has_a_kind_and_its_files(tool: str, inputs: dict[str, Any], kind: str, paths: list[str]) -> None:
    """Each tool's kind and files are recognised, by its name or by its fields."""
    call = build_call(tool, inputs)

    assert (call["kind"], call["paths"]) == (kind, paths)


def test_a_script_of_a_shell_is_the_command() -> None:
    """A shell with a script runs the script; other words are joined."""
    assert build_call("shell", {"command": ["bash", "-lc", "make test"]})["command"] == "make test"
    assert build_call("shell", {"command": ["git", "commit", "-m", "x"]})["command"] == "git commit -m x"


def test_written_text_is_kept() -> None:
    """The text that a call writes is its content; that of a patch is its added lines."""
    assert build_call("Write", {"file_path": "a", "content": "x = 1"})["content"] == "x = 1"
    assert (
        build_call("MultiEdit", {"file_path": "a", "edits": [{"new_string": "b"}, {"new_string": "c"}]})["content"]
        == "b\nc"
    )
    assert build_call("apply_patch", {"input": PATCH})["content"] == "b = 1\nx"
    assert build_call("Bash", {"command": f"apply_patch <<'EOF'\n{PATCH}EOF"})["command"] == ""


def test_huge_inputs_are_cut() -> None:
    """Commands, texts, outputs and lists of files have a limit; the end of an output is kept."""
    huge = "x" * 5_000_000
    call = build_call("Write", {"file_path": "a", "content": huge, "command": huge}, output=huge + "the end")
    assert max(len(call[name]) for name in ("command", "content", "output")) <= MAX_TEXT_CHARS
    assert call["output"].endswith("the end")
    assert len(build_call("x", {"paths": [f"{n}.py" for n in range(10_000)]})["paths"]) <= 50
    assert build_call("Read", {"file_path": huge})["paths"] == []


def test_claude_tells_of_failed_calls() -> None:
    """A failed call of Claude Code has its error as output; an interrupted one did not fail."""
    read = host_adapter("claude").read_tool_call
    payload = {"tool_name": "Bash", "tool_input": {"command": "make"}, "tool_use_id": "t1", "agent_id": "a1"}
    call = read({**payload, "error": "Exit code 2\nboom", "is_interrupt": False})

    assert (call["id"], call["failed"], call["output"], call["agent"]) == ("t1", True, "Exit code 2\nboom", "a1")
    assert read({**payload, "error": "stopped", "is_interrupt": True})["failed"] is False
    assert read({**payload, "tool_response": {"stdout": "Error: x", "stderr": ""}})["failed"] is False
    assert read(payload)["failed"] is False


def test_codex_failures_are_recognised_by_their_output() -> None:
    """Codex reports no exit status: the usual marks of an error count as a failure."""
    read = host_adapter("codex").read_tool_call
    payload = {"tool_name": "Bash", "tool_input": {"command": "make"}, "tool_use_id": "c1"}

    assert read({**payload, "tool_response": "ls: cannot access 'x': No such file or directory\n"})["failed"] is True
    assert read({**payload, "tool_response": "hi\n"})["failed"] is False
    assert read(payload)["failed"] is False


@pytest.mark.parametrize("host", ["opencode", "openclaw"])
def test_our_plugins_send_calls(host: str) -> None:
    """Our plugins send tool, call, input, output and whether the call failed."""
    payload = {"tool": "bash", "call": "c", "input": {"command": "make"}, "output": "boom", "failed": True}
    call = host_adapter(host).read_tool_call(payload)

    assert (call["id"], call["tool"], call["kind"], call["command"]) == ("c", "bash", "run", "make")
    assert (call["output"], call["failed"]) == ("boom", True)


@pytest.mark.parametrize("host", ["claude", "codex"])
def test_a_blocked_call_is_denied(host: str) -> None:
    """A block is the host's denial with its reason; a warning is context."""
    answer = host_adapter(host).answer
    denied = answer("tool-before", "", "", {"action": "block", "message": "no npm"})["hookSpecificOutput"]

    assert denied == {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": "no npm"}
    warned = answer("tool-before", "careful", "", {"action": "warn", "message": "careful"})["hookSpecificOutput"]
    assert warned == {"hookEventName": "PreToolUse", "additionalContext": "careful"}
    assert answer("tool-before", "", "") == {}


@pytest.mark.parametrize("host", ["opencode", "openclaw"])
def test_our_plugins_are_told_of_a_block(host: str) -> None:
    """Our plugins get the reason of a block by name."""
    answer = host_adapter(host).answer
    assert answer("tool-before", "", "", {"action": "block", "message": "no npm"}) == {"block": "no npm"}
    assert answer("tool-before", "x", "", {"action": "warn", "message": "x"}) == {"context": "x"}


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
names = st.sampled_from(
    (
        *("tool_name", "tool_input", "tool_response", "error", "tool_use_id", "is_interrupt", "agent_id"),
        *("tool", "call", "input", "output", "failed", "command", "file_path", "paths", "edits", "content"),
    )
)
payloads = st.dictionaries(names, values | st.dictionaries(names, values, max_size=5), max_size=6)


@given(host=st.sampled_from(HOSTS), payload=payloads)
def test_any_payload_becomes_a_call(host: str, payload: dict[str, Any]) -> None:
    """Whatever a host sends, the call has the same fields with the same types."""
    call = host_adapter(host).read_tool_call(payload)

    assert set(call) == FIELDS | {"agent"}
    assert call["kind"] in {"edit", "read", "run", "search", "other"}
    assert all(isinstance(path, str) and path for path in call["paths"])
    assert all(isinstance(call[name], str) for name in ("id", "tool", "command", "content", "output", "agent"))
    assert isinstance(call["failed"], bool)
    json.dumps(call)
