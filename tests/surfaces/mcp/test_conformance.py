"""The session over pipes says what the official SDK's server says."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types import (
    CallToolResult,
    GetPromptResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    ReadResourceResult,
    jsonrpc_message_adapter,
)
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS
from tests.surfaces.mcp.conftest import methods_for, session_of

from lorelog.core import VERSION
from lorelog.operations.dispatch import ClientIdentity, Dispatcher
from lorelog.surfaces.mcp.protocol import HANDSHAKE_VERSIONS, MODERN_VERSIONS, ProtocolError, initialize_result
from lorelog.surfaces.mcp.session import McpMethods, ProgressTracker
from lorelog.surfaces.mcp.tools import INSTRUCTIONS, TITLE

Message = dict[str, Any]
Exchange = Callable[[list[Message]], list[Message]]

HELLO: Message = {"capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN_VERSIONS[0],
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
REQUESTS: list[tuple[str, Message]] = [
    ("tools/list", {}),
    ("tools/call", {"name": "search_memory", "arguments": {"query": "anything"}}),
    ("tools/call", {"name": "search_memory", "arguments": {"qury": "anything"}}),
    ("tools/call", {"name": "memory_call", "arguments": {"op": "help", "arguments": {"op": "list"}}}),
    ("tools/call", {"name": "serch_memory", "arguments": {}}),
    ("resources/list", {}),
    ("resources/templates/list", {}),
    ("resources/read", {"uri": "lorelog://journal/2020-01-01"}),
    ("resources/read", {"uri": "file:///etc/passwd"}),
    ("prompts/list", {}),
    ("prompts/get", {"name": "recall", "arguments": {"topic": "price cache"}}),
    ("prompts/get", {"name": "recal", "arguments": {"topic": "x"}}),
    ("prompts/get", {"name": "recall", "arguments": {}}),
    ("completion/complete", {"ref": {"type": "ref/prompt", "name": "x"}, "argument": {"name": "a", "value": "b"}}),
]


@pytest.fixture
def caller(remembering: Path) -> ClientIdentity:
    return ClientIdentity(os.path.realpath(remembering), dict(os.environ))


@pytest.fixture
def ours(caller: ClientIdentity) -> Iterator[Exchange]:
    """Send messages to our session and return as many replies as there are requests."""
    with session_of(methods_for(caller, Dispatcher().call)) as (agent, lines, _):

        def exchange(messages: list[Message]) -> list[Message]:
            replies = []
            for message in messages:
                os.write(agent, json.dumps(message).encode() + b"\n")
                if "id" in message:
                    replies.append(json.loads(lines.readline()))
            return replies

        yield exchange


def sdk_server(methods: McpMethods) -> Server[Any]:
    """The SDK's own server over our methods, without what they do themselves for the protocol."""

    def handler(method: str, kind: Any) -> Any:
        async def respond(_: Any, params: Any) -> Any:
            values = {} if params is None else params.model_dump(mode="json", by_alias=True, exclude_none=True)
            values.pop("_meta", None)
            try:
                result = await to_thread.run_sync(methods.respond, method, values, ProgressTracker())
            except ProtocolError as error:
                raise MCPError(error.code, error.message) from error
            return kind.model_validate(result)

        return respond

    return Server(
        "lorelog",
        version=VERSION,
        title=TITLE,
        instructions=INSTRUCTIONS,
        on_list_tools=handler("tools/list", ListToolsResult),
        on_call_tool=handler("tools/call", CallToolResult),
        on_list_resources=handler("resources/list", ListResourcesResult),
        on_list_resource_templates=handler("resources/templates/list", ListResourceTemplatesResult),
        on_read_resource=handler("resources/read", ReadResourceResult),
        on_list_prompts=handler("prompts/list", ListPromptsResult),
        on_get_prompt=handler("prompts/get", GetPromptResult),
    )


@pytest.fixture
def theirs(caller: ClientIdentity) -> Exchange:
    """Send messages to the SDK's server and return as many replies as there are requests."""

    async def talk(messages: list[Message]) -> list[Message]:
        server = sdk_server(methods_for(caller, Dispatcher().call))
        incoming, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        outgoing, sent = anyio.create_memory_object_stream[SessionMessage](0)
        replies = []
        async with anyio.create_task_group() as group, sent:
            group.start_soon(server.run, received, outgoing, server.create_initialization_options())
            for message in messages:
                await incoming.send(SessionMessage(jsonrpc_message_adapter.validate_python(message)))
                if "id" in message:
                    reply = await sent.receive()
                    replies.append(json.loads(reply.message.model_dump_json(by_alias=True, exclude_unset=True)))
            await incoming.aclose()
            group.cancel_scope.cancel()
        return replies

    return lambda messages: anyio.run(talk, messages)


