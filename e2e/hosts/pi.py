"""Pi and its fork Oh My Pi: `pi -p` for a turn, an extension in their folder."""

from __future__ import annotations

import json

from e2e.hosts.host import FEW_CORE_ROWS, NO_FORK, NO_JUDGE, NO_TERMINAL, OF_CLAUDE, ONE_TURN, Host, Outcome
from e2e.hosts.lines import json_lines
from e2e.model import Step
from e2e.protocols import plain


class Pi(Host):
    """Earendil's, formerly of Mario Zechner."""

    name = "pi"
    title = "Pi"
    shell = "bash"
    folder = ".pi/agent"
    kept = "sessions/*/*.jsonl"
    writer = ("write", "path", "content")
    core_rows = FEW_CORE_ROWS
    absent = OF_CLAUDE | NO_FORK | NO_JUDGE | NO_TERMINAL | ONE_TURN | {"tools": "it has no MCP"}

    def configure(self) -> None:
        self.own_folder.mkdir(parents=True)
        model = {"id": "scripted", "name": "Scripted", "contextWindow": 200_000, "maxTokens": 8_000}
        provider = {"baseUrl": f"{self.world.model.address}/v1", "api": "openai-completions", "apiKey": "e2e"}
        models = {"providers": {"e2e": {**provider, "models": [model]}}}
        (self.own_folder / "models.json").write_text(json.dumps(models, indent=2) + "\n")

    def environment(self) -> dict[str, str]:
        return self.world.environment(PI_OFFLINE="1", PI_SKIP_VERSION_CHECK="1", PI_TELEMETRY="0")

    def install_natively(self) -> None:
        self.run_aside("install", str(self.plugins / "pi"))

    def command(self, prompt: str, session: str) -> list[str]:
        words = [str(self.installed.program), "-p", "--mode", "json", "--provider", "e2e", "--model", "scripted"]
        return [*words, *(["--session", session] if session else []), prompt]

    def read(self, printed: str) -> tuple[str, str]:
        session = answer = ""
        for told in json_lines(printed):
            message = told.get("message") or {}
            if told.get("type") == "session":
                session = told.get("id", "")
            elif told.get("type") == "message_end" and message.get("role") == "assistant":
                answer = plain(message.get("content")) or answer
        return session, answer


class OhMyPi(Pi):
    """A fork of Pi, for Bun."""

    name = "omp"
    title = "Oh My Pi"
    folder = ".omp/agent"
    absent = Pi.absent | {
        "own installer": "it installs packages of npm",
        "interrupt": "it reports the end before it writes what was said so far, so that the turn is two entries",
    }

    def environment(self) -> dict[str, str]:
        environment = super().environment()
        return environment | {"PATH": f"{self.installed.programs}:{environment['PATH']}"}

    def command(self, prompt: str, session: str) -> list[str]:
        words = [str(self.installed.program), "-p", "--mode", "json", "--model", "e2e/scripted"]
        return [*words, *(["--resume", session] if session else []), prompt]

    def use_skill(self, asked: str, question: str, search: Step) -> Outcome:
        """A request names its skills, and the tool that reads files knows them by that name."""
        call = Step(tool="read", arguments={"path": f"skill://{self.skill_mark}"})
        return self.read_skill(call, asked, question, search)
