"""Gemini CLI: `gemini -p` for a turn, an extension in its folder, or linked by its own command."""

from __future__ import annotations

import json

from e2e.hosts.host import NO_FORK, NO_TERMINAL, OF_CLAUDE, ONE_TURN, Host, Outcome
from e2e.model import Step


class GeminiCli(Host):
    """Google's."""

    name = "gemini"
    title = "Gemini CLI"
    shell = "run_shell_command"
    folder = ".gemini"
    kept = "tmp/*/chats/*.jsonl"
    writer = ("write_file", "file_path", "content")
    mcp_prefix = "mcp_lorelog_"
    absent = OF_CLAUDE | NO_FORK | NO_TERMINAL | ONE_TURN

    def configure(self) -> None:
        self.own_folder.mkdir()
        settings = {
            "security": {"auth": {"selectedType": "gemini-api-key"}},
            "privacy": {"usageStatisticsEnabled": False},
            # Its clean-up deletes transcripts that another process of it is writing, so parallel sessions lose turns.
            "general": {"enableAutoUpdate": False, "sessionRetention": {"enabled": False}},
        }
        (self.own_folder / "settings.json").write_text(json.dumps(settings, indent=2) + "\n")

    def install_natively(self) -> None:
        self.run_aside("extensions", "link", str(self.plugins / "gemini"), "--consent")

    def environment(self) -> dict[str, str]:
        return self.world.environment(
            GEMINI_API_KEY="e2e", GOOGLE_GEMINI_BASE_URL=self.world.model.address, GEMINI_CLI_TRUST_WORKSPACE="true"
        )

    def command(self, prompt: str, session: str) -> list[str]:
        words = [str(self.installed.program), "-m", "gemini-2.5-pro", "--approval-mode", "yolo"]
        words += ["--resume", session] if session else []
        return [*words, "--output-format", "json", "-p", prompt]

    def read(self, printed: str) -> tuple[str, str]:
        try:
            told = json.loads(printed[printed.index("{") :])
        except ValueError:
            return "", printed
        return str(told.get("session_id", "")), str(told.get("response", ""))

    def use_skill(self, asked: str, question: str, search: Step) -> Outcome:
        call = Step(tool="activate_skill", arguments={"name": "memory-recall"})
        return self.read_skill(call, asked, question, search)
