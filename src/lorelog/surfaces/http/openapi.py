"""The OpenAPI document: operations are described from their types, Loop's endpoints by hand.

Each operation has its own path instead of one path with a parameter, because requests and replies differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lorelog.core import VERSION
from lorelog.operations.catalogue import all_operations, operation_schemas
from lorelog.operations.operation import Json, Operation

_COMPONENT_REF = "#/components/schemas/{name}"
_TEXT: Json = {"type": "string"}
_PROGRESS = "Server-sent events: `progress` (stage, done, total), then `result` or `error`. Request them with `Accept`."
_REFUSALS = {
    "400": "The request is malformed.",
    "401": "The bearer token is missing or wrong.",
    "403": "Origin or host not allowed, or the operation is not available over HTTP.",
    "408": "The body arrived too slowly.",
    "413": "The body is too large.",
    "415": "The body is not application/json.",
    "default": "Any other error.",
}


def _object(**properties: Json) -> Json:
    """Return the schema of an object with these properties, all of them required."""
    return {"type": "object", "required": list(properties), "properties": properties}


def _list(items: Json) -> Json:
    return {"type": "array", "items": items}


_ERROR = _object(error=_object(code=_TEXT, message=_TEXT, hint=_TEXT))
_FILES = _object(files=_list(_object(file_path=_TEXT, dir_path=_TEXT)))
_CHUNK_INDEX: Json = {"type": "integer", "description": "Index of its first line, from 0."}
_RESULT = _object(file_path=_TEXT, score={"type": "number"}, chunk_index=_CHUNK_INDEX)
_RESULT["properties"]["content"] = _TEXT
_RESULTS = _object(results=_list(_RESULT))
_LOOP_BODY: Json = {
    "dir_path": {
        "type": ["string", "null"],
        "pattern": "^/[^\\u0000]*$",
        "description": "Absolute path of a directory of the project. Required.",
    },
    "channel_id": {"type": ["string", "null"], "description": "A channel of Loop; used if dir_path is missing."},
}
_LOOP_QUERY = [
    {
        "name": name,
        "in": "query",
        "required": False,
        "schema": {**field, "type": "string"},
        "description": field["description"],
    }
    for name, field in _LOOP_BODY.items()
]
_PATH_PARAMETER = {
    "name": "path",
    "in": "query",
    "required": True,
    "schema": {"type": "string", "pattern": r"^/.+\.([mM][dD]|[mM][aA][rR][kK][dD][oO][wW][nN])$"},
    "description": "Absolute path of an indexed Markdown file.",
}


def describe_api(*, secured: bool) -> Json:
    """Return the document; `secured` if a token is required."""
    components: Json = {"Error": _ERROR}
    paths: dict[str, Json] = {**_own_paths(), **_loop_paths()}
    for operation in all_operations().values():
        if "http" not in operation.absent:
            paths[f"/api/call/{operation.name}"] = {"post": _describe_call(operation, components)}
    document: Json = {
        "openapi": "3.1.0",
        "info": {
            "title": "lorelog",
            "version": VERSION,
            "description": "Memory for coding agents. Operations are under /api/call, Loop's endpoints under /api/memory.",
        },
        "paths": paths,
        "components": {"schemas": components},
    }
    if secured:
        document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"token": []}]
        paths["/health"]["get"]["security"] = []
    return document


def list_addresses() -> dict[str, str]:
    """Return the summary of each address, by method and path."""
    paths = {**_own_paths(), **_loop_paths()}
    addresses = {
        f"{method.upper()} {path}": str(each[method]["summary"]) for path, each in paths.items() for method in each
    }
    more = {
        "POST /api/call/{op}": "Call an operation; the body is its arguments, a JSON object.",
        "/mcp": "MCP over streamable HTTP.",
    }
    return addresses | more


def _describe_call(operation: Operation[Any, Any], components: Json) -> Json:
    request, reply, definitions = operation_schemas(operation, _COMPONENT_REF)
    name = operation.request.__name__
    definitions[name] = _nullable_properties(definitions[name])
    components |= definitions
    return {
        "operationId": operation.name,
        "summary": operation.summary,
        "description": operation.description,
        "tags": [operation.name.partition(".")[0]],
        "requestBody": {"required": False, "content": {"application/json": {"schema": request}}},
        "responses": {
            "200": {
                "description": "The reply.",
                "content": {
                    "application/json": {"schema": reply},
                    "text/event-stream": {"schema": {"type": "string", "description": _PROGRESS}},
                },
            },
            **_failures("application/json", {"404": "Not found."}),
        },
    }


def _nullable_properties(schema: Json) -> Json:
    """Return a request's schema in which every optional field also accepts null."""
    properties = dict(schema.get("properties", {}))
    for name, field in properties.items():
        if name not in schema.get("required", ()) and {"type": "null"} not in field.get("anyOf", ()):
            outer = {part: field[part] for part in ("description", "default") if part in field}
            inner = {part: value for part, value in field.items() if part not in outer}
            properties[name] = {"anyOf": [inner, {"type": "null"}], **outer}
    return {**schema, "properties": properties}


