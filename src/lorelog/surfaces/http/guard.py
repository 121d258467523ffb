"""Checks of every request before anything else: host, origin, token, content type and size.

A browser lets any page send requests to this machine. The page cannot read the replies, but a request may have effects,
and after DNS rebinding (a name pointed at 127.0.0.1 once the page is loaded) it can read them too. Therefore `Host`
must be a name of this machine, `Origin` must be our own if present, and requests that change anything must be JSON, which a
page cannot send to another origin without a preflight; preflights are never granted.

With a token set, only /health is served without it. A program sends it as a bearer token. A browser has a ticket (`lorelog ui`), and opens a link with
`?ticket=…` once: the reply sets a cookie, valid until the server stops, and redirects to the address without the ticket. A token in a link
would stay in the browser's history.

The page's files hold no data and are served without a token. Its interface (/api/page/) needs the cookie of a ticket, also where no token is
set, and nothing else will do: its calls count as those of the person at this machine, a program's do not.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import logging
import os
import re
import secrets
import socket
import threading
from collections.abc import Callable
from urllib.parse import quote, urlencode

from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.requests import ClientDisconnect, HTTPConnection
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lorelog.core.errors import LorelogError
from lorelog.core.options import HttpOptions
from lorelog.surfaces.http.calls import HttpRefusalError, error_response

PUBLIC_PATH = "/health"
"""The path that needs no token."""
PAGE_PREFIX = "/api/page/"
"""Paths that need the cookie of a ticket."""
PAGE_AGENT = "lorelog.page_agent"
"""Field of a request's scope: the agent that opened the page; empty for a person."""
_HOST_PATTERN = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z._-]+)(?::[0-9]{1,5})?")
_SECURITY_HEADERS = {
    "x-content-type-options": "nosniff",
    "cache-control": "no-store",
    "cross-origin-resource-policy": "same-origin",
}
_log = logging.getLogger("lorelog.http")


RedeemTicket = Callable[[str, int], str | None]
"""Uses up a ticket for a port; returns the agent it was issued to, '' for a person, None if it is unknown, too old, or was used before."""


class RequestGuard:
    """Passes on allowed requests, and turns exceptions of the application into error responses."""

    def __init__(
        self, app: ASGIApp, options: HttpOptions, stopping: threading.Event, redeem: RedeemTicket | None = None
    ) -> None:
        self._app = app
        self.stopping = stopping
        """Set it, from any thread, to cancel long operations; their finished work is kept."""
        self._redeem = redeem
        self._page_sessions: dict[bytes, str] = {}
        self._limit = options.max_body_bytes
        self._token = _hash_token(options.token) if options.token else b""
        self._names = allowed_host_names(options.host)
        self._any_address = _is_unspecified(options.host)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        outgoing = _HeaderSender(send)
        received = 0

        async def counted() -> Message:
            """Count the bytes of the body, which may have no Content-Length."""
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self._limit:
                raise self._too_large(scope)
            return message

        try:
            login = self._check(scope, Headers(scope=scope))
            if login is not None:
                await login(scope, receive, outgoing)
            else:
                await self._app(scope, counted, outgoing)
        except ClientDisconnect:
            return
        except Exception as error:
            if os.environ.get("LORELOG_DEBUG") and not isinstance(error, HttpRefusalError | LorelogError):
                _log.exception("internal error")
            await outgoing.send_instead(error_response(scope["path"], error), scope, receive)

    def _check(self, scope: Scope, headers: Headers) -> Response | None:
        """Raise HttpRefusalError for a request that is not allowed. Return the reply to a login."""
        self._check_host(headers)
        login = self._login(scope)
        if login is not None:
            return login
        if scope["path"].startswith(PAGE_PREFIX):
            scope[PAGE_AGENT] = self._page_agent(scope)
            if scope[PAGE_AGENT] is None:
                raise HttpRefusalError(
                    401,
                    "unauthorized",
                    "this browser is not logged in, or the server was restarted",
                    hint="'lorelog ui' opens the page",
                )
        elif self._token and scope["path"] != PUBLIC_PATH and not self._is_shell(scope, headers):
            self._check_token(scope, headers)
        media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
        if scope["method"] == "POST" and media_type != "application/json":
            raise HttpRefusalError(
                415, "media_type", "a POST must be application/json", hint="Content-Type: application/json"
            )
        length = headers.get("content-length", "")
        if length.isdecimal() and int(length) > self._limit:
            raise self._too_large(scope)
        return None

    def _check_host(self, headers: Headers) -> None:
        """Raise HttpRefusalError if a request is for another host, or comes from another site."""
        hosts = headers.getlist("host")
        match = _HOST_PATTERN.fullmatch(hosts[0]) if len(hosts) == 1 else None
        if not match:
            raise HttpRefusalError(400, "usage", "a request needs exactly one valid Host header")
        name = match[1].lower().rstrip(".")
        address = _parse_address(name)
        if name not in self._names and not (address and (address.is_loopback or self._any_address)):
            raise HttpRefusalError(
                403,
                "forbidden",
                f"{name[:200]} is not a name of this server",
                hint="use localhost, or the name in http.host",
            )
        allowed = {f"{scheme}://{hosts[0].lower()}" for scheme in ("http", "https")}
        foreign = [origin for origin in headers.getlist("origin") if origin.lower() not in allowed]
        if foreign or headers.get("sec-fetch-site", "none") not in {"none", "same-origin"}:
            raise HttpRefusalError(
                403,
                "forbidden",
                "requests from other sites are not allowed",
                hint="send the request from a program, without Origin",
            )

    def _login(self, scope: Scope) -> Response | None:
        """Return the redirect that sets a cookie, if the query of a GET has one ticket, and that was not used yet."""
        tickets = QueryParams(scope["query_string"]).getlist("ticket") if scope["method"] == "GET" else []
        if self._redeem is None or len(tickets) != 1:
            return None
        agent = self._redeem(tickets[0], _server_port(scope))
        if agent is None:
            return None
        session = secrets.token_urlsafe(32)
        self._page_sessions[_hash_token(session)] = agent
        return _login_response(scope, session)

    def _is_shell(self, scope: Scope, headers: Headers) -> bool:
        """Return True for the page's own files: they hold no data, and tell a person how to log in."""
        if self._redeem is None or scope["method"] not in {"GET", "HEAD"}:
            return False
        path = scope["path"]
        return path.startswith("/page/") or (path == "/" and "text/html" in headers.get("accept", ""))

    def _page_agent(self, scope: Scope) -> str | None:
        """Return the agent that opened the page, '' for a person, None without a login. Sessions are found by digest."""
        return self._page_sessions.get(_hash_token(HTTPConnection(scope).cookies.get(_cookie_name(scope), "")))

    def _check_token(self, scope: Scope, headers: Headers) -> None:
        values = headers.getlist("authorization")
        kind, _, token = values[0].partition(" ") if len(values) == 1 else ("", "", "")
        if _same_secret(token.strip(), self._token) and kind.lower() == "bearer":
            return
        if not values and self._page_agent(scope) is not None:
            return
        raise HttpRefusalError(
            401,
            "unauthorized",
            "the bearer token is missing or wrong",
            hint="send Authorization: Bearer TOKEN; 'lorelog ui' opens the page in a browser; without http.token, the token is in "
            "run/http.token of the home",
            headers={"WWW-Authenticate": "Bearer"},
        )

    def _too_large(self, scope: Scope) -> HttpRefusalError:
        message = "file too large" if scope["method"] == "PUT" else "the request is too large"
        return HttpRefusalError(413, "too_large", message, hint=f"http.max_body_bytes allows {self._limit:,} bytes")


