"""Events become journal entries: which turns are captured, when, and never twice."""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from pathlib import Path
from types import FrameType
from urllib.parse import unquote, urlsplit

import pytest
from tests.ingest.transcripts.conversations import claude, opencode_database, opencode_message, text_part
from tests.services.sessions.talks import START, CaptureHome, ClaudeTalk

from lorelog.core.errors import StoreError, StoreUnwritable
from lorelog.core.options import CaptureOptions
from lorelog.core.session import turn_memory_id
from lorelog.ingest.markdown import chunk_markdown
from lorelog.ingest.metadata import parse_anchor
from lorelog.ingest.redaction.redact import redact
from lorelog.ingest.transcripts.conversation import TAILS
from lorelog.services.memory_state.tombstones import Tombstone, memory_key
from lorelog.services.sessions.capture import ANSWER_WAIT_S, MISSING_WAIT_S, Backfill


def test_a_turn_that_ended_is_written_and_searchable(world: CaptureHome, talk: ClaudeTalk) -> None:
    """The entry is in the journal of its day with its own time and a source anchor, and is indexed."""
    talk.ask("why is the cache stale?")
    talk.run("make test", "Exit code 2\nmake: *** no rule", fails=True)
    talk.run("make check", "ok")
    talk.say("The key lacked the tenant.")

    world.capture(talk.event("prompt"))
    (captured,) = world.capture(talk.event("turn-end", branch="main", commit="abc123def456")).captured

    assert captured.source == str(world.place.journals / "2026-03-05.md")
    assert captured.time == "2026-03-05T14:00:10+00:00"
    lines = Path(captured.source).read_text().splitlines()
    assert lines[captured.start_line - 1] == "### 14:00"
    anchor = parse_anchor(lines[captured.start_line].removeprefix("<!--").removesuffix("-->"))
    assert anchor is not None
    assert (anchor.session, anchor.turn, anchor.transcript) == (talk.session, talk.turn, str(talk.path))
    assert (anchor.memory, anchor.type, anchor.origin) == (captured.memory, "turn", "agent")
    assert (anchor.branch, anchor.commit) == ("main", "abc123def456")
    assert lines[captured.start_line + 1 :] == [
        "- User asked: why is the cache stale?",
        "- Outcome: The key lacked the tenant.",
        "- Commands: `make check`",
        "- Errors: Bash `make test`: make: *** no rule",
    ]
    assert [item.chunk.anchor for item in world.store.find(captured.memory)] == [anchor]


def test_an_event_that_is_seen_to_late_takes_only_what_it_speaks_of(world: CaptureHome, talk: ClaudeTalk) -> None:
    """A turn that began after the event is not captured yet."""
    first = talk.exchange("first", "done first")
    talk.ask("second")
    talk.say("I am still at it")

    assert [item.turn for item in world.capture(first).captured] != []
    assert "second" not in world.text()
    nameless = {**first, "turn": "", "answer": ""}
    assert world.capture(nameless).captured == ()


@pytest.mark.parametrize("name", [{}, {"turn": ""}])
def test_a_prompt_takes_the_turns_before_it(world: CaptureHome, name: dict[str, str], talk: ClaudeTalk) -> None:
    """An interrupted turn is captured by the next prompt, which is not captured itself, also by its time alone."""
    world.capture(talk.event("session-start", source="startup"))
    talk.ask("interrupted one")
    talk.say("I begin")
    talk.ask("next one")
    prompt = talk.event("prompt") | name
    talk.say("half an answer")

    world.capture(prompt)

    assert "interrupted one" in world.text()
    assert "next one" not in world.text()


def test_a_session_that_ends_takes_all(world: CaptureHome, talk: ClaudeTalk) -> None:
    """An unanswered turn is captured as interrupted."""
    world.capture(talk.event("session-start", source="startup"))
    talk.exchange("first", "done first")
    talk.ask("never answered")

    world.capture(talk.event("session-end"))

    assert "- Ended: interrupted" in world.entries()[1]
    assert "never answered" in world.entries()[1]


