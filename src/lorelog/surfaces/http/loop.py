"""Loop's endpoints over our operations: search, index, and the indexed Markdown files.

They differ from Loop in two ways: an empty result is `[]`, not `null`, and a search does not index first. `dir_path` names
the project; a `channel_id` alone is looked up in `http.channels` and then among the folders of Loop's home.

A file can be read or replaced only if the index has a document of exactly its path. A directory or the file could be
replaced by a link between that check and the open call; therefore each path component is opened by itself, from the
root down, and links are refused. The new version is renamed into the directory that is already open.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from anyio import to_thread
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from lorelog.core.atomic_file import AtomicFile, OpenDescriptor
from lorelog.core.errors import LorelogError, UsageError
from lorelog.core.options import MARKDOWN_SUFFIXES, HttpOptions
from lorelog.core.paths import is_below, is_folder, join_path
from lorelog.core.policy import RIGHTS
from lorelog.core.processes import acquire_file_lock
from lorelog.operations.dispatch import BoundCall
from lorelog.surfaces.http.calls import HttpRefusalError, OperationEndpoints, json_response, read_body

_NO_FOLLOW = os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORY = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | _NO_FOLLOW
_LOCK_S = 10.0
_REFUSED_ERRNOS = {errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.ENXIO, errno.ENAMETOOLONG, errno.EINVAL}
_NOT_INDEXED = (403, "forbidden", "path is not an indexed memory file")
"""The error for a path that is not a document visible from the project."""


def check_path(path: str) -> str:
    """Return a path that may belong to an indexed file. Raise HttpRefusalError for any other."""
    if not path:
        raise HttpRefusalError(400, "usage", "path is required")
    for is_wrong, problem in (
        ("\0" in path, "must not contain NUL"),
        (not path.startswith("/"), "must be absolute"),
        (not path.lower().endswith(MARKDOWN_SUFFIXES), "must be a .md file"),
    ):
        if is_wrong:
            raise HttpRefusalError(400, "usage", f"path {problem}")
    return path


def entity_tag(data: bytes) -> str:
    """Return the entity tag of a file's content."""
    return f'"{hashlib.sha256(data).hexdigest()}"'


def read_file(path: str, limit: int) -> bytes:
    """Return the content of an indexed file by its real path."""
    with _translate_errors(), _open_parent(path) as directory, _open_file(path, directory, os.O_RDONLY) as descriptor:
        return _read_whole(descriptor, limit)


def put_file(path: str, data: bytes, limit: int, expected: str = "") -> None:
    """Replace an indexed file atomically and durably; keep its mode. `expected` lists the entity tags it may have."""
    flags = os.O_RDWR if expected else os.O_WRONLY
    name = path.rpartition("/")[2]
    with _translate_errors(), _open_parent(path) as directory, _open_file(path, directory, flags) as descriptor:
        if not acquire_file_lock(descriptor, _LOCK_S):  # the lock that writers of journals hold
            raise HttpRefusalError(503, "store_busy", "file is locked by another program")
        current = os.stat(name, dir_fd=directory, follow_symlinks=False)
        if not os.path.samestat(os.fstat(descriptor), current):
            raise HttpRefusalError(409, "changed", "file was replaced by another program", hint="read it again")
        tags = [tag.strip() for tag in expected.split(",")]
        if expected not in ("", "*") and entity_tag(_read_whole(descriptor, limit)) not in tags:
            raise HttpRefusalError(
                412, "changed", "file has changed", hint="read it again and apply your change to the new content"
            )
        with AtomicFile(name, keep_mode=True, folder=directory) as file:
            file.write(data)


