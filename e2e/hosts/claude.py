"""Claude Code: `claude -p`, a plugin directory, and a stream of JSON lines for a living session."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

from e2e.hosts.host import Host, Outcome
from e2e.model import Step
from e2e.terminal import Terminal
from e2e.world import REPOSITORY

_ALLOWED = "Bash,Read,Write,Skill,mcp__plugin_lorelog_lorelog"
_KEY = "sk-ant-e2e"


class ClaudeCode(Host):
    """Anthropic's."""

    name = "claude"
    title = "Claude Code"
    shell = "Bash"
    folder = ".claude"
    kept = "projects/*/*.jsonl"
    writer = ("Write", "file_path", "content")
    mcp_prefix = "mcp__plugin_lorelog_lorelog__"
    takes_prompt = True

    def configure(self) -> None:
        """Write settings of a person's own, which must survive; the rest comes by the environment."""
        self.own_folder.mkdir()
        (self.own_folder / "settings.json").write_text('{\n  "cleanupPeriodDays": 30\n}\n')
        self._named = False

    def bring_plugin(self) -> None:
        self._named = True

    def install_natively(self) -> None:
        self.run_aside("plugin", "marketplace", "add", str(REPOSITORY))
        self.run_aside("plugin", "install", "lorelog@lorelog")

    def environment(self) -> dict[str, str]:
        return self.world.environment(
            ANTHROPIC_BASE_URL=self.world.model.address,
            ANTHROPIC_API_KEY=_KEY,
            CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
            DISABLE_AUTOUPDATER="1",
        )

    def _usual(self, session: str) -> list[str]:
        words = [str(self.installed.program), "-p", "--allowedTools", _ALLOWED]
        words += self._plugin()
        return [*words, "--resume", session] if session else words

    def command(self, prompt: str, session: str) -> list[str]:
        return [*self._usual(session), "--output-format", "json"]

    @contextlib.contextmanager
    def sit_down(self, *, asks_first: bool = False) -> Iterator[Terminal]:
        """With the first questions answered before: which colours, whether this key, whether this folder."""
        known = {
            "hasCompletedOnboarding": True,
            "theme": "dark",
            "customApiKeyResponses": {"approved": [_KEY], "rejected": []},
            "projects": {str(self.world.project): {"hasTrustDialogAccepted": True}},
        }
        (self.world.home / ".claude.json").write_text(json.dumps(known))
        words = ["--permission-mode", "default"] if asks_first else ["--allowedTools", _ALLOWED]
        with self.open_terminal(*words, *self._plugin()) as terminal:
            terminal.wait_for("manual mode on" if asks_first else "shift+tab to cycle", "Claude Code to be ready")
            yield terminal

    def _plugin(self) -> list[str]:
        return ["--plugin-dir", str(self.plugins / "claude-code")] if self._named else []

    def read(self, printed: str) -> tuple[str, str]:
        try:
            told: dict[str, Any] = json.loads(printed)
        except ValueError:
            return "", printed
        return str(told.get("session_id", "")), str(told.get("result", ""))

    def converse(self, *says: str, session: str = "") -> Outcome:
        return self.stream_turns([*self._usual(session), "--verbose"], says, session, compact="/compact")

    def has_written(self, word: str) -> bool:
        """Whether the prompt stands there as a message: a line that it was queued comes earlier."""
        lines = [line for path in self.transcripts() for line in path.read_text().splitlines()]
        return any(word in line and '"type":"user"' in line for line in lines)

    def fork(self, prompt: str, session: str) -> Outcome:
        return self.complete(self.launch([*self.command(prompt, session), "--fork-session"], prompt))

    def use_skill(self, asked: str, question: str, search: Step) -> Outcome:
        """Through the host's own tool: the skill runs in a context of its own, whose request holds the question."""
        call = Step(tool="Skill", arguments={"skill": "lorelog:memory-recall", "args": question})
        self.world.model.script(question, search, Step("It says so."))
        self.world.model.script(asked, call, Step("Read it."))
        return self.turn(f"{asked}: look it up.")
