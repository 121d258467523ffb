"""Reading the conversation behind a memory, and finding those of a host for a backfill."""

from __future__ import annotations

import hashlib
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.examples import examples
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
from tests.stores.making import TemporaryStore

from lorelog.core.document import Document, FileStamp
from lorelog.core.errors import LorelogError, NotFound, SourceError, UsageError
from lorelog.core.options import ChunkOptions
from lorelog.core.ports import DocumentUpdate, Store
from lorelog.core.session import TranscriptReply
from lorelog.ingest.markdown import chunk_markdown
from lorelog.language.analyser import WordAnalyser
from lorelog.services.sessions import transcripts
from lorelog.services.sessions.agents import SeenTranscripts, find_host_sessions
from lorelog.services.sessions.transcripts import TranscriptSources, locate_anchor


def read_transcript(
    place: str, store: Store, *, directory: str | None, turn: str = "", context: int = 3
) -> TranscriptReply:
    """Read a transcript for somebody who may follow any anchor."""
    sources = TranscriptSources(store, locate_anchor, directory)
    return transcripts.read_transcript(place, sources, turn=turn, context=context)


def ids(reply: TranscriptReply) -> list[str]:
    return [turn.id for turn in reply.turns]


def empty_store() -> Store:
    return TemporaryStore(WordAnalyser(), provider="fake", model="fake")


def remember(folder: Path, anchor: str, heading: str = "### 14:30") -> tuple[Store, str]:
    """Index a journal of one entry with an anchor; return the store and the entry's id."""
    journal = Path(os.path.realpath(folder)) / "2026-03-05.md"
    journal.write_text(f"# 2026-03-05\n\n{heading}\n<!-- {anchor} -->\n- The cache was stale.\n")
    cut = chunk_markdown(journal.read_text(), str(journal), ChunkOptions())
    store = empty_store()
    document = Document(str(journal), str(journal.parent), "/p", FileStamp(1, 1, 1), "hash")
    with store.writer(take_over=True) as writer:
        writer.put([DocumentUpdate(document, cut.chunks)])
    (stored,) = store.find(next(iter(cut.chunks)).identify("fake")[:8])
    return store, stored.id


def talk(path: Path, count: int = 9) -> Path:
    """Write a conversation of some turns, u1 to uN with answers u1-a to uN-a."""
    records = [
        record
        for number in range(1, count + 1)
        for record in claude_turn(f"u{number}", f"Question {number}?", f"Answer {number}.")
    ]
    return write_lines(path, records)


def test_a_turn_and_those_around_it(tmp_path: Path) -> None:
    """The turn that was asked for is the focus, with as many before and after as were asked for."""
    path = talk(tmp_path / "s.jsonl")

    reply = read_transcript(str(path), empty_store(), turn="u5", context=2, directory="/")

    assert (ids(reply), reply.focus, reply.total) == (["u3", "u4", "u5", "u6", "u7"], "u5", 9)
    assert (reply.address, reply.host, reply.format, reply.session) == (str(path), "claude", "jsonl", "session-1")
    assert [(turn.number, turn.user, turn.assistant) for turn in reply.turns][2] == (5, "Question 5?", "Answer 5.")
    assert reply.tokens > 20
    assert reply.notes == ()


def test_without_a_turn_the_last_ones_are_shown(tmp_path: Path) -> None:
    """As many as there would be around a focus."""
    reply = read_transcript(str(talk(tmp_path / "s.jsonl")), empty_store(), context=1, directory="/")

    assert (ids(reply), reply.focus, reply.total) == (["u7", "u8", "u9"], "", 9)


@given(st.integers(1, 12), st.integers(0, 6), st.integers(1, 12))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=examples(60))
def test_the_window_is_a_run_of_turns_around_the_focus(tmp_path: Path, count: int, context: int, wanted: int) -> None:
    """Whatever the sizes, what is shown are neighbours in order, the focus among them, none twice."""
    path, wanted = talk(tmp_path / "s.jsonl", count), min(wanted, count)

    reply = read_transcript(str(path), empty_store(), turn=f"u{wanted}", context=context, directory="/")

    first, last = max(1, wanted - context), min(count, wanted + context)
    assert [turn.number for turn in reply.turns] == list(range(first, last + 1))
    assert reply.focus == f"u{wanted}"