@contextmanager
def _open_parent(path: str) -> Iterator[int]:
    *parents, _ = path.split("/")[1:]
    if any(part in {"", ".", ".."} for part in parents):
        raise HttpRefusalError(*_NOT_INDEXED)
    descriptor = os.open("/", _DIRECTORY)
    try:
        for part in parents:
            inner = os.open(part, _DIRECTORY, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _open_file(path: str, directory: int, flags: int) -> Iterator[int]:
    name = path.rpartition("/")[2]
    flags |= _NO_FOLLOW | os.O_NONBLOCK  # opening a pipe would block
    with OpenDescriptor(os.open(name, flags, dir_fd=directory)) as descriptor:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise HttpRefusalError(*_NOT_INDEXED)
        yield descriptor


def _read_whole(descriptor: int, limit: int) -> bytes:
    parts, size = [], 0
    while part := os.read(descriptor, 1 << 20):
        parts.append(part)
        size += len(part)
        if size > limit:
            raise HttpRefusalError(413, "too_large", "file too large")
    return b"".join(parts)


@contextmanager
def _translate_errors() -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise HttpRefusalError(404, "not_found", "file not found") from None
    except PermissionError:
        raise HttpRefusalError(403, "forbidden", "no permission to read or write the file") from None
    except OSError as error:
        if error.errno in _REFUSED_ERRNOS:
            raise HttpRefusalError(*_NOT_INDEXED) from None
        full = error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EROFS}
        raise HttpRefusalError(507 if full else 500, "store_unwritable", f"file: {error.strerror}") from None


_MAX_HITS = 1000
_MAX_FILES = 100_000


class LoopDirectory(msgspec.Struct, frozen=True, kw_only=True):
    """The project of a request. Unknown fields are ignored, as in Loop."""

    dir_path: str | None = None
    channel_id: str | None = None


class LoopSearch(LoopDirectory, frozen=True, kw_only=True):
    query: str | None = None
    top_k: int | None = None


class LoopEndpoints:
    """Handlers of Loop's endpoints."""

    def __init__(self, calls: OperationEndpoints, options: HttpOptions) -> None:
        self._calls = calls
        self._limit = options.max_body_bytes
        self._channels = {name: path for name, _, path in (entry.partition("=") for entry in options.channels)}

    async def search(self, request: Request) -> Response:
        """Handle POST /api/memory/search."""
        body = _decode_body(await read_body(request), LoopSearch)
        if not body.query:
            raise HttpRefusalError(400, "usage", "query is required")
        directory = self._find_directory(body.dir_path, body.channel_id)
        query = body.query
        limit = {"k": min(body.top_k, _MAX_HITS)} if body.top_k and body.top_k > 0 else {}

        def search(call: BoundCall) -> dict[str, Any]:
            # A token budget would omit the texts that Loop's clients show.
            return call("memory.search", {"query": query, "token_budget": 0, **limit, **_scope_arguments(directory)})

        reply = await self._calls.run_job(request, search)
        results = [
            {"file_path": hit["source"], "score": hit["score"], "chunk_index": hit["start_line"] - 1}
            | ({"content": hit["content"]} if hit.get("content") else {})
            for hit in reply["hits"]
        ]
        return json_response({"results": results})

    async def index(self, request: Request) -> Response:
        """Handle POST /api/memory/index; reply with the number of new and changed files."""
        body = _decode_body(await read_body(request), LoopDirectory)
        directory = self._find_directory(body.dir_path, body.channel_id)
        return json_response(
            {"count": await self._calls.run_job(request, lambda call: _index_directory(call, directory), long=True)}
        )

    async def files(self, request: Request) -> Response:
        """Handle GET /api/memory/files."""
        return await self._list(request, "")

    async def search_files(self, request: Request) -> Response:
        """Handle GET /api/memory/files/search: list files with `q` in their path, ignoring case."""
        return await self._list(request, request.query_params.get("q", "").lower())

    async def read(self, request: Request) -> Response:
        """Handle GET /api/memory/file."""
        directory = self._query_directory(request)
        path = check_path(request.query_params.get("path", ""))

        def read(call: BoundCall) -> bytes:
            _find_document(call, path, directory)
            return read_file(path, self._limit)

        data = await self._calls.run_job(request, read)
        return PlainTextResponse(data, headers={"ETag": entity_tag(data)})

    async def write(self, request: Request) -> Response:
        """Handle PUT /api/memory/file: replace the file and update the index."""
        directory = self._query_directory(request)
        path = check_path(request.query_params.get("path", ""))
        data = await read_body(request)
        try:
            is_text = "\0" not in data.decode()
        except UnicodeDecodeError:
            is_text = False
        if not is_text:  # indexing rejects it: its document would vanish from the index
            raise HttpRefusalError(400, "usage", "file must be UTF-8 text without NUL")
        expected = request.headers.get("if-match", "")

        def write(call: BoundCall) -> dict[str, Any]:
            document = _find_document(call, path, directory)
            if "/.lorelog/" in path or is_below(path, os.path.realpath(self._calls.caller.home or "/dev/null")):
                raise HttpRefusalError(403, "forbidden", RIGHTS["edit"].refusal("a client over HTTP").message)
            put_file(path, data, self._limit, expected)
            return document

        document = await self._calls.run_job(request, write)
        try:
            await self._calls.run_job(
                request, lambda call: _index_directory(call, document["project"] or directory), long=True
            )
        except (LorelogError, HttpRefusalError) as error:  # the file is written, and the next index run reads it
            return json_response({"ok": True, "indexed": False, "note": error.message})
        return json_response({"ok": True, "indexed": True})

    def _query_directory(self, request: Request) -> str:
        return self._find_directory(request.query_params.get("dir_path"), request.query_params.get("channel_id"))

    def _find_directory(self, dir_path: str | None, channel_id: str | None) -> str:
        """Return the project directory of a request. Raise HttpRefusalError if it names none."""
        if not dir_path and not channel_id:
            raise HttpRefusalError(400, "usage", "dir_path or channel_id is required")
        if dir_path:
            if not dir_path.startswith("/") or "\0" in dir_path:
                raise HttpRefusalError(400, "usage", "dir_path must be absolute")
            return dir_path
        channel = channel_id or ""
        if channel in self._channels:
            return join_path("", self._channels[channel])
        if "/" not in channel and "\0" not in channel and channel not in {".", ".."}:
            fallback = join_path("", f"~/.loop/{channel}/work")
            if is_folder(fallback):  # the one that Loop gives a channel without a path
                return fallback
        raise HttpRefusalError(400, "usage", f"channel {channel[:100]} not found: http.channels has no entry for it")

    async def _list(self, request: Request, part: str) -> Response:
        directory = self._query_directory(request)

        def list_files(call: BoundCall) -> dict[str, Any]:
            return call("memory.list", {"documents": True, "limit": _MAX_FILES, **_scope_arguments(directory)})

        reply = await self._calls.run_job(request, list_files)
        documents = [document for document in reply["documents"] if part in document["source"].lower()]

        def existing() -> list[dict[str, str]]:
            there = [document for document in documents if Path(document["source"]).is_file()]
            return [{"file_path": document["source"], "dir_path": document["project"]} for document in there]

        return json_response({"files": await to_thread.run_sync(existing)})


