"""Properties of every transcript: only our own errors, unique ids, preserved order, bounded size."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.ingest.transcripts import conversations
from tests.ingest.transcripts.agent_sessions import AGENT_SESSIONS

from lorelog.core.errors import LorelogError
from lorelog.core.session import TranscriptTurn
from lorelog.ingest.transcripts.conversation import open_conversation, read_conversation_head
from lorelog.ingest.transcripts.turns import MAX_INPUT_CHARS, MAX_RESULT_CHARS, MAX_TEXT_CHARS, MAX_TOOL_CALLS, iso_time

_PROPERTY = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=examples(80)
)
_WORDS = st.sampled_from(["", "user", "assistant", "message", "tool_use", "text", "u1", "\ud800", "turn-1", "x\ny"])
_VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | _WORDS | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_WORDS | st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
_TYPES = (
    "user assistant attachment system session message function_call function_call_output session_meta event_msg response_item "
    "turn_context turn/start user/message assistant/message tool/call tool/result"
).split()
_KEYS = (
    "uuid id role content message payload data item isSidechain parentUuid agentId timestamp time call_id turn turn_id source "
    "attachment version"
).split()
_SHAPES = st.dictionaries(st.sampled_from(_KEYS), _VALUES, max_size=6)
_RECORDS = st.builds(
    lambda kind, shape, inner: shape | {"type": kind, "message": inner, "payload": inner | {"type": "message"}},
    st.sampled_from(_TYPES) | _VALUES,
    _SHAPES,
    st.dictionaries(st.sampled_from(["role", "content", "type", "id", "item"]), _VALUES | st.just("user"), max_size=4),
)


def outcome(path: Path) -> list[TranscriptTurn]:
    """Return the turns, after those the metadata; none if the file is rejected with one of our errors."""
    try:
        turns = conversations.read(path)[0]
    except LorelogError:
        return []
    read_conversation_head(open_conversation(str(path)))
    return turns


def check(turns: list[TranscriptTurn]) -> None:
    assert len({turn.id for turn in turns}) == len(turns)
    assert [turn.number for turn in turns] == list(range(1, len(turns) + 1))
    for turn in turns:
        assert turn.id == "".join(turn.id.split()) != ""
        assert turn.user or turn.assistant or turn.tools
        assert all(len(text) <= MAX_TEXT_CHARS + 1000 for text in (turn.user, turn.assistant))
        assert len(turn.tools) <= MAX_TOOL_CALLS
        assert all(
            len(tool.result) <= MAX_RESULT_CHARS + 40 and len(tool.input) <= MAX_INPUT_CHARS + 40 for tool in turn.tools
        )
        texts = [turn.id, turn.user, turn.assistant, *(tool.name + tool.input + tool.result for tool in turn.tools)]
        assert "".join(texts).encode()  # nothing in it that could not be written


def samples(folder: Path) -> list[Path]:
    """Write one conversation in each format."""
    messages = [
        conversations.opencode_message("m1", "user", [conversations.text_part("Ask")]),
        conversations.opencode_message(
            "m2",
            "assistant",
            [conversations.text_part("Say"), conversations.tool_part("bash", {"command": "ls"}, "out")],
        ),
    ]
    export = folder / "export.json"
    export.write_text(json.dumps({"info": {"id": "s"}, "messages": messages}))
    rollout = [
        conversations.codex("session_meta", {"id": "t"}),
        conversations.codex("response_item", conversations.codex_message("user", "Ask")),
    ]
    talk = [
        *conversations.claude_turn("u1", "Ask", "Say"),
        conversations.claude("assistant", "a9", [conversations.tool_use("t", "Bash", command="ls")]),
        conversations.claude("user", "r9", [conversations.tool_result("t", "out")]),
    ]
    return [
        conversations.write_lines(folder / "claude.jsonl", talk),
        conversations.write_lines(folder / "codex.jsonl", rollout),
        conversations.write_lines(folder / "openclaw.jsonl", conversations.openclaw_talk()),
        export,
        conversations.opencode_database(folder / "opencode.db", {"s": messages}, {}),
        conversations.openclaw_database(folder / "openclaw.sqlite", {"s": conversations.openclaw_talk()}),
        *(write(folder / agent, folder) for agent, write in AGENT_SESSIONS.items()),
    ]


@_PROPERTY
@given(
    st.binary(max_size=400),
    st.sampled_from([b"", b"{", b'{"info": {', b"SQLite format 3\0", b"\x1f\x8b", b"(\xb5/\xfd"]),
)
def test_any_bytes_are_survived(tmp_path: Path, data: bytes, head: bytes) -> None:
    """A file of any bytes is read or rejected with one of our errors."""
    path = tmp_path / "x"
    path.write_bytes(head + data)

    check(outcome(path))


@pytest.mark.slow
@_PROPERTY
@given(st.lists(_RECORDS | _VALUES, max_size=12))
def test_any_records_are_survived(tmp_path: Path, records: list[Any]) -> None:
    """Records of known types and any shape give turns with unique ids, in order, within limits."""
    path = tmp_path / "x.jsonl"
    path.write_bytes(b"\n".join(json.dumps(record).encode() for record in records))

    check(outcome(path))


@pytest.mark.slow
@_PROPERTY
@given(st.lists(_RECORDS | _VALUES, max_size=6), _VALUES)
def test_any_documents_are_survived(tmp_path: Path, elements: list[Any], value: Any) -> None:
    """Documents whose members have any shape are read as far as possible."""
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"info": value, "messages": elements}))
    check(outcome(path))


@pytest.mark.slow
def test_files_cut_anywhere_and_damaged_anywhere_are_survived(tmp_path: Path) -> None:
    """Every format, truncated or damaged at many places, is read as far as possible or rejected."""
    chance = random.Random(5)
    for path in samples(tmp_path):
        whole = path.read_bytes()
        turns = outcome(path)
        assert turns
        broken = tmp_path / f"broken-{path.name}"
        for _ in range(40):
            broken.write_bytes(whole[: chance.randrange(len(whole))])
            check(outcome(broken))
            damaged = bytearray(whole)
            for _ in range(chance.randrange(1, 9)):
                damaged[chance.randrange(len(whole))] = chance.randrange(256)
            broken.write_bytes(damaged)
            check(outcome(broken))


@pytest.mark.slow
@_PROPERTY
@given(st.lists(st.tuples(st.sampled_from(["u1", "u2", "", "u3"]), st.sampled_from(["a", "b"])), max_size=12))
def test_turns_keep_the_order_of_their_lines(tmp_path: Path, requests: list[tuple[str, str]]) -> None:
    """Requests are in the order of their lines; a duplicate line counts once."""
    records: list[conversations.Record] = [conversations.claude("user", uuid, text) for uuid, text in requests]
    path = conversations.write_lines(
        tmp_path / "x.jsonl", [*records, *conversations.claude_turn("end", "Last", "Fine")]
    )

    turns, _ = conversations.read(path)

    seen: set[str] = set()
    kept = [text for uuid, text in requests if not uuid or not (uuid in seen or seen.add(uuid))]  # type: ignore[func-returns-value]
    assert [turn.user for turn in turns] == [*kept, "Last"]
    check(turns)


@pytest.mark.parametrize(
    "value", ["", "yesterday", None, True, -1, 10**30, float("nan"), float("inf"), "9999-99-99", []]
)
def test_an_invalid_time_is_ignored(value: object) -> None:
    """An invalid time is ignored."""
    assert iso_time(value) == ""


def test_times_are_utc_to_the_second() -> None:
    """Text with a zone, seconds and milliseconds give the same UTC time."""
    assert {iso_time("2026-03-05T15:30:00.5+01:00"), iso_time(1_772_721_000), iso_time(1_772_721_000_123)} == {
        "2026-03-05T14:30:00Z"
    }
