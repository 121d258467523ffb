"""An HTTP server that answers POSTed JSON: keep-alive, time limit, retries. What providers over the wire share.

http.client and not an SDK or urllib: the SDK costs 1.3 s to import, urllib opens a connection per request. Even
http.client is imported with the first request only, since most commands never send one.

Tried again, with doubling pauses or as long as the server's Retry-After says: 429, 5xx and broken connections; asking
for embeddings twice does no harm. What may be charged for twice (`once`) is not asked for again after a connection broke, or
a gateway lost the answer. Not tried again: a server that is not there, so that a command fails at once when
the local model server is not running. The time limit covers one request with all its retries and pauses, from when its turn
came; a 429 holds back everyone who shares the `Pace`. Redirects are not followed: they could carry a key to another host.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from lorelog.core.errors import ConfigError, ModelFault, ModelUnavailable
from lorelog.core.version import VERSION
from lorelog.models.pace import Pace

if TYPE_CHECKING:
    from http.client import HTTPConnection, HTTPResponse
    from socket import socket

MAX_ATTEMPTS = 6
FIRST_PAUSE_S = 0.5
MAX_REPLY_BYTES = 1 << 28
LOST = frozenset({502, 504})
"""What a gateway says when it lost the answer of whoever stands behind it."""
_RETRY_DELAY = re.compile(rb'"retryDelay"\s*:\s*"([0-9.]+)s"')
"""Google says it in the body, not in a header."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A status and a whole body."""

    status: int
    body: bytes
    retry_after: str = ""

    @property
    def is_passing(self) -> bool:
        """Whether the same request may well succeed a little later."""
        if self.status == 429:
            return b"insufficient_quota" not in self.body  # an empty account does not fill up while we wait
        # Ollama's words when a model has no numbers for a text: it will have none in a second either.
        return self.status >= 500 and b"unsupported value: NaN" not in self.body

    def patience(self, otherwise: float) -> float:
        """Return how many seconds to wait before asking again."""
        said = _RETRY_DELAY.search(self.body) if self.status == 429 and not self.retry_after else None
        return _seconds(said[1].decode() if said else self.retry_after, otherwise)


class _BrokenOff(Exception):
    """The connection ended before the reply did."""


