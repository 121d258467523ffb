"""What HTTP says when something is refused or goes wrong: one table of statuses, two dialects.

Loop's endpoints answer with plain text, as Loop does; all others with the error object that every surface has. Nothing
says more than a message and a hint: where in our code it happened is nobody's business out there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.responses import PlainTextResponse, Response

from lorelog.core.errors import LorelogError

LOOP = "/api/memory/"
"""Paths whose errors are plain text."""

STATUS = {
    "usage": 400,
    "config": 422,
    "not_found": 404,
    "source": 422,
    "cancelled": 499,
    "daemon": 503,
    "model": 503,
    "model_unavailable": 503,
    "model_fault": 502,
    "store_busy": 503,
    "store_unwritable": 507,
}
"""By the code of an error; any other is 500."""

_WHAT = {404: "not_found", 405: "method"}


class Refusal(Exception):
    """HTTP itself says no, before or instead of an operation."""

    def __init__(
        self, status: int, code: str, message: str, *, hint: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.hint = hint
        self.headers = dict(headers or {})


def refused(path: str, error: Refusal) -> Response:
    """Return the answer to a request that is not carried out."""
    return _answer(path, error.status, (error.code, error.message, error.hint), error.headers)


def failed(path: str, error: LorelogError) -> Response:
    """Return the answer to an operation that failed for a reason."""
    status = STATUS.get(error.code, 500)
    if path.startswith(LOOP) and status not in {400, 499}:
        status = 500  # Loop knows wrong requests and faults of its indexer
    headers = {"Retry-After": "1"} if status == 503 else {}
    return _answer(path, status, (error.code, error.message, error.hint), headers)


def broken(path: str, error: BaseException) -> Response:
    """Return the answer to a fault of ours."""
    return _answer(path, 500, _fault(error), {})


def unrouted(path: str, status: int, detail: str, headers: Mapping[str, str] | None) -> Response:
    """Return the answer to a path or a method that is not there."""
    said = {404: f"there is nothing at {path[:200]}", 405: "this method is not allowed here"}.get(status, detail)
    hint = "GET /openapi.json lists what is there" if status == 404 else ""
    return _answer(path, status, (_WHAT.get(status, "error"), said, hint), dict(headers or {}))


def fault_shape(error: BaseException) -> dict[str, str]:
    """Return the error object of anything that was raised."""
    if isinstance(error, LorelogError | Refusal):
        return {"code": error.code, "message": error.message, "hint": error.hint}
    code, message, hint = _fault(error)
    return {"code": code, "message": message, "hint": hint}


def json_answer(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a JSON answer."""
    return Response(json_bytes(value), status, headers, "application/json")


def json_bytes(value: Any) -> bytes:
    """Return a value as JSON in UTF-8, whatever bytes a file's name was made of."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return json.dumps(value).encode()


def _fault(error: BaseException) -> tuple[str, str, str]:
    hint = "your files are untouched; LORELOG_DEBUG=1 of the server shows where it happened, please report it"
    return "error", f"a fault of lorelog itself: {type(error).__name__}", hint


def _answer(path: str, status: int, said: tuple[str, str, str], headers: Mapping[str, str]) -> Response:
    code, message, hint = said
    if path.startswith(LOOP):
        text = message.encode("utf-8", "backslashreplace").decode()
        return PlainTextResponse(f"{text}\n", status, dict(headers))
    return json_answer({"error": {"code": code, "message": message, "hint": hint}}, status, headers)
