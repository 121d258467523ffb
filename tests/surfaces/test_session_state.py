"""What a session is told when it starts on a branch, after a compaction, and when a subagent starts; with real Git and real captures."""

from __future__ import annotations

import json
import os
import subprocess
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.ingest.transcripts.conversations import claude, tool_result, tool_use

from lorelog import Lorelog
from lorelog.light.delivery_log import estimate_tokens
from lorelog.services.sessions.drain import Drainer, capture_arguments
from lorelog.surfaces.hook import handle_hook

Call = tuple[str, dict[str, str], str]
"""A tool, its arguments, and the output of a call that failed."""


class Sessions:
    """A Git repository whose sessions are captured."""

    def __init__(self, folder: Path, memory: Lorelog) -> None:
        self.folder, self.memory = folder, memory
        self.git("commit", "--allow-empty", "-qm", "first")

    def git(self, *words: str) -> None:
        identity = ("-c", "user.name=a", "-c", "user.email=a@b.example")
        subprocess.run(["git", *identity, *words], cwd=self.folder, check=True, capture_output=True)

    def hook(self, moment: str, session: str, **more: str) -> dict[str, Any]:
        path = self.folder.parent / f"{session}.jsonl"
        payload = {"session_id": session, "cwd": str(self.folder), "transcript_path": str(path), **more}
        return handle_hook(["claude", moment], json.dumps(payload).encode(), os.environ)

    def shown(self, moment: str, session: str, **more: str) -> str:
        return str(self.hook(moment, session, **more).get("hookSpecificOutput", {}).get("additionalContext", ""))

    def turn(self, session: str, request: str, answer: str, *calls: Call, end: str = "turn-end") -> None:
        """Write a turn to the transcript, and capture what its end certifies."""
        self.hook("session-start", session, source="startup")
        lines = [claude("user", str(uuid.uuid4()), request)]
        for number, (tool, arguments, error) in enumerate(calls):
            use = tool_use(f"{session}-{number}", tool, **arguments)
            result = tool_result(f"{session}-{number}", error or "ok", is_error=bool(error))
            lines += [claude("assistant", str(uuid.uuid4()), [use]), claude("user", str(uuid.uuid4()), [result])]
        lines += [claude("assistant", str(uuid.uuid4()), [{"type": "text", "text": answer}])] if answer else []
        now = datetime.now(UTC).isoformat()
        with (self.folder.parent / f"{session}.jsonl").open("a", encoding="utf-8") as file:
            file.writelines(f"{json.dumps(line | {'sessionId': session, 'timestamp': now})}\n" for line in lines)
        self.hook(end, session)
        Drainer(
            os.environ["LORELOG_HOME"], lambda event: self.memory.call("session.capture", capture_arguments(event))
        ).drain()


@pytest.fixture
def sessions(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sessions]:
    monkeypatch.setenv("LORELOG_EMBEDDING_PROVIDER", "fake")
    monkeypatch.setattr("lorelog.light.daemon_control.flush_detached", lambda address: None)
    subprocess.run(["git", "init", "-qb", "main", str(tmp_path / "app")], check=True)
    with Lorelog(project=tmp_path / "app", daemon="off") as memory:
        yield Sessions(tmp_path / "app", memory)


def test_a_branch_is_shown_its_own_work_first_and_what_it_left_open(sessions: Sessions) -> None:
    """Sessions of this branch come first; its failing tests are told there only, until HEAD moves or tests pass."""
    edit: Call = ("Write", {"file_path": str(sessions.folder / "pool.py"), "content": "x"}, "")
    sessions.git("switch", "-qc", "feature/pool")
    sessions.turn(
        "s1", "make the pool larger", "The pool has 20.", edit, ("Bash", {"command": "pytest -q"}, "1 failed")
    )
    sessions.git("switch", "-q", "main")
    sessions.turn("s2", "rename the readme please", "Renamed it.", ("Write", {"file_path": "README.md"}, ""))

    on_main = sessions.shown("session-start", "s3")
    assert "failing" not in on_main
    assert on_main.index("rename the readme") < on_main.index("on feature/pool asked: make the pool larger")
    sessions.git("switch", "-q", "feature/pool")
    on_branch = sessions.shown("session-start", "s4")
    assert "- failing: `pytest -q` since 20" in on_branch
    assert on_branch.index("make the pool larger") < on_branch.index("on main asked: rename the readme")

    sessions.git("commit", "--allow-empty", "-qm", "by hand")
    assert "failing" not in sessions.shown("session-start", "s5")
    sessions.turn("s6", "run the tests again", "They fail.", ("Bash", {"command": "pytest"}, "1 failed"))
    assert "- failing: `pytest`" in sessions.shown("session-start", "s7")
    sessions.git("commit", "--allow-empty", "-qm", "by the agent")
    sessions.turn("s6", "commit it", "Committed.", ("Bash", {"command": "git commit -m x"}, ""))
    assert "failing" not in sessions.shown("session-start", "s7")
    sessions.turn("s6", "and again", "They pass now, all of them.", ("Bash", {"command": "pytest -q"}, ""))
    assert "failing" not in sessions.shown("session-start", "s8")


