"""The hosts, each started the way a person starts it."""

from __future__ import annotations

from e2e.hosts.claude import ClaudeCode
from e2e.hosts.codex import Codex
from e2e.hosts.copilot import CopilotCli
from e2e.hosts.gemini import GeminiCli
from e2e.hosts.host import Host
from e2e.hosts.openclaw import OpenClaw
from e2e.hosts.opencode import OpenCode
from e2e.hosts.qwen import QwenCode

HOSTS: dict[str, type[Host]] = {
    kind.name: kind for kind in (ClaudeCode, Codex, OpenCode, OpenClaw, GeminiCli, QwenCode, CopilotCli)
}