def test_a_turn_may_be_named_in_many_ways(tmp_path: Path) -> None:
    """By any name the host has for something in it, and by the beginning of its id, if that says enough."""
    first = claude_turn("5f0c1a77-aaaa", "One?", "1", promptId="prompt-one")
    second = claude_turn("5f0c9b22-bbbb", "Two?", "2")
    place, store = str(write_lines(tmp_path / "s.jsonl", [*first, *second])), empty_store()

    def focus(turn: str) -> str:
        return read_transcript(place, store, turn=turn, directory="/").focus

    assert {focus(name) for name in ("5f0c1a77-aaaa", "5f0c1a77", "prompt-one", "5f0c1a77-aaaa-a", "prompt")} == {
        "5f0c1a77-aaaa"
    }
    assert focus("5f0c9") == "5f0c9b22-bbbb"
    with pytest.raises(UsageError, match="2 turns have a name that starts with '5f0c'") as caught:
        focus("5f0c")
    assert "more of the id" in caught.value.hint


def test_an_unknown_turn_names_the_nearest(tmp_path: Path) -> None:
    """The error helps: ids that look alike, or else the last ones; too short a beginning is no name."""
    records = [*claude_turn("5f0c1a77-aaaa", "One?", "1"), *claude_turn("77aa0000-cccc", "Two?", "2")]
    place, store = str(write_lines(tmp_path / "s.jsonl", records)), empty_store()

    with pytest.raises(NotFound, match="has no turn '5f0c1a77-aaax'") as caught:
        read_transcript(place, store, turn="5f0c1a77-aaax", directory="/")
    assert caught.value.hint == "similar: 5f0c1a77-aaaa"
    with pytest.raises(NotFound) as caught:
        read_transcript(place, store, turn="zz", directory="/")
    assert caught.value.hint == "its last turns are 5f0c1a77-aaaa, 77aa0000-cccc"


def test_paths_are_relative_to_the_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path may be relative, begin with a dot or a tilde, or be a bare name that no memory has."""
    talk(tmp_path / "s.jsonl")
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "below").mkdir()

    for place, directory in [
        ("s.jsonl", tmp_path),
        ("./s.jsonl", tmp_path),
        ("../s.jsonl", tmp_path / "below"),
        ("~/s.jsonl", "/"),
        (f"file://{tmp_path}/s.jsonl", "/"),
    ]:
        reply = read_transcript(place, empty_store(), directory=str(directory))
        assert (reply.total, reply.address) == (9, str(tmp_path / "s.jsonl"))


def test_what_cannot_be_asked_for_is_refused(tmp_path: Path) -> None:
    """No place, a context out of range, an unknown kind of address, and names that nothing has."""
    store, directory = empty_store(), str(tmp_path)

    for place, context in [("", 3), ("  ", 3), ("x\0y", 3), ("s.jsonl", -1), ("s.jsonl", 101)]:
        with pytest.raises(UsageError):
            read_transcript(place, store, context=context, directory=directory)
    with pytest.raises(SourceError, match="has an unknown scheme"):
        read_transcript("https://example.com/s.jsonl", store, directory=directory)
    with pytest.raises(NotFound, match="neither the id of a chunk or memory nor a file"):
        read_transcript("0123abcd", store, directory=directory)
    with pytest.raises(NotFound, match="there is no file"):
        read_transcript("./0123abcd", store, directory=directory)
    with pytest.raises(SourceError, match="is a directory"):
        read_transcript("./", store, directory=directory)


def test_a_memory_leads_to_its_turn(tmp_path: Path) -> None:
    """The id of a chunk stands for the conversation and the turn of its anchor; another turn may be named."""
    (tmp_path / "with space").mkdir()
    path = talk(tmp_path / "with space" / "s.jsonl")
    store, identity = remember(tmp_path, f"session:session-1 turn:u4 transcript:{path}")

    reply = read_transcript(identity[:10], store, context=1, directory="/")
    other = read_transcript(identity, store, turn="u8", context=0, directory="/")

    assert (ids(reply), reply.focus, reply.address) == (["u3", "u4", "u5"], "u4", str(path))
    assert (ids(other), other.focus) == (["u8"], "u8")


def test_addresses_in_anchors_start_at_the_journal(tmp_path: Path) -> None:
    """A relative address does not depend on where one stands."""
    talk(tmp_path / "s.jsonl")
    store, identity = remember(tmp_path, "session:session-1 turn:u2 transcript:s.jsonl")

    assert read_transcript(identity, store, directory="/").focus == "u2"


def test_a_turn_that_is_gone_is_told(tmp_path: Path) -> None:
    """When the anchor's turn is not in the file, the last turns are shown, with a note."""
    path = talk(tmp_path / "s.jsonl")
    store, identity = remember(tmp_path, f"session:session-1 turn:gone transcript:{path}")

    reply = read_transcript(identity, store, context=0, directory="/")

    assert (ids(reply), reply.focus) == (["u9"], "")
    assert "turn gone" in reply.notes[0]


