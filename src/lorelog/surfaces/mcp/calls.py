"""From a tool's arguments to an operation, and from its answer to words. Knows no SDK: it runs in a worker thread.

Models are generous with types: they send "5" for 5 and an object as the text of its JSON. What was meant is plain in both
cases, so it is taken. A name that is not known is refused, with the nearest one: a misspelt filter that is passed over
would show what should have stayed out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from inspect import cleandoc
from typing import Any

from lorelog.core.errors import LorelogError, UsageError
from lorelog.operations.catalogue import OPERATIONS, find_operation
from lorelog.operations.schema import request_schema
from lorelog.surfaces.mcp import texts
from lorelog.surfaces.mcp.texts import Answer
from lorelog.surfaces.mcp.tools import TOOLS

Schema = dict[str, Any]
Ask = Callable[[str, dict[str, Any]], dict[str, Any]]
"""Carries out an operation."""

_SCHEMAS: dict[str, Schema] = {tool["name"]: tool["inputSchema"] for tool in TOOLS}
_KINDS: dict[str, type] = {"string": str, "integer": int, "boolean": bool, "array": list, "object": dict}

_INSTEAD = {
    "'lorelog ops'": "memory_call with op 'ops'",
    "'lorelog search'": "search_memory",
    "'lorelog expand'": "get_memory",
    "'lorelog index'": "index_memory",
}
"""What an agent has in place of a command."""


def call_tool(name: str, arguments: Mapping[str, Any], ask: Ask) -> Answer:
    """Carry out a tool. What went wrong is an answer too: the model reads it and mends its call."""
    try:
        return _TOOLS[name](read_arguments(name, arguments, _SCHEMAS[name]), ask)
    except LorelogError as error:
        return texts.failure(error.message, _for_agents(error.hint), error.code)


def read_arguments(tool: str, given: Mapping[str, Any], schema: Schema) -> dict[str, Any]:
    """Return the arguments as the schema has them; null is as good as not given. Raise UsageError."""
    properties: Schema = schema["properties"]
    read: dict[str, Any] = {}
    for name, value in given.items():
        if name not in properties:
            near = get_close_matches(str(name), properties, n=1)
            known = f"did you mean {near[0]!r}?" if near else f"it takes {', '.join(properties)}"
            raise UsageError(f"{tool} has no argument {str(name)[:100]!r}", hint=known)
        if value is not None:
            read[name] = _read_value(f"{tool}: {name}", value, properties[name])
    for name in schema.get("required", ()):
        if name not in read or (isinstance(read[name], str) and not read[name].strip()):
            raise UsageError(f"{name} is required")
    return read


def _read_value(name: str, value: Any, schema: Schema) -> Any:
    kind = schema["type"]
    if isinstance(value, str) and kind != "string":
        value = _meant(value)
    if isinstance(value, float) and kind == "integer" and value.is_integer():
        value = int(value)
    if kind == "array" and isinstance(value, str):
        value = [value]
    if not isinstance(value, _KINDS[kind]) or (kind == "integer" and isinstance(value, bool)):
        raise UsageError(f"{name} must be of type {kind}, not {json.dumps(value)[:100]}")
    if isinstance(value, dict) and "properties" in schema:
        return read_arguments(name, value, schema)
    return value


def _meant(text: str) -> Any:
    """Return what a text is the JSON of, or the text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _for_agents(hint: str) -> str:
    """Return a hint in words that an agent can follow: it may have no shell of ours."""
    name = hint.removeprefix("lorelog ops ")
    if name != hint:
        return f'memory_call with op \'help\' and arguments {{"op": "{name}"}} shows what it takes'
    for command, tool in _INSTEAD.items():
        hint = hint.replace(command, tool)
    return hint


def _search(given: dict[str, Any], ask: Ask) -> Answer:
    arguments = {"query": given["query"], **given.get("filters", {})}
    if given.get("top_k", 0) > 0:
        arguments["k"] = given["top_k"]
    if given.get("token_budget", 0) > 0:
        arguments["token_budget"] = given["token_budget"]
    return texts.search_answer(ask("memory.search", arguments))


def _get(given: dict[str, Any], ask: Ask) -> Answer:
    return texts.expand_answer(ask("memory.expand", given))


def _transcript(given: dict[str, Any], ask: Ask) -> Answer:
    place = given.pop("id")
    return texts.transcript_answer(ask("memory.transcript", {"place": place, **given}))


def _add(given: dict[str, Any], ask: Ask) -> Answer:
    return texts.add_answer(ask("memory.add", {**given, "origin": "agent"}))


def _index(given: dict[str, Any], ask: Ask) -> Answer:
    return texts.index_answer(ask("memory.index", given))


def _call(given: dict[str, Any], ask: Ask) -> Answer:
    name, arguments = given["op"].strip(), given.get("arguments", {})
    if name == "ops":
        return _plain({"ops": {one: summary_of(one) for one in OPERATIONS}})
    if name == "help":
        operation = find_operation(str(arguments.get("op", "")))
        return _plain({"op": operation.name, "does": cleandoc(operation.text), "arguments": request_schema(operation)})
    operation = find_operation(name)
    if "mcp" in operation.absent:
        raise UsageError(f"{operation.name} cannot be asked for here: {operation.absent['mcp']}")
    return _plain({"notice": texts.PLAIN_NOTICE, **ask(operation.name, _by_agent(operation.name, arguments))})


def _by_agent(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return arguments in which new memories are the agent's own, as with add_memory, unless it says otherwise."""
    if name in {"memory.add", "memory.supersede"}:
        return {"origin": "agent", **arguments}
    memories = arguments.get("memories")
    if name != "memory.add_batch" or not isinstance(memories, list):
        return arguments
    return {**arguments, "memories": [{"origin": "agent", **one} if isinstance(one, dict) else one for one in memories]}


def summary_of(name: str) -> str:
    """Return one line about an operation, with the reason where it cannot be asked for here."""
    operation = OPERATIONS[name]
    reason = operation.absent.get("mcp")
    return f"{operation.summary} Not here: {reason}." if reason else operation.summary


def _plain(shape: dict[str, Any]) -> Answer:
    return Answer(json.dumps(shape, ensure_ascii=False), shape)


_TOOLS: dict[str, Callable[[dict[str, Any], Ask], Answer]] = {
    "search_memory": _search,
    "get_memory": _get,
    "get_transcript": _transcript,
    "add_memory": _add,
    "index_memory": _index,
    "memory_call": _call,
}
