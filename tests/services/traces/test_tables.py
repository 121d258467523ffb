"""Trace tables: filters, size limits, hidden traces of deleted memories, and the calls and errors of captured turns."""

from __future__ import annotations

import sqlite3
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.services.sessions.talks import CaptureHome, ClaudeTalk

from lorelog.core.errors import StoreUnwritable
from lorelog.core.options import CaptureOptions, TraceOptions
from lorelog.core.session import CaptureReply, HookEvent, StackFrame, StackTrace
from lorelog.ingest.tracebacks.finder import trace_family, trace_signature
from lorelog.services.memory_state.tombstones import Tombstone, Tombstones, memory_key
from lorelog.services.sessions.capture import Backfill, capture_session
from lorelog.services.traces.recorder import TraceStore
from lorelog.services.traces.tables import TracedCall, TracedError, TraceFilter, TraceTables, command_key

NOW = int(time.time() * 1000)


@pytest.fixture
def tables(tmp_path: Path) -> TraceTables:
    return TraceTables(tmp_path / "traces.db", TraceOptions())


TURN = {"source": "turn", "project": "/app", "session": "s1", "turn": "t1", "host": "claude", "branch": "main"}


def call(mark: str, tool: str = "Bash", at: int = 0, **more: object) -> TracedCall:
    """Return a call of an agent's turn."""
    return TracedCall(id=mark, at=NOW + at, tool=tool, **TURN, **more)  # type: ignore[arg-type]


def error(
    mark: str, kind: str = "KeyError", at: int = 0, trace: StackTrace | None = None, **more: object
) -> TracedError:
    """Return an error of an agent's turn."""
    frames = (StackFrame("load", "/app/db.py", 3), StackFrame("main", "/app/m.py", 1))
    trace = trace or StackTrace("python", kind, "'id'", frames)
    names = {"signature": trace_signature(trace), "family": trace_family(trace)}
    return TracedError(id=mark, at=NOW + at, trace=trace, **names, **TURN, **more)  # type: ignore[arg-type]


def stone(memory: str, *, deleted: bool = True) -> Tombstone:
    return Tombstone(memory_key(memory), memory, "", (), datetime.now(UTC).isoformat(), deleted)


def marks(found: tuple[list[TracedCall], int] | tuple[list[TracedError], int]) -> list[str]:
    return [item.id for item in found[0]]


def test_what_was_kept_comes_back_as_it_was(tables: TraceTables) -> None:
    """Every field of a call and an error is stored and read back, including causes."""
    one = call(
        "c", input="make test", error="bad", failed=True, duration_ms=1.5, command="make test", files=("a", "b c")
    )
    trace = StackTrace(
        "java", "x.E", "m", (StackFrame("f", "A.java", 1, 2),), (StackTrace("java", "y.F", "n", (StackFrame("g"),)),)
    )
    other = error("e", trace=trace, command="cmd", text="text")
    assert tables.add([one], [other]) == (1, 1)
    assert tables.add([one], [other]) == (0, 0)
    assert tables.calls(TraceFilter()) == ([one], 1)
    assert tables.errors(TraceFilter()) == ([other], 1)


def test_calls_are_found_by_tool_session_time_and_failure(tables: TraceTables) -> None:
    """Calls are filtered, newest first; a family of operations by its first word."""
    tables.add([call("a", "memory.search"), call("b", "memory.add", 10, failed=True), call("c", "memoryless", 20)])
    assert marks(tables.calls(TraceFilter())) == ["c", "b", "a"]
    assert marks(tables.calls(TraceFilter(tool="memory"))) == ["b", "a"]
    assert marks(tables.calls(TraceFilter(tool="memory.add"))) == ["b"]
    assert marks(tables.calls(TraceFilter(errors_only=True))) == ["b"]
    assert marks(tables.calls(TraceFilter(since=NOW + 5, until=NOW + 15))) == ["b"]
    assert marks(tables.calls(TraceFilter(session="s2"))) == []
    assert marks(tables.calls(TraceFilter(projects=("/other", "")))) == []
    assert tables.calls(TraceFilter(limit=1))[1] == 3


def test_the_same_error_is_one_group(tables: TraceTables) -> None:
    """Groups have counts, first and last time and sessions; the last seen comes first."""
    tables.add(errors=[error("a"), error("b", at=5), error("c", "TypeError", 3)])
    first, second = tables.groups(TraceFilter())
    assert (first.type, first.times, first.first_at, first.last_at, first.sessions) == ("KeyError", 2, NOW, NOW + 5, 1)
    assert second.type == "TypeError"


def test_what_is_too_old_is_dropped_by_when_it_came(tmp_path: Path) -> None:
    """Traces are dropped a month after they were stored; an old session captured today stays."""
    tables = TraceTables(tmp_path / "traces.db", TraceOptions(days=30))
    old = -365 * 86_400_000
    tables.add([call("a"), call("b")], [error("e", at=old)])
    with sqlite3.connect(tables.path) as db:
        db.execute("UPDATE calls SET kept = kept - 31 * 86400000 WHERE mark = 'a'")
    db.close()
    tables.trim()
    assert marks(tables.calls(TraceFilter())) == ["b"]
    assert marks(tables.errors(TraceFilter())) == ["e"]


