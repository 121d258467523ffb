"""Errors are traces in logs: with prefixes, interleaved, in JSON, and with their time."""

from __future__ import annotations

import pytest

from lorelog.ingest.tracebacks.finder import find_traces

STACK = ("Traceback (most recent call last):", '  File "/a.py", line 3, in f', "    g()", "KeyError: 'a'")


def summed(text: str) -> list[tuple[str, str, int]]:
    """Return type, message and number of frames of each error."""
    return [(trace.trace.type, trace.trace.message, len(trace.trace.frames)) for trace in find_traces(text)]


@pytest.mark.parametrize(
    "prefix",
    [
        "2026-11-15 10:00:01,123 ERROR [worker-3] app.core: ",
        "2026-11-15T10:00:01.123Z ERROR app.core - ",
        "[2026-11-15 10:00:01] ",
        "10:00:01.123 [main] ERROR com.x.Foo - ",
        "app_1  | ",
        "web-1 | 2026-11-15 10:00:01 ",
        "2026-11-15T10:00:01.123456789Z stderr F ",
        "Nov 15 10:00:01 host app[12]: ",
        "build\tRun tests\t2026-11-15T10:00:01.1234567Z ",
        "2026-11-15T10:00:01.1234567Z ",
        "ERROR:root:",
        "[lint:go] ",
        "E1115 10:00:01.123456   123 file.py:12] ",
    ],
)
def test_log_prefixes_are_not_part_of_an_error(prefix: str) -> None:
    """A stack is read the same with any log prefix."""
    assert summed("\n".join(prefix + line for line in STACK)) == [("KeyError", "'a'", 1)]


def test_a_stack_without_prefixes_is_read_between_lines_that_have_them() -> None:
    """Lines of another thread do not break a stack, and its announcement is not counted separately."""
    log = [
        "2026-11-15 10:00:01,123 ERROR [worker-3] app.core: failed to do 17",
        STACK[0],
        "2026-11-15 10:00:01,124 INFO [worker-4] app.core: an error budget of 3",
        *STACK[1:3],
        "2026-11-15 10:00:01,125 WARN [worker-4] app.core: still here",
        STACK[3],
        "2026-11-15 10:00:02,123 ERROR [worker-3] app.core: another problem",
    ]
    assert summed("\n".join(log)) == [("KeyError", "'a'", 1), ("", "another problem", 0)]


def test_lines_of_two_containers_are_two_texts() -> None:
    """Two stacks of different containers interleaved line by line are both read."""
    other = ("Traceback (most recent call last):", '  File "/b.py", line 9, in h', "TypeError: no")
    lines = [
        line
        for pair in zip(
            (f"app_1  | {line}" for line in STACK), (f"db_1   | {line}" for line in (*other, "done")), strict=True
        )
        for line in pair
    ]
    assert sorted(summed("\n".join(lines))) == [("KeyError", "'a'", 1), ("TypeError", "no", 1)]


def test_entries_in_json_are_read() -> None:
    """A stack in a field is an error; an entry with a severe level is an error without a stack."""
    log = (
        '{"level":"info","time":"2026-11-15T10:00:00Z","msg":"no error here"}\n'
        '{"level":"error","time":"2026-11-15T10:00:01Z","msg":"boom","err":{"stack":"Error: boom\\n    at f (/a.js:1:2)\\n"}}\n'
        '{"level":"error","time":"2026-11-15T10:00:02Z","msg":"ValueError: alone"}\n'
        '{"log":"Traceback (most recent call last):\\n  File \\"a.py\\", line 1, in f\\nKeyError: 1\\n"}\n'
    )
    first, second, third = find_traces(log)
    assert (first.trace.language, first.trace.type) == ("javascript", "Error")
    assert (second.trace.type, second.trace.message, second.first_line) == ("ValueError", "alone", 3)
    assert (third.trace.type, len(third.trace.frames)) == ("KeyError", 1)


def test_a_stack_whose_line_breaks_are_spelt_out_is_read() -> None:
    """A stack with escaped line breaks on one line is read."""
    line = "2026-11-15 10:00:01 ERROR job failed: " + "\\n".join(STACK).replace('"', '\\"')
    assert summed(line) == [("KeyError", "'a'", 1)]


def test_colours_and_progress_bars_do_not_matter() -> None:
    """Terminal escape sequences and progress bars are ignored."""
    text = "\n".join(f"\x1b[31m{line}\x1b[0m" for line in STACK)
    assert summed(f" 10%\r 50%\r100%\r{text}\r\n") == [("KeyError", "'a'", 1)]


def test_many_unfinished_errors_are_passed_over() -> None:
    """Stacks that never end are left out, and the messages between them are found."""
    text = "".join(f"Traceback (most recent call last):\nfatal: number {n}\nand so it goes on\n" for n in range(300))
    assert len(find_traces(text, 1_000)) == 300
