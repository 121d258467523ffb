"""Streamable HTTP: an ASGI app for whoever serves HTTP to mount, and the lifespan that must run around it.

Host, Origin, token and the size of bodies are checked by the app it is mounted in, for every path alike.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from starlette.types import ASGIApp

from lorelog.operations.dispatch import Caller
from lorelog.surfaces.mcp.lines import LONGEST
from lorelog.surfaces.mcp.server import AnswerTo, build_server

Lifespan = Callable[[], AbstractAsyncContextManager[None]]

_MOST_SESSIONS = 1000


def mount(answer: AnswerTo, caller: Caller) -> tuple[ASGIApp, Lifespan]:
    """Return the app and its lifespan. The lifespan is entered once, before the first request."""
    manager = StreamableHTTPSessionManager(
        build_server(answer, caller), max_request_body_size=LONGEST, max_sessions=_MOST_SESSIONS
    )
    return StreamableHTTPASGIApp(manager), manager.run
