"""The OpenAPI document: every operation from its types, Loop's endpoints by hand.

Each operation has a path of its own in place of one path with a parameter, because each takes and answers something else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lorelog.core.version import VERSION
from lorelog.operations.catalogue import OPERATIONS
from lorelog.operations.operation import Operation
from lorelog.operations.replies import Shape
from lorelog.operations.schema import schemas

_PREFIX = "#/components/schemas/{name}"
_TEXT: Shape = {"type": "string"}
_ERROR: Shape = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message", "hint"],
            "properties": {"code": _TEXT, "message": _TEXT, "hint": _TEXT},
        }
    },
}
_PROGRESS = "Server-sent events: `progress` (stage, done, total), then `result` or `error`. Ask with `Accept`."
_REFUSALS = {
    "400": "The request is malformed.",
    "401": "The bearer token is missing or wrong.",
    "403": "Not from this site, not by this name, or not over HTTP.",
    "408": "The body came too slowly.",
    "413": "The body is too large.",
    "415": "The body is not application/json.",
    "default": "Anything else that went wrong.",
}
_FILES: Shape = {
    "type": "object",
    "required": ["files"],
    "properties": {
        "files": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["file_path", "dir_path"],
                "properties": {"file_path": _TEXT, "dir_path": _TEXT},
            },
        }
    },
}
_RESULTS: Shape = {
    "type": "object",
    "required": ["results"],
    "properties": {
        "results": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["file_path", "score", "chunk_index"],
                "properties": {
                    "file_path": _TEXT,
                    "content": _TEXT,
                    "score": {"type": "number"},
                    "chunk_index": {"type": "integer", "description": "The line it begins on, counted from 0."},
                },
            },
        }
    },
}
_PLACE: Shape = {
    "dir_path": {
        "type": ["string", "null"],
        "pattern": "^/[^\\u0000]*$",
        "description": "A directory of the project to stand in, absolute. Needed, unless there is a channel_id.",
    },
    "channel_id": {"type": ["string", "null"], "description": "Loop's channels; there are none here."},
}
_HERE = [
    {
        "name": name,
        "in": "query",
        "required": False,
        "schema": {**field, "type": "string"},
        "description": field["description"],
    }
    for name, field in _PLACE.items()
]
_PATH = {
    "name": "path",
    "in": "query",
    "required": True,
    "schema": {"type": "string", "pattern": r"^/.+\.([mM][dD]|[mM][aA][rR][kK][dD][oO][wW][nN])$"},
    "description": "Absolute path of an indexed Markdown file.",
}


def describe_api(*, secured: bool) -> Shape:
    """Return the document; `secured` where a token is asked for."""
    components: Shape = {"Error": _ERROR}
    paths: dict[str, Shape] = {**_own_paths(), **_loop_paths()}
    for operation in OPERATIONS.values():
        if "http" not in operation.absent:
            paths[f"/api/call/{operation.name}"] = {"post": _call(operation, components)}
    document: Shape = {
        "openapi": "3.1.0",
        "info": {
            "title": "lorelog",
            "version": VERSION,
            "description": "Memory for coding agents. The operations stand under /api/call, Loop's endpoints under /api/memory.",
        },
        "paths": paths,
        "components": {"schemas": components},
    }
    if secured:
        document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"token": []}]
        paths["/health"]["get"]["security"] = []
    return document


def _call(operation: Operation[Any, Any], components: Shape) -> Shape:
    (request, reply), definitions = schemas(operation, _PREFIX)
    name = operation.request.__name__
    definitions[name] = _forgiving(definitions[name])
    components |= definitions
    return {
        "operationId": operation.name,
        "summary": operation.summary,
        "description": operation.text,
        "tags": [operation.name.partition(".")[0]],
        "requestBody": {"required": False, "content": {"application/json": {"schema": request}}},
        "responses": {
            "200": {
                "description": "What it answers.",
                "content": {
                    "application/json": {"schema": reply},
                    "text/event-stream": {"schema": {"type": "string", "description": _PROGRESS}},
                },
            },
            **_failures("application/json", {"404": "There is no such thing."}),
        },
    }


def _forgiving(schema: Shape) -> Shape:
    """Return a request's schema in which a field that may be left out may as well be null."""
    required = schema.get("required", ())
    properties = {
        name: field if name in required else _or_null(field) for name, field in schema.get("properties", {}).items()
    }
    return {**schema, "properties": properties}


