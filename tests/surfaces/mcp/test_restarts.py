"""Servers that go away under an agent, and come back."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from tests.surfaces.daemon.conftest import Warm, eventually
from tests.surfaces.mcp.conftest import Agents, Web, stdio
from tests.surfaces.mcp.test_agents import called, many_notes, text_of


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
def test_what_a_killed_daemon_was_doing_is_told(warm: Warm, project: Path) -> None:
    """A call that the daemon died over ends with an error that says to try again, and trying again works."""
    many_notes(project, 1500)

    async def story(client: Client) -> None:
        async def kill(progress: float, total: float | None, message: str | None) -> None:
            await anyio.to_thread.run_sync(warm.kill)

        with pytest.raises(MCPError, match="try again"):
            await client.call_tool("index_memory", {}, progress_callback=kill)
        assert text_of(await called(client, "index_memory")).startswith("Indexed ")
        stats = await called(client, "memory_call", op="stats")
        assert stats.structured_content["documents"] == 1500

    Agents(lambda: stdio(project), "legacy").run(story)


@pytest.mark.slow
def test_a_session_ends_with_its_agent(warm: Warm, project: Path) -> None:
    """When an agent leaves, the daemon lets its session go, and stays for others."""

    async def story(client: Client) -> int:
        await called(client, "search_memory", query="anything")
        assert warm.status()["streams"] == 1
        return int(warm.status()["pid"])

    pid = Agents(lambda: stdio(project), "legacy").run(story)
    eventually(lambda: warm.status()["streams"] == 0, "no session is left")
    assert warm.status()["pid"] == pid


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
    """Where no daemon can live, the proxy does the work itself and says nothing about it."""

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
    """Over HTTP, an agent of the new protocol goes on after a restart; an older one is told that its session is gone."""

    async def story(client: Client) -> None:
        await called(client, "add_memory", text="Deploys go out on Tuesdays.")
        await anyio.to_thread.run_sync(web.stop)
        await anyio.to_thread.run_sync(web.start)
        if mode == "legacy":
            with pytest.raises(MCPError):
                await client.call_tool("search_memory", {"query": "deploys"})
        else:
            assert "Tuesdays" in text_of(await called(client, "search_memory", query="deploys"))
        async with Client(web.url, mode=mode) as again:
            assert "Tuesdays" in text_of(await called(again, "search_memory", query="deploys"))

    Agents(lambda: web.url, mode).run(story)
