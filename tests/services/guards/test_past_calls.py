"""Past tool calls are read from transcripts as captures read them."""

from __future__ import annotations

from pathlib import Path

from tests.ingest.transcripts.conversations import claude, copilot_talk, tool_result, tool_use, write_lines

from lorelog.services.guards.past_calls import read_transcript_calls

REJECTED = "The user doesn't want to proceed with this tool use. To tell you how to proceed, the user said:\nuse pnpm"


def test_a_call_has_what_it_wrote_and_how_the_user_reacted(tmp_path: Path) -> None:
    """A call has its kind, files, added lines and end, and the user's next words; those of a rejection come first."""
    edit = {"file_path": "/app/a.py", "old_string": "x = 1\ny = 2", "new_string": "x = 1\ny = 3"}
    records = [
        claude("user", "u1", "set it up"),
        claude("assistant", "a1", [tool_use("c1", "Bash", command="npm install"), tool_use("c2", "Edit", **edit)]),
        claude("user", "r1", [tool_result("c1", REJECTED, is_error=True), tool_result("c2", "done")]),
        claude(
            "assistant", "a2", [tool_use("c3", "Bash", command="git push"), tool_use("c4", "Read", file_path="b.py")]
        ),
        claude("user", "r2", [tool_result("c3", "Blocked by lorelog guard g1: not now", is_error=True)]),
        claude("user", "u2", "never push"),
    ]
    calls = list(read_transcript_calls(str(write_lines(tmp_path / "s.jsonl", records)), "s"))

    assert [(call.kind, call.paths, call.command, call.content, call.statement) for call in calls] == [
        ("run", (), "npm install", "", "use pnpm"),
        ("edit", ("/app/a.py",), "", "y = 3", "never push"),
        ("run", (), "git push", "", "never push"),
        ("read", ("b.py",), "", "", "never push"),
    ]
    assert [(call.rejected, call.stopped) for call in calls] == [
        (True, False),
        (False, False),
        (False, True),
        (False, False),
    ]


def test_calls_of_every_host_are_read(tmp_path: Path) -> None:
    """A transcript of another host has its calls too."""
    calls = list(read_transcript_calls(str(write_lines(tmp_path / "events.jsonl", copilot_talk()))))

    assert any(call.command for call in calls)
    assert {call.host for call in calls} == {"copilot"}