def test_the_file_stays_within_its_size_and_errors_outlive_calls(tmp_path: Path) -> None:
    """The oldest calls are dropped first, and the file shrinks."""
    tables = TraceTables(tmp_path / "traces.db", TraceOptions(megabytes=1))
    tables.add(errors=[error("e")])
    for start in range(0, 8_000, 1_000):
        tables.add([call(f"{start + item}", input="x" * 300, at=start + item) for item in range(1_000)])
    tables.trim()
    tables.close()
    assert tables.path.stat().st_size < 1_300_000
    found, total = tables.calls(TraceFilter(limit=1))
    assert found[0].id == "7999"
    assert 100 < total < 8_000
    assert marks(tables.errors(TraceFilter())) == ["e"]


@pytest.mark.slow
def test_errors_alone_are_bounded_too(tmp_path: Path) -> None:
    """Without calls, the oldest errors are dropped."""
    tables = TraceTables(tmp_path / "traces.db", TraceOptions(megabytes=1))
    for start in range(0, 6_000, 1_000):
        tables.add(errors=[error(f"{start + item}", at=start + item, text="x" * 500) for item in range(1_000)])
    tables.trim()
    tables.close()
    assert tables.path.stat().st_size < 1_300_000
    assert tables.errors(TraceFilter(limit=1))[0][0].id == "5999"


def test_what_was_traced_of_a_deleted_turn_is_not_told_until_it_is_restored(tables: TraceTables) -> None:
    """Deleting a memory hides its calls and errors; restoring it shows them again."""
    stones = Tombstones(tables.path.parent / "tombstones.jsonl")
    tables.add(
        [call("a", memory="m1", command="make", failed=True), call("b", at=9, command="make", memory="m2")],
        [error("e", memory="m1", command="make")],
    )
    (held,), _ = tables.errors(TraceFilter())
    stones.append([stone("m1")])
    assert marks(tables.calls(TraceFilter())) == ["b"]
    assert tables.errors(TraceFilter()) == ([], 0)
    assert tables.groups(TraceFilter()) == []
    stones.append([stone("m2")])
    assert tables.next_passing(held) == (None, [])
    assert tables.turn_after(held) == ""
    stones.append([stone("m1", deleted=False)])
    assert marks(tables.errors(TraceFilter())) == ["e"]


def test_the_next_passing_run_tells_what_was_written_in_between(tables: TraceTables) -> None:
    """A fix is the next passing run of the same command in the project, with the files written before it."""
    tables.add(
        [
            call("fail", at=0, command="make test", failed=True),
            call("edit", "Edit", 1, files=("a.py",)),
            call("fail2", at=2, command="make test", failed=True),
            call("edit2", "Edit", 3, files=("b.py", "c.py")),
            call("other", at=4, command="make lint"),
            call("pass", at=5, command="make test"),
            call("late", "Edit", 6, files=("d.py",)),
            call("pass2", at=7, command="make test"),
        ],
        [error("e", command="make test")],
    )
    (held,), _ = tables.errors(TraceFilter())
    passed, between = tables.next_passing(held)
    assert passed is not None
    assert passed.id == "pass"
    assert [file for item in between for file in item.files] == ["a.py", "b.py", "c.py"]


@pytest.mark.parametrize(
    ("command", "key"),
    [
        ("cd /app && make test 2>&1 | tail -20", "make test"),
        ("CI=1 timeout 60 pytest -q tests/x.py | head -5", "pytest -q tests/x.py"),
        ("pytest   -q", "pytest -q"),
        ("cargo build > /dev/null", "cargo build"),
        ("make test; echo $?", "make test"),
        ("cat x | grep y", "cat x"),
        ("ls", "ls"),
        ("", ""),
    ],
)
def test_a_command_is_the_same_however_its_output_is_cut(command: str, key: str) -> None:
    """Directory and output filters do not change a command's key."""
    assert command_key(command) == key


STACK = "Traceback (most recent call last):\n  File \"/app/db.py\", line 3, in load\n    x\nKeyError: 'id'\n"


class Traced(CaptureHome):
    def __post_init__(self) -> None:
        super().__post_init__()
        self.book = TraceStore(self.place.tenant_folder / "traces.db", TraceOptions())

    def see(self, event: dict[str, object], backfill: Backfill | None = None) -> CaptureReply:
        means = replace(self.means(), traces=lambda: self.book)
        return capture_session(HookEvent.from_mapping(event, self.clock), means, backfill)


@pytest.fixture
def world(tmp_path: Path) -> Traced:
    """An empty project."""
    return Traced(tmp_path)


@pytest.fixture
def talk(world: Traced) -> ClaudeTalk:
    return ClaudeTalk(world)


