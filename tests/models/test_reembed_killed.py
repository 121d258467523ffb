"""A change of remote models, killed with SIGKILL at each request in turn: nothing is lost or paid for twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.models.embedding_server import Answer, EmbeddingServer, Request
from tests.models.vendors import VENDORS

NOTES = 24
ANIMALS = ("otter", "beaver", "heron", "stoat", "badger", "linnet")


def numbers(text: str, model: str) -> list[float]:
    """Return a vector that tells the notes apart; both models have the same dimension and different vectors."""
    row = [0.01] * 64
    for word in text.lower().split():
        row[sum(word.encode()) % 32 + (32 if model == "two" else 0)] += 1.0
    return row


class Wire:
    """A server of two models, and commands that use it; one of them is killed at one of its requests."""

    def __init__(self, place: Path, fatal: int) -> None:
        self.made: Counter[str] = Counter()
        """How often the second model was asked for each note."""
        self._place = place
        self._left = fatal
        self._doomed: subprocess.Popen[str] | None = None
        self.server = EmbeddingServer(self._answer)

    def begin(self, model: str, *words: str) -> subprocess.Popen[str]:
        chosen = {
            "LORELOG_EMBEDDING_PROVIDER": "openai",
            "LORELOG_EMBEDDING_MODEL": model,
            "LORELOG_EMBEDDING_BASE_URL": self.server.url,
            "LORELOG_EMBEDDING_BATCH_SIZE": "1",
        }
        command = [sys.executable, "-m", "lorelog", *words, "--json"]
        environment = {**os.environ, **chosen}
        return subprocess.Popen(command, cwd=self._place, env=environment, stdout=subprocess.PIPE, text=True)

    def run(self, model: str, *words: str) -> Any:
        done = self.begin(model, *words)
        said, _ = done.communicate(timeout=60)
        assert done.returncode == 0, said
        return json.loads(said)

    def kill_in_the_middle(self, model: str, *words: str) -> None:
        self._doomed = self.begin(model, *words)
        self._doomed.communicate(timeout=60)
        assert self._doomed.returncode == -signal.SIGKILL
        self._doomed = None

    def _answer(self, request: Request) -> Answer:
        model, texts = request.body["model"], VENDORS["openai"].texts(request)
        if self._doomed is not None:
            self._left -= 1
            if self._left == 0:
                self._doomed.kill()
                return Answer(hang_up=True)
        if model == "two":
            self.made.update(text for text in texts if "was seen at" in text)
        return Answer(body=VENDORS["openai"].reply([numbers(text, model) for text in texts], 1))


@pytest.mark.slow
@pytest.mark.parametrize("fatal", [2, 5, 9, 30])
def test_a_change_killed_at_a_request_is_carried_on(fatal: int, tmp_path: Path) -> None:
    """After a kill the old model searches by vectors and the new one by words until the next run.

    The next run completes the change, and no text whose vector was stored is embedded twice.
    """
    for number in range(NOTES):
        note = f"The {ANIMALS[number % 6]} w{number} was seen at post p{number}.\n"
        (tmp_path / f"n{number:02}.md").write_text(note, "utf-8")
    wire = Wire(tmp_path, fatal)
    whole = {"chunks": NOTES, "with_vectors": NOTES}
    try:
        wire.run("one", "index", ".")
        wire.kill_in_the_middle("two", "index", "--reembed")

        assert wire.run("one", "search", "heron w2 post")["coverage"] == whole
        assert wire.run("two", "search", "heron w2 post")["hits"]
        told = wire.run("two", "index")["reembedding"]
        assert (told["from"], told["to"], told["swapped"]) == ("openai/one", "openai/two", True)
        assert wire.run("two", "search", "heron w2 post")["coverage"] == whole
        assert len(wire.made) == NOTES
        assert sum(wire.made.values()) - NOTES <= 4  # those of one round were on their way when it was killed
    finally:
        wire.server.stop()
