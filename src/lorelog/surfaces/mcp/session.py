"""One agent's session over a connected socket: newline-delimited JSON-RPC, run in the calling thread.

Each session has its own event loop and server, so that a slow or broken session does not affect others. To end one from
outside, shut the socket down (`shutdown`, not `close`): the session then ends as if the agent had disconnected.
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

from lorelog.operations.dispatch import CallOperation, ClientIdentity
from lorelog.surfaces.mcp.protocol import MAX_MESSAGE_BYTES, LineBuffer
from lorelog.surfaces.mcp.server import build_server

_CHUNK = 65_536

Incoming = MemoryObjectSendStream[SessionMessage | Exception]
Outgoing = MemoryObjectSendStream[SessionMessage]


def serve_stream(sock: socket.socket, call: CallOperation, caller: ClientIdentity) -> None:
    """Serve a session until the agent disconnects, then close the socket."""
    try:
        sock.setblocking(False)
        anyio.run(_run_session, sock, call, caller)
    finally:
        sock.close()


async def _run_session(sock: socket.socket, call: CallOperation, caller: ClientIdentity) -> None:
    server = build_server(call, caller)
    incoming, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, sent = anyio.create_memory_object_stream[SessionMessage](0)
    async with anyio.create_task_group() as group:
        group.start_soon(_read_messages, sock, incoming, outgoing.clone())
        group.start_soon(_write_messages, sock, sent)
        await server.run(received, outgoing, server.create_initialization_options())
        group.cancel_scope.cancel()


async def _read_messages(sock: socket.socket, incoming: Incoming, outgoing: Outgoing) -> None:
    """Pass messages to the server. Invalid ones get an error here: the SDK ignores them, and the sender would wait."""
    loop = asyncio.get_running_loop()
    lines = LineBuffer()
    async with incoming, outgoing:
        with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            while data := await loop.sock_recv(sock, _CHUNK):
                for line in lines.feed(data):
                    if line is not None and not line.strip():
                        continue
                    message = _parse_message(line)
                    if isinstance(message, types.JSONRPCError):
                        await outgoing.send(SessionMessage(message))
                    else:
                        await incoming.send(SessionMessage(message))


async def _write_messages(sock: socket.socket, sent: MemoryObjectReceiveStream[SessionMessage]) -> None:
    loop = asyncio.get_running_loop()
    async with sent:
        with suppress(OSError):
            async for outgoing in sent:
                text = outgoing.message.model_dump_json(by_alias=True, exclude_unset=True)
                await loop.sock_sendall(sock, text.encode() + b"\n")


def _parse_message(line: bytes | None) -> types.JSONRPCMessage:
    """Return the message of a line, or the error to reply with."""
    if line is None:
        return error_message(
            None, types.INVALID_REQUEST, f"a message of more than {MAX_MESSAGE_BYTES:,} bytes was ignored"
        )
    try:
        return types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        pass
    try:
        value = json.loads(line.decode())
    except (ValueError, RecursionError):
        return error_message(None, types.PARSE_ERROR, "a message was not JSON")
    identity = value.get("id") if isinstance(value, dict) else None
    if isinstance(identity, bool) or not isinstance(identity, int | str):
        identity = None
    return error_message(identity, types.INVALID_REQUEST, "a message was JSON, but not a JSON-RPC 2.0 request")


def error_message(identity: int | str | None, code: int, message: str) -> types.JSONRPCError:
    """Return the error reply to one message."""
    return types.JSONRPCError(jsonrpc="2.0", id=identity, error=types.ErrorData(code=code, message=message))
