"""Cline's command line: `cline` for a turn, our plugin and server in its folder."""

from __future__ import annotations

import json

from e2e.hosts.droid import RESUMED
from e2e.hosts.host import FEW_CORE_ROWS, NO_JUDGE, NO_TERMINAL, OF_CLAUDE, ONE_TURN, TURN_LIMIT_S, Host, Outcome
from e2e.hosts.lines import json_lines
from e2e.model import Step


class Cline(Host):
    """Cline Bot's; its extension of VS Code has no plugins."""

    name = "cline"
    title = "Cline"
    shell = "run_commands"
    folder = ".cline"
    changed = ("data/settings/cline_mcp_settings.json",)
    kept = "data/sessions/*/*.messages.json"
    writer = ("editor", "path", "new_text")
    mcp_prefix = "lorelog__"
    core_rows = FEW_CORE_ROWS
    turn_limit_s = 2 * TURN_LIMIT_S  # its start alone took 25 s on a busy machine
    absent = (OF_CLAUDE | NO_JUDGE | NO_TERMINAL | ONE_TURN) | dict.fromkeys(
        RESUMED, "`cline --id`, which goes on with a session, is for its terminal program only"
    )

    def configure(self) -> None:
        settings = {"provider": "openai-compatible", "apiKey": "e2e", "model": "scripted"}
        settings["baseUrl"] = f"{self.world.model.address}/v1"
        entry = {"settings": settings, "updatedAt": "2026-11-19T00:00:00.000Z", "tokenSource": "manual"}
        providers = {"version": 1, "lastUsedProvider": "openai-compatible", "providers": {"openai-compatible": entry}}
        folder = self.own_folder / "data" / "settings"
        folder.mkdir(parents=True)
        (folder / "providers.json").write_text(json.dumps(providers))

    def environment(self) -> dict[str, str]:
        # It goes on without plugins when they are not loaded within 4 s, which a busy machine takes for its start.
        more = {"CLINE_PLUGIN_IMPORT_TIMEOUT_MS": "120000", "CLINE_SESSION_BACKEND_MODE": "local"}
        return self.world.environment(CLINE_NO_AUTO_UPDATE="1", **more)

    def command(self, prompt: str, session: str) -> list[str]:
        return [str(self.installed.program), "--json", *(["--id", session] if session else []), prompt]

    def read(self, printed: str) -> tuple[str, str]:
        answer = next((told.get("text", "") for told in json_lines(printed) if told.get("type") == "run_result"), "")
        # It names no session: the one that was written last has this answer.
        told = [path for path in self.transcripts() if answer and json.dumps(answer)[1:-1] in path.read_text()]
        return max(told, key=lambda path: path.stat().st_mtime).parent.name if told else "", answer

    def run_shell(self, command: str) -> Step:
        return Step(tool=self.shell, arguments={"commands": [command]})

    def install_natively(self) -> None:
        self.run_aside("plugin", "install", str(self.plugins / "cline"))

    def use_skill(self, asked: str, question: str, search: Step) -> Outcome:
        return self.read_skill(Step(tool="skills", arguments={"skill": self.skill_mark}), asked, question, search)