def test_a_turn_that_begins_right_after_is_not_over(world: CaptureHome, talk: ClaudeTalk) -> None:
    """A turn that begins within a second after a session's end or start is not captured by that event."""
    world.capture(talk.event("session-start", source="startup"))
    talk.exchange("first", "done first")
    late = [talk.event("session-end"), talk.event("session-start", source="resume")]
    world.tick(-9.5)  # asking takes ten seconds here
    talk.ask("second")

    for event in late:
        world.capture(event)
    assert "second" not in world.text()

    talk.say("done second")
    world.capture(talk.event("turn-end"))
    assert len(world.entries()) == 2


def test_compaction_leaves_the_turn_that_goes_on(world: CaptureHome, talk: ClaudeTalk) -> None:
    """Compaction may happen during a turn, which is not captured then."""
    world.capture(talk.event("session-start", source="startup"))
    talk.exchange("first", "done first")
    talk.ask("second")
    talk.say("half")

    world.capture(talk.event("compact"))
    assert "first" in world.text()
    assert "second" not in world.text()

    late = talk.event("compact")
    talk.exchange("third", "done third")
    world.capture(late)
    assert "second" in world.text()
    assert "third" not in world.text()


def test_history_from_before_the_first_event_is_left_alone(world: CaptureHome, talk: ClaudeTalk) -> None:
    """Installing a plugin captures the turn that ends then and nothing earlier; a backfill captures the rest."""
    for number in range(3):
        talk.exchange(f"old {number}", "done")
    world.tick(3600)
    event = talk.exchange("new", "done new")

    assert len(world.capture(event).captured) == 1
    assert "old" not in world.text()

    assert len(world.capture(talk.event("session-end"), Backfill()).captured) == 3
    assert world.capture(talk.event("session-end"), Backfill()).captured == ()
    assert len(world.entries()) == 4


def test_backfill_takes_turns_from_a_day_on_and_may_only_tell(world: CaptureHome, talk: ClaudeTalk) -> None:
    """A dry run reports the turns and creates no file."""
    talk.exchange("march", "done")
    world.clock += timedelta(days=40)
    talk.exchange("april", "done")
    event = talk.event("session-end")

    told = world.capture(event, Backfill(dry_run=True))
    assert len(told.captured) == 2
    assert not world.home.exists()
    assert world.journals() == []

    assert len(world.capture(event, Backfill(since="2026-04-01")).captured) == 1
    assert "april" in world.text()
    assert "march" not in world.text()


def test_a_fork_repeats_turns_and_they_count_once(world: CaptureHome, talk: ClaudeTalk) -> None:
    """A fork repeats its parent's lines with the same ids; only its new turns are captured."""
    world.capture(talk.event("session-start", source="startup"))
    world.capture(talk.exchange("first", "done first"))
    fork = talk.fork()
    world.capture(fork.event("session-start", source="fork"))
    world.capture(fork.exchange("in the fork", "done forked"))
    world.capture(talk.exchange("in the parent", "done parent"))
    world.capture(fork.event("session-end"))
    world.capture(talk.event("session-end"))

    assert len(world.entries()) == 3
    assert world.text().count("User asked: first") == 1


def test_a_fork_with_ids_of_its_own_counts_once_too(world: CaptureHome) -> None:
    """OpenCode copies messages with new ids and old times: turns older than the session belong to its parent."""
    path = world.root / "opencode.db"
    made = int(START.timestamp() * 1000)

    def turn(name: str, at: int) -> list[dict[str, object]]:
        answer = [text_part(f"done {name[4:7]}")]
        return [
            opencode_message(name, "user", [text_part(f"ask {name[4:7]}")], time={"created": at}),
            opencode_message(
                f"{name}a", "assistant", answer, time={"created": at + 500, "completed": at + 900}, parentID=name
            ),
        ]

    first, second = turn("msg_one0000000001", made + 1000), turn("msg_two0000000001", made + 9000)
    copied = turn("msg_one0000000002", made + 1000)
    opencode_database(path, {"ses_a": first, "ses_b": [*copied, *second]}, {})
    import sqlite3

    with sqlite3.connect(path) as database:
        database.execute("ALTER TABLE session ADD COLUMN time_created INTEGER")
        database.execute("UPDATE session SET time_created = ? WHERE id = 'ses_a'", (made,))
        database.execute("UPDATE session SET time_created = ? WHERE id = 'ses_b'", (made + 5000,))
    database.close()
    world.tick(600)
    event = ClaudeTalk(world).event("session-end") | {"host": "opencode", "transcript": str(path), "turn": ""}

    for session in ("ses_a", "ses_b"):
        world.capture(event | {"session": session}, Backfill())

    assert sorted(line for line in world.text().splitlines() if "asked" in line) == [
        "- User asked: ask one",
        "- User asked: ask two",
    ]
    assert f"db:{path}" in world.text()