def _or_null(field: Shape) -> Shape:
    if {"type": "null"} in field.get("anyOf", ()):
        return field
    outer: Shape = {name: field[name] for name in ("description", "default") if name in field}
    return {"anyOf": [{k: v for k, v in field.items() if k not in outer}, {"type": "null"}], **outer}


def _own_paths() -> dict[str, Shape]:
    health = {
        "type": "object",
        "required": ["ok", "version"],
        "properties": {"ok": {"const": True}, "version": _TEXT},
    }
    ops = {
        "type": "object",
        "required": ["operations"],
        "properties": {"operations": {"type": "array", "items": {"type": "object"}}},
    }
    return {
        "/health": {"get": _get("health", "Say that the server answers.", "application/json", health)},
        "/metrics": {"get": _get("metrics", "Counters as Prometheus reads them.", "text/plain", _TEXT)},
        "/openapi.json": {"get": _get("openapi", "This document.", "application/json", {"type": "object"})},
        "/api/ops": {"get": _get("ops", "Every operation with its schemas.", "application/json", ops)},
    }


def _loop_paths() -> dict[str, Shape]:
    question = {
        "type": "object",
        "required": ["query"],
        "properties": {"query": {"type": "string", "minLength": 1}, "top_k": {"type": ["integer", "null"]}, **_PLACE},
    }
    place = {"type": "object", "properties": _PLACE}
    count = {"type": "object", "required": ["count"], "properties": {"count": {"type": "integer", "minimum": 0}}}
    part = {"name": "q", "in": "query", "required": False, "schema": _TEXT, "description": "Part of a path."}
    return {
        "/api/memory/search": {"post": _loop("loopSearch", "Find what was learned.", _RESULTS, body=question)},
        "/api/memory/index": {"post": _loop("loopIndex", "Refresh what is indexed of a project.", count, body=place)},
        "/api/memory/files": {"get": _loop("loopFiles", "List the indexed files that exist.", _FILES, query=_HERE)},
        "/api/memory/files/search": {
            "get": _loop("loopFilesSearch", "List those with `q` in their path.", _FILES, query=[*_HERE, part])
        },
        "/api/memory/file": {"get": _read_file(), "put": _write_file()},
    }


def _read_file() -> Shape:
    shape = _loop("loopFile", "Read an indexed file.", _TEXT, query=[*_HERE, _PATH], media="text/plain")
    shape["responses"]["200"]["headers"] = {"ETag": {"schema": _TEXT, "description": "Names this content."}}
    return shape


def _write_file() -> Shape:
    ok = {
        "type": "object",
        "required": ["ok", "indexed"],
        "properties": {"ok": {"const": True}, "indexed": {"type": "boolean"}, "note": _TEXT},
    }
    match = {
        "name": "If-Match",
        "in": "header",
        "required": False,
        "schema": {"type": "string", "pattern": '^("[0-9a-f]{64}"|\\*)$'},
        "description": "The ETag that the file must still have.",
    }
    shape = _loop("loopWriteFile", "Replace an indexed file, and index it.", ok, query=[*_HERE, _PATH, match])
    shape["requestBody"] = {"required": True, "content": {"text/plain": {"schema": _TEXT}}}
    return shape


def _loop(
    name: str,
    summary: str,
    reply: Shape,
    *,
    body: Shape | None = None,
    query: list[Shape] | None = None,
    media: str = "application/json",
) -> Shape:
    shape = _get(name, summary, media, reply)
    shape["tags"] = ["loop"]
    shape["responses"] |= _failures("text/plain", {"500": "The index could not be read or written."})
    if body:
        shape["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    if query:
        shape["parameters"] = query
    return shape


def _get(name: str, summary: str, media: str, reply: Shape) -> Shape:
    return {
        "operationId": name,
        "summary": summary,
        "responses": {
            "200": {"description": summary, "content": {media: {"schema": reply}}},
            **_failures("application/json", {}),
        },
    }


def _failures(media: str, more: Mapping[str, str]) -> Shape:
    schema = _TEXT if media == "text/plain" else {"$ref": _PREFIX.format(name="Error")}
    return {
        status: {"description": meaning, "content": {media: {"schema": schema}}}
        for status, meaning in {**_REFUSALS, **more}.items()
    }
