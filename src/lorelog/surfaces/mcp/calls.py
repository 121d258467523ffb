"""Tool calls: read a tool's arguments, call the operation, render its reply. Independent of the SDK; runs in a thread.

Models are loose with types: they send "5" for 5, and an object as JSON text. Both are unambiguous and accepted. Unknown
names are an error with the nearest name: ignoring a misspelt filter would show hits that it should have excluded.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from inspect import cleandoc
from typing import Any

from lorelog.core.errors import LorelogError, UsageError, nearest_name
from lorelog.operations.catalogue import all_operations, find_operation, request_schema
from lorelog.operations.dispatch import BoundCall
from lorelog.surfaces.mcp import render
from lorelog.surfaces.mcp.render import ToolResult
from lorelog.surfaces.mcp.tools import TOOLS

JsonSchema = dict[str, Any]

_SCHEMAS: dict[str, JsonSchema] = {tool["name"]: tool["inputSchema"] for tool in TOOLS}
_JSON_TYPES: dict[str, type] = {"string": str, "integer": int, "boolean": bool, "array": list, "object": dict}

_TOOL_FOR_COMMAND = {
    "'lorelog ops'": "memory_call with op 'ops'",
    "'lorelog search'": "search_memory",
    "'lorelog show'": "get_memory",
    "'lorelog index'": "index_memory",
}
"""The tool that replaces a command in hints for agents."""


def call_tool(name: str, arguments: Mapping[str, Any], call: BoundCall) -> ToolResult:
    """Call a tool. An error is a result too: the model reads it and corrects its call."""
    try:
        return _TOOL_HANDLERS[name](read_arguments(name, arguments, _SCHEMAS[name]), call)
    except LorelogError as error:
        return render.render_error(error.message, _hint_for_agents(error.hint), error.code)


def read_arguments(tool: str, arguments: Mapping[str, Any], schema: JsonSchema) -> dict[str, Any]:
    """Return arguments of the schema's types; null counts as not given. Raise UsageError for invalid ones."""
    properties: JsonSchema = schema["properties"]
    values: dict[str, Any] = {}
    for name, value in arguments.items():
        if name not in properties:
            near = nearest_name(str(name), properties)
            hint = f"did you mean {near!r}?" if near else f"it has {', '.join(properties)}"
            raise UsageError(f"{tool} has no argument {str(name)[:100]!r}", hint=hint)
        if value is not None:
            values[name] = _read_value(f"{tool}: {name}", value, properties[name])
    for name in schema.get("required", ()):
        if name not in values or (isinstance(values[name], str) and not values[name].strip()):
            raise UsageError(f"{name} is required")
    return values


def _read_value(name: str, value: Any, schema: JsonSchema) -> Any:
    kind = schema["type"]
    if isinstance(value, str) and kind != "string":
        value = _parse_json_text(value)
    if isinstance(value, float) and kind == "integer" and value.is_integer():
        value = int(value)
    if kind == "array" and isinstance(value, str):
        value = [value]
    if not isinstance(value, _JSON_TYPES[kind]) or (kind == "integer" and isinstance(value, bool)):
        raise UsageError(f"{name} must be of type {kind}, not {json.dumps(value)[:100]}")
    if isinstance(value, dict) and "properties" in schema:
        return read_arguments(name, value, schema)
    return value


def _parse_json_text(text: str) -> Any:
    """Return the value of JSON text, or the text itself if it is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _hint_for_agents(hint: str) -> str:
    """Return a hint that names tools instead of commands: an agent may have no shell."""
    name = hint.removeprefix("lorelog ops ")
    if name != hint:
        return f'memory_call with op \'help\' and arguments {{"op": "{name}"}} shows its arguments'
    for command, tool in _TOOL_FOR_COMMAND.items():
        hint = hint.replace(command, tool)
    return hint


def _call_search(arguments: dict[str, Any], call: BoundCall) -> ToolResult:
    request = {"query": arguments["query"], **arguments.get("filters", {})}
    if arguments.get("top_k", 0) > 0:
        request["k"] = arguments["top_k"]
    if arguments.get("token_budget", 0) > 0:
        request["token_budget"] = arguments["token_budget"]
    return render.render_search(call("memory.search", {**request, "one_per_memory": True}))


def _call_get(arguments: dict[str, Any], call: BoundCall) -> ToolResult:
    return render.render_section(call("memory.expand", arguments))


def _call_transcript(arguments: dict[str, Any], call: BoundCall) -> ToolResult:
    place = arguments.pop("id")
    return render.render_transcript(call("memory.transcript", {"place": place, **arguments}))


def _call_add(arguments: dict[str, Any], call: BoundCall) -> ToolResult:
    return render.render_add(call("memory.add", {**arguments, "origin": "agent"}))


def _call_index(arguments: dict[str, Any], call: BoundCall) -> ToolResult:
    return render.render_index(call("memory.index", arguments))


def _call_operation(arguments: dict[str, Any], call: BoundCall) -> ToolResult:
    name, request = arguments["op"].strip(), arguments.get("arguments", {})
    if name == "ops":
        return _json_result({"ops": {name: operation_summary(name) for name in all_operations()}})
    if name == "help":
        operation = find_operation(str(request.get("op", "")))
        return _json_result(
            {"op": operation.name, "does": cleandoc(operation.description), "arguments": request_schema(operation)}
        )
    operation = find_operation(name)
    if "mcp" in operation.absent:
        raise UsageError(f"{operation.name} is not available over MCP: {operation.absent['mcp']}")
    return _json_result({"notice": render.PLAIN_NOTICE, **call(operation.name, request)})


def operation_summary(name: str) -> str:
    """Return the summary of an operation, with the reason if it is not available over MCP."""
    operation = all_operations()[name]
    reason = operation.absent.get("mcp")
    return f"{operation.summary} Not over MCP: {reason}." if reason else operation.summary


def _json_result(reply: dict[str, Any]) -> ToolResult:
    return ToolResult(json.dumps(reply, ensure_ascii=False), reply)


_TOOL_HANDLERS: dict[str, Callable[[dict[str, Any], BoundCall], ToolResult]] = {
    "search_memory": _call_search,
    "get_memory": _call_get,
    "get_transcript": _call_transcript,
    "add_memory": _call_add,
    "index_memory": _call_index,
    "memory_call": _call_operation,
}
