"""Whatever sessions do at once, whenever events are seen to, wherever it is stopped: every turn ends up in one entry."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.services.session.talks import Talk, World

from lorelog.services import journal
from lorelog.services.session import capture, captures, placing, spool
from lorelog.services.session.drain import Drainer


class Crash(BaseException):
    """The process ends here."""


@contextmanager
def stopping(at: int) -> Iterator[None]:
    """Let the process end before the n-th step of whatever is under way; a step that writes may be done by half."""
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

    whole = journal._append_whole
    patch = pytest.MonkeyPatch()
    patch.setattr(journal, "_append_whole", by_half)
    patch.setattr(captures.Captures, "note", before(captures.Captures.note))
    patch.setattr(captures.Captures, "see", before(captures.Captures.see))
    patch.setattr(capture, "index_journals", before(placing.index_journals))
    patch.setattr(spool, "remove", before(spool.remove))
    try:
        yield
    finally:
        patch.undo()


class Life:
    """Some sessions of one project, and all that was ever asked and answered in them."""

    def __init__(self, root: Path) -> None:
        self.world = World(root)
        self.talks: list[Talk] = []
        self.busy: set[str] = set()
        self.asked: list[str] = []
        self.answered: dict[str, list[str]] = {}
        self.count = 0

    def start(self) -> None:
        talk = Talk(self.world)
        self.world.tick()
        talk.spool("session-start", source="startup")
        self.talks.append(talk)

    def talk(self, number: int) -> Talk:
        if not self.talks:
            self.start()
        return self.talks[number % len(self.talks)]

    def ask(self, number: int, *, told: bool = False) -> None:
        """Type something; `told`: the event is seen to before the transcript has it."""
        talk = self.talk(number)
        talk.begin()
        talk.spool("prompt")
        if told:
            self.drain(0)
        talk.put(self._word(talk))
        self.busy.add(talk.session)

    def _word(self, talk: Talk) -> str:
        self.count += 1
        word = f"question-{self.count:03}-asked"
        self.asked.append(word)
        self.answered[word] = []
        talk.word = word  # type: ignore[attr-defined]
        return word

    def _goes_on(self, talk: Talk) -> bool:
        return talk.session in self.busy and not self.answered[talk.word]  # type: ignore[attr-defined]

    def work(self, number: int, *, told: bool) -> None:
        """Do something on the way to an answer; `told`: say something about it first."""
        talk = self.talk(number)
        if self._goes_on(talk):
            if told:
                talk.say("midway", last=False)
            else:
                talk.run("make it")

    def queue(self, number: int) -> None:
        """Type something while a turn goes on: it is put in there, and nothing but the end of both is told."""
        talk = self.talk(number)
        if self._goes_on(talk):
            talk.queue(self._word(talk))

    def compact(self, number: int) -> None:
        """Compact, maybe in the middle of a turn."""
        self.talk(number).spool("compact")

    def leave(self, number: int, *, told: bool) -> None:
        """End a session between turns, and take it up again; `told`: elsewhere, where its end was never seen."""
        talk = self.talk(number)
        if not self._goes_on(talk):
            if not told:
                talk.spool("session-end")
            self.world.tick()
            talk.spool("session-start", source="resume")

    def backfill(self, number: int) -> None:
        """Take in what the host keeps, whatever goes on."""
        talk = self.talk(number)
        if talk.path.exists():
            self.world.capture(talk.event("session-end"), capture.Backfill())

    def say(self, number: int, *, told: bool) -> None:
        """Answer, and end the turn; `told`: the event is spooled before the transcript has the answer."""
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
        """Go on in a copy; `told`: as such, else as one that is taken up again."""
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
        """See to what is spooled; `told`: all sessions end, else they are left as they are."""
        self.world.tick(120)
        for talk in self.talks if told else ():
            talk.spool("session-end")
        for _ in range(3):
            Drainer(str(self.world.home), self.world.answer).drain()
            self.world.tick(120)  # those in which nothing was said have no transcript

    def check(self, *, ended: bool = True) -> None:
        """Every turn is in one entry, and what it came to in that or in one that goes on from it.

        Where sessions have not ended, what was asked and not answered may still go on.
        """
        assert spool.spooled(str(self.world.home)) == []
        entries = self.world.entries()
        identities = re.findall(r"memory:(\S+)", self.world.text())
        assert len(identities) == len(set(identities)) == len(entries)
        for word in self.asked if ended else filter(self.answered.get, self.asked):
            assert sum(f"User asked: {word}" in one for one in entries) == 1, word
            own = [one for one in entries if word in one]
            assert not self.answered[word] or all("- Ended:" not in one for one in own), own  # captured too early
            assert len(own) <= max(1, len(self.answered[word])), own  # half of it captured too early
            for said in self.answered[word]:
                assert sum(said in one for one in own) <= 1, (word, said, own)
            for said in self.answered[word][-1:]:  # what a turn came to
                assert sum(said in one for one in own) == 1, (word, said, own)
        for one in entries:
            assert one.count("### ") == one.count("<!--") == one.count("-->") == 1
            assert re.search(
                r"-->\n- (User asked|Went on with): question-\d+-asked\n- (Outcome|Commands|Ended): \S+", one
            ), one


ACTION = st.one_of(
    st.tuples(st.just("start")),
    st.tuples(st.just("ask"), st.integers(0, 3), st.booleans()),
    st.tuples(st.just("work"), st.integers(0, 3), st.booleans()),
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


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(actions=st.lists(ACTION, max_size=25), ends=st.booleans())
def test_every_turn_is_captured_once_whatever_happens(actions: list[tuple[Any, ...]], *, ends: bool) -> None:
    """Sessions at once, forks, repeated and late events, interrupted turns, a stop at any step: none lost, none twice."""
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
    """Two turns at once and one that goes on: wherever the process ends, the next one completes it to the byte."""
    life = Life(tmp_path)
    life.start()
    life.say(0, told=False)
    life.ask(0)
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
    """What was being written is completed as it was to be, and what came to the turn since is an entry of its own."""
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
        patch.setattr(journal, "_append_whole", by_half)
        with pytest.raises(Crash):
            life.world.capture(life.talks[0].event("turn-end"))
    life.say(0, told=False)
    life.end()
    life.check()


def test_two_who_drain_at_once_write_nothing_twice(tmp_path: Path) -> None:
    """Many drainers over one spool: one works, the others leave it alone, and all is there in the end."""
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

    threads = [threading.Thread(target=drain) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    life.end()
    life.check()
    assert faults == []


def test_captures_of_one_session_at_once_write_nothing_twice(tmp_path: Path) -> None:
    """Backfilling beside the daemon: both look at the same turns at the same time."""
    life = Life(tmp_path)
    life.start()
    for _ in range(6):
        life.ask(0)
        life.say(0, told=False)
    talk = life.talks[0]
    event = talk.event("session-end")
    threads = [
        threading.Thread(target=life.world.capture, args=(event, backfill))
        for backfill in (None, capture.Backfill(), capture.Backfill(), None)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    life.end()
    life.check()


FLUSH = """
import argparse
from lorelog.surfaces.cli import hosts_flush
parser = argparse.ArgumentParser()
hosts_flush.configure(parser)
hosts_flush.run(parser.parse_args(["--wait", "0"]))
"""


def test_killed_processes_lose_and_repeat_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Real drainers, killed again and again at moments of no choice while sessions go on."""
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