def numbered(requests: list[tuple[str, Message]], **extra: Any) -> list[Message]:
    return [
        {"jsonrpc": "2.0", "id": number, "method": method, "params": {**params, **extra}}
        for number, (method, params) in enumerate(requests)
    ]


def test_a_session_with_a_handshake(ours: Exchange, theirs: Exchange) -> None:
    """After `initialize`, every reply and every error is the one of the SDK's server."""
    hello = {"jsonrpc": "2.0", "id": "h", "method": "initialize"}
    messages: list[Message] = [
        {**hello, "params": {"protocolVersion": HANDSHAKE_VERSIONS[-1], **HELLO}},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": "p", "method": "ping"},
        *numbered(REQUESTS),
    ]
    assert ours(messages) == theirs(messages)


def test_a_session_without_a_handshake(ours: Exchange, theirs: Exchange) -> None:
    """Requests that carry the version get the replies of the SDK's server, with the fields of that version."""
    messages = numbered([("server/discover", {}), *REQUESTS], _meta=META)
    assert ours(messages) == theirs(messages)


@pytest.mark.parametrize("version", [*HANDSHAKE_PROTOCOL_VERSIONS, "2099-01-01"])
def test_versions_are_negotiated(theirs: Exchange, version: str) -> None:
    """The version of a handshake is negotiated as the SDK does; all of its versions are known."""
    params = {"protocolVersion": version, **HELLO}
    (reply,) = theirs([{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}])
    said = initialize_result(params)
    assert said is not None
    assert reply["result"]["protocolVersion"] == said["protocolVersion"]
    assert HANDSHAKE_VERSIONS == HANDSHAKE_PROTOCOL_VERSIONS
    assert MODERN_VERSIONS == MODERN_PROTOCOL_VERSIONS


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        ({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}}, -32602),
        ({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": 3}}, -32602),
        (
            {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "search_memory", "arguments": []}},
            -32602,
        ),
        ({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": []}, -32600),
        ({"jsonrpc": "1.0", "id": 1, "method": "tools/list"}, -32600),
        ({"id": 1, "method": 5}, -32600),
        (
            {
                "jsonrpc": "2.0",
                "id": 1,
                "method": "tools/list",
                "params": {"_meta": {**META, **dict.fromkeys(list(META)[:1], "1999")}},
            },
            -32022,
        ),
    ],
)
def test_what_is_wrong_is_refused(ours: Exchange, sent: Message, code: int) -> None:
    """A wrong message gets the error that the protocol has for it, and the session goes on."""
    refused, well = ours([sent, {"jsonrpc": "2.0", "id": 2, "method": "ping"}])
    assert (refused["id"], refused["error"]["code"]) == (1, code)
    assert well == {"jsonrpc": "2.0", "id": 2, "result": {}}


def test_an_agent_that_does_not_read_blocks_no_call(caller: ClientIdentity) -> None:
    """Calls of an agent that reads nothing run to their end, and the session ends when it disconnects."""
    ended: list[str] = []

    def call(op: str, arguments: object, client: ClientIdentity, progress: Any = None) -> dict[str, Any]:
        for done in range(20_000):
            progress("reading", done, 20_000)
        ended.append(op)
        return {"note": "x" * 2_000_000}

    with session_of(methods_for(caller, call)) as (agent, _, thread):
        params = {"name": "memory_call", "arguments": {"op": "stats"}, "_meta": {"progressToken": 1}}
        for number in range(5):
            request = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
            os.write(agent, json.dumps(request).encode() + b"\n")
        while len(ended) < 5:
            thread.join(0.01)
            assert thread.is_alive()


def test_text_that_is_not_unicode_ends_no_session(ours: Exchange) -> None:
    """A lone surrogate, which JSON can carry and UTF-8 cannot, gets its reply, and so does the next request."""
    unknown = {"jsonrpc": "2.0", "id": 1, "method": "tools/\ud800"}
    tool = {"name": "memory_call", "arguments": {"op": "\udcff"}}
    call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": tool}
    replies = ours([unknown, call, {"jsonrpc": "2.0", "id": 3, "method": "ping"}])
    assert [reply["id"] for reply in replies] == [1, 2, 3]
    assert replies[0]["error"]["data"] == "tools/?"
    assert replies[1]["result"]["isError"]
