"""GitHub Copilot CLI: `copilot -p` for a turn, with a model of one's own on loopback."""

from __future__ import annotations

from e2e.hosts.host import NO_FORK, NO_TERMINAL, OF_CLAUDE, ONE_TURN, Host, Outcome
from e2e.hosts.lines import json_lines
from e2e.model import Step


class CopilotCli(Host):
    """GitHub's."""

    name = "copilot"
    title = "Copilot CLI"
    shell = "bash"
    folder = ".copilot"
    changed = ("mcp-config.json",)
    kept = "session-state/*/events.jsonl"
    writer = ("create", "path", "file_text")
    mcp_prefix = "lorelog-"
    absent = (OF_CLAUDE | NO_FORK | NO_TERMINAL | ONE_TURN) | {
        "own installer": "its plugins come from a repository or a marketplace, not from a folder"
    }

    def configure(self) -> None:
        self.own_folder.mkdir()
        (self.own_folder / "mcp-config.json").write_text('{\n  "mcpServers": {}\n}\n')

    def environment(self) -> dict[str, str]:
        return self.world.environment(
            COPILOT_PROVIDER_BASE_URL=f"{self.world.model.address}/v1",
            COPILOT_PROVIDER_API_KEY="e2e",
            COPILOT_MODEL="scripted",
            COPILOT_OFFLINE="true",
            COPILOT_AUTO_UPDATE="false",
        )

    def command(self, prompt: str, session: str) -> list[str]:
        words = [str(self.installed.program), "--allow-all-tools", "--output-format", "json"]
        words += ["--resume", session] if session else []
        return [*words, "-p", prompt]

    def read(self, printed: str) -> tuple[str, str]:
        session = answer = ""
        for told in json_lines(printed):
            if told.get("type") == "assistant.message":
                answer = told["data"].get("content") or answer
            session = told.get("sessionId") or session
        return session, answer

    def run_shell(self, command: str) -> Step:
        return Step(tool=self.shell, arguments={"command": command, "description": "a step"})

    def use_skill(self, asked: str, question: str, search: Step) -> Outcome:
        """Through the host's own tool: the skill's text then comes as a message of its own, which begins a new script."""
        call = Step(tool="skill", arguments={"skill": "memory-recall"})
        self.world.model.script("from the long-term memory of this project", search, Step("Read it."))
        self.world.model.script(asked, call, Step("Read it."))
        return self.turn(f"{asked}: {question}?")
