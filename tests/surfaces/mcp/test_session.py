"""A session over pipes: what it does with nonsense, when its agent leaves, and when daemons come and go."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from tests.surfaces.conftest import Shell, command_line
from tests.surfaces.daemon.conftest import Warm
from tests.surfaces.mcp.conftest import Agents, Web, session_of, stdio
from tests.surfaces.mcp.test_agents import called, many_notes, text_of

from lorelog.surfaces.mcp.protocol import MAX_MESSAGE_BYTES
from lorelog.surfaces.mcp.session import McpMethods

HELLO: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}
READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def call(identity: int | str, method: str = "tools/list") -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": identity, "method": method}


def no_call(op: str, arguments: object, progress: object) -> dict[str, Any]:
    raise AssertionError(op)


def test_nonsense_is_answered() -> None:
    """What is no message is answered as JSON-RPC says, without a call, and does no harm to what follows."""
    nonsense = {
        b"nonsense": -32700,
        b"\xff\xfe": -32700,
        b"[" * 100_000: -32700,
        b"[1, 2]": -32600,
        b"{}": -32600,
        b'{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}': -32600,
        b'{"jsonrpc": "2.0", "id": 1, "method": 5}': -32600,
    }
    with session_of(McpMethods(no_call)) as (agent, lines, _):
        for line, code in nonsense.items():
            os.write(agent, line + b"\n")
            assert json.loads(lines.readline())["error"]["code"] == code
        os.write(agent, json.dumps(call(1, "ping")).encode() + b"\n")
        assert json.loads(lines.readline()) == {"jsonrpc": "2.0", "id": 1, "result": {}}


def test_a_line_beyond_bounds_is_passed_over() -> None:
    """A line of more than 16 MiB is refused, not kept, and the next one is understood."""
    piece = b"x" * 65_536
    with session_of(McpMethods(no_call)) as (agent, lines, _):
        for _ in range(MAX_MESSAGE_BYTES // len(piece) + 1):
            os.write(agent, piece)
        os.write(agent, b"\n" + json.dumps(call(1, "ping")).encode() + b"\n")
        assert "more than" in json.loads(lines.readline())["error"]["message"]
        assert json.loads(lines.readline())["id"] == 1


@pytest.mark.slow
def test_scripts_get_their_answers(project: Path) -> None:
    """Whoever writes requests into the pipe and closes it at once still gets the answers, and nothing but JSON-RPC."""
    lines = "".join(json.dumps(message) + "\n" for message in (HELLO, READY, call(1), call(2, "ping")))
    done = subprocess.run(
        command_line("mcp"), input=lines.encode(), cwd=project, capture_output=True, timeout=300, check=True
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert {answer["id"] for answer in answers} <= {0, 1, 2}
    assert all(answer["jsonrpc"] == "2.0" for answer in answers)


def test_it_leaves_with_its_agent(project: Path) -> None:
    """A process whose agent closes the pipe without a word ends with success and silence."""
    done = subprocess.run(command_line("mcp"), input=b"", cwd=project, capture_output=True, timeout=300, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_project_that_is_not_there_is_told(shell: Shell) -> None:
    """`--project` of a directory that is not there is a mistake for the person who configured it."""
    done = shell("mcp", "--project", "nowhere")
    assert done.status == 1
    assert "nowhere" in done.err


def test_a_daemon_that_is_required_and_cannot_be_had(project: Path) -> None:
    """With `--daemon required` and no daemon to be had, the agent is told why, and nothing is done in its place."""
    blocked = project / "file"
    blocked.write_text("no home")
    asked = {**call(1, "tools/call"), "params": {"name": "memory_call", "arguments": {"op": "stats"}}}
    lines = f"{json.dumps(HELLO)}\n{json.dumps(asked)}\n"
    done = subprocess.run(
        command_line("mcp", "--daemon", "required"),
        input=lines.encode(),
        cwd=project,
        env={**os.environ, "LORELOG_HOME": str(blocked / "home")},
        capture_output=True,
        timeout=300,
        check=False,
    )
    refused = json.loads(done.stdout.splitlines()[-1])
    assert (refused["id"], refused["result"]["isError"], done.returncode) == (1, True, 0)


def test_a_session_loads_little(project: Path) -> None:
    """Ten agents are ten processes: nothing that holds memory or takes time is loaded for one."""
    heavy = ("mcp", "asyncio", "msgspec", "numpy", "pydantic", "lorelog.engine", "lorelog.wiring", "pathlib")
    code = (
        "import sys; from lorelog.surfaces.cli.commands import programs; from lorelog.surfaces.mcp import session;"
        "from lorelog.light import daemon_client;"
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}; {code}"],
        cwd=project,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
def test_a_killed_daemon_is_not_noticed(warm: Warm, project: Path, mode: str) -> None:
    """After kill -9 of the daemon the agent's next call works, in the same session, and finds what was remembered before."""

    async def story(client: Client) -> None:
        await called(client, "add_memory", text="Deploys go out on Tuesdays.")
        for _ in range(3):
            (before,) = warm.pids()
            await anyio.to_thread.run_sync(warm.kill)
            found = await called(client, "search_memory", query="deploys")
            assert "> Deploys go out on Tuesdays." in text_of(found)
            (now,) = warm.pids()
            assert now != before

    Agents(lambda: stdio(project), mode).run(story)


