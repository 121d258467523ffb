"""Reader processes of the daemon: they answer like the daemon, never late, and never write."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.surfaces.daemon.conftest import Warm, eventually

from lorelog.core.errors import LorelogError
from lorelog.light.daemon_connection import read_lock_holder

pytestmark = pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="readers need a second core")
_CLIENTS = 6


class Load:
    """Clients that ask the same question again and again."""

    def __init__(self, warm: Warm) -> None:
        self.warm = warm
        self.errors: list[LorelogError] = []
        self.replies: set[str] = set()
        self.answered = 0
        self._is_over = threading.Event()
        self._threads = [threading.Thread(target=self._ask) for _ in range(_CLIENTS)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join()

    def search(self, word: str) -> list[str]:
        """Return the texts that are found by a word."""
        return [hit["content"] for hit in self.warm.ask("memory.search", {"query": word}, start=None)["hits"]]

    def readers(self) -> list[dict[str, int]]:
        """Return the readers that have answered something."""
        return [reader for reader in self.warm.status()["readers"] if reader["calls"]]

    def wait_readers(self) -> list[int]:
        eventually(self.readers, "a reader answers")
        return [reader["pid"] for reader in self.readers()]

    def wait_answers(self, count: int = 200) -> None:
        goal = self.answered + count
        eventually(lambda: self.answered >= goal or self.errors, "requests are answered")

    def _ask(self) -> None:
        while not self._is_over.is_set():
            try:
                self.replies.add(json.dumps(self.warm.ask("memory.search", {"query": "wombat"}, start=None)))
            except LorelogError as error:
                self.errors.append(error)
            self.answered += 1


@pytest.fixture
def load(warm: Warm, monkeypatch: pytest.MonkeyPatch) -> Iterator[Load]:
    """A daemon with a memory about wombats, and clients that make its requests queue."""
    monkeypatch.setenv("LORELOG_EMBEDDING_PROVIDER", "none")
    warm.start()
    warm.ask("memory.add", {"text": "the wombat digs"})
    load = Load(warm)
    load.start()
    yield load
    load.end()
    assert load.errors == []


def is_running(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0] != "Z"
    return False


def test_queueing_requests_start_a_reader_that_answers_as_the_daemon_does(load: Load) -> None:
    """When requests queue a reader is started; its replies are the daemon's to the letter, errors included, and say the daemon's pid."""
    load.wait_readers()
    load.wait_answers()

    assert len(load.replies) == 1
    for _ in range(20):
        with pytest.raises(LorelogError, match="k must be at least 1"):
            load.warm.ask("memory.search", {"query": "wombat", "k": 0}, start=None)


def test_a_killed_reader_loses_no_answer(load: Load) -> None:
    """Every request that a reader had when it was killed is answered by the daemon, and the reader is gone from the status."""
    (pid, *_) = load.wait_readers()
    os.kill(pid, signal.SIGKILL)
    load.wait_answers()

    assert pid not in [reader["pid"] for reader in load.warm.status()["readers"]]


@pytest.mark.slow
def test_a_reader_that_hangs_loses_no_answer(load: Load) -> None:
    """The requests of a reader that hangs are answered by the daemon after some seconds, and the reader is killed."""
    (pid, *_) = load.wait_readers()
    os.kill(pid, signal.SIGSTOP)
    eventually(lambda: not is_running(pid), "the reader is killed")
    load.wait_answers()


@pytest.mark.slow
def test_every_process_sees_what_was_acknowledged(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search after a confirmed add, edit, delete or change of settings sees it, whichever process answers; nothing forgotten is answered."""
    (pid, *_) = load.wait_readers()
    ask = load.warm.ask
    for number in range(3):
        word = f"quokka{number}"
        memory = ask("memory.add", {"text": f"the {word} smiles"})["memory"]
        assert all(load.search(word) for _ in range(_CLIENTS))
        before = ask("memory.expand", {"id": memory})["content"]
        ask("memory.edit", {"id": memory, "before": before, "text": before.replace("smiles", "frowns")})
        assert all("frowns" in load.search(word)[0] for _ in range(_CLIENTS))
        ask("memory.delete", {"id": memory})
        assert not any(load.search(word) for _ in range(_CLIENTS))
    ask("settings.set", {"key": "search.k", "value": "1"})
    ask("memory.add", {"text": "another wombat sleeps"})
    assert all(len(load.search("wombat")) == 1 for _ in range(_CLIENTS))

    ask("memory.forget", {"match": "the wombat digs", "confirm": True})
    assert not any("digs" in text for _ in range(_CLIENTS) for text in load.search("wombat"))
    assert not is_running(pid)


@pytest.mark.slow
def test_a_reader_leaves_what_must_be_written_to_the_daemon(load: Load) -> None:
    """If the lexical lane is gone, the daemon rebuilds it and no reader takes the writer's lock; searches go on finding the text."""
    load.wait_readers()
    cache = Path(load.warm.address.home) / "cache" / "default"
    for _ in range(5):
        (cache / "lexical" / "current.json").unlink()
        load.wait_answers(60)
        eventually((cache / "lexical" / "current.json").exists, "the lane is there again")
        assert json.loads((cache / "writer.lock").read_text("utf-8"))["pid"] == load.warm.status()["pid"]

    assert len(load.search("wombat")) == 1


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_readers_end_with_the_daemon(load: Load, number: int) -> None:
    """No reader outlives its daemon, also if that is killed."""
    pids = load.wait_readers()
    load.end()
    os.kill(load.warm.status()["pid"], number)

    eventually(lambda: read_lock_holder(load.warm.address) is None and not any(map(is_running, pids)), "they are gone")
    load.errors.clear()


@pytest.mark.slow
def test_idle_readers_leave(load: Load) -> None:
    """A reader that was asked nothing for a while ends, and one client alone starts none."""
    load.wait_readers()
    load.end()
    eventually(lambda: not load.warm.status()["readers"], "the readers leave")
    for _ in range(200):
        load.search("wombat")

    assert load.warm.status()["readers"] == []


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="only Linux lets a test take a core away")
def test_on_one_core_no_reader_is_started(warm: Warm, monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon that may use one core only answers everything itself."""
    monkeypatch.setenv("LORELOG_EMBEDDING_PROVIDER", "none")
    cores: Any = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        warm.start()
    finally:
        os.sched_setaffinity(0, cores)
    load = Load(warm)
    load.start()
    load.wait_answers(1_000)
    load.end()

    assert (warm.status()["readers"], load.errors) == ([], [])
