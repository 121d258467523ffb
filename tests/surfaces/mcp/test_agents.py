"""What an agent gets, over pipes and over HTTP, whichever generation of the protocol it speaks."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, TextContent, TextResourceContents
from tests.surfaces.conftest import write
from tests.surfaces.mcp.conftest import Agents

from lorelog.surfaces.mcp.tools import TOOL_NAMES


def text_of(result: CallToolResult) -> str:
    (part,) = result.content
    assert isinstance(part, TextContent)
    return part.text


async def called(client: Client, name: str, **arguments: Any) -> CallToolResult:
    """Call a tool that should do what it is asked for."""
    result = await client.call_tool(name, arguments)
    assert not result.is_error, text_of(result)
    return result


async def refused(client: Client, name: str, **arguments: Any) -> str:
    """Call a tool that should say why not."""
    result = await client.call_tool(name, arguments)
    assert result.is_error, text_of(result)
    assert "Traceback" not in text_of(result)
    return text_of(result)


@pytest.mark.slow
def test_every_tool_does_its_work(agents: Agents, remembering: Path) -> None:
    """Index, search, read on, read the conversation, remember, and reach another operation: all six tools."""

    async def story(client: Client) -> None:
        listed = await client.list_tools()
        assert tuple(tool.name for tool in listed.tools) == TOOL_NAMES
        assert text_of(await called(client, "index_memory")).startswith("Indexed 2 chunks.")
        found = await called(client, "search_memory", query="which cache for prices", top_k=1)
        (place, identity) = re.findall(r"(\S+) id (\w+) \(~", text_of(found))[0]
        assert place == ".lorelog/memory/2026-03-05.md:3"
        assert found.structured_content is None
        whole = await called(client, "get_memory", id=identity)
        assert "> Chose Redis for the price cache" in text_of(whole)
        assert f"get_transcript id {identity}" in text_of(whole)
        talk = await called(client, "get_transcript", id=identity, context=0)
        assert f"**User:**\n> {TURN}\n" in text_of(talk)
        added = await called(client, "add_memory", text="Deploys go out on Tuesdays.", type="fact", tags=["deploy"])
        assert "Remembered in" in text_of(added)
        again = await called(client, "search_memory", query="deploys", filters={"types": ["fact"], "tags": ["deploy"]})
        assert re.findall(r" id (\w+) \(~", text_of(again)) == [added.structured_content["id"]]
        stats = await called(client, "memory_call", op="stats")
        assert stats.structured_content["documents"] == 2

    agents.run(story)


TURN = "Which cache do we take?"


@pytest.mark.slow
def test_mistakes_are_explained(some_agents: Agents) -> None:
    """Wrong arguments, unknown ids and refused operations are results that say what to do, never a traceback."""

    async def story(client: Client) -> None:
        assert await refused(client, "search_memory", query=" ") == "query is required"
        assert "did you mean 'query'?" in await refused(client, "search_memory", qury="x")
        assert "did you mean 'since'?" in await refused(client, "search_memory", query="x", filters={"sinc": "7d"})
        assert "is not a day" in await refused(client, "search_memory", query="x", filters={"since": "someday"})
        assert "top_k must be of type integer" in await refused(client, "search_memory", query="x", top_k="many")
        assert "search again" in await refused(client, "get_memory", id="nosuchid")
        assert "text is required" in await refused(client, "add_memory")
        assert "maintains the index" in await refused(client, "memory_call", op="reset")
        assert "did you mean memory.stats" in await refused(client, "memory_call", op="stat")
        assert "op 'help'" in await refused(client, "memory_call", op="list", arguments={"limt": 1})

    some_agents.run(story)


@pytest.mark.slow
def test_help_is_at_hand(some_agents: Agents) -> None:
    """`memory_call` lists the operations and shows what one takes."""

    async def story(client: Client) -> None:
        ops = (await called(client, "memory_call", op="ops")).structured_content["ops"]
        assert "Not over MCP:" in ops["memory.reset"]
        told = (await called(client, "memory_call", op="help", arguments={"op": "list"})).structured_content
        assert told["op"] == "memory.list"
        assert "documents" in told["arguments"]["properties"]

    some_agents.run(story)


@pytest.mark.slow
def test_journals_are_resources(some_agents: Agents, remembering: Path) -> None:
    """Journals are listed newest first and read in full; what is no journal is not found; deleted entries stay out."""

    async def story(client: Client) -> None:
        added = await called(client, "add_memory", text="Deploys go out on Tuesdays.")
        await called(client, "index_memory")
        listed = [str(resource.uri) for resource in (await client.list_resources()).resources]
        assert listed == [f"lorelog://journal/{date.today()}", "lorelog://journal/2026-03-05"]
        templates = (await client.list_resource_templates()).resource_templates
        assert [template.uri_template for template in templates] == ["lorelog://journal/{day}"]
        assert "Deploys go out on Tuesdays." in await read(client, listed[0])
        march = await read(client, listed[1])
        assert march.index("Chose Redis") < march.index("Orders stay in Postgres.")
        await called(client, "memory_call", op="delete", arguments={"id": "0199aaaa-0000-7000-8000-000000000002"})
        assert "Postgres" not in await read(client, listed[1])
        for other in ("lorelog://journal/2020-01-01", "lorelog://journal/..%2F..%2Fs1", "file:///etc/passwd"):
            with pytest.raises(MCPError, match="there is no"):
                await client.read_resource(other)
        assert added.structured_content["id"]

    some_agents.run(story)


async def read(client: Client, uri: str) -> str:
    (content,) = (await client.read_resource(uri)).contents
    assert isinstance(content, TextResourceContents)
    return content.text


@pytest.mark.slow
def test_the_prompt_brings_what_was_found(some_agents: Agents, remembering: Path) -> None:
    """The recall prompt holds the topic and the hits; without a topic it is refused."""

    async def story(client: Client) -> None:
        await called(client, "index_memory")
        assert [prompt.name for prompt in (await client.list_prompts()).prompts] == ["recall"]
        (message,) = (await client.get_prompt("recall", {"topic": "price cache"})).messages
        assert isinstance(message.content, TextContent)
        assert "about: price cache" in message.content.text
        assert "> Chose Redis for the price cache" in message.content.text
        with pytest.raises(MCPError, match="topic is required"):
            await client.get_prompt("recall", {"topic": " "})
        with pytest.raises(MCPError, match="Unknown prompt"):
            await client.get_prompt("recal", {"topic": "x"})

    some_agents.run(story)


def many_notes(project: Path, count: int) -> None:
    """Write more files than are indexed in a moment, where a bare index finds them."""
    for number in range(count):
        write(project / ".lorelog" / "memory" / f"note-{number}.md", f"# Note {number}\n\nText {number}.\n" * 5)


@pytest.mark.slow
def test_progress_is_told_and_only_grows(agents: Agents, project: Path) -> None:
    """An index run reports to whoever gave a token, and the count never falls, whatever stage it is in."""
    many_notes(project, 50)

    async def story(client: Client) -> list[tuple[float, float | None, str | None]]:
        told = []

        async def hear(progress: float, total: float | None, message: str | None) -> None:
            told.append((progress, total, message))

        await client.call_tool("index_memory", {}, progress_callback=hear)
        return told

    told = agents.run(story)
    assert told
    assert [report[0] for report in told] == sorted({report[0] for report in told})
    assert all(total is None or progress <= total for progress, total, _ in told)


@pytest.mark.slow
def test_a_cancelled_run_stops(agents: Agents, project: Path) -> None:
    """Cancelling an index run stops it; what was done is kept, and the session goes on."""
    many_notes(project, 1500)

    async def story(client: Client) -> None:
        with anyio.CancelScope() as scope:

            async def cancel(progress: float, total: float | None, message: str | None) -> None:
                scope.cancel()

            await client.call_tool("index_memory", {}, progress_callback=cancel)
        assert scope.cancelled_caught
        before = -1
        while (now := await documents(client)) != before:  # a thread stops at its next report
            before = now
            await anyio.sleep(0.5)
        assert now < 1500

    agents.run(story)


async def documents(client: Client) -> int:
    """How many documents the index has."""
    stats = await called(client, "memory_call", op="stats")
    count: int = stats.structured_content["documents"]
    return count
