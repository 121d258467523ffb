"""One agent's session over a connected socket: newline-delimited JSON-RPC, in the thread that calls.

Each session has an event loop and a server of its own, so that one that is slow, or breaks, is slow or broken for itself
only. To end it from outside, shut the socket down (`shutdown`, not `close`): the session then ends as if the agent had left.
"""

from __future__ import annotations

import asyncio
import json
import socket
from contextlib import suppress

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage

from lorelog.operations.dispatch import Caller
from lorelog.surfaces.mcp.lines import LONGEST, LineBuffer
from lorelog.surfaces.mcp.server import AnswerTo, build_server

_CHUNK = 65_536

Incoming = MemoryObjectSendStream[SessionMessage | Exception]
Outgoing = MemoryObjectSendStream[SessionMessage]


def serve_stream(sock: socket.socket, answer: AnswerTo, caller: Caller) -> None:
    """Serve a session until the other side leaves, and close the socket."""
    try:
        sock.setblocking(False)
        anyio.run(_serve, sock, answer, caller)
    finally:
        sock.close()


async def _serve(sock: socket.socket, answer: AnswerTo, caller: Caller) -> None:
    server = build_server(answer, caller)
    incoming, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, sent = anyio.create_memory_object_stream[SessionMessage](0)
    async with anyio.create_task_group() as group:
        group.start_soon(_read, sock, incoming, outgoing.clone())
        group.start_soon(_write, sock, sent)
        await server.run(received, outgoing, server.create_initialization_options())
        group.cancel_scope.cancel()


async def _read(sock: socket.socket, incoming: Incoming, outgoing: Outgoing) -> None:
    """Hand messages to the server. What is none is answered here: the SDK would pass it over, and its sender would wait."""
    loop = asyncio.get_running_loop()
    lines = LineBuffer()
    async with incoming, outgoing:
        with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            while data := await loop.sock_recv(sock, _CHUNK):
                for line in lines.feed(data):
                    if line is not None and not line.strip():
                        continue
                    message = _message(line)
                    if isinstance(message, types.JSONRPCError):
                        await outgoing.send(SessionMessage(message))
                    else:
                        await incoming.send(SessionMessage(message))


async def _write(sock: socket.socket, sent: MemoryObjectReceiveStream[SessionMessage]) -> None:
    loop = asyncio.get_running_loop()
    async with sent:
        with suppress(OSError):
            async for one in sent:
                text = one.message.model_dump_json(by_alias=True, exclude_unset=True)
                await loop.sock_sendall(sock, text.encode() + b"\n")


def _message(line: bytes | None) -> types.JSONRPCMessage:
    """Return the message of a line, or the error that answers it."""
    if line is None:
        return refusal(None, types.INVALID_REQUEST, f"a message of more than {LONGEST:,} bytes was passed over")
    try:
        return types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        pass
    try:
        told = json.loads(line.decode())
    except (ValueError, RecursionError):
        return refusal(None, types.PARSE_ERROR, "a message was not JSON")
    identity = told.get("id") if isinstance(told, dict) else None
    if isinstance(identity, bool) or not isinstance(identity, int | str):
        identity = None
    return refusal(identity, types.INVALID_REQUEST, "a message was JSON, but no JSON-RPC 2.0 request")


def refusal(identity: int | str | None, code: int, message: str) -> types.JSONRPCError:
    """Return an error that answers one message."""
    return types.JSONRPCError(jsonrpc="2.0", id=identity, error=types.ErrorData(code=code, message=message))
