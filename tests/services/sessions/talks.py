"""Simulated agent sessions: a growing transcript, and the events of its hooks."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from msgspec import to_builtins
from tests.ingest.transcripts.conversations import claude, tool_result, tool_use
from tests.stores.making import TemporaryStore

from lorelog.core.ids import answer_hash
from lorelog.core.options import CaptureOptions, ChunkOptions, ScanOptions
from lorelog.core.session import CaptureReply, HookEvent, TurnSummarizer
from lorelog.language.analyser import WordAnalyser
from lorelog.light import spool
from lorelog.services.indexing import IndexJob
from lorelog.services.memory_state.tombstones import Tombstones
from lorelog.services.places.roots import Root, Roots
from lorelog.services.places.workspace import Workspace, find_project
from lorelog.services.sessions.capture import Backfill, CaptureContext, capture_session

START = datetime(2026, 3, 5, 14, 0, tzinfo=UTC)


@dataclass
class CaptureHome:
    """A project, a home, and a clock that only advances on request."""

    root: Path
    clock: datetime = START
    options: CaptureOptions = field(default_factory=CaptureOptions)
    summarizer: TurnSummarizer | None = None
    is_git: bool = False

    def __post_init__(self) -> None:
        self.project = self.root / "app"
        self.home = self.root / "home"
        self.project.mkdir(parents=True)
        if self.is_git:
            for name in ("objects", "refs"):
                (self.project / ".git" / name).mkdir(parents=True)
            (self.project / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
        self.place = Workspace(find_project(str(self.project)), self.home, "default")
        self.store = TemporaryStore(WordAnalyser(), provider="none", model="none")
        self.tombstones = Tombstones(self.place.tenant_folder / "tombstones.jsonl")

    def tick(self, seconds: float = 10.0) -> datetime:
        self.clock += timedelta(seconds=seconds)
        return self.clock

    def means(self) -> CaptureContext:
        return CaptureContext(
            workspace=self.place,
            store=self.store,
            embedder=None,
            job=self._job,
            roots=Roots(self.place.tenant_folder / "roots.json"),
            options=self.options,
            summarizer=lambda: self.summarizer,
            now=lambda: self.clock,
        )

    def _job(self, roots: tuple[Root, ...]) -> IndexJob:
        return IndexJob(roots, (), ScanOptions(), ChunkOptions(), words_only=True, tombstones=self.tombstones)

    def capture(self, event: Mapping[str, Any], backfill: Backfill | None = None) -> CaptureReply:
        return capture_session(HookEvent.from_mapping(event, self.clock), self.means(), backfill)

    def answer(self, event: dict[str, Any]) -> dict[str, Any]:
        """Capture an event as the operation does, with JSON in and out."""
        fields: dict[str, Any] = to_builtins(self.capture(event))
        return fields

    def journals(self) -> list[Path]:
        return sorted(self.place.journals.glob("*.md"))

    def text(self) -> str:
        return "\n".join(path.read_text("utf-8") for path in self.journals())

    def entries(self) -> list[str]:
        return [f"### {item}" for path in self.journals() for item in path.read_text("utf-8").split("\n### ")[1:]]


class ClaudeTalk:
    """A Claude Code session with its transcript and hook events."""

    def __init__(self, world: CaptureHome, name: str = "") -> None:
        self.world = world
        self.session = name or str(uuid.uuid4())
        self.path = world.root / "transcripts" / f"{self.session}.jsonl"
        self.path.parent.mkdir(exist_ok=True)
        self.prompt = ""
        self.turn = ""
        self.said = ""

    def ask(self, text: str) -> None:
        self.begin()
        self.put(text)

    def begin(self) -> None:
        """Report a prompt by its hook before the transcript has it."""
        self.world.tick()
        self.prompt, self.turn = str(uuid.uuid4()), str(uuid.uuid4())

    def put(self, text: str) -> None:
        self._write(claude("user", self.turn, text))

    def queue(self, text: str) -> None:
        """Type a prompt during a turn; the host adds it to the turn, whose id stays."""
        self.world.tick()
        self.turn = str(uuid.uuid4())
        self._write({"type": "attachment", "uuid": self.turn, "attachment": {"type": "queued_command", "prompt": text}})

    def say(self, text: str, *, last: bool = True) -> None:
        """Write an answer, or a text on the way to it."""
        self.world.tick(1)
        if last:
            self.said = text
        line = claude("assistant", str(uuid.uuid4()), [{"type": "text", "text": text}])
        line["message"]["stop_reason"] = "end_turn" if last else "tool_use"
        self._write(line)

    def run(self, command: str, result: str = "", *, fails: bool = False) -> None:
        self.world.tick(1)
        call = f"toolu_{uuid.uuid4().hex}"
        self._write(claude("assistant", str(uuid.uuid4()), [tool_use(call, "Bash", command=command)]))
        self._write(claude("user", str(uuid.uuid4()), [tool_result(call, result, is_error=fails)]))

    def write(self, path: str) -> None:
        call = f"toolu_{uuid.uuid4().hex}"
        self._write(claude("assistant", str(uuid.uuid4()), [tool_use(call, "Write", file_path=path, content="x = 1")]))
        self._write(claude("user", str(uuid.uuid4()), [tool_result(call, "written", is_error=False)]))

    def reject(self, command: str, words: str) -> None:
        start = "The user doesn't want to proceed with this tool use. The tool use was rejected."
        self.run(command, f"{start} To tell you how to proceed, the user said:\n{words}", fails=True)

    def fork(self) -> ClaudeTalk:
        """Return another session that repeats all lines of this one, with their ids and times."""
        other = ClaudeTalk(self.world)
        prompt = str(uuid.uuid4())
        rows = [json.loads(line) for line in self.path.read_text().splitlines()]
        for row in rows:
            row.update({"sessionId": other.session}, **({"promptId": prompt} if "promptId" in row else {}))
        other.path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return other

    def event(self, moment: str, **more: Any) -> dict[str, Any]:
        named = {} if moment in {"session-start", "compact"} else {"turn": self.prompt}
        if moment == "turn-end":
            named["answer"] = answer_hash(self.said)
        at = self.world.clock.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return (
            {
                "at": at,
                "offset": 0,
                "host": "claude",
                "moment": moment,
                "session": self.session,
                "transcript": str(self.path),
                "directory": str(self.world.project),
                "environment": {},
            }
            | named
            | more
        )

    def spool(self, moment: str, **more: Any) -> None:
        """Spool an event. Hooks are processes: no two of a session finish in the same millisecond."""
        time.sleep(0.002)
        spool.write_event(str(self.world.home), self.event(moment, **more))

    def exchange(self, asked: str, answered: str) -> dict[str, Any]:
        """Make a whole turn; return the event of its end."""
        self.ask(asked)
        self.say(answered)
        return self.event("turn-end")

    def _write(self, record: dict[str, Any]) -> None:
        record |= {"sessionId": self.session, "timestamp": self.world.clock.isoformat()}
        if record["type"] == "user":
            record["promptId"] = self.prompt
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