def test_after_a_compaction_the_state_is_shown_once(sessions: Sessions) -> None:
    """The state of the unfinished turn replaces the list: task, untested files, commands, values, rules; without secrets."""
    sessions.memory.add("use pnpm, not npm", type="preference")
    prompt = 'set "max size" of pool_size to 4096 in db/pool.py, token ghp_9fK2mQ7xRt4LbV1sZc8HwN3pYd6GjA5eUo0T'
    calls: list[Call] = [
        ("Write", {"file_path": str(sessions.folder / "a.py"), "content": "x"}, ""),
        ("Bash", {"command": "pytest -q"}, ""),
        ("Write", {"file_path": str(sessions.folder / "db/pool.py"), "content": "x"}, ""),
        ("Bash", {"command": "make lint"}, "E501 line too long"),
    ]
    sessions.turn("s1", prompt, "", *calls, end="compact")

    card = sessions.shown("session-start", "s1", source="compact")
    lines = dict(line[2:].split(": ", 1) for line in card.split("\n") if line.startswith("- "))
    assert lines["task"].startswith('set "max size" of pool_size to 4096')
    assert lines["changed since tests last passed"] == "db/pool.py"
    assert lines["last failing command"] == "`make lint`: E501 line too long"
    assert lines["last passing command"] == "`pytest -q`"
    assert lines["named in the last prompts"].startswith("max size, pool_size, 4096, db/pool.py")
    assert lines["rule"].startswith("use pnpm, not npm")
    assert "ghp_" not in card
    assert estimate_tokens(card) <= 300
    assert "## Corrections and preferences" in sessions.shown("session-start", "s1", source="compact")
    sessions.turn("s1", "go on", "", end="compact")
    sessions.turn("s1", "that is all", "It is done now.", end="session-end")
    assert not list(Path(os.environ["LORELOG_HOME"]).rglob("*.handoff"))


@pytest.mark.parametrize(
    ("mode", "expected"), [("rules", (True, False)), ("all", (True, True)), ("none", (False, False))]
)
def test_a_subagent_is_shown_what_the_setting_says(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch, mode: str, expected: tuple[bool, bool]
) -> None:
    """A subagent starts with the rules, with everything or with nothing; it is not captured, and its list is its own."""
    sessions.turn("s1", "make the pool larger", "The pool has 20 connections from now on.")
    sessions.memory.add("use pnpm, not npm", type="preference")
    monkeypatch.setenv("LORELOG_SESSION_SUBAGENTS", mode)
    monkeypatch.setenv("LORELOG_SESSION_HOLD_CALLS", "off")

    reply = sessions.hook("subagent-start", "s2", agent_id="a1").get("hookSpecificOutput", {})
    shown = reply.get("additionalContext", "")
    assert ("use pnpm" in shown, "make the pool larger" in shown) == expected
    assert reply.get("hookEventName", "SubagentStart") == "SubagentStart"
    assert not list((Path(os.environ["LORELOG_HOME"]) / "spool").glob("*subagent*"))
    assert "use pnpm" in sessions.shown("prompt", "s2", prompt="why does `npm install` fail here?")


def test_a_session_that_starts_without_its_memory_says_so_once(sessions: Sessions) -> None:
    """If the memory cannot be read at the start, the next prompt has a notice for the user; a good start has none."""
    sessions.turn("s1", "make the pool larger", "The pool has 20 connections from now on.")
    tombstones = next(Path(os.environ["LORELOG_HOME"]).glob("data/*")) / "tombstones.jsonl"
    tombstones.write_text("broken\n", "utf-8")
    assert sessions.shown("session-start", "s2") == ""
    tombstones.unlink()

    assert "started without its memory" in sessions.hook("prompt", "s2", prompt="hello there").get("systemMessage", "")
    assert sessions.hook("prompt", "s2", prompt="hello there") == {}
    assert sessions.shown("session-start", "s3")
    assert sessions.hook("prompt", "s3", prompt="hello there") == {}


def test_statements_that_wait_are_counted_in_one_line(sessions: Sessions) -> None:
    """The start of a session says how many statements are not filed, until they are."""
    sessions.turn("s1", "make the pool larger", "The pool has 20 connections from now on.")
    sessions.memory._caller.engine.reviewer({}).note_waiting()
    assert "Things the user said that are not filed: 1 (`lorelog review`)." in sessions.shown("session-start", "s2")

    (item,) = sessions.memory.call("review.list")["items"]
    verdict = {"id": item["id"], "kind": item["kind"], "label": "other"}
    sessions.memory.call("review.decide", {"verdicts": [verdict]})
    assert "not filed" not in sessions.shown("session-start", "s3")
