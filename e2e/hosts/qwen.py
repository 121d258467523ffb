"""Qwen Code: `qwen -p` for a turn, an extension in its folder, or installed by its own command."""

from __future__ import annotations

import json

from e2e.hosts.host import NO_FORK, NO_TERMINAL, OF_CLAUDE, Host, Outcome
from e2e.model import Step


class QwenCode(Host):
    """Alibaba's, a fork of Gemini CLI."""

    name = "qwen"
    title = "Qwen Code"
    shell = "run_shell_command"
    folder = ".qwen"
    kept = "projects/*/chats/*.jsonl"
    writer = ("write_file", "file_path", "content")
    mcp_prefix = "mcp__lorelog__"
    absent = OF_CLAUDE | NO_FORK | NO_TERMINAL

    def configure(self) -> None:
        self.own_folder.mkdir()
        settings = {"privacy": {"usageStatisticsEnabled": False}, "general": {"enableAutoUpdate": False}}
        (self.own_folder / "settings.json").write_text(json.dumps(settings, indent=2) + "\n")

    def install_natively(self) -> None:
        self.run_aside("extensions", "install", str(self.plugins / "qwen"), "--consent")

    def environment(self) -> dict[str, str]:
        return self.world.environment(
            OPENAI_API_KEY="e2e",
            OPENAI_BASE_URL=f"{self.world.model.address}/v1",
            OPENAI_MODEL="scripted",
            QWEN_CODE_SUPPRESS_YOLO_WARNING="1",
        )

    def _usual(self, session: str) -> list[str]:
        words = [str(self.installed.program), "--auth-type", "openai", "--approval-mode", "yolo"]
        return [*words, "--resume", session] if session else words

    def command(self, prompt: str, session: str) -> list[str]:
        return [*self._usual(session), "--output-format", "json", "-p", prompt]

    def read(self, printed: str) -> tuple[str, str]:
        try:
            told = json.loads(printed[printed.index("[") :])
        except ValueError:
            return "", printed
        last = next((item for item in reversed(told) if item.get("type") == "result"), told[-1] if told else {})
        return str(last.get("session_id", "")), str(last.get("result", ""))

    def converse(self, *says: str, session: str = "") -> Outcome:
        return self.stream_turns(self._usual(session), says, session, compact="/compress")

    def use_skill(self, asked: str, question: str, search: Step) -> Outcome:
        call = Step(tool="skill", arguments={"skill": "memory-recall"})
        return self.read_skill(call, asked, question, search)
