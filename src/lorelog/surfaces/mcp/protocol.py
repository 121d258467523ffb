"""What the protocol says, over pipes as over HTTP: lines from a byte stream, errors, versions, and results that need no work.

Standard library only: each agent has a process that imports this. Results equal those of the SDK's server; a test compares them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from lorelog.core import VERSION
from lorelog.surfaces.mcp.tools import INSTRUCTIONS, TITLE, TOOLS

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


PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR = -32700, -32600, -32601, -32602, -32603
"""Error codes of JSON-RPC."""
BUSY = -32000
"""The first code that servers may define."""
UNSUPPORTED_VERSION = -32022
"""Error code of the protocol since 2026-07-28."""

HANDSHAKE_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""Protocol versions that begin with `initialize`."""
MODERN_VERSIONS = ("2026-07-28",)
"""Protocol versions whose requests carry the version."""
_VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
_SERVER_KEY = "io.modelcontextprotocol/serverInfo"
_SERVER_INFO = {"name": "lorelog", "title": TITLE, "version": VERSION}
_CAPABILITIES = {
    "prompts": {"listChanged": False},
    "resources": {"listChanged": False, "subscribe": False},
    "tools": {"listChanged": False},
}
_CACHEABLE = (
    "tools/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "prompts/list",
    "server/discover",
)


class ProtocolError(Exception):
    """The reply to a request is an error."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data

    def to_dict(self) -> dict[str, Any]:
        """Return the error object of JSON-RPC."""
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        return error if self.data is None else {**error, "data": self.data}


NOT_A_REQUEST = "a message was JSON, but not a JSON-RPC 2.0 request"


def parse_message(line: bytes | None) -> dict[str, Any]:
    """Return the object of a line. Raise ProtocolError for one that was too long (None), or is not a JSON object."""
    if line is None:
        raise ProtocolError(INVALID_REQUEST, f"a message of more than {MAX_MESSAGE_BYTES:,} bytes was ignored")
    try:
        message = json.loads(line.decode())
    except (ValueError, RecursionError):
        raise ProtocolError(PARSE_ERROR, "a message was not JSON") from None
    if not isinstance(message, dict):
        raise ProtocolError(INVALID_REQUEST, NOT_A_REQUEST)
    return message


def message_key(message: dict[str, Any]) -> str | None:
    """Return the id of a request or reply as a key that distinguishes 1 from "1"; None without an id."""
    identity = message.get("id")
    if isinstance(identity, bool) or not isinstance(identity, int | str):
        return None
    return json.dumps(identity)


def check_message(message: dict[str, Any]) -> tuple[str | None, dict[str, Any]]:
    """Return the method, None for a reply, and its parameters. Raise ProtocolError if it is not JSON-RPC."""
    method, params = message.get("method"), message.get("params")
    valid_id = "id" not in message or message_key(message) is not None
    is_valid = message.get("jsonrpc") == "2.0"
    if is_valid and method is None and "id" in message and ("result" in message or "error" in message):
        return None, {}
    if not (is_valid and valid_id and isinstance(method, str) and isinstance(params, dict | None)):
        raise ProtocolError(INVALID_REQUEST, NOT_A_REQUEST)
    return method, params or {}


def progress_token(params: dict[str, Any]) -> int | str | None:
    """Return the token of a request that wants reports."""
    meta = params.get("_meta")
    token = meta.get("progressToken") if isinstance(meta, dict) else None
    return token if isinstance(token, int | str) and not isinstance(token, bool) else None


def progress_message(token: int | str, done: int, total: int | None, stage: str) -> dict[str, Any]:
    params = {"progressToken": token, "progress": done, "message": stage, **({"total": total} if total else {})}
    return {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}


def initialize_result(params: object) -> dict[str, Any] | None:
    """Return the result of `initialize`, or None if its parameters are invalid."""
    if not isinstance(params, dict) or not isinstance(version := params.get("protocolVersion"), str):
        return None
    client = params.get("clientInfo")
    named = isinstance(client, dict) and isinstance(client.get("name"), str) and isinstance(client.get("version"), str)
    if not named or not isinstance(params.get("capabilities"), dict):
        return None
    return {
        "protocolVersion": version if version in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1],
        "capabilities": _CAPABILITIES,
        "serverInfo": _SERVER_INFO,
        "instructions": INSTRUCTIONS,
    }


def tools_list_result() -> dict[str, Any]:
    return {"tools": list(TOOLS)}


def discover_result() -> dict[str, Any]:
    return {"supportedVersions": list(MODERN_VERSIONS), "capabilities": _CAPABILITIES, "instructions": INSTRUCTIONS}


def is_modern(method: str, params: dict[str, Any]) -> bool:
    """Return True for a request that carries its version. Raise ProtocolError for a version that is not supported."""
    meta = params.get("_meta")
    if method == "initialize" or not isinstance(meta, dict) or _VERSION_KEY not in meta:
        return False
    version = meta[_VERSION_KEY]
    if version not in MODERN_VERSIONS:
        data = {"supported": list(MODERN_VERSIONS), "requested": str(version)[:100]}
        raise ProtocolError(UNSUPPORTED_VERSION, "Unsupported protocol version", data)
    return True


def add_modern_fields(method: str, result: dict[str, Any]) -> dict[str, Any]:
    """Return a result with the fields that every result has since 2026-07-28."""
    caching = {"cacheScope": "private", "ttlMs": 0} if method in _CACHEABLE else {}
    return {**result, **caching, "resultType": "complete", "_meta": {_SERVER_KEY: _SERVER_INFO}}
