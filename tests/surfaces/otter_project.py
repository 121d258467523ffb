"""A project of notes about otters, with ways to index, search and capture in it, for tests of settings and options."""

from __future__ import annotations

import itertools
import json
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.code.repositories import git
from tests.models.embedding_server import Answer, EmbeddingServer, Request
from tests.surfaces.conftest import Outcome, Shell, write

from lorelog.config.schema import SETTINGS_BY_KEY, SettingValue

_SESSIONS = itertools.count()


def git_init(place: Path) -> None:
    place.mkdir(exist_ok=True)
    git(place, "init", "-q")


def write_note(request: Request) -> Answer:
    """Answer as a language model does, for ten thousand tokens."""
    message = {"role": "assistant", "content": f"- User asked {request.body['model']} for a cache"}
    return Answer(body={"choices": [{"message": message}], "usage": {"prompt_tokens": 10_000, "completion_tokens": 1}})


@dataclass(frozen=True)
class OtterProject:
    """A shell in a project that is not indexed yet, and its home."""

    shell: Shell
    path: Path
    home: Path
    monkeypatch: pytest.MonkeyPatch
    servers: list[EmbeddingServer] = field(default_factory=list)

    def configure(self, key: str, value: SettingValue) -> None:
        """Choose a setting by its environment variable."""
        text = ",".join(value) if isinstance(value, tuple) else str(value)
        self.monkeypatch.setenv(SETTINGS_BY_KEY[key].variable, text)

    def serve(self, *script: Callable[[Request], Answer]) -> EmbeddingServer:
        """Start the server that OPENAI_BASE_URL names."""
        server = EmbeddingServer(*script)
        self.servers.append(server)
        self.monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        self.monkeypatch.setenv("MY_OTTER_SECRET", "swordfish")
        return server

    def listed(self) -> set[str]:
        """Return the names of the indexed files."""
        reply = self.shell("list", "--documents", "--all-projects", "-n", 100, "--json").json
        return {Path(document["source"]).name for document in reply["documents"]}

    def index(self, *words: object) -> set[str]:
        self.shell("index", *words)
        return self.listed()

    def move_elsewhere(self) -> Path:
        """Go to another project, a repository, and return where it is."""
        other = self.path.parent / "other"
        git_init(other)
        self.monkeypatch.chdir(other)
        return other

    def search(self, *words: object) -> Outcome:
        return self.shell("search", "otter", "--json", *words)

    def explanation(self, *words: object) -> dict[str, str]:
        """Return the parts of the first hit's score with their notes."""
        return {part["name"]: part["note"] for part in self.search("--explain", *words).json["hits"][0]["explanation"]}

    def call(self, operation: str, **arguments: object) -> Any:
        return self.shell("call", operation, "--json", json.dumps(arguments)).json

    def capture(self) -> str:
        """Capture a session of one turn, and return the text that is kept of it."""
        session, now = str(uuid.uuid4()), datetime.now(UTC)
        moments = [
            (now - timedelta(seconds=ago)).isoformat(timespec="milliseconds").replace("+00:00", "Z") for ago in (2, 1)
        ]
        said = "We take Redis, because it is there already. The word is hunter-otter-77."
        lines = [
            {"type": "user", "message": {"role": "user", "content": f"Which cache, number {next(_SESSIONS)}?"}},
            {"type": "assistant", "message": {"role": "assistant", "content": [{"type": "text", "text": said}]}},
        ]
        told = [
            {"uuid": str(uuid.uuid4()), "sessionId": session, "timestamp": moment, **line}
            for moment, line in zip(moments, lines, strict=True)
        ]
        path = write(self.path.parent / f"{session}.jsonl", "".join(json.dumps(line) + "\n" for line in told))
        event = {"host": "claude", "session": session, "transcript": str(path), "moment": "turn-end", "at": moments[1]}
        captured = self.call("session.capture", **event)["captured"]
        if not captured:
            return ""
        journal = Path(captured[0]["source"]).read_text("utf-8").splitlines()
        return "\n".join(journal[captured[0]["start_line"] - 1 :])


@pytest.fixture
def otters(shell: Shell, project: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OtterProject]:
    """Seven short notes, drafts, a page of many sections and one of many lines; none is indexed."""
    for number in range(7):
        write(project / "notes" / f"n{number}.md", f"otter number {number}\n")
    write(project / "docs" / "guide.md", "guide to otters\n")
    write(project / "docs" / "drafts" / "draft.md", "draft about otters\n")
    write(project / "docs" / "scratch.tmp.md", "scratch about otters\n")
    write(project / "many" / "many.md", "".join(f"## Section {n}\n\nbeaver number {n}\n\n" for n in range(33)))
    write(project / "long" / "long.md", "".join(f"line {n:02} tells of otters and of stones\n" for n in range(60)))
    made = OtterProject(shell, project, home, monkeypatch)
    yield made
    for server in made.servers:
        server.stop()
