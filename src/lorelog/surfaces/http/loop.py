"""Loop's endpoints, as Loop's clients know them, over our operations.

Two things differ, on purpose: nothing found is `[]`, not `null`, and a search does not index first. There are no channels
here: `dir_path` says where one stands, and a `channel_id` alone is answered as by a Loop that has no channel lookup.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import msgspec
from anyio import to_thread
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from lorelog.core.errors import LorelogError, UsageError
from lorelog.surfaces.http.calls import Ask, Calls, read_body
from lorelog.surfaces.http.faults import Refusal, json_answer
from lorelog.surfaces.http.files import checked_path, not_indexed, read_file, replace_file, tag_of

_MOST_HITS = 1000
_MOST_FILES = 100_000

Scope = dict[str, Any]
"""What an operation is told of where one stands."""


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where one stands. Fields that are not known are passed over, as Loop does."""

    dir_path: str | None = None
    channel_id: str | None = None


class Question(Place, frozen=True, kw_only=True):
    """What is looked for."""

    query: str | None = None
    top_k: int | None = None


class LoopEndpoints:
    """Search, index, and the files of the index."""

    def __init__(self, calls: Calls, max_bytes: int) -> None:
        self._calls = calls
        self._limit = max_bytes

    async def search(self, request: Request) -> Response:
        """Answer POST /api/memory/search."""
        asked = _read(await read_body(request), Question)
        if not asked.query:
            raise Refusal(400, "usage", "query is required")
        directory = _directory(asked.dir_path, asked.channel_id)
        query = asked.query
        wanted = {"k": min(asked.top_k, _MOST_HITS)} if asked.top_k and asked.top_k > 0 else {}

        def search(ask: Ask) -> dict[str, Any]:
            # A budget would leave out the texts that Loop's clients show.
            return ask("memory.search", {"query": query, "token_budget": 0, **wanted, **_scope(directory)})

        reply = await self._calls.carry_out(request, search)
        return json_answer({"results": [_result(hit) for hit in reply["hits"]]})

    async def index(self, request: Request) -> Response:
        """Answer POST /api/memory/index with the number of files that were new or had changed."""
        asked = _read(await read_body(request), Place)
        directory = _directory(asked.dir_path, asked.channel_id)
        return json_answer(
            {"count": await self._calls.carry_out(request, lambda ask: _index(ask, directory), long=True)}
        )

    async def files(self, request: Request) -> Response:
        """Answer GET /api/memory/files."""
        return await self._list(request, "")

    async def search_files(self, request: Request) -> Response:
        """Answer GET /api/memory/files/search: those with `q` in their path, whatever its case."""
        return await self._list(request, request.query_params.get("q", "").lower())

    async def read(self, request: Request) -> Response:
        """Answer GET /api/memory/file."""
        directory = _directory_of(request)
        path = checked_path(request.query_params.get("path", ""))

        def read(ask: Ask) -> bytes:
            _document(ask, path, directory)
            return read_file(path, self._limit)

        data = await self._calls.carry_out(request, read)
        return PlainTextResponse(data, headers={"ETag": tag_of(data)})

    async def write(self, request: Request) -> Response:
        """Answer PUT /api/memory/file, and bring the index up to date with it."""
        directory = _directory_of(request)
        path = checked_path(request.query_params.get("path", ""))
        data = await read_body(request)
        _check_text(data)
        expected = request.headers.get("if-match", "")

        def write(ask: Ask) -> dict[str, Any]:
            document = _document(ask, path, directory)
            replace_file(path, data, self._limit, expected)
            return document

        document = await self._calls.carry_out(request, write)
        try:
            await self._calls.carry_out(request, lambda ask: _index(ask, document["project"] or directory), long=True)
        except LorelogError as error:  # the file is safe, and the next index run finds it
            return json_answer({"ok": True, "indexed": False, "note": error.message})
        return json_answer({"ok": True, "indexed": True})

    async def _list(self, request: Request, part: str) -> Response:
        directory = _directory_of(request)

        def list_files(ask: Ask) -> dict[str, Any]:
            return ask("memory.list", {"documents": True, "limit": _MOST_FILES, **_scope(directory)})

        reply = await self._calls.carry_out(request, list_files)
        found = [one for one in reply["documents"] if part in one["source"].lower()]
        return json_answer({"files": await to_thread.run_sync(_existing, found)})


def _read(body: bytes, kind: type[msgspec.Struct]) -> Any:
    try:
        return msgspec.json.decode(body, type=kind)
    except (ValueError, RecursionError):
        raise Refusal(400, "usage", "invalid request body") from None


def _directory_of(request: Request) -> str:
    return _directory(request.query_params.get("dir_path"), request.query_params.get("channel_id"))


def _directory(dir_path: str | None, channel_id: str | None) -> str:
    if not dir_path and not channel_id:
        raise Refusal(400, "usage", "dir_path or channel_id is required")
    if not dir_path:
        raise Refusal(400, "usage", "channel lookup not configured")
    if not dir_path.startswith("/") or "\0" in dir_path:
        raise Refusal(400, "usage", "dir_path must be absolute")
    return dir_path


def _scope(directory: str) -> Scope:
    """Return where one stands; a directory that is gone is still the name that its memories are filed under."""
    if os.path.isdir(directory):  # noqa: PTH112  (answers no where pathlib raises)
        return {"project": directory}
    return {"project": "/", "projects": [os.path.normpath(directory), ""]}


def _index(ask: Ask, directory: str) -> int:
    if not os.path.isdir(directory):  # noqa: PTH112
        return 0
    try:
        changed: int = ask("memory.index", {"project": directory})["changed"]
    except UsageError:  # nothing is known of this project yet
        return 0
    return changed


def _document(ask: Ask, path: str, directory: str) -> dict[str, Any]:
    """Return the document of exactly this path, if it can be seen from here."""
    reply = ask("memory.list", {"documents": True, "source": path, "limit": 10, **_scope(directory)})
    found: list[dict[str, Any]] = [one for one in reply["documents"] if one["source"] == path]
    if not found:
        raise not_indexed()
    return found[0]


def _existing(documents: list[dict[str, Any]]) -> list[dict[str, str]]:
    return [
        {"file_path": one["source"], "dir_path": one["project"]}
        for one in documents
        if os.path.isfile(one["source"])  # noqa: PTH113
    ]


def _check_text(data: bytes) -> None:
    """Refuse what no index run would read: it would take the document out of reach of whoever wrote it."""
    try:
        if "\0" not in data.decode():
            return
    except UnicodeDecodeError:
        pass
    raise Refusal(400, "usage", "file must be UTF-8 text without NUL")


def _result(hit: Mapping[str, Any]) -> dict[str, Any]:
    shape = {"file_path": hit["source"], "score": hit["score"], "chunk_index": hit["start_line"] - 1}
    return {**shape, "content": hit["content"]} if hit.get("content") else shape
