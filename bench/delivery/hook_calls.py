"""A home, projects, and tool calls that run through the real hook."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

from lorelog import Lorelog
from lorelog.surfaces.cli.main import main
from lorelog.surfaces.hook import handle_hook

Payload = dict[str, Any]


@dataclass(frozen=True)
class ToolUse:
    """A tool call as a host sends it, and its result if it failed."""

    tool: str
    arguments: Payload
    output: str = ""
    """Output of a failed call; the call is then replayed after it failed."""
    host: str = "claude"

    def payloads(self, session: str, number: int, directory: Path) -> Iterator[tuple[str, Payload]]:
        """Yield the moments of the call with their payloads."""
        name = f"call-{number}"
        common: Payload = {"session_id": session, "cwd": str(directory), "transcript_path": "", "tool_use_id": name}
        common |= {"tool_name": self.tool, "tool_input": self.arguments}
        yield "tool-before", {**common, "hook_event_name": "PreToolUse"}
        if self.output:
            yield "tool-failed", {**common, "hook_event_name": "PostToolUseFailure", "error": self.output}

    def __str__(self) -> str:
        shown = self.arguments.get("command") or self.arguments.get("file_path") or json.dumps(self.arguments)
        return f"{self.tool}: {' '.join(str(shown).split())[:160]}" + (" (failed)" if self.output else "")


@dataclass
class Bench:
    """A home without a daemon and without a model."""

    root: Path
    environment: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("LORELOG_", "CLAUDE"))},
            "HOME": str(self.root / "user"),
            "LORELOG_HOME": str(self.root / "home"),
            "LORELOG_DAEMON_WARM": "off",
            "LORELOG_EMBEDDING_PROVIDER": "fake",
        }
        (self.root / "user").mkdir(parents=True, exist_ok=True)

    @contextmanager
    def active(self) -> Iterator[None]:
        """Set the environment of this process while it runs lorelog."""
        before = dict(os.environ)
        os.environ.clear()
        os.environ.update(self.environment)
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(before)

    def make_project(self, name: str) -> Path:
        """Create a directory that looks like a Git repository."""
        project = self.root / "projects" / name
        for part in ("objects", "refs/heads"):
            (project / ".git" / part).mkdir(parents=True)
        (project / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
        return project

    def run_command(self, *words: str) -> Any:
        """Run a command of lorelog in this process and return its JSON."""
        out, err = StringIO(), StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            status = main([*words, "--json"])
        if status:
            raise RuntimeError(f"lorelog {' '.join(words)}: {err.getvalue()}{out.getvalue()}")
        return json.loads(out.getvalue())

    def capture(self, project: Path, transcript: Path, session: str, host: str = "claude") -> None:
        """Capture a whole conversation, as `backfill` does."""
        with Lorelog(project=project) as memory:
            arguments = {"host": host, "session": session, "transcript": str(transcript), "everything": True}
            memory.call("session.capture", arguments)

    def call(self, use: ToolUse, session: str, number: int, directory: Path) -> str:
        """Run the hooks of a call in this process; return the text that the agent is shown."""
        shown = []
        for moment, payload in use.payloads(session, number, directory):
            answer = handle_hook([use.host, moment], json.dumps(payload).encode(), os.environ)
            shown.append(shown_text(answer))
        return "\n".join(filter(None, shown))


def shown_text(answer: Payload) -> str:
    """Return the text of a hook's answer that reaches the model."""
    output = answer.get("hookSpecificOutput") or {}
    texts = (output.get("additionalContext"), output.get("permissionDecisionReason"), answer.get("reason"))
    return "\n".join(text for text in texts if isinstance(text, str))