@pytest.mark.slow
def test_what_a_killed_daemon_was_doing_is_done(warm: Warm, project: Path) -> None:
    """A call that the daemon died over, and that may be repeated, is answered all the same, and the session goes on."""
    many_notes(project, 1500)

    async def story(client: Client) -> None:
        async def kill(progress: float, total: float | None, message: str | None) -> None:
            await anyio.to_thread.run_sync(warm.kill)

        done = await client.call_tool("index_memory", {}, progress_callback=kill)
        assert text_of(done).startswith("Indexed ")
        stats = await called(client, "memory_call", op="stats")
        assert stats.structured_content["documents"] == 1500

    Agents(lambda: stdio(project), "legacy").run(story)


@pytest.mark.slow
def test_an_agent_can_be_given_a_tenant(warm: Warm, project: Path) -> None:
    """With `--tenant`, an agent sees and writes that tenant's memories and no others."""

    async def add(client: Client) -> None:
        await called(client, "add_memory", text="Deploys go out on Tuesdays.", to_global=True)

    async def search(client: Client) -> str:
        return text_of(await called(client, "search_memory", query="deploys"))

    Agents(lambda: stdio(project, "--tenant", "other"), "legacy").run(add)
    assert "Tuesdays" not in Agents(lambda: stdio(project), "legacy").run(search)
    assert "Tuesdays" in Agents(lambda: stdio(project, "--tenant", "other"), "legacy").run(search)


@pytest.mark.slow
def test_without_a_daemon_the_work_is_done_here(project: Path) -> None:
    """Where no daemon can live, the process does the work itself and says nothing about it."""

    async def story(client: Client) -> None:
        await called(client, "add_memory", text="Deploys go out on Tuesdays.")
        assert "Tuesdays" in text_of(await called(client, "search_memory", query="deploys"))

    home = Path(os.environ["LORELOG_HOME"])
    home.mkdir()
    (home / "run").write_text("where the socket should be is a file")
    Agents(lambda: stdio(project, LORELOG_DAEMON_WARM="auto"), "legacy").run(story)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
def test_a_restarted_web_server(web: Web, mode: str) -> None:
    """Over HTTP, an agent goes on after a restart of the server, in the same session."""

    async def story(client: Client) -> None:
        await called(client, "add_memory", text="Deploys go out on Tuesdays.")
        await anyio.to_thread.run_sync(web.stop)
        await anyio.to_thread.run_sync(web.start)
        assert "Tuesdays" in text_of(await called(client, "search_memory", query="deploys"))

    Agents(lambda: web.url, mode).run(story)
