"""Plumbing that must be right exists once: a second implementation is found here."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "lorelog"
Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(*words: str) -> Iterator[tuple[str, Function]]:
    """Yield every function of the modules that contain one of some words, with the path of its module."""
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text("utf-8")
        if any(word in text for word in words):
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, Function):
                    yield path.relative_to(SOURCE).as_posix(), node


def calls(function: Function) -> Iterator[tuple[str, ast.Call]]:
    """Yield the calls in a function with what they call: `os.open`, `.replace`, `sqlite3.connect`."""
    for node in ast.walk(function):
        if isinstance(node, ast.Call):
            called = node.func
            if isinstance(called, ast.Attribute):
                owner = called.value.id if isinstance(called.value, ast.Name) else ""
                yield (f"{owner}.{called.attr}" if owner in {"os", "sqlite3"} else f".{called.attr}"), node
            elif isinstance(called, ast.Name):
                yield called.id, node


def replaces_what_it_writes(function: Function) -> bool:
    """Return True for a function that creates a file and renames one."""
    writes = renames = False
    for name, call in calls(function):
        names = {node.attr for node in ast.walk(call) if isinstance(node, ast.Attribute)}
        writes |= (name == "os.open" and "O_CREAT" in names) or name in {".write_text", ".write_bytes", ".mkstemp"}
        renames |= name in {"os.replace", "os.rename", "os.link", ".rename"}
        renames |= name == ".replace" and len(call.args) == 1 and not call.keywords  # a text's has two arguments
    return writes and renames


def test_one_module_replaces_files() -> None:
    """A file is written beside its place and renamed by core/atomic_file.py alone."""
    candidates = functions(
        "os.replace(", "os.rename(", "os.link(", ".rename(", ".replace(path)", "temporary.replace(", "O_EXCL"
    )
    found = {name for name, function in candidates if replaces_what_it_writes(function)}

    assert found == set(), "use write_atomic or AtomicFile of core/atomic_file.py"


def test_one_module_connects_to_databases() -> None:
    """SQLite files are opened by core/sqlite_file.py alone."""
    found = {
        name
        for name, function in functions("sqlite3.connect")
        if any(called == "sqlite3.connect" for called, _ in calls(function))
    }

    assert found == {"core/sqlite_file.py"}, "use SqliteFile, connect or connect_readonly"


def test_one_module_starts_git() -> None:
    """Git is started by code/git.py alone, which decides what a repository may do in our process."""
    found = {
        name
        for name, function in functions('"git"')
        for called, call in calls(function)
        if called in {".run", ".Popen", ".check_output", ".call", ".check_call", "run", "Popen"}
        and any(isinstance(node, ast.Constant) and node.value == "git" for node in ast.walk(call))
    }

    assert found == {"code/git.py"}, "use Git or run_git of code/git.py"


def test_logs_are_opened_in_one_module() -> None:
    """Files are opened for appending by core/atomic_file.py, except the spools and logs of processes that may lose a line."""
    found = {
        name
        for name, function in functions("O_APPEND")
        if any(isinstance(node, ast.Attribute) and node.attr == "O_APPEND" for node in ast.walk(function))
    }

    lossy = {"services/traces/recorder.py", "surfaces/daemon/process.py", "surfaces/hook/tool_call.py"}
    assert found - lossy == {"core/atomic_file.py"}, "use AppendLog, append_line or append_lines"
