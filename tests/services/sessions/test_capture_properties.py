"""Every turn ends up in one entry, whatever the order of events, the number of sessions and the point of a crash."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.services.sessions.talks import CaptureHome, ClaudeTalk
from tests.threads import in_threads

from lorelog.services.memories import journal
from lorelog.services.sessions import capture, capture_db, drain
from lorelog.services.sessions.drain import Drainer


class Crash(BaseException):
    """Simulates the end of the process."""


@contextmanager
def stopping(at: int) -> Iterator[None]:
    """End the process before the n-th step; a step that writes may be half done."""
    left = [at]

    def due() -> bool:
        left[0] -= 1
        return left[0] == 0

    def before(step: Any) -> Any:
        def stepped(*args: Any, **kwargs: Any) -> Any:
            if due():
                raise Crash
            return step(*args, **kwargs)

        return stepped

    def by_half(descriptor: int, size: int, text: bytes) -> None:
        if due():
            raise Crash
        if due():
            os.write(descriptor, text[: len(text) * 2 // 3])
            raise Crash
        whole(descriptor, size, text)
        if due():
            raise Crash

    whole = journal._append_or_undo
    patch = pytest.MonkeyPatch()
    patch.setattr(journal, "_append_or_undo", by_half)
    patch.setattr(capture_db.CaptureDatabase, "save_rows", before(capture_db.CaptureDatabase.save_rows))
    patch.setattr(capture_db.CaptureDatabase, "note_event", before(capture_db.CaptureDatabase.note_event))
    patch.setattr(capture, "index_journals", before(capture.index_journals))
    patch.setattr(drain, "remove_event", before(drain.remove_event))
    try:
        yield
    finally:
        patch.undo()


class Life:
    """Sessions of one project, and everything asked and answered in them."""

    def __init__(self, root: Path) -> None:
        self.world = CaptureHome(root)
        self.talks: list[ClaudeTalk] = []
        self.busy: set[str] = set()
        self.asked: list[str] = []
        self.answered: dict[str, list[str]] = {}
        self.rejected: dict[str, str] = {}
        """The words of each rejection, with the word of its turn."""
        self.count = 0

    def start(self) -> None:
        talk = ClaudeTalk(self.world)
        self.world.tick()
        talk.spool("session-start", source="startup")
        self.talks.append(talk)

    def talk(self, number: int) -> ClaudeTalk:
        if not self.talks:
            self.start()
        return self.talks[number % len(self.talks)]

    def ask(self, number: int, *, told: bool = False) -> None:
        """Type a prompt; with `told`, the event is processed before the transcript has it."""
        talk = self.talk(number)
        talk.begin()
        talk.spool("prompt")
        if told:
            self.drain(0)
        talk.put(self._word(talk))
        self.busy.add(talk.session)

    def _word(self, talk: ClaudeTalk) -> str:
        self.count += 1
        word = f"question-{self.count:03}-asked"
        self.asked.append(word)
        self.answered[word] = []
        talk.word = word  # type: ignore[attr-defined]
        return word

    def _goes_on(self, talk: ClaudeTalk) -> bool:
        return talk.session in self.busy and not self.answered[talk.word]  # type: ignore[attr-defined]

    def work(self, number: int, *, told: bool) -> None:
        """Call a tool during a turn; with `told`, say something about it first."""
        talk = self.talk(number)
        if self._goes_on(talk):
            if told:
                talk.say("midway", last=False)
            else:
                talk.run("make it")

    def reject(self, number: int) -> None:
        """Reject a command with words during a turn."""
        talk = self.talk(number)
        if self._goes_on(talk):
            self.count += 1
            words = f"rejection-{self.count:03}-typed"
            talk.reject("make it", words)
            self.rejected[words] = talk.word  # type: ignore[attr-defined]

    def queue(self, number: int) -> None:
        """Type a prompt during a turn: the host adds it there, and reports only the end of both."""
        talk = self.talk(number)
        if self._goes_on(talk):
            talk.queue(self._word(talk))

    def compact(self, number: int) -> None:
        """Compact, possibly during a turn."""
        self.talk(number).spool("compact")

    def leave(self, number: int, *, told: bool) -> None:
        """End a session between turns and resume it; with `told`, elsewhere, without an end event."""
        talk = self.talk(number)
        if not self._goes_on(talk):
            if not told:
                talk.spool("session-end")
            self.world.tick()
            talk.spool("session-start", source="resume")

    def backfill(self, number: int) -> None:
        """Backfill the host's sessions."""
        talk = self.talk(number)
        if talk.path.exists():
            self.world.capture(talk.event("session-end"), capture.Backfill())

    def say(self, number: int, *, told: bool) -> None:
        """Answer and end the turn; with `told`, the event is spooled before the transcript has the answer."""
        talk = self.talk(number)
        if talk.session not in self.busy:
            self.ask(number)
        self.count += 1
        said = f"answer-{self.count:03}-given"
        self.answered[talk.word].append(said)  # type: ignore[attr-defined]
        talk.said = said
        if told:
            talk.spool("turn-end")
            self.drain(0)
            talk.say(said)
        else:
            talk.say(said)
            talk.spool("turn-end")

    def repeat(self, number: int) -> None:
        talk = self.talk(number)
        if talk.prompt and self.answered[talk.word]:  # type: ignore[attr-defined]
            talk.spool("turn-end", again=True)

    def fork(self, number: int, *, told: bool) -> None:
        """Fork a session; with `told`, with a fork event, else as a resumed one."""
        parent = self.talk(number)
        if not parent.path.exists():
            return
        self.world.tick()
        other = parent.fork()
        other.spool("session-start", source="fork" if told else "resume")
        self.talks.append(other)

    def drain(self, stop: int) -> None:
        drainer = Drainer(str(self.world.home), self.world.answer)
        if not stop:
            drainer.drain()
            return
        with stopping(stop):
            try:
                drainer.drain()
            except Crash:
                return

    def end(self, *, told: bool = True) -> None:
        """Drain the spool; with `told`, end all sessions first."""
        self.world.tick(120)
        for talk in self.talks if told else ():
            talk.spool("session-end")
        for _ in range(3):
            Drainer(str(self.world.home), self.world.answer).drain()
            self.world.tick(120)  # those in which nothing was said have no transcript

    def check(self, *, ended: bool = True) -> None:
        """Check that every turn is in one entry, and its result in that or a continuation.

        In sessions that have not ended, an unanswered turn may still be open.
        """
        assert drain.list_events(str(self.world.home)) == []
        entries = self.world.entries()
        identities = re.findall(r"memory:(\S+)", self.world.text())
        assert len(identities) == len(set(identities)) == len(entries)
        for word in self.asked if ended else filter(self.answered.get, self.asked):
            assert sum(f"User asked: {word}" in entry for entry in entries) == 1, word
            own = [entry for entry in entries if word in entry]
            assert not self.answered[word] or all("- Ended:" not in item for item in own), own  # captured too early
            assert len(own) <= max(1, len(self.answered[word])), own  # half of it captured too early
            for said in self.answered[word]:
                assert sum(said in item for item in own) <= 1, (word, said, own)
            for said in self.answered[word][-1:]:  # what a turn came to
                assert sum(said in item for item in own) == 1, (word, said, own)
        for words, word in self.rejected.items():
            found = [item for item in entries if words in item]
            assert len(found) == 1 or (not ended and not found and not self.answered[word]), (words, found)
            assert all(f"-->\n- {words}\n- About: rejected Bash make it" in item for item in found), found
            assert all("type:correction" in item and "origin:user" in item for item in found), found
        for item in entries:
            assert item.count("### ") == item.count("<!--") == item.count("-->") == 1
            if "type:correction" in item:
                continue
            assert re.search(
                r"-->\n- (User asked|Went on with): question-\d+-asked\n- (Outcome|Commands|Errors|Ended):", item
            ), item