def _decode_body(body: bytes, kind: type[msgspec.Struct]) -> Any:
    try:
        return msgspec.json.decode(body, type=kind)
    except (ValueError, RecursionError):
        raise HttpRefusalError(400, "usage", "invalid request body") from None


def _scope_arguments(directory: str) -> dict[str, Any]:
    """Return the project arguments; memories of a deleted directory are still found under its path."""
    if is_folder(directory):
        return {"project": directory}
    return {"project": "/", "projects": [os.path.normpath(directory), ""]}


def _index_directory(call: BoundCall, directory: str) -> int:
    """Return the number of new and changed files. Raise HttpRefusalError if the directory is not indexed."""
    if not is_folder(directory):
        raise HttpRefusalError(400, "usage", f"nothing indexed: {directory} is not a directory")
    try:
        changed: int = call("memory.index", {"project": directory})["changed"]
    except UsageError as error:
        raise HttpRefusalError(403, "forbidden", f"nothing indexed: {error.message} ({error.hint})") from None
    return changed


def _find_document(call: BoundCall, path: str, directory: str) -> dict[str, Any]:
    """Return the document of exactly this path. Raise HttpRefusalError if it is not visible from the project."""
    reply = call("memory.list", {"documents": True, "source": path, "limit": 10, **_scope_arguments(directory)})
    documents: list[dict[str, Any]] = [document for document in reply["documents"] if document["source"] == path]
    if not documents:
        raise HttpRefusalError(*_NOT_INDEXED)
    return documents[0]
