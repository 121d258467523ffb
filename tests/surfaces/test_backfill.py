"""`lorelog backfill` for earlier sessions, and `flush` without a daemon."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.ingest.transcripts.agent_sessions import AGENT_SESSIONS, AT_S, FIRST, SECOND, cline_task
from tests.ingest.transcripts.conversations import (
    claude_turn,
    codex,
    codex_message,
    openclaw_database,
    openclaw_talk,
    opencode_database,
    opencode_message,
    text_part,
    write_lines,
)
from tests.services.sessions.talks import CaptureHome, ClaudeTalk
from tests.surfaces.conftest import Shell

ID = "46d503e3-c274-4a7f-a77e-86434720e74"


@pytest.fixture
def hosts(tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folders of four hosts, each with a session of this project and one of another."""
    other = tmp_path / "other"
    other.mkdir()
    places = {
        "CLAUDE_CONFIG_DIR": tmp_path / "claude",
        "CODEX_HOME": tmp_path / "codex",
        "XDG_DATA_HOME": tmp_path / "data",
        "OPENCLAW_STATE_DIR": tmp_path / "openclaw",
    }
    for name, place in places.items():
        monkeypatch.setenv(name, str(place))
    for number, where in enumerate((project, other)):
        folder = places["CLAUDE_CONFIG_DIR"] / "projects" / where.name
        folder.mkdir(parents=True)
        lines = [*claude_turn(f"{ID}{number}", f"claude {number}", "done", cwd=str(where), sessionId=f"c{number}")]
        write_lines(folder / f"c{number}.jsonl", lines)
        (folder / f"c{number}" / "subagents").mkdir(parents=True)
        side = claude_turn("side", "a side task", "done", cwd=str(where), isSidechain=True)
        write_lines(folder / f"c{number}" / "subagents" / "agent-1.jsonl", side)
        sessions = places["CODEX_HOME"] / "sessions" / "2026" / "03" / "05"
        sessions.mkdir(parents=True, exist_ok=True)
        meta = {"id": f"x{number}", "cwd": str(where), "timestamp": "2026-03-05T14:00:00Z"}
        said = [
            codex_message("user", f"codex {number}", f"{ID}{number}"),
            codex_message("assistant", "done", f"{ID}{number}"),
        ]
        write_lines(
            sessions / f"rollout-x{number}.jsonl",
            [codex("session_meta", meta), *(codex("response_item", item) for item in said)],
        )
    (places["XDG_DATA_HOME"] / "opencode").mkdir(parents=True)
    database = places["XDG_DATA_HOME"] / "opencode" / "opencode.db"
    talk = [
        opencode_message("msg_00000000000001", "user", [text_part("opencode 0")]),
        opencode_message("msg_00000000000002", "assistant", [text_part("done")], parentID="msg_00000000000001"),
    ]
    opencode_database(database, {"ses_0": talk, "ses_child": []}, {"ses_child": "ses_0"})
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("ALTER TABLE session ADD COLUMN directory TEXT")
        connection.execute("UPDATE session SET directory = ?", (str(project),))
    agent = places["OPENCLAW_STATE_DIR"] / "agents" / "main"
    (agent / "sessions").mkdir(parents=True)
    (agent / "agent").mkdir()
    head = {"type": "session", "version": 3, "id": "o0", "timestamp": "2026-03-05T14:00:00Z", "cwd": str(project)}
    write_lines(agent / "sessions" / "o0.jsonl", [head, *openclaw_talk()])
    return tmp_path


def journal(project: Path) -> str:
    return "".join(path.read_text() for path in sorted((project / ".lorelog" / "memory").glob("*.md")))


