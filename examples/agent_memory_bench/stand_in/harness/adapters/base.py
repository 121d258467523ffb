"""What the contract names: an arm, the configuration of its sessions, and what it must prove."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ArmSpec:
    """What a session gets."""

    mcp_config: str
    append_system_prompt_file: str


@dataclass(frozen=True)
class AdmissionSignal:
    """What a session must have had to count."""

    mcp_tool_prefixes: tuple[str, ...]


class MemoryAdapter:
    """An arm."""
