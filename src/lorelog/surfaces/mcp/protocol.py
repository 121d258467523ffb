"""Parts of the protocol that the proxy needs: lines from a byte stream, and the server's first two results.

Standard library only: the proxy answers for a daemon that is still starting. Results equal those of the SDK's server;
a test compares them. Only known protocol versions are answered here; all others wait for the server.
"""

from __future__ import annotations

from collections.abc import Iterator

from lorelog.core.version import VERSION
from lorelog.surfaces.mcp.tools import INSTRUCTIONS, TITLE, TOOLS

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any


MAX_MESSAGE_BYTES = 16 * 1024 * 1024
"""Maximum size of one message in bytes."""


class LineBuffer:
    """Splits a byte stream into lines. A line that is too long is discarded."""

    def __init__(self, max_bytes: int = MAX_MESSAGE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._parts: list[bytes] = []
        self._size = 0
        self._too_long = False

    def feed(self, data: bytes) -> Iterator[bytes | None]:
        """Yield the lines completed by `data`, without line ends; None for a line that was too long."""
        *ends, rest = data.split(b"\n")
        for end in ends:
            self._keep(end)
            line = None if self._too_long else b"".join(self._parts)
            self._parts, self._size, self._too_long = [], 0, False
            yield line
        self._keep(rest)

    def _keep(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self._max_bytes:
            self._parts, self._too_long = [], True
        elif part:
            self._parts.append(part)


PROTOCOL_VERSIONS = ("2025-06-18", "2025-11-25")
"""Protocol versions with this handshake and these tool definitions; older ones have no titles or annotations."""


def initialize_result(params: object) -> dict[str, Any] | None:
    """Return the result of `initialize`, or None if the server should answer."""
    if not isinstance(params, dict) or params.get("protocolVersion") not in PROTOCOL_VERSIONS:
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


def tools_list_result(hello: object, params: object) -> dict[str, Any] | None:
    """Return the result of `tools/list` after a handshake with `hello`, or None if the server should answer."""
    if initialize_result(hello) is None or not isinstance(params, dict | None) or (params and set(params) - {"_meta"}):
        return None
    return {"tools": list(TOOLS)}
