"""Properties of tracebacks: equal errors have equal signatures, different ones differ, and nothing raises."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples

from lorelog.core.session import StackFrame, StackTrace
from lorelog.ingest.tracebacks.finder import (
    clean_line,
    find_traces,
    normalize_message,
    parse_log_line,
    trace_family,
    trace_signature,
)

_NAME = st.from_regex(r"[a-z][a-z_]{2,12}", fullmatch=True)
_TYPE = st.sampled_from(["ValueError", "KeyError", "TypeError", "RuntimeError", "app.errors.NotThere"])
_NUMBER = st.integers(1, 99_999)
_FOLDER = st.lists(_NAME, min_size=1, max_size=4).map(lambda names: "/" + "/".join(names))
_FUNCTIONS = st.lists(_NAME, min_size=1, max_size=6)
_PIECES = [
    "Traceback (most recent call last):", '  File "/a/b.py", line 3, in f', "    x()", "ValueError: bad 17", "",
    "The above exception was the direct cause of the following exception:", "  + Exception Group Traceback (most recent call last):",
    "  | ValueError: 1", "  +-+---------------- 1 ----------------", "    +------------------------------------",
    "Error: x", "    at f (/a.js:1:2)", "\tat com.x.A.b(A.java:3)", "Caused by: java.lang.Error: y", "\t... 12 more", "}",
    "thread 'main' panicked at src/main.rs:4:5:", "stack backtrace:", "   0: app::f", "             at ./a.rs:1:2", "note: run with",
    "panic: boo", "goroutine 1 [running]:", "main.f(0x1)", "\t/a.go:1 +0x1", "E       assert 1 == 2", "tests/x.py:12: AssertionError",
    "error[E0308]: mismatched", "  --> src/main.rs:4:5", "Caused by:", "    0: z", '{"level":"error","msg":"boom"}', "{", '{"stack": 3}',
    "2026-11-15 10:00:01,123 ERROR [w] a: failed", "app_1  | ", "\x1b[31m", "\ud800", "\0", "--- FAIL: T", "____ test ____", "at ",
]  # fmt: skip


def python(kind: str, message: str, functions: list[str], folder: str, line: int) -> str:
    frames = "".join(
        f'  File "{folder}/{name}.py", line {line + number}, in {name}\n    {name}()\n'
        for number, name in enumerate(functions)
    )
    return f"Traceback (most recent call last):\n{frames}{kind}: {message}\n"


def javascript(kind: str, message: str, functions: list[str], folder: str, line: int) -> str:
    return f"{kind}: {message}\n" + "".join(
        f"    at {name} ({folder}/{name}.js:{line}:{line + 3})\n" for name in reversed(functions)
    )


def java(kind: str, message: str, functions: list[str], folder: str, line: int) -> str:
    return f"java.lang.{kind.rpartition('.')[2]}: {message}\n" + "".join(
        f"\tat com.x.A.{name}(A.java:{line})\n" for name in reversed(functions)
    )


def go(kind: str, message: str, functions: list[str], folder: str, line: int) -> str:
    frames = "".join(
        f"main.{name}(0xc{line:08x}, {{0x{line:x}, 0x2}})\n\t{folder}/{name}.go:{line} +0x{line:x}\n"
        for name in reversed(functions)
    )
    return f"panic: {kind}: {message}\n\ngoroutine {line} [running]:\n{frames}"


def rust(kind: str, message: str, functions: list[str], folder: str, line: int) -> str:
    frames = "".join(
        f"   {number}: app::{name}\n             at {folder}/{name}.rs:{line}:{line}\n"
        for number, name in enumerate(reversed(functions))
    )
    return (
        f"thread 'main' panicked at {folder}/main.rs:{line}:5:\n{kind}: {message}\nstack backtrace:\n{frames}note: x\n"
    )


_PRINTERS = st.sampled_from([python, javascript, java, go, rust])


def only(text: str) -> StackTrace:
    (located,) = find_traces(text)
    return located.trace


@given(_PRINTERS, _TYPE, _NAME, _FUNCTIONS, st.tuples(_FOLDER, _NUMBER, _NUMBER), st.tuples(_FOLDER, _NUMBER, _NUMBER))
def test_the_same_error_has_the_same_signature(printer, kind, name, functions, first, second) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
    """Line numbers, addresses, folders and numbers in the message do not change the signature."""
    signs = {
        trace_signature(
            only(
                printer(
                    kind, f"no {name} at 0x{number:08x} in '{folder}/x.db' after {line} ms", functions, folder, line
                )
            )
        )
        for folder, line, number in (first, second)
    }
    assert len(signs) == 1


@given(_PRINTERS, _TYPE, st.tuples(_NAME, _NAME), _FUNCTIONS, _FOLDER, _NUMBER)
def test_another_error_has_another_signature(printer, kind, names, functions, folder, line) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
    """Another name in the message, another function or another type changes the signature."""
    signature = trace_signature(only(printer(kind, f"no {names[0]} here", functions, folder, line)))
    assert (signature == trace_signature(only(printer(kind, f"no {names[1]} here", functions, folder, line)))) == (
        names[0] == names[1]
    )
    assert signature != trace_signature(
        only(printer(kind, f"no {names[0]} here", [*functions[:-1], functions[-1] + "x"], folder, line))
    )
    assert signature != trace_signature(only(printer("OtherError", f"no {names[0]} here", functions, folder, line)))


@given(_PRINTERS, _TYPE, _NAME, _FUNCTIONS, _FOLDER, _NUMBER)
def test_every_frame_is_read_innermost_first(printer, kind, name, functions, folder, line) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
    """The functions of a stack are returned innermost first, whichever end the language prints first."""
    trace = only(printer(kind, f"no {name}", functions, folder, line))
    assert [frame.function.rpartition(".")[2].rpartition(":")[2] for frame in trace.frames] == functions[::-1]


@given(_TYPE, st.integers(1, 500), st.integers(1, 500))
def test_the_depth_of_a_recursion_does_not_matter(kind: str, first: int, second: int) -> None:
    """A recursive function counts once, whatever its depth."""
    signs = {
        trace_signature(StackTrace("python", kind, "deep", (StackFrame("f"),) * depth + (StackFrame("main"),)))
        for depth in (first, second)
    }
    assert len(signs) == 1


@given(st.text(max_size=300) | st.text(alphabet="abc '\"/\\.:#<>0123456789-x()[]{}~\n\t_", max_size=200))
def test_normalising_twice_changes_nothing(message: str) -> None:
    """Normalising a message is idempotent."""
    assert normalize_message(normalize_message(message)) == normalize_message(message)


@given(_TYPE, st.text(max_size=100))
def test_a_type_counts_without_its_package_among_kin(kind: str, message: str) -> None:
    """One line of an error has the same family as the whole error, whatever the package of its type."""
    bare = kind.rpartition(".")[2]
    assert trace_family(StackTrace("python", f"pkg.{bare}", message)) == trace_family(
        StackTrace("generic", bare, message)
    )


@pytest.mark.slow
@settings(max_examples=examples(300))
@given(st.lists(st.sampled_from(_PIECES) | st.text(max_size=40), max_size=40), st.integers(0, 1000))
def test_no_text_is_too_odd(lines: list[str], seed: int) -> None:
    """Any lines in any order are read without an error, with valid line numbers and a repeatable result."""
    random.Random(seed).shuffle(lines)
    text = "\n".join(lines)
    traces = find_traces(text)
    count = text.count("\n") + 1
    assert all(1 <= located.first_line <= located.last_line <= count for located in traces)
    assert traces == find_traces(text)
    for located in traces:
        assert trace_signature(located.trace)
        assert len(located.trace.message) <= 2_000


@given(st.text(max_size=200))
def test_every_line_comes_apart(line: str) -> None:
    """The body of a parsed line is part of the line."""
    apart = parse_log_line(clean_line(line))
    assert line.rstrip("\r\n").endswith(apart.body) or "\x1b" in line
