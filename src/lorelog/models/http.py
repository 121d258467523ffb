"""HTTP client for model servers that take JSON by POST: keep-alive, one time limit, retries and rate limiting.

Uses http.client, not an SDK or urllib: an SDK costs 1.3 s to import, and urllib opens a connection per request. Even
http.client is imported with the first request only, since most commands never send one.

Retried, with doubling pauses or after the server's Retry-After: 429, 5xx and broken connections; requesting embeddings
twice does no harm. A request that may be charged twice (`once`) is not retried after a broken connection or a reply
lost by a gateway. A server that refuses the connection is not retried, so that a command fails at once if a local model
server is not running. The time limit covers a request with all its retries and pauses, from the moment it gets its
slot. Redirects are not followed: they could carry a key to another host.

The API key is sent only to the host of the base URL and removed from any server text that is shown. Without a required key
only a server on this machine is used.
"""

from __future__ import annotations

import io
import json
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from threading import Condition, Lock
from time import monotonic
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from msgspec import Struct

from lorelog.core import VERSION
from lorelog.core.errors import ConfigError, ModelFault, ModelUnavailable

if TYPE_CHECKING:
    from http.client import HTTPConnection, HTTPResponse
    from socket import socket

    from _typeshed import WriteableBuffer


class KeyHeader(Struct, frozen=True):
    """The header that carries a vendor's key, and whether a key is required."""

    name: str = "Authorization"
    scheme: str = "Bearer "
    required: bool = True


BEARER_HEADER = KeyHeader()


class Credentials(Struct, frozen=True):
    """A key, the variable that it was read from, and how it is sent."""

    key: str
    variable: str
    header: KeyHeader = BEARER_HEADER


class MalformedReply(Exception):
    """A reply does not have the expected form; the text continues a sentence after "answered"."""