@pytest.mark.parametrize("host", ["claude", "codex", "opencode", "openclaw"])
def test_sessions_of_this_project_are_captured_once(host: str, hosts: Path, project: Path, shell: Shell) -> None:
    """A dry run writes nothing; a run captures this project's sessions; a second run finds nothing to do."""
    dry = shell("backfill", host, "--dry-run", "--json").json
    assert dry["turns"] >= 1
    assert not (project / ".lorelog").exists()

    done = shell("backfill", host, "--json").json
    assert (done["turns"], done["sessions"], done["problems"]) == (dry["turns"], 1, [])
    text = journal(project)
    assert text.count("### ") == done["turns"]
    assert "side task" not in text
    assert not (hosts / "other" / ".lorelog").exists()

    again = shell("backfill", host)
    assert again.out.endswith("Captured 0 turns of 0 sessions.\n")
    assert journal(project) == text
    word = "codex" if host == "codex" else host
    assert shell("search", f"{word} done", "--json").json["hits"] != []


def test_a_session_whose_file_has_not_changed_is_not_read_again(
    hosts: Path, project: Path, home: Path, shell: Shell
) -> None:
    """A second run counts the same turns without reading; a longer file, an earlier day or lost captures are read."""
    path = hosts / "claude" / "projects" / project.name / "c0.jsonl"

    def write(*lines: dict[str, object]) -> None:
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
        os.utime(path, (1_772_000_000, 1_772_000_000))

    def backfill(*words: str) -> tuple[int, int, int]:
        report = shell("backfill", "claude", "--json", *words).json
        return report["found"], report["turns"], report["skipped"]

    first, other = (claude_turn(f"{ID}0", text, "done", cwd=str(project), sessionId="c0") for text in ("one", "two"))
    write(*first)
    assert backfill("--since", "2026-03-06") == (0, 0, 0)  # the file is older
    assert backfill("--since", "2026-02-20") == (1, 1, 0)
    write(*({**line, "uuid": f"x{line['uuid'][1:]}"} for line in other))  # in the same size and time
    assert backfill("--since", "2026-02-21") == backfill("--since", "2026-02-20", "--dry-run") == (1, 0, 1)
    assert "two" not in journal(project)

    assert backfill()[0] == 1  # an earlier day
    next(home.rglob(".transcripts.json")).write_bytes(b"{")
    assert backfill() == (1, 0, 1)
    longer = claude_turn(f"{ID}5", "three", "done", cwd=str(project), sessionId="c0")
    write(*first, *longer)
    assert backfill() == (1, 1, 1)
    for file in home.rglob("captures.db*"):
        file.unlink()
    assert backfill() == (1, 0, 2)


def test_an_openclaw_database_is_read_too(hosts: Path, project: Path, shell: Shell) -> None:
    """Newer versions of OpenClaw keep all sessions of an agent in one database."""
    agent = hosts / "openclaw" / "agents" / "main"
    (agent / "sessions" / "o0.jsonl").unlink()
    head = {"type": "session", "version": 4, "id": "d0", "timestamp": "2026-03-05T14:00:00Z", "cwd": str(project)}
    openclaw_database(agent / "agent" / "openclaw-agent.sqlite", {"d0": [head, *openclaw_talk()]})

    assert shell("backfill", "openclaw", "--json").json["turns"] >= 1
    assert "db:" in journal(project)


def test_all_projects_get_their_own_journals(hosts: Path, project: Path, shell: Shell) -> None:
    """Each session goes to its own project; one whose directory was deleted is skipped and counted."""
    folder = hosts / "claude" / "projects" / "gone"
    folder.mkdir()
    write_lines(folder / "g.jsonl", claude_turn(f"{ID}9", "gone", "done", cwd=str(hosts / "nowhere"), sessionId="g"))

    done = shell("backfill", "claude-code", "--all-projects", "--json").json

    assert (done["sessions"], done["turns"], done["gone"]) == (2, 2, 1)
    assert {journal["path"] for journal in done["journals"]} == {
        str(project / ".lorelog" / "memory"),
        str(hosts / "other" / ".lorelog" / "memory"),
    }
    assert not (hosts / "nowhere").exists()


