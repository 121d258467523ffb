"""Whether a delivered memory was used, as far as the turns of its session show it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.ingest.transcripts.conversations import Record, claude, tool_result, tool_use, write_lines

from lorelog.core.atomic_file import append_line
from lorelog.core.paths import cache_folder
from lorelog.ingest.transcripts.conversation import open_conversation
from lorelog.ingest.transcripts.turns import ParsedTurn, TranscriptStats
from lorelog.light.delivery_log import call_digest, session_log
from lorelog.services.usage.history import unused_counts, used_file
from lorelog.services.usage.signs import contains_id, find_words, note_usage

START = datetime(2026, 3, 5, 14, 0, tzinfo=UTC)
MEMORY = "3f2a9c41-7d55-8abc-9def-001122334455"
PNPM = "Use pnpm in this repository, not npm: the lockfile is pnpm-lock.yaml."
POOL = "Connections go through acquire_pooled() with a lease; opening sockets directly exhausts the broker."


class Talk:
    def __init__(self, tenant: Path, text: str = PNPM) -> None:
        self.tenant, self.folder = tenant, tenant / "deliveries"
        self.folder.mkdir(parents=True)
        self.log = Path(session_log(str(self.folder), "claude", "s"))
        self._records: list[Record] = []
        self._count = 0
        standing = Path(cache_folder(tenant)) / "delivery"
        standing.mkdir(parents=True)
        others = ["Never push to main without a review.", "Answer in German."]
        lines = [{"id": MEMORY, "text": text}, *({"id": f"o{n}", "text": other} for n, other in enumerate(others))]
        write_lines(standing / "global.standing.jsonl", lines)

    def deliver(self, *, seconds: float = 1, memory: str = MEMORY, **fields: Any) -> None:
        """Log a delivery some seconds after the current turn has begun."""
        at = (START + timedelta(minutes=max(0, self._count - 1), seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
        line = {"at": at, "kind": "cue", "moment": "tool-before", "memories": [memory], "tokens": 9, **fields}
        append_line(str(self.log), json.dumps(line).encode())

    def turn(self, request: str, *steps: str | tuple[str, str, bool]) -> Talk:
        """Add a turn: texts of the assistant, and calls as (command or file, result, failed)."""
        at = (START + timedelta(minutes=self._count)).isoformat().replace("+00:00", "Z")
        self._count += 1
        add = self._records.append
        add(claude("user", f"u{self._count}", request, timestamp=at))
        for number, step in enumerate(steps):
            name = f"{self._count}-{number}"
            if isinstance(step, str):
                add(claude("assistant", f"a{name}", [{"type": "text", "text": step}], timestamp=at))
                continue
            target, result, failed = step
            call = (
                tool_use(name, "Edit", file_path=target)
                if target.startswith("/")
                else tool_use(name, "Bash", command=target)
            )
            add(claude("assistant", f"a{name}", [call], timestamp=at))
            add(claude("user", f"r{name}", [tool_result(name, result, is_error=failed)], timestamp=at))
        return self

    def turns(self) -> list[ParsedTurn]:
        path = write_lines(self.tenant / "t.jsonl", self._records)
        return list(open_conversation(str(path)).turns(TranscriptStats()))

    def usage(self) -> dict[str, str]:
        return note_usage(self.folder, "claude", "s", self.turns())


def test_a_quoted_id_is_a_use(tmp_path: Path) -> None:
    """The memory's id in the assistant's text, whole or shortened, shows that it was used."""
    for number, quoted in enumerate((MEMORY, MEMORY[:8], f"({MEMORY[:13]}…)")):
        talk = Talk(tmp_path / "data" / str(number), "Rule.")
        talk.turn("Install it", f"Following memory {quoted}.")
        talk.deliver(moment="prompt", kind="recall")
        assert talk.usage() == {MEMORY: "id"}


def test_an_id_in_a_tool_call_of_a_later_turn_is_a_use(tmp_path: Path) -> None:
    """A command that reads the memory counts, also many turns later."""
    talk = Talk(tmp_path / "data" / "t", "Rule.").turn("Begin", "Ok.")
    talk.deliver()
    for _ in range(5):
        talk.turn("Go on", "Done.")
    talk.turn("And now?", (f"lorelog show {MEMORY[:8]}", "Rule.", False), "Done.")

    assert talk.usage() == {MEMORY: "id"}


def test_a_blocked_call_that_is_not_repeated_was_obeyed(tmp_path: Path) -> None:
    """A guard is obeyed if the blocked call is not made again, and not if it is."""
    guard: dict[str, Any] = {
        "guard": "g1",
        "action": "block",
        "kind": "guard",
        "target": call_digest("git push --force"),
    }
    obeying = Talk(tmp_path / "data" / "a", "Never force-push.")
    obeying.turn("Push it", ("git push --force", "blocked", True), ("git push", "ok", False), "Pushed.")
    obeying.deliver(**guard)
    insisting = Talk(tmp_path / "data" / "b", "Never force-push.")
    insisting.turn("Push it", ("git push --force", "blocked", True), ("git push --force", "ok", False), "Pushed.")
    insisting.deliver(**guard)

    assert obeying.usage() == {MEMORY: "obeyed"}
    assert insisting.usage() == {}


def test_a_held_call_that_is_repeated_unchanged_shows_no_use(tmp_path: Path) -> None:
    """A rule that held a call was used if the agent made another call, or none, and not if it repeated the call."""
    reason = f"<lorelog-memory>\n- The user said: {PNPM}\n</lorelog-memory>\nHeld once. Repeat the call if it agrees with this."
    held = ("npm install zod", reason, True)
    steps: dict[str, list[tuple[str, str, bool]]] = {
        "": [held, ("npm install zod", "ok", False)],
        "changed": [held, ("pnpm install zod", "ok", False)],
        "obeyed": [held, ("ls", "ok", False)],
    }
    for sign, calls in steps.items():
        talk = Talk(tmp_path / "data" / (sign or "repeated")).turn("Add zod", *calls, "Done.")
        talk.deliver(cue="command=npm *", action="hold", target=call_digest("npm install zod"))
        assert talk.usage() == ({MEMORY: sign} if sign else {})


NPM, ADDED = ("npm install zod", "ok", False), "Added."
REFUSAL = "The user doesn't want to proceed with this tool use. The tool use was rejected."


@pytest.mark.parametrize(
    ("text", "target", "steps", "sign"),
    [
        # A similar call with a word of the memory, instead of the same call again, shows that the memory was used.
        (PNPM, "npm install zod", [NPM, ("pnpm install zod", "ok", False), ADDED], "changed"),
        # So does editing the file that the memory names, after an edit of the wrong one.
        (
            "api.gen.ts is generated: change /w/templates/api.hbs and run the generator.",
            "/w/src/api.gen.ts",
            [("/w/src/api.gen.ts", "ok", False), ("/w/templates/api.hbs", "ok", False), "Renamed."],
            "changed",
        ),
        # The memory made the agent do what the user did not want: that is not a use.
        (PNPM, "npm install zod", [NPM, ("pnpm install zod", REFUSAL, True), "Stopped."], "contradicted"),
        # A word of the memory counts as a program, an option, a path or in code, not one that calls have by chance.
        (
            "Before you push, test the build of `make smoke`.",
            "git push",
            [("git push", "ok", False), ("git commit -m 'test the build'", "ok", False), "Done."],
            "",
        ),
        # Going on, repeating the call, and doing something unrelated are no signs of use.
        (PNPM, "npm install zod", [NPM, ADDED], ""),
        (PNPM, "npm install zod", [NPM, ("npm test", "ok", False), ADDED], ""),
        (PNPM, "npm install zod", [("npm install zod", "busy", True), NPM, ("pnpm install", "ok", False), ADDED], ""),
        (PNPM, "npm install zod", [NPM, ("ls -la", "pnpm-lock.yaml", False), ADDED], ""),
        (PNPM, "npm install zod", [("pnpm -v", "9", False), NPM, ("pnpm install zod", "ok", False), ADDED], ""),
        # What the assistant writes may have another reason.
        (POOL, "/w/src/net.py", [("/w/src/net.py", "ok", False), "It now calls acquire_pooled() with a lease."], ""),
    ],
)
def test_what_follows_the_call_shows_whether_a_memory_was_used(
    tmp_path: Path, text: str, target: str, steps: list[Any], sign: str
) -> None:
    """A memory that was shown for a call was used if another call was made in its place, in the memory's own words."""
    talk = Talk(tmp_path / "data" / "t", text)
    talk.turn("Go", *steps)
    talk.deliver(target=call_digest("", [target]) if target.startswith("/") else call_digest(target))

    assert talk.usage() == ({MEMORY: sign} if sign else {})