def _own_paths() -> dict[str, Json]:
    health = _object(ok={"const": True}, version=_TEXT)
    ops = _object(operations=_list({"type": "object"}))
    addresses = _object(lorelog=_TEXT, addresses={"type": "object", "additionalProperties": _TEXT})
    return {
        "/": {"get": _get("addresses", "Every address of this server.", "application/json", addresses)},
        "/health": {"get": _get("health", "Report that the server runs.", "application/json", health)},
        "/metrics": {"get": _get("metrics", "Counters in Prometheus' format.", "text/plain", _TEXT)},
        "/openapi.json": {"get": _get("openapi", "This document.", "application/json", {"type": "object"})},
        "/api/ops": {"get": _get("ops", "Every operation with its schemas.", "application/json", ops)},
    }


def _loop_paths() -> dict[str, Json]:
    search = _object(query={"type": "string", "minLength": 1})
    search["properties"] |= {"top_k": {"type": ["integer", "null"]}, **_LOOP_BODY}
    directory = {"type": "object", "properties": _LOOP_BODY}
    count = _object(count={"type": "integer", "minimum": 0})
    part = {"name": "q", "in": "query", "required": False, "schema": _TEXT, "description": "Part of a path."}
    return {
        "/api/memory/search": {"post": _loop("loopSearch", "Search memories.", _RESULTS, body=search)},
        "/api/memory/index": {"post": _loop("loopIndex", "Update the index of a project.", count, body=directory)},
        "/api/memory/files": {
            "get": _loop("loopFiles", "List the indexed files that exist.", _FILES, query=_LOOP_QUERY)
        },
        "/api/memory/files/search": {
            "get": _loop(
                "loopFilesSearch", "List indexed files with `q` in their path.", _FILES, query=[*_LOOP_QUERY, part]
            )
        },
        "/api/memory/file": {"get": _read_file(), "put": _write_file()},
    }


def _read_file() -> Json:
    endpoint = _loop(
        "loopFile", "Read an indexed file.", _TEXT, query=[*_LOOP_QUERY, _PATH_PARAMETER], media="text/plain"
    )
    endpoint["responses"]["200"]["headers"] = {"ETag": {"schema": _TEXT, "description": "Entity tag of the content."}}
    return endpoint


def _write_file() -> Json:
    ok = _object(ok={"const": True}, indexed={"type": "boolean"})
    ok["properties"]["note"] = _TEXT
    match = {
        "name": "If-Match",
        "in": "header",
        "required": False,
        "schema": {"type": "string", "pattern": '^("[0-9a-f]{64}"|\\*)$'},
        "description": "The ETag that the file must still have.",
    }
    endpoint = _loop(
        "loopWriteFile", "Replace an indexed file, and index it.", ok, query=[*_LOOP_QUERY, _PATH_PARAMETER, match]
    )
    endpoint["requestBody"] = {"required": True, "content": {"text/plain": {"schema": _TEXT}}}
    return endpoint


def _loop(
    name: str,
    summary: str,
    reply: Json,
    *,
    body: Json | None = None,
    query: list[Json] | None = None,
    media: str = "application/json",
) -> Json:
    endpoint = _get(name, summary, media, reply)
    endpoint["tags"] = ["loop"]
    endpoint["responses"] |= _failures("text/plain", {"500": "The index could not be read or written."})
    if body:
        endpoint["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    if query:
        endpoint["parameters"] = query
    return endpoint


def _get(name: str, summary: str, media: str, reply: Json) -> Json:
    return {
        "operationId": name,
        "summary": summary,
        "responses": {
            "200": {"description": summary, "content": {media: {"schema": reply}}},
            **_failures("application/json", {}),
        },
    }


def _failures(media: str, more: Mapping[str, str]) -> Json:
    schema = _TEXT if media == "text/plain" else {"$ref": _COMPONENT_REF.format(name="Error")}
    return {
        status: {"description": meaning, "content": {media: {"schema": schema}}}
        for status, meaning in {**_REFUSALS, **more}.items()
    }