def test_only_turns_since_a_day_are_captured(hosts: Path, project: Path, shell: Shell) -> None:
    """Turns before --since are left out, and an invalid day is rejected."""
    path = hosts / "claude" / "projects" / project.name / "c0.jsonl"
    later = claude_turn(
        f"{ID}5", "much later", "done", cwd=str(project), sessionId="c0", timestamp="2026-05-05T10:00:00Z"
    )
    with path.open("a") as file:
        file.writelines(json.dumps(item) + "\n" for item in later)

    assert shell("backfill", "claude", "--since", "2026-05-01", "--json").json["turns"] == 1
    assert "much later" in journal(project)
    assert shell("backfill", "claude", "--since", "soon").status == 2


@pytest.mark.parametrize("agent", AGENT_SESSIONS)
def test_sessions_of_agents_without_hooks_are_captured(
    agent: str, project: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is found is shown first, then captured once; what lies in the project may have come with it, and is nobody's own word."""
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    path = AGENT_SESSIONS[agent](Path.home(), project)
    os.utime(path, (AT_S, AT_S))

    dry = shell("backfill", "--dry-run")
    done = shell("backfill", "--json").json

    (found,) = done["agents"]
    assert (found["host"], found["sessions"], found["since"]) == (agent.split(maxsplit=1)[0], 1, "2026-03-05")
    assert dry.out.splitlines()[1].startswith(f"{found['title']} ")
    assert ("read by its documentation" in dry.out) is not found["verified"]
    assert (done["turns"], done["statements"], done["problems"]) == (2, 1, [])
    text = journal(project)
    assert FIRST in text
    assert SECOND in text
    is_in_project = path.is_relative_to(project)
    assert ("origin:import" in text) is is_in_project
    path.write_bytes(b"?" * path.stat().st_size)
    os.utime(path, (AT_S, AT_S))
    again = shell("backfill", "--json").json  # without reading: only the size and time are looked at
    assert (again["found"], again["turns"], again["skipped"]) == (1, 0, 2)


def test_a_session_that_another_agent_keeps_too_is_read_once(
    hosts: Path, project: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session of Claude Code that SpecStory has as well is read where Claude Code keeps it, also by a later backfill of SpecStory."""
    path = AGENT_SESSIONS["specstory"](hosts, project)
    path.write_text(
        path.read_text().replace(
            "Cursor IDE Session 5e12d300-1f90-4409-b098-1f5da9ca345d", "Claude Code Session c0claude"
        )
    )
    lines = claude_turn(f"{ID}7", FIRST, "done", cwd=str(project), sessionId="c0claude")
    write_lines(hosts / "claude" / "projects" / project.name / "c0claude.jsonl", lines)

    assert [agent["host"] for agent in shell("backfill", "claude", "specstory", "--json").json["agents"]] == ["claude"]
    assert shell("backfill", "specstory", "--json").json["found"] == 0


def test_what_a_reader_left_out_is_said(project: Path, shell: Shell) -> None:
    """Messages of a kind that the reader does not know are named, with the agent; an unknown agent is an error."""
    path = AGENT_SESSIONS["cline"](Path.home(), project)
    cline_task(path, {"ts": AT_S * 1000, "type": "say", "say": "hologram", "text": "?"})

    assert "Cline: left out: messages of the kind hologram" in shell("backfill", "cline").err
    assert shell("backfill", "emacs").status == 2


def test_flush_drains_here_and_says_what_it_did(shell: Shell, tmp_path: Path, home: Path) -> None:
    """Without a daemon the spooled turn is captured and found; incomplete events stay in the spool."""
    world = CaptureHome(tmp_path / "world")
    world.home = home
    talk = ClaudeTalk(world)
    talk.spool("session-start", source="startup")
    talk.exchange("where do otters sleep?", "They hold hands.")
    talk.spool("turn-end")

    done = shell("hosts", "flush")

    assert (done.status, done.out) == (0, "Captured 1 turn of 2 events.\n")
    assert "They hold hands." in world.text()
    assert shell("hosts", "flush", "--json").json["events"] == 0
    (home / "spool" / "x.json").write_text("{")
    bad = shell("hosts", "flush", "--wait", "0")
    assert bad.status == 1
    assert "moved to spool/failed" in bad.err
