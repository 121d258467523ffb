"""Who may ask, and how much at once: looked at before anything else of a request is.

A browser lets any page send requests to this machine. It cannot read the answers, but a request may do something, and a
name that is pointed at 127.0.0.1 after the page was loaded (DNS rebinding) can read them too. So the name in `Host` must
be this machine's, `Origin` must be our own if there is one, and what changes anything must be JSON, which no page may
send elsewhere without asking first; we never say yes to that. Where a token is set, only /health goes without it.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import logging
import os
import re
import socket

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lorelog.core.errors import LorelogError
from lorelog.core.options import HttpOptions
from lorelog.surfaces.http.faults import Refusal, broken, failed, refused

OPEN = "/health"
"""What is answered without a token."""

_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z._-]+)(?::[0-9]{1,5})?")
_ALWAYS = (
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_log = logging.getLogger("lorelog.http")


class Guard:
    """Lets through what may come in, and turns whatever is raised below into an answer."""

    def __init__(self, app: ASGIApp, options: HttpOptions) -> None:
        self._app = app
        self._limit = options.max_body_bytes
        self._token = _digest(options.token) if options.token else b""
        self._names = known_names(options.host)
        self._any_address = _is_unspecified(options.host)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        outgoing = _Outgoing(send)
        try:
            self._check(scope, Headers(scope=scope))
            await self._app(scope, self._limited(scope, receive), outgoing)
        except ClientDisconnect:
            return
        except Refusal as error:
            await outgoing.instead(refused(scope["path"], error), scope, receive)
        except LorelogError as error:
            await outgoing.instead(failed(scope["path"], error), scope, receive)
        except Exception as error:  # noqa: BLE001  (whoever asked is told, whatever it was)
            if os.environ.get("LORELOG_DEBUG"):
                _log.exception("a fault of lorelog itself")
            await outgoing.instead(broken(scope["path"], error), scope, receive)

    def _check(self, scope: Scope, headers: Headers) -> None:
        host = self._checked_host(headers)
        _check_origin(headers, host)
        if self._token and scope["path"] != OPEN:
            self._check_token(headers)
        if scope["method"] == "POST" and _media_type(headers) != "application/json":
            raise Refusal(415, "media_type", "a POST must be application/json", hint="Content-Type: application/json")
        length = headers.get("content-length", "")
        if length.isdecimal() and int(length) > self._limit:
            raise self._too_large(scope)

    def _checked_host(self, headers: Headers) -> str:
        given = headers.getlist("host")
        found = _HOST.fullmatch(given[0]) if len(given) == 1 else None
        if not found:
            raise Refusal(400, "usage", "a request needs one Host header that names a host")
        name = found[1].lower().rstrip(".")
        if name in self._names or _is_loopback(name) or (self._any_address and _address(name)):
            return given[0].lower()
        raise Refusal(
            403,
            "forbidden",
            f"this server is not called {name[:200]}",
            hint="ask for localhost, or for the name in http.host",
        )

    def _check_token(self, headers: Headers) -> None:
        given = headers.getlist("authorization")
        kind, _, token = given[0].partition(" ") if len(given) == 1 else ("", "", "")
        # Digests, so that the time taken tells nothing of the token, its length included.
        if not hmac.compare_digest(_digest(token.strip()), self._token) or kind.lower() != "bearer":
            raise Refusal(
                401,
                "unauthorized",
                "the bearer token is missing or wrong",
                hint="Authorization: Bearer TOKEN",
                headers={"WWW-Authenticate": "Bearer"},
            )

    def _limited(self, scope: Scope, receive: Receive) -> Receive:
        """Count what comes in: a body need not say beforehand how long it is."""
        taken = 0

        async def counted() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > self._limit:
                raise self._too_large(scope)
            return message

        return counted

    def _too_large(self, scope: Scope) -> Refusal:
        what = "file too large" if scope["method"] == "PUT" else "the request is too large"
        return Refusal(413, "too_large", what, hint=f"http.max_body_bytes allows {self._limit:,} bytes")


class _Outgoing:
    """What is sent, with the headers that every answer bears."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._started = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._started = True
            headers = list(message.get("headers", ()))
            said = {name.lower() for name, _ in headers}
            message = {**message, "headers": headers + [one for one in _ALWAYS if one[0] not in said]}
        await self._send(message)

    async def instead(self, response: Response, scope: Scope, receive: Receive) -> None:
        """Send an answer in place of the one that was not begun; one that was begun can only be broken off."""
        if self._started:
            raise ConnectionAbortedError("the answer was begun and could not be finished")
        await response(scope, receive, self)


def known_names(host: str) -> frozenset[str]:
    """Return the names and addresses that this server is called by, beside those of loopback."""
    names = {"localhost", host.lower().rstrip("."), f"[{host.lower()}]"}
    return frozenset(names | {socket.gethostname().lower()} if _is_unspecified(host) else names)


def _check_origin(headers: Headers, host: str) -> None:
    ours = {f"http://{host}", f"https://{host}"}
    strangers = [one for one in headers.getlist("origin") if one.lower() not in ours]
    if strangers or headers.get("sec-fetch-site", "none") not in {"none", "same-origin"}:
        raise Refusal(
            403, "forbidden", "another site may not ask through a browser", hint="ask from a program, without Origin"
        )


def _media_type(headers: Headers) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def _is_loopback(name: str) -> bool:
    address = _address(name)
    return address is not None and address.is_loopback


def _is_unspecified(host: str) -> bool:
    address = _address(host)
    return address is not None and address.is_unspecified


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return None