class _HeaderSender:
    """Adds the security headers to every response."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._started = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._started = True
            headers = MutableHeaders(scope={"headers": list(message.get("headers", ()))})
            for name, value in _SECURITY_HEADERS.items():
                headers.setdefault(name, value)
            message = {**message, "headers": headers.raw}
        await self._send(message)

    async def send_instead(self, response: Response, scope: Scope, receive: Receive) -> None:
        """Send an error response if none was started; a started one can only be aborted."""
        if self._started:
            raise ConnectionAbortedError("the response was started and could not be finished")
        await response(scope, receive, self)


def allowed_host_names(host: str) -> frozenset[str]:
    """Return the names and addresses of this server besides the loopback addresses."""
    names = {"localhost", host.lower().rstrip("."), f"[{host.lower()}]"}
    return frozenset(names | {socket.gethostname().lower()} if _is_unspecified(host) else names)


def _login_response(scope: Scope, session: str) -> Response:
    """Return the redirect to the same address without the ticket, which sets the cookie."""
    fields = QueryParams(scope["query_string"]).multi_items()
    query = urlencode([(name, value) for name, value in fields if name != "ticket"])
    path = "/" + quote(scope["path"].lstrip("/"))  # two slashes would name another host
    response = RedirectResponse(f"{path}?{query}" if query else path, 303, {"Referrer-Policy": "no-referrer"})
    response.set_cookie(_cookie_name(scope), session, httponly=True, samesite="strict")
    return response


def _server_port(scope: Scope) -> int:
    return int((scope.get("server") or ("", 0))[1] or 0)


def _cookie_name(scope: Scope) -> str:
    """Return the name of the cookie: servers on other ports have their own."""
    return f"lorelog-session-{_server_port(scope)}"


def _same_secret(given: str, digest: bytes) -> bool:
    """Compare digests, so that timing reveals nothing about the secret, not even its length."""
    return hmac.compare_digest(_hash_token(given), digest)


def _hash_token(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def _is_unspecified(host: str) -> bool:
    address = _parse_address(host)
    return address is not None and address.is_unspecified


def _parse_address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return None