def test_memories_without_a_conversation_say_so(tmp_path: Path) -> None:
    """An entry without an anchor, and one whose conversation was deleted, are errors with a hint."""
    store, identity = remember(tmp_path, "memory:m1 type:note")
    with pytest.raises(SourceError, match="not captured from a conversation"):
        read_transcript(identity, store, directory="/")

    store, identity = remember(tmp_path, "session:s turn:t transcript:/nowhere/s.jsonl")
    with pytest.raises(NotFound, match=r"there is no file /nowhere/s\.jsonl") as caught:
        read_transcript(identity, store, directory="/")
    assert caught.value.hint


@pytest.fixture
def _in_berlin(monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield None
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("_in_berlin")
def test_an_anchor_without_a_turn_is_found_by_its_time(tmp_path: Path) -> None:
    """A Codex anchor names no turn: the one that went on when the entry was written, in local time, is the focus."""
    records = [codex("session_meta", {"id": "thread-1"})]
    for hour in (12, 13, 14):  # UTC; 14:30 in Berlin is 13:30
        records.append(codex("response_item", codex_message("user", f"At {hour}"), f"2026-03-05T{hour}:10:00Z"))
        records.append(codex("response_item", codex_message("assistant", "Yes"), f"2026-03-05T{hour}:11:00Z"))
    path = write_lines(tmp_path / "rollout.jsonl", records)
    store, identity = remember(tmp_path, f"session:thread-1 rollout:{path}")

    reply = read_transcript(identity, store, context=1, directory="/")

    assert [turn.user for turn in reply.turns] == ["At 12", "At 13", "At 14"]
    assert reply.focus == "turn-2"
    assert "names no turn" in reply.notes[0]


def test_a_database_is_read_by_session_and_turn(tmp_path: Path) -> None:
    """OpenCode's anchor names database, session and turn; by hand the session stands behind a `#`."""
    sessions = {
        name: [opencode_message(f"msg_{name}{n}", "user", [text_part(f"{name} {n}")]) for n in range(3)]
        for name in ("ses_a", "ses_b")
    }
    path = opencode_database(tmp_path / "open code.db", sessions, {})
    store, identity = remember(tmp_path, f"session:ses_a turn:msg_ses_a1 db:{path}")

    reply = read_transcript(identity, store, context=1, directory="/")

    assert ([turn.user for turn in reply.turns], reply.focus) == (["ses_a 0", "ses_a 1", "ses_a 2"], "msg_ses_a1")
    assert (reply.address, reply.session, reply.format) == (f"{path}#ses_a", "ses_a", "sqlite")
    assert read_transcript(f"{path}#ses_a", store, context=0, directory="/").session == "ses_a"
    newest = read_transcript("open code.db", store, context=0, directory=str(tmp_path))
    assert (newest.session, newest.notes) == (
        "ses_b",
        ("showing the newest of 2 sessions; select another one with FILE#SESSION",),
    )
    with pytest.raises(NotFound, match="holds no session 'ses_c'"):
        read_transcript(f"{path}#ses_c", store, directory="/")


@pytest.mark.parametrize("kind", ["file", "list", "list with file", "database", "database beside", "home"])
def test_openclaw_addresses_are_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """A path, a session list, a database, a store whose list has moved into one, or nothing but the key: all lead there."""
    home = tmp_path / "claw"
    sessions, agent = home / "agents" / "main" / "sessions", home / "agents" / "main" / "agent"
    sessions.mkdir(parents=True)
    agent.mkdir()
    monkeypatch.setenv("OPENCLAW_STATE_DIR", str(home))
    key = "agent:main:main"
    address = f"openclaw-session://main/claw-1?sessionKey={key}&store={sessions / 'sessions.json'}"
    if kind in {"file", "list"}:
        write_lines(sessions / "claw-1.jsonl", openclaw_talk())
    elif kind == "list with file":
        write_lines(sessions / "other.jsonl", openclaw_talk())
        (sessions / "sessions.json").write_text(json.dumps({key: {"sessionId": "x", "sessionFile": "other.jsonl"}}))
    else:
        database = openclaw_database(agent / "openclaw-agent.sqlite", {"claw-1": openclaw_talk()})
        if kind == "database":
            address = f"openclaw-session://agent/session?sessionKey={key}&store={database}"
        elif kind == "home":
            address = f"openclaw-session://main/claw-1?sessionKey={key}"
    if kind == "file":
        address = str(sessions / "claw-1.jsonl")
    elif kind == "list":
        address = f"openclaw-session://agent/session?sessionKey={key}&store={sessions / 'sessions.json'}"
        (sessions / "sessions.json").write_text(json.dumps({key: {"sessionId": "claw-1"}}))
    store, identity = remember(tmp_path, f"session:claw-1 transcript:{address}", "## Notes")

    reply = read_transcript(identity, store, directory="/")

    assert (reply.host, reply.total, reply.session) == ("openclaw", 2, "claw-1")
    if kind != "file":
        assert read_transcript(address, store, directory="/").total == 2


def test_an_openclaw_address_leads_nowhere_else(tmp_path: Path) -> None:
    """A session's name cannot climb out of the store, and what is not there says where it was looked for."""
    (tmp_path / "store").mkdir()
    write_lines(tmp_path / "secret.jsonl", openclaw_talk())
    for address in (
        f"openclaw-session://main/..%2Fsecret?store={tmp_path / 'store'}",
        f"openclaw-session://..%2F../x?store={tmp_path / 'store'}",
        "openclaw-session://[bad",
    ):
        with pytest.raises((NotFound, SourceError)):
            read_transcript(address, empty_store(), directory="/")


def test_a_reply_has_a_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Turns that would be too much together are left out, the farthest first, and a note says so."""
    monkeypatch.setattr(transcripts, "MAX_REPLY_CHARS", 2000)
    records = [record for n in range(1, 8) for record in claude_turn(f"u{n}", "q" * 400, "a" * 400)]
    place, store = str(write_lines(tmp_path / "s.jsonl", records)), empty_store()

    middle = read_transcript(place, store, turn="u4", context=3, directory="/")
    last = read_transcript(place, store, context=3, directory="/")

    assert ids(middle) == ["u3", "u4"]
    assert ids(last) == ["u6", "u7"]
    assert "5 turns are left out" in middle.notes[0]
    monkeypatch.setattr(transcripts, "MAX_REPLY_CHARS", 10)
    assert ids(read_transcript(place, store, turn="u4", context=3, directory="/")) == ["u4"]


def test_what_was_cut_or_broken_is_told(tmp_path: Path) -> None:
    """Notes say that texts were cut and that lines could not be read."""
    path = write_lines(tmp_path / "s.jsonl", [*claude_turn("u1", "q" * 30_000, "a"), '{"type": "us'])

    reply = read_transcript(str(path), empty_store(), directory="/")

    assert (reply.broken, reply.turns[0].truncated) == (1, True)
    assert [note.split(":")[0] for note in reply.notes] == ["1 of its lines are malformed", "long texts are truncated"]


def test_a_conversation_without_turns_is_empty(tmp_path: Path) -> None:
    """A session that has just begun is shown as empty; a turn of it cannot be there."""
    place = str(write_lines(tmp_path / "s.jsonl", openclaw_talk()[:2]))

    reply = read_transcript(place, empty_store(), directory="/")

    assert (reply.turns, reply.total, reply.notes) == ((), 0, ("it has no messages yet",))
    with pytest.raises(NotFound):
        read_transcript(place, empty_store(), turn="u1", directory="/")


@given(st.text(max_size=30) | st.sampled_from(["~nobody-here/x", "openclaw-session://", "file://", "#", "a#b", "//"]))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=examples(80))
def test_any_place_is_survived(tmp_path: Path, place: str) -> None:
    """Whatever is asked for, the answer is a reply or an error of ours."""
    try:
        reply = read_transcript(place, empty_store(), directory=str(tmp_path))
    except LorelogError as error:
        message = error.message
    else:
        message = reply.address
    assert message.encode()


AT = "2026-11-16T10:00:00.000Z"
HERE = "/src/app-one"
"""Its folder in Claude Code and Qwen Code, -src-app-one, is also that of /src/app/one."""
CLAUDE = {"sessionId": "s", "uuid": "u", "parentUuid": None, "timestamp": AT, "type": "user", "cwd": HERE}
PI_SESSION = {"type": "session", "version": 3, "id": "s", "timestamp": AT, "cwd": HERE}
PI_MESSAGE = {"type": "message", "id": "u", "timestamp": AT, "message": {"role": "user", "content": "Go"}}
SESSIONS: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "claude": (".claude/projects/-src-app/s.jsonl", [{**CLAUDE, "message": {"role": "user", "content": "Go"}}]),
    "codex": (
        ".codex/sessions/2026/11/16/rollout-2026-11-16T10-00-00-s.jsonl",
        [{"timestamp": AT, "type": "session_meta", "payload": {"id": "s", "cwd": HERE, "timestamp": AT}}],
    ),
    "gemini": (
        ".gemini/tmp/app/chats/session-s.jsonl",
        [
            {"sessionId": "s", "projectHash": hashlib.sha256(HERE.encode()).hexdigest(), "startTime": AT},
            {"id": "u", "timestamp": AT, "type": "user", "content": [{"text": "Go"}]},
        ],
    ),
    "qwen": (
        ".qwen/projects/-src-app/chats/s.jsonl",
        [{**CLAUDE, "version": "0.24.4", "message": {"role": "user", "parts": [{"text": "Go"}]}}],
    ),
    "copilot": (
        ".copilot/session-state/s/events.jsonl",
        [
            {
                "type": "session.start",
                "data": {"sessionId": "s", "context": {"cwd": HERE}},
                "id": "e",
                "timestamp": AT,
                "parentId": None,
            }
        ],
    ),
    "droid": (".factory/sessions/-src-app/s.jsonl", [{"type": "session_start", "id": "s", "cwd": HERE}, PI_MESSAGE]),
    "pi": (".pi/agent/sessions/--src-app--/s.jsonl", [PI_SESSION, PI_MESSAGE]),
    "omp": (".omp/agent/sessions/-src-app/s.jsonl", [{"type": "title", "v": 1}, PI_SESSION, PI_MESSAGE]),
}


def write_session(host: str, home: Path) -> None:
    """Write a session of /src/app-one into the folder of another project."""
    name, records = SESSIONS[host]
    path = home / name
    path.parent.mkdir(parents=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    (home / ".gemini").mkdir(exist_ok=True)
    (home / ".gemini" / "projects.json").write_text(json.dumps({"projects": {"/src/app": "app", HERE: "app-one"}}))


@pytest.mark.parametrize("host", SESSIONS)
def test_a_session_is_filed_by_the_directory_recorded_in_it(host: str, tmp_path: Path) -> None:
    """A session in the folder of another project belongs to the directory that the session itself names."""
    write_session(host, Path.home())

    (found,) = find_host_sessions(host, {}, SeenTranscripts(tmp_path))

    assert (found.host, found.directory) == (host, HERE)


@pytest.mark.parametrize("host", SESSIONS)
def test_a_session_without_a_directory_is_not_filed_by_its_folder(host: str, tmp_path: Path) -> None:
    """Without a recorded directory a session has none, whatever its folder is called."""
    write_session(host, Path.home())
    path = Path.home() / SESSIONS[host][0]
    text = path.read_text().replace(json.dumps(HERE), '""')
    path.write_text(text.replace(hashlib.sha256(HERE.encode()).hexdigest(), "0" * 64))

    assert [found.directory for found in find_host_sessions(host, {}, SeenTranscripts(tmp_path))] == [""]
