"""Kimi Code: `kimi -p` for a turn, a plugin in its list of plugins."""

from __future__ import annotations

from e2e.hosts.host import FEW_CORE_ROWS, NO_JUDGE, NO_TERMINAL, OF_CLAUDE, ONE_TURN, Host
from e2e.hosts.lines import json_lines

_CONFIG = """\
default_model = "scripted"
telemetry = false

[providers.e2e]
type = "openai"
base_url = "{address}/v1"
api_key = "e2e"

[models.scripted]
provider = "e2e"
model = "scripted"
max_context_size = 200000
"""


class KimiCode(Host):
    """Moonshot's."""

    name = "kimi"
    title = "Kimi Code"
    shell = "Bash"
    folder = ".kimi-code"
    changed = ("config.toml", "plugins/installed.json")
    kept = "sessions/*/*/agents/main/wire.jsonl"
    writer = ("Write", "path", "content")
    mcp_prefix = "mcp__lorelog__"
    core_rows = FEW_CORE_ROWS
    absent = (OF_CLAUDE | NO_JUDGE | NO_TERMINAL | ONE_TURN) | {
        "own installer": "its plugins are installed in its terminal program",
        "fork": "its command that forks does not run a turn",
        "file": "its agent's shell has no variable that tells it from a person's, so its agent gets no guide",
        "deliver": "with a call, only a block reaches the model",
        "tools": "the MCP server of a plugin is not offered in `kimi -p`",
    }

    def configure(self) -> None:
        self.own_folder.mkdir()
        (self.own_folder / "config.toml").write_text(_CONFIG.format(address=self.world.model.address))

    def command(self, prompt: str, session: str) -> list[str]:
        words = [str(self.installed.program), "--output-format", "stream-json"]
        return [*words, *(["--session", session] if session else []), "--prompt", prompt]

    def read(self, printed: str) -> tuple[str, str]:
        session = answer = ""
        for told in json_lines(printed):
            session = told.get("session_id") or session
            if told.get("role") == "assistant":
                answer = told.get("content") or answer
        return session, answer