def test_what_comes_to_a_turn_later_is_an_entry_of_its_own(world: CaptureHome, talk: ClaudeTalk) -> None:
    """A stopped turn that went on gets a second entry with its new part, once."""
    world.capture(talk.exchange("fix it", "I fixed one half."))
    talk.run("make again", "ok")
    talk.say("Now all of it is fixed.")
    event = talk.event("turn-end", again=True)

    (captured,) = world.capture(event).captured
    assert world.capture(event).captured == ()

    later = world.entries()[1]
    assert "- Went on with: fix it" in later
    assert "Now all of it is fixed." in later
    assert "one half" not in later
    assert captured.memory == turn_memory_id("claude", talk.session, talk.turn, "1 0")
    talk.say("And documented.")
    world.capture(talk.event("turn-end", again=True))
    assert [("And documented." in entry) for entry in world.entries()] == [False, False, True]


def test_an_answer_that_is_not_there_yet_is_waited_for(world: CaptureHome, talk: ClaudeTalk) -> None:
    """Nothing is written until the transcript has the reported answer, but the wait is limited."""
    talk.ask("question")
    talk.said = "the last words"
    event = talk.event("turn-end")

    assert world.capture(event).waiting
    assert world.entries() == []
    talk.say("the last words")
    assert not world.capture(event).waiting
    assert "the last words" in world.entries()[0]

    talk.ask("another")
    talk.say("something else")
    talk.said = "never written"
    event = talk.event("turn-end")
    assert world.capture(event).waiting
    world.tick(ANSWER_WAIT_S)
    assert len(world.capture(event).captured) == 1


def test_a_transcript_that_never_comes_is_given_up(world: CaptureHome, talk: ClaudeTalk) -> None:
    """A session without a transcript is dropped after a while; a prompt does not wait."""
    talk.said = "gone"
    event = talk.event("turn-end")

    assert world.capture(event).waiting
    assert not world.capture(talk.event("prompt")).waiting
    world.tick(MISSING_WAIT_S)
    reply = world.capture(event)
    assert not reply.waiting
    assert "there is no file" in reply.notes[0]
    assert world.journals() == []


def test_subagents_are_not_captured(world: CaptureHome, talk: ClaudeTalk) -> None:
    """Sidechain lines are part of a turn, not turns."""
    talk.ask("question")
    side = claude("user", "side-1", "look into the otters", isSidechain=True, agentId="a1")
    with talk.path.open("a") as file:
        file.write(json.dumps(side | {"timestamp": world.clock.isoformat()}) + "\n")
    talk.say("answer")
    world.capture(talk.event("turn-end"))

    assert len(world.entries()) == 1
    assert "otters" not in world.text()


def test_what_was_deleted_or_removed_by_hand_does_not_come_back(world: CaptureHome, talk: ClaudeTalk) -> None:
    """A deleted turn is not captured again, even without the database."""
    world.capture(talk.event("session-start", source="startup"))
    event = talk.exchange("first", "done first")
    world.capture(event)
    world.journals()[0].write_text("# 2026-03-05\n")
    world.capture(event)
    assert world.entries() == []

    second = talk.exchange("second", "done second")
    memory = turn_memory_id("claude", talk.session, talk.turn)
    world.tombstones.append([Tombstone(memory_key(memory), memory, "", (), "2026-03-05T00:00:00Z")])
    world.capture(second)
    talk.say("and more of it")
    world.capture(talk.event("turn-end", again=True))
    assert world.entries() == []


def test_without_its_database_the_journal_guards(world: CaptureHome, talk: ClaudeTalk) -> None:
    """A lost or damaged database is replaced, and nothing is written twice."""
    world.capture(talk.event("session-start", source="startup"))
    event = talk.exchange("first", "done first")
    world.capture(event)
    before = world.text()
    database = world.place.tenant_folder / "captures.db"

    for content in (b"", b"no database at all" * 100):
        for path in database.parent.glob("captures.db*"):
            path.unlink()
        database.write_bytes(content)
        reply = world.capture(event)
        assert (reply.captured, world.text()) == ((), before)
    assert len(list(database.parent.glob("captures.damaged-*"))) == 1