def test_a_use_is_noted_once(tmp_path: Path) -> None:
    """Reading the same turns again adds no line, and a sign in a later turn replaces `none`."""
    talk = Talk(tmp_path / "data" / "t", POOL).turn("Begin", "Ok.")
    talk.deliver(moment="prompt", kind="recall")
    assert talk.usage() == talk.usage() == {}
    assert unused_counts(talk.folder) == {MEMORY: 1}
    talk.turn("Go on", f"As {MEMORY} says.")
    assert talk.usage() == {MEMORY: "id"}
    before = used_file(talk.log).read_text()

    assert talk.usage() == {}
    assert used_file(talk.log).read_text() == before
    assert unused_counts(talk.folder) == {}
    assert [json.loads(line)["how"] for line in before.splitlines()] == ["none", "id"]


def test_a_delivery_after_the_last_turn_is_not_judged(tmp_path: Path) -> None:
    """A memory whose turn was not captured yet is neither used nor unused."""
    talk = Talk(tmp_path / "data" / "t", POOL).turn("Begin", "Ok.").turn("Next", f"As {MEMORY} says.")
    talk.deliver(moment="prompt", kind="recall", seconds=30)

    assert note_usage(talk.folder, "claude", "s", talk.turns()[:1]) == {}
    assert note_usage(talk.folder, "claude", "s", []) == {}
    assert note_usage(talk.folder, "codex", "s", talk.turns()) == {}


def test_a_folder_that_cannot_be_written_is_not_an_error(tmp_path: Path) -> None:
    """Capturing goes on if the use cannot be noted."""
    talk = Talk(tmp_path / "data" / "t", POOL).turn("Begin", f"As {MEMORY} says.")
    talk.deliver(moment="prompt", kind="recall")
    used_file(talk.log).mkdir()

    assert talk.usage() == {MEMORY: "id"}


def test_only_whole_ids_are_recognised() -> None:
    """Other hexadecimal words, longer words and short beginnings are not the id."""
    assert contains_id(f"see {MEMORY}.", MEMORY)
    assert not contains_id(f"x{MEMORY}", MEMORY)
    assert not contains_id("3f2a9c4", MEMORY)
    assert not contains_id("3f2a9c42", MEMORY)
    assert not contains_id("newt-10", "newt-1")
    assert contains_id("(newt-1)", "newt-1")
    assert not contains_id("anything", "")


@given(st.text(), st.text())
def test_any_text_has_words(text: str, memory: str) -> None:
    """Texts in any script are read without an error, and words are their own words."""
    for word in find_words(text):
        assert word in set(find_words(word))
    assert contains_id(text, memory) in {True, False}