ACTION = st.one_of(
    st.tuples(st.just("start")),
    st.tuples(st.just("ask"), st.integers(0, 3), st.booleans()),
    st.tuples(st.just("work"), st.integers(0, 3), st.booleans()),
    st.tuples(st.just("reject"), st.integers(0, 3)),
    st.tuples(st.just("queue"), st.integers(0, 3)),
    st.tuples(st.just("compact"), st.integers(0, 3)),
    st.tuples(st.just("leave"), st.integers(0, 3), st.booleans()),
    st.tuples(st.just("backfill"), st.integers(0, 3)),
    st.tuples(st.just("say"), st.integers(0, 3), st.booleans()),
    st.tuples(st.just("say"), st.integers(0, 3), st.booleans()),
    st.tuples(st.just("repeat"), st.integers(0, 3)),
    st.tuples(st.just("fork"), st.integers(0, 3), st.booleans()),
    st.tuples(st.just("drain"), st.integers(0, 14)),
    st.tuples(st.just("drain"), st.integers(0, 14)),
)


@pytest.mark.slow
@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
@given(actions=st.lists(ACTION, max_size=25), ends=st.booleans())
def test_every_turn_is_captured_once_in_any_order_of_events(actions: list[tuple[Any, ...]], *, ends: bool) -> None:
    """Concurrent sessions, forks, repeated and late events, interrupted turns and crashes lose and repeat nothing."""
    with TemporaryDirectory() as folder:
        life = Life(Path(folder))
        for name, *given_ in actions:
            if name in {"ask", "say", "work", "fork", "leave"}:
                getattr(life, name)(given_[0], told=given_[1])
            else:
                getattr(life, name)(*given_)
        life.end(told=ends)
        life.check(ended=ends)