def test_a_database_that_is_damaged_inside_is_replaced(world: CaptureHome, talk: ClaudeTalk) -> None:
    """A database that fails in use fails one capture; the next one works, and nothing is written twice."""
    world.capture(talk.event("session-start", source="startup"))
    for number in range(30):
        event = talk.exchange(f"number-{number}", "done")
    world.capture(event)
    database = world.place.tenant_folder / "captures.db"
    data = bytearray(database.read_bytes())
    for page in range(4096, len(data), 4096):
        data[page : page + 200] = b"\xff" * 200
    database.write_bytes(data)

    with pytest.raises(StoreError):
        world.capture(event)
    world.capture(event)
    world.capture(talk.exchange("next", "done"))

    assert len(world.entries()) == 31
    assert len(list(database.parent.glob("captures.damaged-*.db"))) == 1


def test_the_offset_of_the_event_decides_the_day(world: CaptureHome, talk: ClaudeTalk) -> None:
    """The event's offset decides the day and time; a later event with another offset does not move the turn."""
    world.capture(talk.event("session-start", source="startup"))
    world.clock = START.replace(hour=23, minute=30)
    event = talk.exchange("late", "done")
    world.capture({**event, "offset": 120})

    assert [path.name for path in world.journals()] == ["2026-03-06.md"]
    assert world.entries()[0].startswith("### 01:30")
    for path in world.place.tenant_folder.glob("captures.db*"):
        path.unlink()
    assert world.capture({**event, "offset": 0}).captured == ()


def test_secrets_are_redacted_before_anything_is_written(world: CaptureHome) -> None:
    """Private text and secrets are in no file, also not in later turns that repeat them bare, and after a restart."""
    talk, password = ClaudeTalk(world), "Kx7!mQ9zR2vB"
    world.capture(talk.exchange(f"the admin password is {password}", "Noted."))
    world.capture(talk.exchange("and what was it again?", f"It was {password}."))
    TAILS.clear()
    world.capture(talk.exchange(f"{password} is too short", "It is."))
    key = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    talk.ask(f"use {key} <private>my diary</private> please")
    talk.run(f"curl -H 'Authorization: Bearer {key}' x", "Exit code 1\nfailed with " + key, fails=True)
    talk.say(f"I used {key}.")
    world.capture(talk.event("turn-end"))

    kept = b"".join(
        path.read_bytes() for path in world.root.rglob("*") if path.is_file() and "transcripts" not in str(path)
    )
    assert not any(secret.encode() in kept for secret in (key, password, "diary"))
    assert b"It was [redacted:password]." in kept
    assert "[redacted" in world.text()


def test_an_error_of_the_model_is_never_a_memory(world: CaptureHome, talk: ClaudeTalk) -> None:
    """A host's error message is omitted, and the entry says that the turn failed."""
    talk.ask("do it")
    talk.said = "API Error: 529 overloaded"
    talk._write(claude("assistant", "e", [{"type": "text", "text": talk.said}], isApiErrorMessage=True))
    world.capture(talk.event("turn-failed"))

    assert "- Ended: failed" in world.text()
    assert "529" not in world.text()


def test_a_repository_does_not_commit_conversations_by_accident(tmp_path: Path) -> None:
    """A new folder is ignored by Git, also where a repository may come later; an existing one is left alone."""
    world = CaptureHome(tmp_path / "a", is_git=True)
    talk = ClaudeTalk(world)
    world.capture(talk.exchange("first", "done"))
    ignored = world.project / ".lorelog" / ".gitignore"
    assert ignored.read_text().splitlines()[-1] == "*"
    assert [item.name for item in world.project.iterdir() if item.name.startswith(".lorelog")] == [".lorelog"]

    ignored.unlink()
    world.capture(talk.exchange("second", "done"))
    assert not ignored.exists()

    plain = CaptureHome(tmp_path / "b")
    plain.capture(ClaudeTalk(plain).exchange("first", "done"))
    assert (plain.project / ".lorelog" / ".gitignore").exists()


