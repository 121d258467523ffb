"""Files, commands and failures of tool calls."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from lorelog.core.session import ToolAction
from lorelog.ingest.transcripts.actions import parse_action, parse_failure

PATCH = "*** Begin Patch\n*** Add File: a.py\n+x\n*** Update File: b/c.py\n*** Move to: b/d.py\n*** End Patch"


@pytest.mark.parametrize(
    ("name", "given_", "files", "command"),
    [
        ("Edit", {"file_path": "/x/a.py", "old_string": "a"}, ("/x/a.py",), ""),
        ("MultiEdit", {"edits": [{"file_path": "a.py"}, {"file_path": "b.py"}]}, ("a.py", "b.py"), ""),
        ("NotebookEdit", {"notebook_path": "n.ipynb"}, ("n.ipynb",), ""),
        ("write", {"filePath": "a.ts", "content": "x"}, ("a.ts",), ""),
        ("Read", {"file_path": "/x/a.py"}, (), ""),
        ("Bash", {"command": "make test", "description": "d"}, (), "make test"),
        ("exec_command", '{"cmd": "ls /x"}', (), "ls /x"),
        ("shell", {"command": ["bash", "-lc", "make test"]}, (), "make test"),
        ("shell", {"command": ["git", "push"]}, (), "git push"),
        ("pty_spawn", {"command": "moon", "args": ["run", "core:start"]}, (), "moon run core:start"),
        ("shell", {"command": ["bash", "-lc", f"apply_patch <<'E'\n{PATCH}\nE"]}, ("a.py", "b/c.py", "b/d.py"), ""),
        ("apply_patch", PATCH, ("a.py", "b/c.py", "b/d.py"), ""),
        ("apply_patch", {"input": PATCH}, ("a.py", "b/c.py", "b/d.py"), ""),
        ("patch", {"patchText": "--- a/x\n+++ b/x/y.go\n"}, ("x/y.go",), ""),
        ("str_replace_based_edit_tool", {"command": "view", "path": "a.py"}, (), ""),
        ("str_replace_based_edit_tool", {"command": "create", "path": "a.py"}, ("a.py",), ""),
        ("Grep", {"pattern": "x", "path": "src"}, (), ""),
    ],
)
def test_files_and_commands_are_found(name: str, given_: Any, files: tuple[str, ...], command: str) -> None:
    """For every host's tools, written files but not read ones are found, and the command as typed."""
    found = parse_action(name, given_)
    assert replace(found, edits=(), purpose="", opened="") == ToolAction(name, files, command)


@pytest.mark.parametrize(
    ("name", "given_", "purpose", "opened"),
    [
        ("Bash", {"command": "make test", "description": "Run tests"}, "Run tests", ""),
        ("exec_command", '{"cmd": "make", "justification": "needs the network"}', "needs the network", ""),
        ("Read", {"file_path": "/x/a.py"}, "", "/x/a.py"),
        ("Grep", {"pattern": "x", "path": "src"}, "", ""),
        ("Write", {"file_path": "a.py", "content": "x", "description": "d"}, "", ""),
    ],
)
def test_purposes_and_read_files_are_found(name: str, given_: Any, purpose: str, opened: str) -> None:
    """What an agent said that a command is for is found, and the file that a call reads."""
    action = parse_action(name, given_)
    assert (action.purpose, action.opened) == (purpose, opened)


@pytest.mark.parametrize(
    ("name", "given_", "edits"),
    [
        ("Write", {"file_path": "a.py", "content": "x\ny\n"}, [("a.py", ("x", "y"))]),
        (
            "Edit",
            {"file_path": "a.py", "old_string": "a\nb", "new_string": "if c:\n  a\n  d\n  b"},
            [("a.py", ("if c:", "  d"))],
        ),
        ("Edit", {"file_path": "a.py", "old_string": "a\nb", "new_string": "b\na"}, [("a.py", ("b",))]),
        (
            "MultiEdit",
            {
                "file_path": "a.py",
                "edits": [{"old_string": "a", "new_string": "b"}, {"old_string": "c", "new_string": "d"}],
            },
            [("a.py", ("b",)), ("a.py", ("d",))],
        ),
        ("create", {"path": "a.ts", "file_text": "x"}, [("a.ts", ("x",))]),
        (
            "apply_patch",
            "*** Begin Patch\n*** Update File: a.py\n*** Move to: b.py\n@@\n-x\n+y\n+z\n*** Add File: c.py\n+w\n*** End Patch",
            [("b.py", ("y", "z")), ("c.py", ("w",))],
        ),
        ("Bash", {"command": "cat > a.sh <<'EOF'\nset -e\nmake\nEOF\nchmod +x a.sh"}, [("a.sh", ("set -e", "make"))]),
        ("Bash", {"command": "cat << END >> a.txt\nx\nEND"}, [("a.txt", ("x",))]),
        ("Read", {"file_path": "a.py", "content": "x"}, []),
        ("Bash", {"command": "cat a.py"}, []),
    ],
)
def test_the_lines_that_a_call_writes_are_found(name: str, given_: Any, edits: list[Any]) -> None:
    """For every host's tools, the lines that a call adds to a file are found, without those it left where they were."""
    assert list(parse_action(name, given_).edits) == edits


@pytest.mark.parametrize(
    ("text", "failed", "expected"),
    [
        ("Exit code 2\nls: cannot access 'x': No such file", True, (True, "ls: cannot access 'x': No such file")),
        (
            "Chunk ID: 1\nWall time: 0.1 seconds\nProcess exited with code 1\nOutput:\nboom failed\n",
            False,
            (True, "boom failed"),
        ),
        ("Process exited with code 0\nOutput:\nerror: none", False, (False, "")),
        ("Traceback (most recent call last):\n  File x\nKeyError: 'a'", True, (True, "KeyError: 'a'")),
        ("<tool_use_error>File has not been read yet</tool_use_error>", True, (True, "File has not been read yet")),
        ("collected 3 items\n\n3 passed, 1 failed", True, (True, "3 passed, 1 failed")),
        (
            "The user doesn't want to proceed with this tool use. The tool use was rejected",
            True,
            (True, "rejected by the user"),
        ),
        ("Permission for this tool use was denied. The user said:\nno", True, (True, "rejected by the user")),
        ("all is well", False, (False, "")),
        ("", True, (True, "")),
    ],
)
def test_the_line_that_says_why_is_found(text: str, failed: bool, expected: tuple[bool, str]) -> None:  # noqa: FBT001
    """Exit codes reveal failures that hosts do not mark, and the line with the reason is kept."""
    assert parse_failure(text, failed=failed) == expected


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["command", "cmd", "path", "edits", "input", "args", "x"]), inner, max_size=4)
    ),
    max_leaves=10,
)


@given(name=st.text(max_size=20), given_=JSON, as_text=st.booleans(), result=st.text(max_size=200))
def test_nothing_that_a_host_writes_is_too_odd(name: str, given_: Any, as_text: bool, result: str) -> None:  # noqa: FBT001
    """Any arguments and any result are accepted."""
    deed = parse_action(name, json.dumps(given_) if as_text else given_)
    assert isinstance(deed.command, str)
    assert all(isinstance(path, str) and path for path in deed.files)
    failed, why = parse_failure(result, failed=True)
    assert failed
    assert "\n" not in why