class Endpoint:
    """A server under a base URL. Safe to use from several threads: each request in flight has its own connection.

    `purpose` is what messages call it by. With `once` a request whose answer was lost is not sent again.
    """

    def __init__(
        self,
        base_url: str,
        timeout_s: float,
        *,
        purpose: str = "embedding",
        once: bool = False,
        pace: Pace | None = None,
    ) -> None:
        self._purpose = purpose
        self._pace = pace or Pace()
        self._once = once
        try:
            parts = urlsplit(base_url.strip())
            port = parts.port
        except ValueError:
            raise _unusable(purpose) from None
        # The URL is not repeated in the message: what is wrong with it may be a password inside.
        # A query would be lost without a word, and it may hold a key.
        is_plain = "@" not in parts.netloc and not parts.query and not parts.fragment
        if parts.scheme not in {"http", "https"} or not parts.hostname or not is_plain:
            raise _unusable(purpose)
        self._scheme = parts.scheme
        self._name = parts.hostname
        self._port = port
        self._path = parts.path.rstrip("/")
        self._timeout_s = timeout_s
        self._lock = Lock()
        self._idle: list[HTTPConnection] = []

    @property
    def host(self) -> str:
        """The server, as messages name it."""
        return f"{self._name}:{self._port}" if self._port else self._name

    @property
    def is_loopback(self) -> bool:
        from ipaddress import ip_address

        try:
            return ip_address(self._name).is_loopback
        except ValueError:
            return self._name == "localhost"

    def post(self, path: str, payload: bytes, headers: Mapping[str, str], *, urgent: bool = False) -> Reply:
        """Send JSON and return the reply, whatever its status. Raise ModelError when no whole reply comes.

        Who is urgent does not wait for others at work, and all its waiting counts.
        """
        deadline = (
            time.monotonic() + self._timeout_s if urgent else 0.0
        )  # somebody waits; others wait for their turn first
        pause = FIRST_PAUSE_S
        for attempt in range(1, MAX_ATTEMPTS + 1):
            broken: _BrokenOff | None = None
            reply = Reply(0, b"")
            with self._pace.turn(urgent=urgent):
                deadline = deadline or time.monotonic() + self._timeout_s
                try:
                    reply = self._exchange(path, payload, headers, deadline)
                except _BrokenOff as error:
                    if self._once:
                        raise ModelFault(f"{self.host} broke off: {error}") from error
                    broken = error
            wait = pause if broken else reply.patience(pause)
            is_last = attempt == MAX_ATTEMPTS or time.monotonic() + wait >= deadline
            if broken is not None and is_last:
                raise ModelUnavailable(f"{self.host} keeps breaking off: {broken}") from broken
            is_lost = self._once and reply.status in LOST
            if broken is None and (is_last or is_lost or not reply.is_passing):
                if reply.status < 400:
                    self._pace.ease()
                return reply
            if reply.status == 429:
                self._pace.hold(wait)  # for oneself too: the next turn comes after it
            else:
                time.sleep(wait)
            pause *= 2
        raise AssertionError("the last attempt returns or raises")

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _exchange(self, path: str, payload: bytes, headers: Mapping[str, str], deadline: float) -> Reply:
        """Send once. A connection kept from before may have gone stale, which is no failure: then a new one is tried."""
        with self._lock:
            kept = self._idle.pop() if self._idle else None
        if kept is not None:
            try:
                return self._send(kept, path, payload, headers, deadline)
            except _BrokenOff:
                pass
        return self._send(self._connect(deadline), path, payload, headers, deadline)

    def _connect(self, deadline: float) -> HTTPConnection:
        from http.client import HTTPConnection, HTTPSConnection

        from lorelog.models.hurry import connect, remaining

        kind = HTTPSConnection if self._scheme == "https" else HTTPConnection
        try:
            connection = kind(self._name, self._port, timeout=remaining(deadline))
            # Its own way gives every address of a name the whole time.
            connection._create_connection = lambda address, *_: connect(address, deadline)  # type: ignore[attr-defined]  # noqa: SLF001
            connection.connect()
        except TimeoutError as error:
            raise self._too_slow() from error
        except (OSError, UnicodeError) as error:  # UnicodeError: a name that cannot be a host's
            raise ModelUnavailable(
                f"cannot reach {self.host}: {error}",
                hint="is the server running, and is the base URL right?",
            ) from error
        return connection

    def _send(
        self,
        connection: HTTPConnection,
        path: str,
        payload: bytes,
        headers: Mapping[str, str],
        deadline: float,
    ) -> Reply:
        from http.client import HTTPException, HTTPResponse, IncompleteRead

        from lorelog.models.hurry import HurriedSocket, remaining

        def hurried(channel: socket, **how: Any) -> HTTPResponse:
            return HTTPResponse(cast("socket", HurriedSocket(channel, deadline)), **how)

        sent = {"Content-Type": "application/json", "User-Agent": f"lorelog/{VERSION}", **headers}
        is_reusable = False
        try:
            connection.sock.settimeout(remaining(deadline))
            connection.response_class = hurried  # type: ignore[assignment]
            connection.request("POST", f"{self._path}/{path}", body=payload, headers=sent)
            with connection.getresponse() as response:
                body = self._read(response)
                is_reusable = not response.will_close
                return Reply(response.status, body, response.headers.get("Retry-After", ""))
        except TimeoutError as error:
            raise self._too_slow() from error
        except (OSError, IncompleteRead) as error:
            raise _BrokenOff(str(error) or type(error).__name__) from error
        except HTTPException as error:
            raise ModelFault(f"{self.host} does not answer in HTTP: {type(error).__name__}") from error
        finally:
            if is_reusable and not self._once:  # one that went stale would be tried again
                with self._lock:
                    self._idle.append(connection)
            else:
                connection.close()

    def _read(self, response: HTTPResponse) -> bytes:
        """Read the body piece by piece, so that one without end is noticed."""
        pieces: list[bytes] = []
        size = 0
        while not response.isclosed():
            piece = response.read1(1 << 16)
            if not piece:
                break
            pieces.append(piece)
            size += len(piece)
            if size > MAX_REPLY_BYTES:
                raise ModelFault(f"{self.host} answered more than {MAX_REPLY_BYTES >> 20} MiB")
        if response.length:
            raise _BrokenOff(f"{response.length} bytes of the reply are missing")
        body = b"".join(pieces)
        # Not asked for, but some gateways do it to everyone.
        is_packed = response.headers.get("Content-Encoding", "").strip().lower() in {"gzip", "x-gzip", "deflate"}
        return self._unpacked(body) if is_packed else body

    def _unpacked(self, body: bytes) -> bytes:
        import zlib

        unpacking = zlib.decompressobj(zlib.MAX_WBITS | 32)  # gzip or zlib, as its first bytes say
        try:
            said = unpacking.decompress(body, MAX_REPLY_BYTES)
        except zlib.error as error:
            raise ModelFault(f"{self.host} answered gzip that cannot be unpacked") from error
        if not unpacking.eof:
            raise ModelFault(f"{self.host} answered gzip that breaks off, or more than {MAX_REPLY_BYTES >> 20} MiB")
        return said

    def _too_slow(self) -> ModelUnavailable:
        return ModelUnavailable(
            f"{self.host} did not answer within {self._timeout_s:g} s",
            hint=f"raise the {self._purpose} timeout, or ask for less at once",
        )


def _unusable(purpose: str) -> ConfigError:
    return ConfigError(
        f"the {purpose} base URL is not usable",
        hint="write it as http(s)://host[:port]/path, no password, no query, in the settings or the provider's own variable",
    )


def _seconds(retry_after: str, otherwise: float) -> float:
    """Return how long to wait. The header gives seconds or a date; what does not lie ahead is no reason to hurry."""
    text = retry_after.strip()
    try:
        said = float(text)
    except ValueError:
        said = _until(text)
    return said if said > 0 else otherwise


def _until(date: str) -> float:
    """Return the seconds until a date of HTTP; 0 for what is none."""
    from email.utils import parsedate_to_datetime

    try:
        return parsedate_to_datetime(date).timestamp() - time.time()
    except (ValueError, TypeError, OverflowError, OSError):
        return 0.0
