"""The hosts, each started the way a person starts it."""

from __future__ import annotations

from e2e.hosts.claude import ClaudeCode
from e2e.hosts.codex import Codex
from e2e.hosts.host import Host
from e2e.hosts.openclaw import OpenClaw
from e2e.hosts.opencode import OpenCode

HOSTS: dict[str, type[Host]] = {"claude": ClaudeCode, "codex": Codex, "opencode": OpenCode, "openclaw": OpenClaw}
