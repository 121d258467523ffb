"""Factory Droid: `droid exec` for a turn, with a model of one's own on loopback; hooks and servers in files of its folder."""

from __future__ import annotations

import json

from e2e.hosts.host import FEW_CORE_ROWS, NO_JUDGE, NO_TERMINAL, OF_CLAUDE, ONE_TURN, Host, Outcome
from e2e.hosts.lines import json_lines
from e2e.model import Step

RESUMED = ("resume", "failure", "interrupt", "kill", "parallel", "daemon dies", "no daemon", "backfill", "fork")
"""Rows that go on with a session."""
_NO_RESUME = "without an account, `droid exec --session-id` ended with 1 and said nothing"


class Droid(Host):
    """Factory's."""

    name = "droid"
    title = "Factory Droid"
    shell = "Execute"
    folder = ".factory"
    changed = ("hooks.json", "mcp.json")
    kept = "sessions/*/*.jsonl"
    writer = ("Create", "file_path", "content")
    mcp_prefix = "lorelog___"
    core_rows = FEW_CORE_ROWS
    absent = (OF_CLAUDE | NO_JUDGE | NO_TERMINAL | ONE_TURN | dict.fromkeys(RESUMED, _NO_RESUME)) | {
        "own installer": "its plugins come from a repository or a marketplace, not from a folder"
    }

    def configure(self) -> None:
        self.own_folder.mkdir()
        address = f"{self.world.model.address}/v1"
        model = {"model": "scripted", "displayName": "Scripted", "baseUrl": address, "apiKey": "e2e"}
        more = {"provider": "generic-chat-completion-api", "maxOutputTokens": 8000}
        settings = {"customModels": [{**model, **more}], "model": "custom:scripted", "cloudSessionSync": False}
        (self.own_folder / "settings.json").write_text(json.dumps(settings, indent=2) + "\n")

    def environment(self) -> dict[str, str]:
        return self.world.environment(FACTORY_API_KEY="fk-e2e", FACTORY_AIRGAP_ENABLED="true")

    def command(self, prompt: str, session: str) -> list[str]:
        words = [str(self.installed.program), "exec", "--output-format", "json", "--skip-permissions-unsafe"]
        words += ["--model", "custom:scripted", *(["--session-id", session] if session else [])]
        return [*words, prompt]

    def read(self, printed: str) -> tuple[str, str]:
        told = next((line for line in json_lines(printed) if line.get("type") == "result"), {})
        return str(told.get("session_id", "")), str(told.get("result", ""))

    def run_shell(self, command: str) -> Step:
        # Its hooks are told of a call that succeeded only; the scripted commands of some rows fail.
        command = f"{command}\ntrue"
        return Step(tool=self.shell, arguments={"command": command, "riskLevel": "low", "riskLevelReason": "a step"})

    def use_skill(self, asked: str, question: str, search: Step) -> Outcome:
        return self.read_skill(Step(tool="Skill", arguments={"skill": "memory-recall"}), asked, question, search)
