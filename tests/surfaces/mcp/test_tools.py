"""What agents are offered, and what it costs them."""

from __future__ import annotations

import json
import socket
import threading
from pathlib import Path
from typing import Any

from tests.models.reference_tokenizer import make_tokenizer

from lorelog.operations.catalogue import all_operations
from lorelog.operations.dispatch import ClientIdentity, Dispatcher
from lorelog.retrieval.token_estimate import estimate_tokens
from lorelog.surfaces.mcp.protocol import HANDSHAKE_VERSIONS
from lorelog.surfaces.mcp.session import serve_stream
from lorelog.surfaces.mcp.tools import CALL_ONLY_FAMILIES, CALL_ONLY_OPERATIONS, INSTRUCTIONS, TOOLS

OPERATIONS_WITH_TOOLS = ("memory.search", "memory.expand", "memory.transcript", "memory.add", "memory.index")
HELLO: dict[str, Any] = {"capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


def tokens(text: str) -> int:
    """The larger of two counts: our estimate, and those of the built-in model's tokenizer."""
    return max(estimate_tokens(text), len(make_tokenizer().encode(text).ids))


def ask(connection: socket.socket, method: str, params: dict[str, Any]) -> Any:
    with connection.makefile("rwb") as lines:
        lines.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode() + b"\n")
        lines.flush()
        return json.loads(lines.readline())["result"]


def server(project: Path) -> socket.socket:
    ours, theirs = socket.socketpair()
    threading.Thread(target=serve_stream, args=(theirs, Dispatcher().call, ClientIdentity(str(project)))).start()
    return ours


def test_the_tool_list_is_cheap(project: Path) -> None:
    """All that `tools/list` answers costs a model less than 1,500 tokens, and the instructions less than 100."""
    with server(project) as connection:
        ask(connection, "initialize", {"protocolVersion": HANDSHAKE_VERSIONS[-1], **HELLO})
        listed = ask(connection, "tools/list", {})
    assert tokens(json.dumps(listed, ensure_ascii=False)) < 1500
    assert tokens(INSTRUCTIONS) < 100


def test_every_operation_has_a_way() -> None:
    """Each operation that may be asked for over MCP has a tool, or `memory_call` names it or its family; nothing else is named."""
    reachable = {name for name, operation in all_operations().items() if "mcp" not in operation.absent}
    named = {*OPERATIONS_WITH_TOOLS, *(name if "." in name else f"memory.{name}" for name in CALL_ONLY_OPERATIONS)}
    in_families = {name for name in reachable if name.partition(".")[0] in CALL_ONLY_FAMILIES}

    assert reachable == named | in_families
    assert not named & in_families
    assert {name.partition(".")[0] for name in all_operations()} >= {"task", "artifact"}
    (called,) = (tool for tool in TOOLS if tool["name"] == "memory_call")
    assert all(f"{family}.*" in called["description"] for family in CALL_ONLY_FAMILIES)


def test_schemas_are_sound() -> None:
    """Each tool says when to call it, requires only what it has, and describes an object."""
    for tool in TOOLS:
        assert len(tool["description"]) > 40
        assert tool["inputSchema"]["type"] == "object"
        assert set(tool["inputSchema"]["required"]) <= set(tool["inputSchema"]["properties"])