@pytest.mark.parametrize("stop", range(1, 16))
def test_a_stop_at_every_step_of_one_capture_is_made_good(tmp_path: Path, stop: int) -> None:
    """Wherever the process ends, the next one completes the entries to the byte."""
    life = Life(tmp_path)
    life.start()
    life.say(0, told=False)
    life.ask(0)
    life.reject(0)
    life.reject(0)
    life.say(0, told=False)
    life.drain(stop)
    life.repeat(0)
    life.say(0, told=False)
    life.drain(stop)
    life.end()
    life.check()


@pytest.mark.parametrize("share", [2 / 3, 1])
def test_a_turn_that_goes_on_after_a_stop_in_the_middle_is_told_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    """An interrupted entry is completed as planned, and later parts of the turn get their own entry."""
    life = Life(tmp_path)
    life.start()
    life.say(0, told=False)
    life.say(0, told=False)
    life.ask(0)
    life.say(0, told=False)

    def by_half(descriptor: int, _: int, text: bytes) -> None:
        os.write(descriptor, text[: int(len(text) * share)])
        raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(journal, "_append_or_undo", by_half)
        with pytest.raises(Crash):
            life.world.capture(life.talks[0].event("turn-end"))
    life.say(0, told=False)
    life.end()
    life.check()


def test_concurrent_drains_write_nothing_twice(tmp_path: Path) -> None:
    """Several drainers over one spool: one works, the others do nothing, and nothing is lost."""
    life = Life(tmp_path)
    for number in range(4):
        life.start()
        for _ in range(3):
            life.ask(number)
            life.say(number, told=False)
    faults: list[Exception] = []

    def drain() -> None:
        for _ in range(10):
            Drainer(str(life.world.home), life.world.answer, lambda _, fault: faults.append(fault)).drain()

    assert in_threads(lambda _: drain(), 4) == []
    life.end()
    life.check()
    assert faults == []


def test_captures_of_one_session_at_once_write_nothing_twice(tmp_path: Path) -> None:
    """A backfill beside the daemon captures each turn once."""
    life = Life(tmp_path)
    life.start()
    for _ in range(6):
        life.ask(0)
        life.say(0, told=False)
    talk = life.talks[0]
    event = talk.event("session-end")
    backfills = (None, capture.Backfill(), capture.Backfill(), None)
    assert in_threads(lambda number: life.world.capture(event, backfills[number]), len(backfills)) == []
    life.end()
    life.check()


FLUSH = "from lorelog.surfaces.cli.main import main; raise SystemExit(main(['hosts', 'flush', '--wait', '0']))"


@pytest.mark.slow
def test_killed_processes_lose_and_repeat_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Real drainers that are killed repeatedly lose and repeat nothing."""
    life = Life(tmp_path)
    monkeypatch.setenv("LORELOG_HOME", str(life.world.home))
    monkeypatch.setenv("LORELOG_EMBEDDING_PROVIDER", "none")
    chance = random.Random(5)
    for number in range(12):
        for _ in range(3):
            life.ask(number % 3)
            life.say(number % 3, told=False)
        if number < 3:
            life.start()
        process = subprocess.Popen([sys.executable, "-c", FLUSH], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(0.35 + chance.random() * 0.5)
        process.send_signal(signal.SIGKILL)
        process.wait()
    life.world.tick(120)
    for talk in life.talks:
        talk.spool("session-end")
    subprocess.run([sys.executable, "-c", FLUSH], check=True, stdout=subprocess.DEVNULL)
    life.check()


def test_a_turn_of_which_only_a_rejection_is_left_says_that_it_was_interrupted(tmp_path: Path) -> None:
    """When the user rejects the only command and leaves, the note says how the turn ended."""
    life = Life(tmp_path)
    life.ask(0)
    life.reject(0)
    life.end()
    life.check()
    assert "- Ended: interrupted" in life.world.text()
