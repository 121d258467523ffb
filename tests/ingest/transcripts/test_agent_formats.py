"""Formats of agents without a host adapter, which are translated to the records of one of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.ingest.transcripts.agent_sessions import (
    AGENT_SESSIONS,
    AGREED,
    ANSWER,
    AT_S,
    COMMAND,
    FIRST,
    OUTPUT,
    SECOND,
    SESSION,
    cline_task,
    copilot_requests,
    cursor_bubbles,
    cursor_database,
    goose_messages,
    make_database,
)
from tests.ingest.transcripts.conversations import exchanges, read, write_lines

from lorelog.ingest.transcripts.conversation import open_conversation, read_conversation_head
from lorelog.ingest.transcripts.turns import TranscriptStats

BOTH = [(FIRST, ANSWER), (SECOND, AGREED)]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "work" / "app"
    folder.mkdir(parents=True)
    return folder


@pytest.mark.parametrize("agent", AGENT_SESSIONS)
def test_a_session_has_its_turns_calls_times_and_directory(agent: str, tmp_path: Path, project: Path) -> None:
    """Of each agent's session the requests, answers, commands with their failure, the time and the directory are read."""
    path = AGENT_SESSIONS[agent](tmp_path / "home", project)
    conversation = open_conversation(str(path))
    turns = list(conversation.turns(TranscriptStats()))
    head = read_conversation_head(conversation)

    assert exchanges(turn.turn for turn in turns) == BOTH
    assert head.directory == str(project)
    assert SESSION in head.session or agent not in {"droid", "kimi", "amp"}
    assert abs((head.created or turns[0].start_time or 0) - AT_S) < 86_400
    assert all(turn.start_time is not None for turn in turns)
    (call,) = turns[0].turn.tools
    if agent != "aider":  # it has only the files that it edits
        assert (call.input, OUTPUT in call.result) == (COMMAND, True)
        assert turns[0].digest.actions[0].command == COMMAND
        assert turns[0].digest.actions[0].failed == (agent not in {"cline", "roo", "kilo", "specstory"})
    assert not turns[1].turn.tools


def test_aider_tells_prompts_from_headings_commands_and_plans(tmp_path: Path) -> None:
    """Prompts of several lines are one; headings of answers, commands, answers to questions and an architect's plan are none."""
    plan = "Change two files.\n\nRename the cache."
    repeated = "".join(f"#### {line}  \n" for line in plan.splitlines())
    history = (
        "# aider chat started at 2026-03-05 08:40:00\n\n#### Rename the cache  \n####   \n#### in both files.  \n\n"
        f"{plan}\n\n> Edit the files? (Y)es/(N)o [Yes]: y  \n\n{repeated}\n<thinking-content-7b>\nhm\n</thinking-content-7b>\n\n"
        "#### Steps\n\nDone.\n\n> Applied edit to a.py  \n> Applied edit to b.py  \n\n#### /add c.py  \n> Added c.py to the chat  \n\n"
        "#### Add file to the chat? (Y)es/(N)o [Yes]: all  \n\n# aider chat started at 2026-03-06 09:00:00\n\n#### /ask why?  \n\nSpeed.\n"
    )
    path = tmp_path / "history.md"
    path.write_text(history.replace("\n", "\r\n"), newline="")

    turns, _ = read(path)

    assert exchanges(turns) == [
        ("Rename the cache\n\nin both files.", f"{plan}\n\n#### Steps\n\nDone."),
        ("why?", "Speed."),
    ]
    assert [tool.input for tool in turns[0].tools] == ["a.py", "b.py"]
    assert turns[0].id == "2026-03-05T08:40:00#1"
    assert turns[1].time > turns[0].time


def test_specstory_leaves_out_what_is_quoted_or_not_typed(tmp_path: Path) -> None:
    """A session in a tool's output, a subagent's turns and what Claude Code inserts are no turns; a fence without an end hides none."""
    quoted = '<tool-use data-tool-type="read" data-tool-name="Read"><details>\n`a.md`\n\n_**User**_\n\nquoted\n\n</details></tool-use>'
    blocks = [
        ("User", "Look at this: ```\nerror"),
        ("Agent (model)", quoted),
        ("Agent (model)", "<think><details>hm</details></think>\n\nIt failed."),
        ("User", "<local-command-stdout>ok</local-command-stdout>"),
        ("User (sidechain)", "Search the files."),
        ("Agent - sidechain (model)", "Found."),
        ("User (2026-03-05 09:00Z)", "Thanks"),
        ("Assistant", "Gladly."),
    ]
    path = tmp_path / "old.md"
    text = "".join(f"_**{who}**_\n\n{said}\n\n---\n\n" for who, said in blocks)
    path.write_text(f"## SpecStory\n\n## A title (3/5/2026, 9:00:00 AM)\n\n{text}")

    turns, _ = read(path)

    assert exchanges(turns) == [("Look at this: ```\nerror", "It failed."), ("Thanks", "Gladly.")]
    assert [(tool.name, tool.input) for tool in turns[0].tools] == [("Read", "a.md")]


def test_changes_of_a_copilot_chat_are_applied(tmp_path: Path) -> None:
    """A session in lines has the requests that remain after values were set, added, cut off and deleted."""
    first, second = copilot_requests()
    wrong = {"requestId": "r0", "message": {"text": "typo"}, "response": []}
    changes: list[dict[str, Any]] = [
        {"kind": 0, "v": {"version": 3, "responderUsername": "", "requests": [wrong]}},
        {"kind": 2, "k": ["requests"], "v": [{**first, "response": []}], "i": 0},
        {"kind": 2, "k": ["requests", 0, "response"], "v": first["response"]},
        {"kind": 2, "k": ["requests"], "v": [{**second, "message": {"text": "wrong"}, "isCanceled": True}]},
        {"kind": 1, "k": ["requests", 1, "message"], "v": second["message"]},
        {"kind": 3, "k": ["requests", 1, "isCanceled"]},
        {"kind": 1, "k": ["requests", 7, "message"], "v": {}},
        {"kind": 8, "k": ["requests"]},
    ]
    path = write_lines(tmp_path / f"{SESSION}.jsonl", [json.dumps(change, separators=(",", ":")) for change in changes])

    turns, stats = read(path)

    assert exchanges(turns) == BOTH
    assert (stats.broken, stats.notes) == (1, {"left out: changes of the kind 8": 1})


