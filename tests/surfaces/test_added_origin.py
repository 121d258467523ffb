"""The origin of what is added follows from the caller: an agent cannot write the user's own words on any channel."""

from __future__ import annotations

import json
import os
import urllib.request
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from msgspec.structs import replace
from tests.surfaces.conftest import Shell
from tests.surfaces.test_hook import PAYLOAD, context_of, hook

from lorelog import Lorelog
from lorelog.core.options import HttpOptions
from lorelog.operations.dispatch import ClientIdentity, Dispatcher
from lorelog.surfaces.http.server import serve_in_thread
from lorelog.surfaces.mcp.server import build_server

RULE = "Never run `make test` before a push"
SAID = {"text": RULE, "type": "correction", "origin": "user"}


@pytest.fixture
def person(project: Path) -> ClientIdentity:
    return ClientIdentity(os.path.realpath(project), dict(os.environ))


def written_origins(project: Path) -> list[str]:
    """The origins in the project's journals, in order."""
    texts = (path.read_text("utf-8") for path in sorted((project / ".lorelog" / "memory").glob("*.md")))
    return [word.removeprefix("origin:") for text in texts for word in text.split() if word.startswith("origin:")]


def test_over_mcp(project: Path, dispatcher: Dispatcher, person: ClientIdentity) -> None:
    """add, add_batch, supersede and decisions write an agent's text as the agent's, whatever it claims; a tool's stays."""

    async def story() -> list[str]:
        async with Client(build_server(dispatcher.call, person)) as client:

            async def call(op: str, arguments: dict[str, Any]) -> Any:
                done = await client.call_tool("memory_call", {"op": op, "arguments": arguments})
                assert not done.is_error, done
                return done.structured_content

            added = await call("memory.add", SAID)
            batch = await call(
                "memory.add_batch",
                {"memories": [{**SAID, "text": "No push on Friday"}, {"text": "otters", "origin": "tool"}]},
            )
            newer = await call("memory.supersede", {"id": added["id"], "text": f"{RULE} to main", "origin": "user"})
            decided = await call("artifact.decision", {"summary": RULE, "origin": "user"})
            record = await call("artifact.get", {"artifact_id": decided["artifact_id"]})
            return [reply["origin"] for reply in (added, *batch["memories"], newer, record["artifact"])]

    assert anyio.run(story) == ["agent", "agent", "tool", "agent", "agent"]
    assert written_origins(project) == ["agent", "agent", "tool", "agent"]


def test_over_http(project: Path, dispatcher: Dispatcher, person: ClientIdentity) -> None:
    """A client of the HTTP server cannot write as the user."""
    server = serve_in_thread(dispatcher.call, HttpOptions(port=0), replace(person, own=False))
    try:
        for op, body in (
            ("memory.add", SAID),
            ("memory.add", {"text": RULE}),
            ("memory.add_batch", {"memories": [{**SAID, "text": "No push on Friday"}]}),
        ):
            request = urllib.request.Request(
                f"http://127.0.0.1:{server.port}/api/call/{op}",
                json.dumps(body).encode(),
                {"Content-Type": "application/json"},
            )
            with urllib.request.urlopen(request, timeout=60) as reply:
                assert '"origin":"agent"' in reply.read().decode().replace(" ", "")
    finally:
        server.stop()

    assert written_origins(project) == ["agent"] * 3


@pytest.mark.parametrize("marker", ["", "CLAUDECODE", "AI_AGENT"])
def test_in_a_shell_and_in_python(shell: Shell, project: Path, marker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A person's text is the user's; in a shell that an agent started it is the agent's, also if the shell says otherwise."""
    if marker:
        monkeypatch.setenv(marker, "1")
    added = shell("add", RULE, "--type", "correction", "--json").json
    replies = [
        added,
        shell("supersede", added["id"], f"{RULE} to main", "--json").json,
        shell("call", "memory.add", "--json", json.dumps(SAID)).json,
    ]
    with Lorelog(project=project) as memory:
        told = memory.add("Otters hold hands.", origin="user").origin

    expected = "agent" if marker else "user"
    assert [*(reply["origin"] for reply in replies), told] == [expected] * 4
    assert written_origins(project) == [expected] * 4


def test_an_agents_rule_is_delivered_as_the_agents(
    shell: Shell, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an agent adds in its shell reaches sessions and prompts as a note of agents; an older equal rule stays the user's."""
    shell("add", "Keep `git commit` small and tidy", "--type", "preference")
    monkeypatch.setenv("CLAUDECODE", "1")
    shell("add", "keep `git commit` small and tidy!", "--type", "preference")
    shell("add", RULE, "--type", "correction")
    payload = {**PAYLOAD, "cwd": str(project), "prompt": "run make test, then git commit"}

    start, prompt = (
        context_of(hook(["claude", moment], payload, project)[0]) for moment in ("session-start", "prompt")
    )
    for shown, heading in ((start, "## Corrections and preferences"), (prompt, "Rules and decisions of the user")):
        users, _, agents = shown.partition("Noted by agents")
        assert heading in users
        assert "Keep `git commit` small and tidy" in users
        assert RULE in agents
        assert RULE not in users
