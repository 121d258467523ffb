"""Off means off: what was said in a paused session, without hooks or off the record is never captured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.services.sessions.talks import CaptureHome, ClaudeTalk
from tests.surfaces.conftest import Shell
from tests.surfaces.test_hook import PAYLOAD, app, events, hook, quiet  # noqa: F401  (fixtures)

from lorelog.core.errors import StoreDamaged
from lorelog.ingest.importers.chats import ChatHead, ChatMessage, read_turns
from lorelog.light.delivery_files import DeliveryFiles
from lorelog.light.spool import HOOKS_OFF, OFF, ON, READ_ONLY, PauseNotes
from lorelog.services.sessions.capture import Backfill

WORDS = "[Off the record]"


@pytest.fixture
def world(tmp_path: Path) -> CaptureHome:
    return CaptureHome(tmp_path)


def note(world: CaptureHome, talk: ClaudeTalk, state: str) -> None:
    world.tick()
    PauseNotes(str(world.home), talk.session).add(state, world.clock.timestamp())


@pytest.mark.parametrize("way", [OFF, READ_ONLY, HOOKS_OFF, WORDS])
def test_nothing_of_a_paused_session_is_captured_later(world: CaptureHome, way: str) -> None:
    """Neither later events nor a backfill, of the session or of its fork, write a turn of the pause, or what the next one quotes of it."""
    talk = ClaudeTalk(world)
    world.capture(talk.event("session-start", source="startup"))
    before = talk.exchange("first", "done first")
    if way != WORDS:
        note(world, talk, way)
    world.capture(before)
    talk.exchange(f"secret walrus {WORDS if way == WORDS else ''}", "about the walrus")
    for number in range(40):
        ended = talk.exchange(f"walrus {number}", "Shall I always feed the walrus?")
        world.capture(ended)
    note(world, talk, ON)
    world.capture(talk.exchange("From now on, always use pnpm.", "done last"))
    card = DeliveryFiles(str(world.place.tenant_folder), world.place.project.id).state_card(talk.session)
    world.capture(talk.event("compact"))
    world.tick(86_400 * 2)
    for each in (talk, talk.fork()):
        world.capture(each.event("session-end"), Backfill())

    assert "walrus" not in world.text() + Path(card).read_text("utf-8")
    assert [line for line in world.text().splitlines() if "User asked" in line] == [
        "- User asked: first",
        "- User asked: From now on, always use pnpm.",
    ]


def test_a_running_turn_is_left_out_when_a_person_pauses(world: CaptureHome) -> None:
    """What an agent does after the pause belongs to the turn, so all of it is left out, wherever the words stand in a prompt."""
    talk, other = ClaudeTalk(world), ClaudeTalk(world)
    talk.ask("running")
    note(world, talk, OFF)
    talk.say("done in the pause")
    note(world, talk, ON)
    other.ask("a log: " + "x" * 30_000 + WORDS)
    other.say("done")
    world.capture(other.event("turn-end"), Backfill(dry_run=True))
    assert not list((world.home / "paused").glob(f"{other.session}*"))

    assert [world.capture(each.event("turn-end")).captured for each in (talk, other)] == [(), ()]


@pytest.mark.parametrize("content", [b"", b"torn", b'{"at": 1, "state"'])
def test_a_note_that_cannot_be_read_is_a_pause(world: CaptureHome, content: bytes) -> None:
    """With a broken note nothing of the session is captured; with an unreadable folder nothing at all, until it is mended."""
    talk, other = ClaudeTalk(world), ClaudeTalk(world)
    folder = world.home / "paused"
    folder.mkdir(parents=True)
    (folder / f"{talk.session}.jsonl").write_bytes(content)
    assert world.capture(talk.exchange("first", "done")).captured == ()

    folder.rename(world.home / "moved")
    folder.touch()
    event = other.exchange("second", "done")
    for backfill in (None, Backfill()):
        with pytest.raises(StoreDamaged, match="nothing is captured"):
            world.capture(event, backfill)
    folder.unlink()
    assert len(world.capture(event).captured) == 1


def test_hooks_that_are_off_note_it(quiet: Path, app: Path) -> None:  # noqa: F811
    """LORELOG_HOOKS=off notes the session's id and nothing else; hooks that run again end it, and other pauses only a person ends."""
    payload, off = {**PAYLOAD, "cwd": str(app)}, {"LORELOG_HOOKS": "off"}
    assert hook(["claude", "session-start"], payload, app, env=off)[0] == {}
    (line,) = (quiet / "paused" / "s1.jsonl").read_text().splitlines()
    assert set(json.loads(line)) == {"session", "at", "state"}
    hook(["claude", "prompt"], payload, app, env=off)
    assert PauseNotes(str(quiet), "s1").state == HOOKS_OFF

    hook(["claude", "turn-end"], payload, app)
    assert (PauseNotes(str(quiet), "s1").state, len(events(quiet))) == (ON, 1)
    said, _ = hook(["claude", "prompt"], {**payload, "prompt": f"{WORDS} hello"}, app)
    assert "off the record" in said["systemMessage"]
    hook(["claude", "turn-end"], payload, app, env=off)
    hook(["claude", "turn-end"], payload, app)
    assert len(events(quiet)) == 1
    (quiet / "paused").rename(quiet / "moved")
    (quiet / "paused").touch()
    said, _ = hook(["claude", "session-start"], payload, app)
    assert "nothing is captured" in said["systemMessage"]
    assert len(events(quiet)) == 1


def test_a_person_pauses_and_resumes(shell: Shell, project: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`pause` takes the open sessions of the project, --read-only goes on delivering, status names them, and an agent cannot do it."""
    capture = {"host": "claude", "session": "s1", "moment": "session-start", "directory": str(project)}
    assert shell("call", "session.capture", json.dumps(capture)).status == 0
    start = {"session_id": "s1", "cwd": str(project), "source": "startup"}
    shell("add", "--type", "preference", "Always use pnpm.")
    guard = shell("guard", "add", "--command", "npm *", "--message", "use pnpm", "--json").json["guard"]["id"]
    shell("guard", "enable", guard, "--block")
    npm = {**start, "tool_name": "Bash", "tool_input": {"command": "npm i"}}
    told = []
    for options in ([], ["--read-only"], ["--resume"]):
        shell("pause", *options)
        shown, blocked = (str(hook(["claude", moment], npm, project)[0]) for moment in ("session-start", "tool-before"))
        is_named = "s1 is paused" in shell("status").out
        told.append(("pnpm" in shown, "deny" in blocked, is_named, len(events(home))))
    monkeypatch.setenv("CLAUDECODE", "1")

    assert told == [(False, True, True, 0), (True, True, True, 0), (True, True, False, 1)]
    assert "cannot resume" in shell("pause", "--resume").err
    assert PauseNotes(str(home), "s1").state == ON


def test_a_chat_is_imported_up_to_the_words() -> None:
    """Of an exported conversation the turns before the words are imported, and none from there on."""
    said = [
        ChatMessage(number % 2 == 0, text, None)
        for number, text in enumerate(("first", "done", f"walrus {WORDS}", "no", "walrus", "no"))
    ]

    (entry,) = read_turns(ChatHead("", "", None, ""), said)

    assert "first" in entry.text
