"""Error responses: the HTTP status of each error code, in two formats.

Loop's endpoints reply with plain text, as Loop does; all others with the error object of every surface. A response has
only a message and a hint, never a location in the code.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.responses import PlainTextResponse, Response

from lorelog.core.errors import LorelogError

LOOP_PREFIX = "/api/memory/"
"""Paths whose errors are plain text."""

STATUS_BY_CODE = {
    "usage": 400,
    "config": 422,
    "not_found": 404,
    "source": 422,
    "changed": 409,
    "cancelled": 499,
    "daemon": 503,
    "daemon_unresponsive": 503,
    "model": 503,
    "model_unavailable": 503,
    "model_fault": 502,
    "store_busy": 503,
    "store_unwritable": 507,
}
"""HTTP status by error code; 500 for all others."""

_ROUTING_CODES = {404: "not_found", 405: "method"}


class HttpRefusalError(Exception):
    """A request that is rejected before or instead of calling an operation."""

    def __init__(
        self, status: int, code: str, message: str, *, hint: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.hint = hint
        self.headers = dict(headers or {})


def refusal_response(path: str, error: HttpRefusalError) -> Response:
    """Return the response to a rejected request."""
    return _error_response(path, error.status, (error.code, error.message, error.hint), error.headers)


def operation_error_response(path: str, error: LorelogError) -> Response:
    """Return the response to an operation that raised LorelogError."""
    status = STATUS_BY_CODE.get(error.code, 500)
    if path.startswith(LOOP_PREFIX) and status not in {400, 499}:
        status = 500  # Loop only distinguishes invalid requests and indexer failures
    headers = {"Retry-After": "1"} if status == 503 else {}
    return _error_response(path, status, (error.code, error.message, error.hint), headers)


def internal_error_response(path: str, error: BaseException) -> Response:
    """Return the response to an unexpected exception."""
    return _error_response(path, 500, _internal_error(error), {})


def routing_error_response(path: str, status: int, detail: str, headers: Mapping[str, str] | None) -> Response:
    """Return the response to an unknown path or method."""
    message = {404: f"there is no path {path[:200]}", 405: "this path does not support the method"}.get(status, detail)
    hint = "GET /openapi.json lists all paths" if status == 404 else ""
    return _error_response(path, status, (_ROUTING_CODES.get(status, "error"), message, hint), dict(headers or {}))


def error_object(error: BaseException) -> dict[str, str]:
    """Return the error object of an exception."""
    if isinstance(error, LorelogError | HttpRefusalError):
        return {"code": error.code, "message": error.message, "hint": error.hint}
    code, message, hint = _internal_error(error)
    return {"code": code, "message": message, "hint": hint}


def json_response(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a JSON response."""
    return Response(json_bytes(value), status, headers, "application/json")


def json_bytes(value: Any) -> bytes:
    """Return a value as JSON in UTF-8, also if it has file names that are not valid UTF-8."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return json.dumps(value).encode()


def _internal_error(error: BaseException) -> tuple[str, str, str]:
    hint = "your files are unchanged; set LORELOG_DEBUG=1 for the server to log a traceback, and please report it"
    return "error", f"internal error: {type(error).__name__}", hint


def _error_response(path: str, status: int, error: tuple[str, str, str], headers: Mapping[str, str]) -> Response:
    code, message, hint = error
    if path.startswith(LOOP_PREFIX):
        text = message.encode("utf-8", "backslashreplace").decode()
        return PlainTextResponse(f"{text}\n", status, dict(headers))
    return json_response({"error": {"code": code, "message": message, "hint": hint}}, status, headers)