def test_capturing_can_be_switched_off(world: CaptureHome) -> None:
    """With capture disabled nothing is written."""
    world.options = CaptureOptions(enabled=False)
    reply = world.capture(ClaudeTalk(world).exchange("first", "done"))

    assert (reply.captured, reply.waiting) == ((), False)
    assert "capture.enabled" in reply.notes[0]
    assert not world.home.exists()


def test_a_summary_stands_for_request_and_outcome(world: CaptureHome) -> None:
    """A summary replaces request and answer; files, commands and errors stay; without one the note is extracted."""

    class Words:
        said: str | None = "- User wanted the cache fixed; the key lacked the tenant."

        def summarize(self, text: str, host: str, session: str = "") -> str | None:
            assert "first" in text
            assert host == "claude"
            return self.said

    world.summarizer = Words()
    talk = ClaudeTalk(world)
    talk.ask("first")
    talk.run("make check", "ok")
    talk.say("done first")
    world.capture(talk.event("turn-end"))
    assert "- User wanted the cache fixed" in world.entries()[0]
    assert "- Commands: `make check`" in world.entries()[0]
    assert "User asked" not in world.entries()[0]

    Words.said = None
    world.capture(talk.exchange("first again", "done"))
    assert "- User asked: first again" in world.entries()[1]


def test_a_project_that_cannot_be_written_keeps_the_turn_for_later(world: CaptureHome, talk: ClaudeTalk) -> None:
    """After a failed write nothing counts as captured, and the same event succeeds later."""
    event = talk.exchange("first", "done first")
    (world.project / ".lorelog").write_text("a file in the way")

    with pytest.raises(StoreUnwritable):
        world.capture(event)
    (world.project / ".lorelog").unlink()

    assert len(world.capture(event).captured) == 1


def test_odd_paths_survive_in_the_anchor(world: CaptureHome, talk: ClaudeTalk) -> None:
    """A transcript path with comment marks or spaces cannot break the anchor."""
    odd = world.root / "a --> b turn:x"
    odd.mkdir()
    talk.path = odd / "t.jsonl"
    world.capture(talk.exchange("first", "done"))

    cut = chunk_markdown(world.text(), "/j.md", world._job(()).chunking)
    anchor = next(chunk.anchor for chunk in cut.chunks if chunk.anchor)
    assert anchor is not None
    assert anchor.transcript.startswith("file://")
    assert unquote(urlsplit(anchor.transcript).path) == str(talk.path)


def bytes_read() -> int:
    """Return how many bytes this process has read from files so far."""
    return int(Path("/proc/self/io").read_text().split()[1])


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="only Linux counts what a process reads")
def test_only_what_is_new_is_read_of_a_long_transcript(world: CaptureHome, talk: ClaudeTalk) -> None:
    """The second capture of a session does not read its transcript again, and neither does one that waits for an answer."""
    world.capture(talk.event("session-start"))
    talk.exchange("first", "x" * 3_000_000)
    for _ in range(3):
        talk.ask("and then?")
        talk.say("y")
    world.capture(talk.event("turn-end"))
    event = talk.exchange("second", "done second")
    before = bytes_read()

    assert len(world.capture(event).captured) == 1
    event = talk.exchange("third", "done third")
    missing = {**event, "answer": "0" * 16}
    assert [world.capture(missing).waiting for _ in range(5)] == [True] * 5
    assert len(world.capture(event).captured) == 1

    assert bytes_read() - before < 1_500_000  # the index is read, the transcript of 3 MB is not
    assert world.text().count("User asked: ") == 6


def test_a_turn_costs_the_same_in_a_long_session(world: CaptureHome) -> None:
    """Turns that were searched for secrets are not searched again with each later turn."""
    talk, searched = ClaudeTalk(world), []
    for number in range(24):
        event, before = (
            talk.exchange(f"question {number} about the cart", f"answer {number} about the cart"),
            sys.getprofile(),
        )
        searched.append(0)

        def count(frame: FrameType, kind: str, _: object) -> None:
            searched[-1] += kind == "call" and frame.f_code is redact.__code__

        sys.setprofile(count)
        try:
            world.capture(event)
        finally:
            sys.setprofile(before)
    assert 0 < searched[-1] <= searched[3]
