"""What an arm must prove."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class AdmissionSignal:
    """What a session must have had to count."""

    arm: str
    mcp_tool_prefixes: tuple[str, ...] = ()