def test_calls_and_errors_of_a_turn_are_kept(world: Traced, talk: ClaudeTalk) -> None:
    """Calls are stored in order with their origin, and errors with the whole stack."""
    talk.ask("fix it")
    talk.run("make test", f"Exit code 2\ncollected 3\n{STACK}make: *** [test] Error 1\n", fails=True)
    talk.run("make test 2>&1 | tail -3", "ok")
    talk.say("Done.")
    (captured,) = world.see(talk.event("turn-end", branch="feature")).captured

    calls, total = world.book.tables().calls(TraceFilter())
    assert total == 2
    assert [(call.tool, call.input, call.failed, call.command) for call in reversed(calls)] == [
        ("Bash", "make test", True, "make test"),
        ("Bash", "make test 2>&1 | tail -3", False, "make test"),
    ]
    (error,), _ = world.book.tables().errors(TraceFilter())
    assert (error.trace.type, error.trace.frames[0].function, error.command) == ("KeyError", "load", "make test")
    assert (error.source, error.project, error.session) == ("turn", str(world.project), talk.session)
    assert (error.turn, error.host, error.branch, error.memory) == (talk.turn, "claude", "feature", captured.memory)
    assert error.at == calls[1].at
    passed, _ = world.book.tables().next_passing(error)
    assert passed == calls[0]


def test_a_turn_that_is_captured_again_adds_nothing(world: Traced, talk: ClaudeTalk) -> None:
    """Capturing a turn again adds nothing; its new part is added."""
    talk.ask("fix it")
    talk.run("make test", STACK, fails=True)
    talk.say("Done.")
    world.see(talk.event("turn-end"))
    world.see(talk.event("turn-end"))
    assert world.book.tables().errors(TraceFilter())[1] == 1
    talk.run("make lint", "x.py:1:8: F401 `os` imported but unused", fails=True)
    talk.say("Really done.")
    world.see(talk.event("session-end"))
    assert [error.trace.type for error in world.book.tables().errors(TraceFilter())[0]] == ["F401", "KeyError"]
    assert world.book.tables().calls(TraceFilter())[1] == 2


@pytest.mark.parametrize(
    ("command", "result", "fails", "types"),
    [
        ("pytest -q | tail -5", STACK, False, ["KeyError"]),
        ("cat app.log", STACK, False, []),
        ("cd /app && grep -r KeyError .", STACK, False, []),
        ("git log -p", STACK, False, []),
        ("echo hello", "error: hello", False, []),
        ("make", "error: hello", False, []),
        ("frobnicate", "Exit code 127\nbash: frobnicate: command not found", True, ["bash"]),
        ("git push", "Exit code 1\nremote: it is not that way", True, [""]),
        ("git push", "The user doesn't want to proceed with this tool use. Error: no", True, []),
        ("make", "", True, []),
    ],
)  # fmt: skip
def test_only_errors_of_the_call_itself_count(
    world: Traced, command: str, result: str, *, fails: bool, types: list[str]
) -> None:
    """A stack in a file that was read is not an error; a failing command in a pipe may exit with success."""
    talk = ClaudeTalk(world)
    talk.ask("go on")
    talk.run(command, result, fails=fails)
    talk.say("Done.")
    world.see(talk.event("turn-end"))
    assert [error.trace.type for error in world.book.tables().errors(TraceFilter())[0]] == types


def test_secrets_and_own_patterns_are_taken_out(world: Traced) -> None:
    """Secrets are removed from commands, messages and stacks."""
    secret = "ghp_x7Kq2mZ9vB4nT1wY6rL8" + "sD3fG5hJ0pQaCeUi"
    world.options = CaptureOptions(patterns=(r"otter-\d+",))
    talk = ClaudeTalk(world)
    talk.ask("go on")
    talk.run(
        f"curl -H 'Authorization: Bearer {secret}' x otter-77", STACK.replace("'id'", f"{secret} otter-78"), fails=True
    )
    talk.say("Done.")
    world.see(talk.event("turn-end"))
    world.book.close()
    held = world.book.path.read_bytes()
    assert secret.encode() not in held
    assert b"otter-7" not in held


def test_nothing_is_traced_where_that_is_switched_off_or_cannot_be(world: Traced, talk: ClaudeTalk) -> None:
    """A failure of the traces does not prevent a capture."""
    world.book = TraceStore(world.place.tenant_folder / "traces.db", TraceOptions(enabled=False))
    talk.ask("one")
    talk.run("make", STACK, fails=True)
    talk.say("Done.")
    assert world.see(talk.event("turn-end")).captured
    assert not world.book.path.exists()

    world.book = TraceStore(world.place.tenant_folder / "captures.db" / "traces.db", TraceOptions())
    talk.ask("two")
    talk.run("make", STACK, fails=True)
    talk.say("Done.")
    assert world.see(talk.event("turn-end")).captured
    with pytest.raises(StoreUnwritable):
        world.book.tables().add([TracedCall(id="x", at=1, tool="t", source="turn")])
