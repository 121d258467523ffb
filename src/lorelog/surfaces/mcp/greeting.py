"""What a server says at the start of a session, word for word as the SDK's server says it; a test compares the two.

Standard library only: the proxy greets for a daemon that is still starting. Only versions of the protocol that are known here
are greeted; whatever else an agent opens with waits for the server.
"""

from __future__ import annotations

from lorelog.core.version import VERSION
from lorelog.surfaces.mcp.tools import INSTRUCTIONS, TITLE, TOOLS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

VERSIONS = ("2025-06-18", "2025-11-25")
"""Versions with a handshake in which tools look as they do here; older ones know no titles or annotations."""


def greeting(params: object) -> dict[str, Any] | None:
    """Return the result of `initialize`, or None where the server should see to it."""
    if not isinstance(params, dict) or params.get("protocolVersion") not in VERSIONS:
        return None
    client = params.get("clientInfo")
    named = isinstance(client, dict) and isinstance(client.get("name"), str) and isinstance(client.get("version"), str)
    if not named or not isinstance(params.get("capabilities"), dict):
        return None
    return {
        "protocolVersion": params["protocolVersion"],
        "capabilities": {
            "prompts": {"listChanged": False},
            "resources": {"listChanged": False, "subscribe": False},
            "tools": {"listChanged": False},
        },
        "serverInfo": {"name": "lorelog", "title": TITLE, "version": VERSION},
        "instructions": INSTRUCTIONS,
    }


def tool_list(greeted: object, params: object) -> dict[str, Any] | None:
    """Return the result of `tools/list` for an agent that was greeted so, or None where the server should see to it."""
    if greeting(greeted) is None or not isinstance(params, dict | None) or (params and set(params) - {"_meta"}):
        return None
    return {"tools": list(TOOLS)}
