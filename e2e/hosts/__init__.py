"""The hosts, each started the way a person starts it."""

from __future__ import annotations

from e2e.hosts.claude import ClaudeCode
from e2e.hosts.codex import Codex
from e2e.hosts.copilot import CopilotCli
from e2e.hosts.droid import Droid
from e2e.hosts.gemini import GeminiCli
from e2e.hosts.host import Host
from e2e.hosts.kimi import KimiCode
from e2e.hosts.openclaw import OpenClaw
from e2e.hosts.opencode import KiloCode, OpenCode
from e2e.hosts.pi import OhMyPi, Pi
from e2e.hosts.qwen import QwenCode

_KINDS: tuple[type[Host], ...] = (
    *(ClaudeCode, Codex, OpenCode, OpenClaw, GeminiCli, QwenCode, CopilotCli),
    *(Droid, Pi, OhMyPi, KiloCode, KimiCode),
)
HOSTS = {kind.name: kind for kind in _KINDS}
