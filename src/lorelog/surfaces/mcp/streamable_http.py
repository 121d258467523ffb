"""Streamable HTTP transport: an ASGI app to mount, and its lifespan.

The application it is mounted in checks host, origin, token and body size of every request.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from starlette.types import ASGIApp

from lorelog.operations.dispatch import CallOperation, ClientIdentity
from lorelog.surfaces.mcp.protocol import MAX_MESSAGE_BYTES
from lorelog.surfaces.mcp.server import build_server

AppLifespan = Callable[[], AbstractAsyncContextManager[None]]

_MAX_SESSIONS = 1000


def streamable_http_app(call: CallOperation, caller: ClientIdentity) -> tuple[ASGIApp, AppLifespan]:
    """Return the app and its lifespan. Enter the lifespan once, before the first request."""
    manager = StreamableHTTPSessionManager(
        build_server(call, caller), max_request_body_size=MAX_MESSAGE_BYTES, max_sessions=_MAX_SESSIONS
    )
    return StreamableHTTPASGIApp(manager), manager.run