def test_older_sessions_of_cursor(tmp_path: Path) -> None:
    """Messages in the session's own value, sessions in a workspace's database, and chats before them are read, each as one session."""
    bubbles = cursor_bubbles()
    chat = [{"id": "1", "type": "user", "text": FIRST}, {"id": "2", "type": "ai", "rawText": ANSWER}]
    items = [
        (
            "composer.composerData",
            json.dumps({"allComposers": [{"composerId": "old", "createdAt": AT_S, "conversation": bubbles}]}),
        ),
        (
            "workbench.panel.aichat.view.aichat.chatdata",
            json.dumps({"tabs": [{"tabId": "chat", "lastSendTime": AT_S * 1000, "bubbles": chat}]}),
        ),
    ]
    global_ = cursor_database(tmp_path / "state.vscdb", {"createdAt": AT_S * 1000, "conversation": bubbles}, [])
    local = make_database(
        tmp_path / "w" / "state.vscdb", "CREATE TABLE ItemTable (key TEXT, value BLOB)", {"ItemTable": items}
    )

    assert exchanges(read(global_)[0]) == exchanges(read(local, "old")[0]) == BOTH
    assert exchanges(read(local, "chat")[0]) == BOTH[:1]
    assert read(local, "chat")[0][0].time == "2026-03-05T08:40:00Z"


def test_lines_of_cursor_have_the_directory_that_their_folder_names(tmp_path: Path) -> None:
    """A request has the time told with it; the directory is the only one whose name the folder has, with hyphens."""
    project = tmp_path / "my.work" / "the-app"
    project.mkdir(parents=True)
    name = "-".join(str(project).replace(".", "-").replace("_", "-").split("/")).strip("-")
    folder = tmp_path / ".cursor" / "projects" / name / "agent-transcripts" / SESSION
    folder.mkdir(parents=True)
    asked = f"<timestamp>Thursday, Mar 5, 2026, 10:40 AM (UTC+2)</timestamp>\n<user_query>\n{FIRST}\n</user_query>"
    lines: list[dict[str, Any]] = [
        {"role": "user", "message": {"content": [{"type": "text", "text": asked}]}},
        {
            "role": "assistant",
            "message": {"content": [{"type": "tool_use", "name": "Shell", "input": {"command": COMMAND}}]},
        },
        {"role": "assistant", "message": {"content": [{"type": "text", "text": ANSWER}]}},
        {"type": "turn_ended", "status": "aborted"},
        {"type": "metadata"},
    ]
    path = write_lines(folder / f"{SESSION}.jsonl", lines)

    (turn,), stats = read(path)

    assert (turn.user, turn.assistant, turn.time) == (FIRST, ANSWER, "2026-03-05T08:40:00Z")
    assert turn.interrupted
    assert [tool.input for tool in turn.tools] == [COMMAND]
    assert stats.notes == {"left out: records of the kind metadata": 1}
    assert read_conversation_head(open_conversation(str(path))).directory == str(project)
    (tmp_path / "my" / "work" / "the-app").mkdir(parents=True)
    assert read_conversation_head(open_conversation(str(path))).directory == ""


def test_an_older_thread_of_zed(tmp_path: Path) -> None:
    """A thread without compression, in the form and table of an older version, has its turns."""
    messages = [
        {"id": 1, "role": "user", "segments": [{"type": "text", "text": FIRST}]},
        {
            "id": 2,
            "role": "assistant",
            "segments": [{"type": "thinking", "text": "hm"}, {"type": "text", "text": ANSWER}],
        },
    ]
    row = (SESSION, "", "2026-03-05T08:40:00+00:00", "json", json.dumps({"version": "0.2.0", "messages": messages}))
    schema = "CREATE TABLE threads (id TEXT, summary TEXT, updated_at TEXT, data_type TEXT, data BLOB)"

    turns, _ = read(make_database(tmp_path / "threads.db", schema, {"threads": [row]}))

    assert exchanges(turns) == BOTH[:1]
    assert turns[0].time == "2026-03-05T08:40:00Z"


def test_lines_of_goose(tmp_path: Path) -> None:
    """A session of Goose before its database has the same turns."""
    about = {"working_dir": "/src/app", "description": "", "created_at": "2026-03-05T08:40:00Z"}
    path = write_lines(tmp_path / "20260305_1.jsonl", [about, *goose_messages()])

    turns, _ = read(path)
    head = read_conversation_head(open_conversation(str(path)))

    assert exchanges(turns) == BOTH
    assert [(tool.input, tool.result, tool.failed) for tool in turns[0].tools] == [(COMMAND, OUTPUT, True)]
    assert (head.session, head.directory, head.created) == ("20260305_1", "/src/app", AT_S)


def test_what_a_reader_does_not_know_is_named(tmp_path: Path) -> None:
    """A kind of message that a newer version may add is left out and named, and the rest is read."""
    path = cline_task(tmp_path / "ui_messages.json", {"ts": AT_S, "type": "say", "say": "hologram", "text": "?"})

    turns, stats = read(path)

    assert exchanges(turns) == BOTH
    assert stats.notes == {"left out: messages of the kind hologram": 1}
