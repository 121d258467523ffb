"""Host behaviour between two stops: queued prompts, resumed sessions, and capture disabled for a while."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.ingest.transcripts.conversations import (
    openclaw,
    opencode_database,
    opencode_message,
    text_part,
    tool_part,
    write_lines,
)
from tests.services.sessions.talks import START, CaptureHome, ClaudeTalk

from lorelog.core.options import CaptureOptions
from lorelog.hosts import host_adapter
from lorelog.services.sessions.capture import Backfill

MADE = int(START.timestamp() * 1000)


@pytest.fixture
def world(tmp_path: Path) -> CaptureHome:
    """An empty project, a minute after the first events."""
    world = CaptureHome(tmp_path)
    for host in ("claude", "opencode", "copilot"):
        world.capture(ClaudeTalk(world).event("session-start", source="startup", host=host))
    world.tick(60)
    return world


def asked(world: CaptureHome) -> list[str]:
    return [line for line in world.text().splitlines() if " asked: " in line or "Went on" in line]


def opencode(world: CaptureHome, *messages: dict[str, Any]) -> dict[str, Any]:
    path = world.root / "opencode.db"
    path.unlink(missing_ok=True)
    opencode_database(path, {"ses_1": messages}, {})
    given = {"host": "opencode", "session": "ses_1", "transcript": str(path), "answer": ""}
    return ClaudeTalk(world).event("prompt") | given


def message(name: str, role: str, parts: list[dict[str, Any]], at: int, *, done: bool = True) -> dict[str, Any]:
    clock = {"created": MADE + at} | ({"completed": MADE + at + 500} if done and role == "assistant" else {})
    return opencode_message(f"msg_{name}00000000001", role, parts, time=clock)


def test_a_prompt_typed_while_opencode_works_leaves_what_it_works_at(world: CaptureHome) -> None:
    """OpenCode stores the next prompt before the answer: a partial answer is not written, and later the whole is."""
    first = message("a", "user", [text_part("first")], 70_000)
    half = message("b", "assistant", [text_part("The key lacks the tenant.")], 71_000, done=False)
    second = message("c", "user", [text_part("second")], 75_000)
    world.tick(20)

    world.capture(opencode(world, first, half, second) | {"turn": "msg_c00000000001"})
    assert asked(world) == []

    parts = [text_part("The key lacks the tenant."), tool_part("bash", {"command": "make"}, "ok"), text_part("Done.")]
    whole = message("b", "assistant", parts, 71_000)
    answer = message("d", "assistant", [text_part("Both done.")], 80_000)
    world.tick(20)
    world.capture(opencode(world, first, whole, second, answer) | {"turn": "msg_c00000000001", "moment": "turn-end"})

    assert asked(world) == ["- User asked: first", "- User asked: second"]
    assert "The key lacks the tenant. Done." in world.text()


def test_the_end_of_a_turn_does_not_take_the_question_that_came_just_then(world: CaptureHome) -> None:
    """OpenCode names the newest prompt; if it has no answer yet, an earlier turn has ended."""
    first = message("a", "user", [text_part("first")], 70_000)
    answer = message("b", "assistant", [text_part("Done.")], 71_000)
    second = message("c", "user", [text_part("second")], 75_000)
    world.tick(20)

    world.capture(opencode(world, first, answer, second) | {"turn": "msg_c00000000001", "moment": "turn-end"})

    assert asked(world) == ["- User asked: first"]


@pytest.mark.parametrize("moment", ["turn-failed", "turn-end"])
@pytest.mark.parametrize("begun", [(), (tool_part("bash", {"command": "make"}, "ok"),)])
def test_a_turn_that_was_stopped_is_written_once_and_with_its_last_words(
    world: CaptureHome, moment: str, begun: tuple[dict[str, Any], ...]
) -> None:
    """OpenCode reports a stop before its database has the answer: one entry is written, not two halves."""
    first = message("a", "user", [text_part("first")], 70_000)
    half = message("b", "assistant", [*begun, text_part("")], 71_000, done=False)
    world.tick(20)
    stopped = {"turn": "msg_a00000000001", "moment": moment}
    world.capture(opencode(world, first, half) | stopped)
    assert asked(world) == []

    error = {"error": {"name": "MessageAbortedError", "data": {}}}
    whole = message("b", "assistant", [*begun, text_part("I begin and")], 71_000)
    world.capture(opencode(world, first, {**whole, "info": {**whole["info"], **error}}) | stopped)

    assert asked(world) == ["- User asked: first"]
    assert "I begin and" in world.text()
    assert "- Ended: interrupted" in world.text()


def test_openclaws_run_is_found_without_waiting(world: CaptureHome) -> None:
    """The turn id of a host's hooks is found in the assistant's message."""
    world.tick()
    run = {"role": "assistant", "content": "Three days.", "__openclaw": {"runId": "run-1"}}
    lines = [openclaw("u1", "user", "How long?"), openclaw("a1", "assistant", "")]
    lines[1]["message"] = run
    for line in lines:
        line["timestamp"] = world.clock.isoformat()
    path = write_lines(world.root / "claw.jsonl", lines)
    given = {"host": "openclaw", "session": "claw", "transcript": str(path), "turn": "run-1", "answer": ""}

    reply = world.capture(ClaudeTalk(world).event("turn-end") | given)

    assert not reply.waiting
    assert asked(world) == ["- User asked: How long?"]


def test_what_was_typed_meanwhile_ends_with_the_turn(world: CaptureHome, talk: ClaudeTalk) -> None:
    """Claude Code adds a queued prompt to the running turn, and its stop names the first: both are captured."""
    talk.ask("first")
    talk.run("make")
    talk.queue("second")
    talk.say("Both done.")

    reply = world.capture(talk.event("turn-end"))

    assert not reply.waiting
    assert asked(world) == ["- User asked: first", "- User asked: second"]


def test_without_a_name_the_answer_tells_which_turn_has_ended(world: CaptureHome, talk: ClaudeTalk) -> None:
    """A turn that began a second after the stop is not captured by it."""
    stop = talk.exchange("first", "Done.") | {"turn": ""}
    talk.world.tick(-9)
    talk.ask("second")
    talk.say("Let me", last=False)

    world.capture(stop)

    assert asked(world) == ["- User asked: first"]


def test_a_stop_that_was_not_the_last_is_not_waited_for(world: CaptureHome, talk: ClaudeTalk) -> None:
    """A continued turn has more text than the event refers to, and is captured."""
    stop = talk.exchange("first", "Done.")
    talk.run("make")
    talk.say("Done now.", last=False)

    assert not world.capture(stop).waiting


def test_a_prompt_leaves_a_turn_that_waits_for_a_tool(world: CaptureHome, talk: ClaudeTalk) -> None:
    """A turn without an end is captured when it or a later one has ended."""
    talk.ask("first")
    talk.run("make")
    world.tick()
    early = talk.event("prompt") | {"turn": "another"}

    world.capture(early)
    assert asked(world) == []

    talk.say("Done.")
    world.capture(talk.event("turn-end"))
    assert asked(world) == ["- User asked: first"]


def test_what_was_said_while_capture_was_off_stays_unsaid(world: CaptureHome, talk: ClaudeTalk) -> None:
    """After capture is enabled again, only new turns are captured."""
    world.capture(talk.event("session-start", source="startup"))
    world.options = CaptureOptions(enabled=False)
    world.capture(talk.exchange("secret", "between us"))
    world.options = CaptureOptions()

    world.capture(talk.exchange("open", "for all"))
    world.capture(talk.event("session-end"))

    assert asked(world) == ["- User asked: open"]


@pytest.mark.parametrize("source", ["resume", "fork"])
def test_a_session_that_was_held_elsewhere_is_taken_from_here_on(world: CaptureHome, source: str) -> None:
    """Turns held under another tenant or without hooks are captured by a backfill only."""
    talk = ClaudeTalk(world)
    talk.exchange("elsewhere", "done")
    world.tick()
    world.capture(talk.event("session-start", source=source))
    world.capture(talk.exchange("here", "done"))
    world.capture(talk.event("session-end"))

    assert asked(world) == ["- User asked: here"]
    assert len(world.capture(talk.event("session-end"), Backfill()).captured) == 1


def test_a_known_session_that_is_taken_up_again_loses_nothing(world: CaptureHome, talk: ClaudeTalk) -> None:
    """The last turn of a killed host is captured with the next one."""
    world.capture(talk.event("session-start", source="startup"))
    talk.ask("cut off")
    world.tick(3600)
    world.capture(talk.event("session-start", source="resume"))
    world.capture(talk.exchange("next", "done"))

    assert asked(world) == ["- User asked: cut off", "- User asked: next"]


def test_backfilling_leaves_the_turn_that_asked_for_it(world: CaptureHome, talk: ClaudeTalk) -> None:
    """A backfill skips the turn that may be running it, and captures turns that were abandoned long ago."""
    talk.exchange("done", "done")
    talk.ask("backfill, please")
    talk.run("lorelog hosts backfill claude")

    world.capture(talk.event("session-end"), Backfill())
    assert asked(world) == ["- User asked: done"]

    world.tick(48 * 3600)
    world.capture(talk.event("session-end"), Backfill())
    assert asked(world) == ["- User asked: done", "- User asked: backfill, please"]


def test_backfilling_does_not_hide_that_a_session_is_a_fork(world: CaptureHome) -> None:
    """A fork's start event captures nothing of the parent's running turn."""
    parent = ClaudeTalk(world)
    world.capture(parent.event("session-start", source="startup"))
    parent.ask("goes on")
    world.tick()
    fork = parent.fork()
    begins = fork.event("session-start", source="fork")

    world.capture(fork.event("session-end"), Backfill())
    world.capture(begins)
    world.capture(fork.event("session-end"))

    assert asked(world) == []


def test_what_somebody_else_captured_half_of_meanwhile_is_looked_at_again(world: CaptureHome, talk: ClaudeTalk) -> None:
    """Two captures of one turn: if the one with less text writes first, the rest follows, and nothing twice."""
    talk.ask("first")
    talk.say("One half.")
    short = world.root / "short.jsonl"
    short.write_bytes(talk.path.read_bytes())
    talk.say("The other half.")
    stop = talk.event("turn-end")

    class Meanwhile:
        def summarize(self, text: str, host: str, session: str = "") -> str | None:
            world.summarizer = None
            world.capture(stop | {"transcript": str(short), "answer": ""})
            return None

    world.summarizer = Meanwhile()

    assert world.capture(stop).waiting
    assert not world.capture(stop).waiting
    assert [world.text().count(item) for item in ("One half.", "The other half.")] == [1, 1]


def copilot_line(name: str, kind: str, at: float, **data: Any) -> dict[str, Any]:
    when = (START + timedelta(seconds=at)).isoformat()
    return {"type": kind, "data": data, "id": name, "timestamp": when, "parentId": None}


def copilot_hook_line(name: str, event: str, at: float) -> dict[str, Any]:
    return copilot_line(name, "hook.start", at, hookType=event, input={"timestamp": MADE + round(at * 1000)})


@pytest.mark.parametrize("moment", ["turn-end", "session-end"])
def test_a_turn_that_copilot_writes_after_its_hook_is_waited_for(world: CaptureHome, moment: str) -> None:
    """An end is captured once the transcript holds the line about its hook, and an earlier open turn does not stand for it."""
    path = world.root / "events.jsonl"
    killed = [
        copilot_line("s", "session.start", 60, sessionId="s-1"),
        copilot_line("u1", "user.message", 61, content="cut off"),
    ]
    write_lines(path, killed)
    hook = {"turn-end": "agentStop", "session-end": "sessionEnd"}[moment]
    payload = {"sessionId": "s-1", "transcriptPath": str(path), "timestamp": MADE + 64_000}
    world.tick(4)
    fields = {key: value for key, value in host_adapter("copilot").read_event(moment, payload, {}).items() if value}
    event = ClaudeTalk(world).event(moment) | {"host": "copilot", "answer": ""} | fields

    assert world.capture(event).waiting
    assert asked(world) == []
    after = [
        copilot_line("u2", "user.message", 63, content="go on"),
        copilot_line("a2", "assistant.message", 63.5, content="Done."),
    ]
    write_lines(path, [*killed, *after, copilot_hook_line("h", hook, 64)])

    assert not world.capture(event).waiting
    assert [line.partition(": ")[2] for line in asked(world)] == ["cut off", "go on"]
