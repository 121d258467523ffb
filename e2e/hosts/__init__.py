"""The hosts, each started the way a person starts it."""

from __future__ import annotations

from e2e.hosts.claude import ClaudeCode
from e2e.hosts.cline import Cline
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
    *(Droid, Pi, OhMyPi, KiloCode, KimiCode, Cline),
)
HOSTS = {kind.name: kind for kind in _KINDS}
NOT_RUN = {
    "Crush": "its package fetches the program from elsewhere when it is installed; its one hook is for guards, none for capture",
    "Letta Code": "a package that it needs was not to be had",
    "Continue": "`cn` 1.5.47 declares hooks and calls none of them",
    "Amp": "it needs an account: the model is asked by its own service, and no address of another one can be given; its plugins were not looked at",
    "Auggie": "0.36.0: its hooks (`SessionStart`, `PromptSubmit`, `PreToolUse`, `PostToolUse`, `Stop`) would do, but it needs an account and speaks to its own service only",
    "aider": "0.86.2 has no hooks or plugins, only commands for lint, test and notifications; `lorelog backfill aider` reads its history",
    "Codebuff": "not tried",
}
"""Programs that were looked at and are not hosts, and why not."""
