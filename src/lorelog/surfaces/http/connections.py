"""Connections of the HTTP server: how long a client may take to send a request, and how many connections it may hold.

A half-sent request would otherwise be held for ever. It is closed with 408 instead. A client that opens too many connections
loses the oldest one that still waits for a request; the others are not affected.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEADER_S = 10.0
"""Seconds in which the headers of a request must arrive."""
BODY_PAUSE_S = 10.0
"""A body must not pause for longer."""
BODY_S = 60.0
"""Seconds in which a body must arrive."""
MAX_PEER_CONNECTIONS = 128
"""Connections from one address."""

_TIMEOUT_BODY = b'{"error":{"code":"timeout","message":"the request arrived too slowly","hint":"send it at once"}}'
_TIMEOUT_RESPONSE = b"HTTP/1.1 408 Request Timeout\r\nContent-Type: application/json\r\nConnection: close\r\n"
_BUSY_RESPONSE = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


class HttpConnection(H11Protocol):
    """One connection, with deadlines for incomplete requests."""

    _timer: asyncio.TimerHandle | None = None
    awaits_headers = False
    """Whether no complete headers have arrived since the connection was made or the last request ended."""
    opened_at = 0.0
    _body_due_at = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self.opened_at = self.loop.time()
        self._set_timer()
        address = self.client and self.client[0]
        ours = [other for other in self.connections if isinstance(other, HttpConnection)]
        peers = [other for other in ours if address and other.client and other.client[0] == address]
        if len(peers) <= MAX_PEER_CONNECTIONS:
            return
        waiting = [other for other in peers if other is not self and other.awaits_headers]
        if waiting:
            min(waiting, key=lambda other: other.opened_at).expire()
        else:
            transport.write(_BUSY_RESPONSE)
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._cancel_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Handle what arrived, and wait for the rest of an incomplete request."""
        super().data_received(data)
        self._set_timer()

    def _set_timer(self) -> None:
        state = self.conn.their_state
        if self.transport.is_closing():
            self._cancel_timer()
        elif state is h11.IDLE:
            if not self.awaits_headers:  # more headers do not extend the time
                self._start_timer(HEADER_S)
                self.awaits_headers = True
        elif state is h11.SEND_BODY:
            now = self.loop.time()
            self._body_due_at = self._body_due_at or now + BODY_S
            self._start_timer(min(BODY_PAUSE_S, self._body_due_at - now))
        else:
            self._cancel_timer()

    def _start_timer(self, seconds: float) -> None:
        due_at = self._body_due_at
        self._cancel_timer()
        self._body_due_at = due_at
        self._timer = self.loop.call_later(max(0.0, seconds), self.expire)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self.awaits_headers, self._body_due_at = None, False, 0.0

    def expire(self) -> None:
        """Close a connection whose request did not arrive in time."""
        if self.flow.read_paused:  # the application has not read what was sent
            self._start_timer(BODY_PAUSE_S)
            return
        self._cancel_timer()
        cycle = cast("Any", self.cycle)
        started = cycle is not None and cycle.response_started and not cycle.response_complete
        if not started and not self.transport.is_closing():
            length = b"Content-Length: %d\r\n\r\n" % len(_TIMEOUT_BODY)
            self.transport.write(_TIMEOUT_RESPONSE + length + _TIMEOUT_BODY)
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()
        self.transport.close()
