"""Two hundred daemons, each killed at some moment: nothing acknowledged is lost, and the next command works."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
from tests.surfaces.daemon.conftest import Warm, answers, eventually, request

from lorelog.core.errors import LorelogError

CYCLES = 200
MOMENTS = ("starting", "starting", "starting", "starting", "writing", "answered")
"""When a cycle's daemon is killed; more often while it starts, because such a cycle is short."""


class Memories:
    """The memories that the cycles have written."""

    def __init__(self) -> None:
        self.kept: list[str] = []
        """Acknowledged."""
        self.tried: list[str] = []
        """Texts that were sent once each."""


@pytest.mark.slow
def test_kill_nine_at_random_points(warm: Warm) -> None:
    """In 200 cycles of starting, writing, asking and kill -9: never two daemons, never a lost or a doubled memory."""
    chance = random.Random(20261115)
    memories = Memories()
    for cycle in range(CYCLES):
        moment = MOMENTS[cycle % len(MOMENTS)]
        text = f"cycle {cycle} marsupial."
        memories.tried.append(text)
        {"starting": _while_starting, "writing": _while_writing, "answered": _once_answered}[moment](
            warm, text, memories, chance
        )
        eventually(lambda: len(warm.pids()) <= 1, "of two one was being forked or dying")
        # A start that was killed counts as failed, and would keep the next cycles from trying.
        Path(warm.address.run, "start.failed").unlink(missing_ok=True)

    assert warm.ask("memory.index")["failed"] == 0
    journal = "".join(path.read_text("utf-8") for path in (warm.project / ".lorelog" / "memory").glob("*.md"))
    assert len(memories.kept) >= CYCLES // len(MOMENTS)
    assert [memory for memory in memories.kept if journal.count(memory) != 1] == []
    assert [memory for memory in memories.kept if not warm.ask("memory.get", {"id": memory})["found"]] == []
    assert [text for text in memories.tried if journal.count(text) > 1] == []
    assert len(warm.pids()) == 1


def _while_starting(warm: Warm, text: str, memories: Memories, chance: random.Random) -> None:
    killer = threading.Timer(chance.uniform(0.0, 0.15), _kill_all, [warm])
    killer.start()
    with suppress(LorelogError):  # it was not there, or went before it could say
        memories.kept.append(warm.ask("memory.add", {"text": text})["memory"])
    killer.join()


def _while_writing(warm: Warm, text: str, memories: Memories, chance: random.Random) -> None:
    """Kill the daemon just after it announces a write, and read what it still sends."""
    warm.start()
    caller = {"directory": str(warm.project), "environment": {"LORELOG_EMBEDDING_PROVIDER": "fake"}}
    with warm.connect() as connection:
        connection.sendall(request("memory.add", {"text": text}, caller=caller))
        found = answers(connection)
        assert next(found) == {"working": 0}
        time.sleep(chance.choice((0.0, 0.02, 0.1, 0.2, 0.3, 0.4)))
        _kill_all(warm)
        with suppress(ConnectionResetError):
            memories.kept += [answer["result"]["memory"] for answer in found if answer.get("ok")]


def _once_answered(warm: Warm, text: str, memories: Memories, chance: random.Random) -> None:
    memories.kept.append(warm.ask("memory.add", {"text": text})["memory"])
    killer = threading.Timer(chance.uniform(0.0, 0.02), _kill_all, [warm])
    killer.start()
    with suppress(LorelogError):
        warm.ask("memory.search", {"query": "marsupial", "lane": "lexical"}, start=None)
    killer.join()


def _kill_all(warm: Warm) -> None:
    """Kill the daemon of the home, ready or not."""
    for pid in warm.pids():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