class RateLimiter:
    """Limits concurrent requests to one server; 0 means no limit. Thread-safe.

    A rate limit applies to an account, not to one request: a 429 delays all requests and halves their concurrency. Each
    successful reply raises it by one, up to the initial value.
    """

    def __init__(self, max_requests: int = 0) -> None:
        self._max = max_requests
        self._allowed = max_requests
        self._busy = 0
        self._until = 0.0
        self._changed = Condition()

    @contextmanager
    def slot(self, *, urgent: bool = False) -> Iterator[None]:
        """Wait for a slot and hold it. An urgent request (a query, which somebody waits for) ignores the concurrency limit."""
        with self._changed:
            while True:
                wait = self._until - monotonic()
                if wait > 0:
                    self._changed.wait(wait)
                elif urgent or not self._max or self._busy < self._allowed:
                    break
                else:
                    self._changed.wait()
            self._busy += not urgent
        try:
            yield
        finally:
            with self._changed:
                self._busy -= not urgent
                self._changed.notify_all()

    def back_off(self, seconds: float) -> None:
        """Start no request for some seconds, and halve the concurrency."""
        with self._changed:
            self._until = max(self._until, monotonic() + seconds)
            self._allowed = max(1, self._allowed // 2)

    def recover(self) -> None:
        with self._changed:
            self._allowed = min(self._max, self._allowed + 1)
            self._changed.notify_all()


MAX_ATTEMPTS = 6
FIRST_PAUSE_S = 0.5
MAX_REPLY_BYTES = 1 << 28
GATEWAY_FAILURES = frozenset({502, 504})
"""Statuses of a gateway that lost the reply of the server behind it."""


class HttpReply(Struct, frozen=True):
    """Status and complete body of a reply."""

    status: int
    body: bytes
    retry_after: str = ""

    @property
    def is_transient(self) -> bool:
        """Whether the same request may succeed later."""
        if self.status == 429:
            return b"insufficient_quota" not in self.body  # an exhausted account does not recover while we wait
        # Ollama's error for a text that the model has no embedding for; a retry would fail too.
        return self.status >= 500 and b"unsupported value: NaN" not in self.body

    def retry_delay(self, default: float) -> float:
        """Return how many seconds to wait before a retry: as the header says, in seconds or as a date, or as Google's body."""
        text = self.retry_after.strip()
        if not text and self.status == 429:
            _, _, rest = self.body.decode("utf-8", "replace").partition('"retryDelay"')
            text = "".join(rest.split('"')[1:2]).removesuffix("s")
        if not text:  # as with every reply that succeeded
            return default
        try:
            delay = float(text)
        except ValueError:
            from email.utils import parsedate_to_datetime

            try:
                delay = parsedate_to_datetime(text).timestamp() - time.time()
            except (ValueError, TypeError, OverflowError, OSError):
                return default
        return delay if delay > 0 else default


class _ConnectionBroken(Exception):
    """The connection ended before the reply was complete."""


class Endpoint:
    """A server at a base URL. Thread-safe: each request in flight has its own connection.

    `purpose` names it in messages. With `once`, a request whose reply was lost is not sent again.
    """

    def __init__(
        self,
        base_url: str,
        timeout_s: float,
        credentials: Credentials | None = None,
        *,
        purpose: str = "embedding",
        once: bool = False,
        limiter: RateLimiter | None = None,
    ) -> None:
        given = credentials or Credentials("", "")
        self._key, self._key_variable, self._header = given.key.strip(), given.variable, given.header
        self._purpose = purpose
        self._limiter = limiter or RateLimiter()
        self._once = once
        # Messages do not repeat the URL: it may contain a password. A query would be dropped silently, and may contain a key.
        try:
            parts = urlsplit(base_url.strip())
            self._port = parts.port
            is_usable = (
                parts.scheme in {"http", "https"} and "@" not in parts.netloc and not parts.query + parts.fragment
            )
        except ValueError:
            is_usable = False
        if not is_usable or not parts.hostname:
            raise ConfigError(
                f"the {purpose} base URL is not usable",
                hint="write it as http(s)://host[:port]/path without password or query, in the settings or the provider's "
                "variable",
            )
        self._scheme = parts.scheme
        self._name = parts.hostname
        self._path = parts.path.rstrip("/")
        self._timeout_s = timeout_s
        self._lock = Lock()
        self._idle: list[HTTPConnection] = []

    @property
    def host(self) -> str:
        """The server's name in messages."""
        return f"{self._name}:{self._port}" if self._port else self._name

    @property
    def is_loopback(self) -> bool:
        from ipaddress import ip_address

        try:
            return ip_address(self._name).is_loopback
        except ValueError:
            return self._name == "localhost"

    def post(
        self, path: str, body: Mapping[str, Any], headers: Mapping[str, str] = {}, *, urgent: bool = False
    ) -> HttpReply:
        """Send JSON with the key and return the reply with any status. Raise ModelError if no complete reply arrives.

        For an urgent request the time limit includes waiting for a slot.
        """
        payload, headers = json.dumps(body).encode(), {**headers, **self.headers()}
        deadline = time.monotonic() + self._timeout_s if urgent else 0.0
        pause = FIRST_PAUSE_S
        for attempt in range(1, MAX_ATTEMPTS + 1):
            broken: _ConnectionBroken | None = None
            with self._limiter.slot(urgent=urgent):
                deadline = deadline or time.monotonic() + self._timeout_s
                try:
                    reply = self._send_once(path, payload, headers, deadline)
                except _ConnectionBroken as error:
                    if self._once:
                        raise ModelFault(f"{self.host} broke off: {error}") from error
                    broken, reply = error, HttpReply(0, b"")
            wait = reply.retry_delay(pause)
            is_last = attempt == MAX_ATTEMPTS or time.monotonic() + wait >= deadline
            is_lost = self._once and reply.status in GATEWAY_FAILURES
            if is_last or is_lost or not (broken or reply.is_transient):
                if broken:
                    raise ModelUnavailable(f"{self.host} keeps breaking off: {broken}") from broken
                if reply.status < 400:
                    self._limiter.recover()
                return reply
            if reply.status == 429:
                self._limiter.back_off(wait)  # also delays the next attempt of this request
            else:
                time.sleep(wait)
            pause *= 2
        raise AssertionError("the last attempt returns or raises")

    def headers(self) -> dict[str, str]:
        """Return the headers of a request. Raise ModelUnavailable if the key is missing or malformed."""
        if self._key:
            if not (self._key.isascii() and self._key.isprintable()):
                # http.client would reject it too, but show it.
                raise ModelUnavailable(
                    f"the API key for {self.host} contains invalid characters", hint=f"check {self._key_variable}"
                )
            return {self._header.name: f"{self._header.scheme}{self._key}"}
        if self.is_loopback or not self._header.required:
            return {}
        raise ModelUnavailable(f"no API key for {self.host}", hint=f"set {self._key_variable}")

    def error_for_reply(self, reply: HttpReply, doing: str) -> ModelUnavailable | ModelFault:
        """Return the error for a reply other than 200; `doing` is the refused action, such as "embed with MODEL"."""
        host, detail = self.host, self.server_message(reply.body, raw=True)
        if reply.status in {401, 403} or b"API_KEY_INVALID" in reply.body:  # Google answers 400 to a wrong key
            hint = f"check {self._key_variable}" if self._key else f"set {self._key_variable}"
            return ModelUnavailable(f"{host} refused the API key (HTTP {reply.status}){detail}", hint=hint)
        if 300 <= reply.status < 400:
            return ModelFault(
                f"{host} redirects elsewhere (HTTP {reply.status}); redirects are not followed, to protect the key",
                hint="set the base URL to the server's real address",
            )
        if reply.status == 402:
            return ModelUnavailable(f"{host} requires payment (HTTP 402){detail}", hint="check your account there")
        if reply.status == 429:
            return ModelUnavailable(
                f"{host} limits the rate of requests (HTTP 429){detail}",
                hint="wait, or lower the batch size; finished work is kept",
            )
        if reply.is_transient:
            return ModelUnavailable(f"{host} failed (HTTP {reply.status}){detail}", hint="try again later")
        return ModelFault(
            f"{host} refused to {doing} (HTTP {reply.status}){detail}", hint="check the model's name and the base URL"
        )

    def server_message(self, body: bytes, *, raw: bool = False) -> str:
        """Return the error text in a reply (with `raw`, any text) formatted for a message: one line, without the key."""
        content = body.decode("utf-8", "replace")
        text = content if raw else ""
        with suppress(ValueError, RecursionError):
            reply = json.loads(content)
            while isinstance(reply, dict):  # in any of the usual fields
                reply = next((reply[name] for name in ("error", "message", "detail") if reply.get(name)), "")
            text = (reply if isinstance(reply, str) else json.dumps(reply) if reply else "") or text
        if self._key:
            # As servers repeat it: plain, with backslashes, percent-encoded or escaped as in JSON.
            forms = (rf"(?:\\?{re.escape(letter)}|%{ord(letter):02x}|\\u00{ord(letter):02x})" for letter in self._key)
            text = re.sub("".join(forms), "[key]", text, flags=re.IGNORECASE)
        text = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
        return f": {text[:200]}" if text else ""

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _send_once(self, path: str, payload: bytes, headers: Mapping[str, str], deadline: float) -> HttpReply:
        """Send once. If a kept connection has gone stale, which is normal, use a new one."""
        with self._lock:
            kept = self._idle.pop() if self._idle else None
        if kept is not None:
            try:
                return self._send(kept, path, payload, headers, deadline)
            except _ConnectionBroken:
                pass
        return self._send(self._connect(deadline), path, payload, headers, deadline)

    def _connect(self, deadline: float) -> HTTPConnection:
        from http.client import HTTPConnection, HTTPSConnection

        kind = HTTPSConnection if self._scheme == "https" else HTTPConnection
        try:
            connection = kind(self._name, self._port, timeout=_seconds_left(deadline))
            # The default gives each address of a name the whole timeout.
            connection._create_connection = lambda address, *_: _connect_by(address, deadline)  # type: ignore[attr-defined]  # noqa: SLF001
            connection.connect()
        except TimeoutError as error:
            raise self._timeout_error() from error
        except (OSError, UnicodeError) as error:  # UnicodeError: not a valid host name
            raise ModelUnavailable(
                f"cannot reach {self.host}: {error}",
                hint="check that the server is running and that the base URL is right",
            ) from error
        return connection

    def _send(
        self, connection: HTTPConnection, path: str, payload: bytes, headers: Mapping[str, str], deadline: float
    ) -> HttpReply:
        from http.client import HTTPException, HTTPResponse, IncompleteRead

        def with_deadline(channel: socket, **kwargs: Any) -> HTTPResponse:
            return HTTPResponse(cast("socket", _DeadlineReader(channel, deadline)), **kwargs)

        sent = {"Content-Type": "application/json", "User-Agent": f"lorelog/{VERSION}", **headers}
        is_reusable = False
        try:
            connection.sock.settimeout(_seconds_left(deadline))
            connection.response_class = with_deadline  # type: ignore[assignment]
            connection.request("POST", f"{self._path}/{path}", body=payload, headers=sent)
            with connection.getresponse() as response:
                body = self._read(response)
                is_reusable = not response.will_close
                return HttpReply(response.status, body, response.headers.get("Retry-After", ""))
        except TimeoutError as error:
            raise self._timeout_error() from error
        except (OSError, IncompleteRead) as error:
            raise _ConnectionBroken(str(error) or type(error).__name__) from error
        except HTTPException as error:
            raise ModelFault(f"{self.host} sent an invalid HTTP reply: {type(error).__name__}") from error
        finally:
            if is_reusable and not self._once:  # with `once`, a stale connection could not be retried
                with self._lock:
                    self._idle.append(connection)
            else:
                connection.close()

    def _read(self, response: HTTPResponse) -> bytes:
        body = response.read(MAX_REPLY_BYTES + 1)
        if len(body) > MAX_REPLY_BYTES:
            raise ModelFault(f"{self.host} sent more than {MAX_REPLY_BYTES >> 20} MiB")
        if response.length:
            raise _ConnectionBroken(f"{response.length} bytes of the reply are missing")
        # Not requested, but some gateways compress for everyone.
        if response.headers.get("Content-Encoding", "").strip().lower() not in {"gzip", "x-gzip", "deflate"}:
            return body
        import zlib

        decompressor = zlib.decompressobj(zlib.MAX_WBITS | 32)  # detects gzip or zlib by the first bytes
        try:
            plain = decompressor.decompress(body, MAX_REPLY_BYTES)
        except zlib.error as error:
            raise ModelFault(f"{self.host} sent gzip data that cannot be decompressed") from error
        if not decompressor.eof:
            raise ModelFault(f"{self.host} sent incomplete gzip data, or more than {MAX_REPLY_BYTES >> 20} MiB")
        return plain

    def _timeout_error(self) -> ModelUnavailable:
        return ModelUnavailable(
            f"{self.host} did not answer within {self._timeout_s:g} s",
            hint=f"raise the {self._purpose} timeout, or send less per request",
        )


def nested_object(reply: object, *names: str) -> dict[str, Any]:
    """Return an object inside another, or an empty one."""
    for name in names:
        reply = reply.get(name) if isinstance(reply, dict) else None
    return reply if isinstance(reply, dict) else {}


def sum_counts(usage: Mapping[str, Any], *names: str) -> int:
    values = (usage.get(name) for name in names)
    return sum(value for value in values if isinstance(value, int) and not isinstance(value, bool) and value > 0)


def parse_object(body: bytes, otherwise: str) -> dict[str, Any]:
    """Return the JSON object in a body. Raise MalformedReply, with `otherwise` for JSON of another type."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise MalformedReply("something that is not JSON") from error
    if not isinstance(value, dict):
        raise MalformedReply(otherwise)
    return value


def _seconds_left(deadline: float) -> float:
    """Return the seconds until a deadline (of `time.monotonic`). Raise TimeoutError if it has passed."""
    left = deadline - monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _connect_by(address: tuple[str, int], deadline: float) -> socket:
    """Connect to a name and port. Each address gets a share of the time, so that a silent one leaves some for the rest."""
    import socket as sockets

    name, port = address
    # As bytes: for text, Python loads the tables of internationalized names first.
    host = name.encode("ascii") if name.isascii() else name
    addresses = sockets.getaddrinfo(host, port, type=sockets.SOCK_STREAM)
    for number, (family, kind, protocol, _, resolved) in enumerate(addresses, 1):
        channel = sockets.socket(family, kind, protocol)
        try:
            channel.settimeout(_seconds_left(deadline) / (1 + len(addresses) - number))
            channel.connect(resolved)
            channel.settimeout(_seconds_left(deadline))
        except BaseException as error:
            channel.close()
            if number == len(addresses) or not isinstance(error, OSError):
                raise
        else:
            return channel
    raise OSError("the name has no address")


class _DeadlineReader(io.RawIOBase):
    """The part of the socket interface that `http.client` reads from, with one deadline for a whole exchange.

    A socket's own timeout restarts with every byte, so a server that sends its headers byte by byte, or repeats
    "100 Continue", could hold a search for hours.
    """

    def __init__(self, channel: socket, deadline: float) -> None:
        self._channel = channel
        self._deadline = deadline
        # The socket's own file keeps it open until it is read to the end, even if the connection is closed before.
        self._file = channel.makefile("rb", buffering=0)

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int | None:
        self._channel.settimeout(_seconds_left(self._deadline))
        return self._file.readinto(buffer)

    def close(self) -> None:
        self._file.close()
        super().close()
