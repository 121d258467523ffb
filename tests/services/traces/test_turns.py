"""Captured turns store their tool calls and errors with session, turn and memory."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.services.sessions.talks import CaptureHome, ClaudeTalk

from lorelog.core.errors import StoreUnwritable
from lorelog.core.options import CaptureOptions, TraceOptions
from lorelog.core.session import CaptureReply, HookEvent
from lorelog.services.sessions.capture import Backfill, capture_session
from lorelog.services.traces.recorder import TraceStore
from lorelog.services.traces.tables import TracedCall, TraceFilter

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
