"""The proxy: what it does when servers come and go, and when an agent talks nonsense."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from queue import Queue
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from tests.surfaces.conftest import Shell, command_line
from tests.surfaces.daemon.conftest import Warm, eventually
from tests.surfaces.mcp.conftest import Agents, Web, stdio
from tests.surfaces.mcp.test_agents import called, many_notes, text_of

from lorelog.core.errors import DaemonError
from lorelog.surfaces.mcp.protocol import MAX_MESSAGE_BYTES
from lorelog.surfaces.mcp.proxy import McpProxy
from lorelog.surfaces.mcp.tools import TOOLS

HELLO: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}
READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def call(identity: int | str, method: str = "tools/list") -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": identity, "method": method}


def reply(message: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": message["id"], "result": {"to": message["method"]}}


class Server:
    """The far end of one of the proxy's connections, played by the test."""

    def __init__(self, stream: socket.socket) -> None:
        self._stream = stream
        self._file = stream.makefile("rb")

    def hear(self) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(self._file.readline())
        return message

    def say(self, message: dict[str, Any]) -> None:
        self._stream.sendall(json.dumps(message).encode() + b"\n")

    def expect_hello(self) -> None:
        """Hear the agent's handshake, and answer it: to the proxy, which has answered it already."""
        hello = self.hear()
        assert hello == {**HELLO, "id": hello["id"]}
        assert hello["id"] != HELLO["id"]
        self.say(reply(hello))

    def die(self, last: bytes = b"") -> None:
        self._stream.sendall(last)
        self._file.close()
        self._stream.shutdown(socket.SHUT_RDWR)
        self._stream.close()


class ProxiedPipes:
    """A proxy between two ends that a test holds: the agent's pipes and the servers it connects to."""

    def __init__(self) -> None:
        to_proxy, self._to_proxy = os.pipe()
        self._from_proxy, from_proxy = os.pipe()
        self._ends = [to_proxy, from_proxy]
        self.connected: Queue[Server] = Queue()
        self.refuses: DaemonError | None = None
        self.opens = threading.Event()
        self.opens.set()
        self._answers = os.fdopen(self._from_proxy, "rb")
        self._proxy = McpProxy(self._connect, to_proxy, from_proxy)
        self._thread = threading.Thread(target=self._proxy.run)
        self._thread.start()

    def _connect(self) -> socket.socket:
        self.opens.wait(60)
        if self.refuses:
            raise self.refuses
        ours, theirs = socket.socketpair()
        self.connected.put(Server(theirs))
        return ours

    def ask(self, *messages: dict[str, Any] | bytes) -> None:
        for message in messages:
            line = message if isinstance(message, bytes) else json.dumps(message).encode()
            os.write(self._to_proxy, line + b"\n")

    def hear(self) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(self._answers.readline())
        return message

    def server(self) -> Server:
        return self.connected.get(timeout=30)

    def greet(self) -> Server:
        """Shake hands, and return the first server."""
        self.ask(HELLO)
        assert self.hear()["result"]["serverInfo"]["name"] == "lorelog"
        server = self.server()
        server.expect_hello()
        self.ask(READY)
        assert server.hear() == READY
        return server

    def expect_answer(self, server: Server, request: dict[str, Any]) -> None:
        """Let a server hear a request and answer it, and hear the answer."""
        assert server.hear() == request
        server.say(reply(request))
        assert self.hear() == reply(request)

    def wait_for_loss(self) -> None:
        """Wait until the proxy has seen its server go."""
        with self._proxy._state:
            assert self._proxy._state.wait_for(lambda: self._proxy._stream is None, 60)

    def leave(self) -> bytes:
        """Close the agent's end, and return what still came."""
        os.close(self._to_proxy)
        self._thread.join(60)
        assert not self._thread.is_alive()
        for end in self._ends:
            os.close(end)
        with self._answers:
            return self._answers.read()


@pytest.fixture
def desk() -> Iterator[ProxiedPipes]:
    """A proxy that says nothing more when its agent leaves."""
    desk = ProxiedPipes()
    yield desk
    assert desk.leave() == b""


def test_hosts_do_not_wait_for_a_server(desk: ProxiedPipes) -> None:
    """The handshake and the list of tools are answered while no server is there; any other request waits for one."""
    desk.opens.clear()
    desk.ask(HELLO, READY, call(1), call(2, "ping"))
    assert desk.hear()["result"]["protocolVersion"] == HELLO["params"]["protocolVersion"]
    assert len(desk.hear()["result"]["tools"]) == len(TOOLS)
    desk.opens.set()
    server = desk.server()
    server.expect_hello()
    assert server.hear() == READY
    desk.expect_answer(server, call(2, "ping"))
    server.die()


def test_other_openings_are_the_servers_business(desk: ProxiedPipes) -> None:
    """A handshake in a version that the proxy does not know, or a malformed one, is passed on as it is."""
    for params in ({"protocolVersion": "2024-11-05"}, {**HELLO["params"], "clientInfo": "me"}, None):
        hello = {**HELLO, "params": params}
        desk.ask(hello)
        server = desk.server()
        assert server.hear() == hello
        server.say(reply(hello))
        assert desk.hear() == reply(hello)
        server.die()
        desk.wait_for_loss()


def test_a_lost_server_is_replaced(desk: ProxiedPipes) -> None:
    """After a server has gone, the next request goes to a new one that was greeted first; the agent hears no second greeting."""
    desk.greet().die()
    desk.ask(call(1, "ping"))
    second = desk.server()
    second.expect_hello()
    assert second.hear() == READY
    desk.expect_answer(second, call(1, "ping"))
    second.die()


def test_what_was_under_way_is_told_and_not_repeated(desk: ProxiedPipes) -> None:
    """Requests that a lost server still had are answered with an error that says to try again; no other server sees them."""
    first = desk.greet()
    desk.ask(call(1, "tools/call"), call("1"))
    assert [first.hear()["id"], first.hear()["id"]] == [1, "1"]
    first.die(b'{"jsonrpc":"2.0","id":1,"resu')
    answers = [desk.hear(), desk.hear()]
    assert {answer["id"] for answer in answers} == {1, "1"}
    assert all("try again" in answer["error"]["message"] for answer in answers)
    assert desk.connected.empty()
    desk.ask(call(2, "ping"))
    second = desk.server()
    assert [second.hear()["method"] for _ in range(3)] == ["initialize", "notifications/initialized", "ping"]
    second.say(reply(call(2, "ping")))
    assert desk.hear() == reply(call(2, "ping"))
    second.die()


def test_no_server_is_called_for_without_a_request(desk: ProxiedPipes) -> None:
    """A server that left is not replaced for a notification: one that was let go for being idle stays gone."""
    desk.greet().die()
    desk.wait_for_loss()
    desk.ask({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}, b"nonsense")
    assert desk.hear()["error"]["code"] == -32700
    assert desk.connected.empty()


def test_a_server_that_cannot_be_had_is_an_answer(desk: ProxiedPipes) -> None:
    """Where no server can be had, the request is answered with the reason, and the next one is tried anew."""
    desk.refuses = DaemonError("no daemon can be started", hint="lorelog doctor --daemon-only")
    desk.ask(HELLO, call(1, "ping"))
    assert desk.hear()["id"] == 0
    assert desk.hear()["error"]["message"] == "no daemon can be started (lorelog doctor --daemon-only)"
    desk.refuses = None
    desk.ask(call(2, "ping"))
    server = desk.server()
    server.expect_hello()
    desk.expect_answer(server, call(2, "ping"))
    server.die()


def test_nonsense_is_answered(desk: ProxiedPipes) -> None:
    """What is no message is answered as JSON-RPC says, without a server, and does no harm to what follows."""
    nonsense = {
        b"nonsense": -32700,
        b"\xff\xfe": -32700,
        b"[" * 100_000: -32700,
        b"[1, 2]": -32600,
        b"{}": -32600,
        b'{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}': -32600,
        b'{"jsonrpc": "2.0", "id": 1, "method": 5}': -32600,
    }
    for line, code in nonsense.items():
        desk.ask(line)
        assert desk.hear()["error"]["code"] == code
    assert desk.connected.empty()
    desk.greet().die()


def test_a_line_beyond_bounds_is_passed_over(desk: ProxiedPipes) -> None:
    """A line of more than 16 MiB is refused, not kept, and the next one is understood."""
    heard: list[dict[str, Any]] = []
    listener = threading.Thread(target=lambda: heard.append(desk.hear()))
    listener.start()
    piece = b"x" * 65_536
    for _ in range(MAX_MESSAGE_BYTES // len(piece) + 1):
        os.write(desk._to_proxy, piece)
    desk.ask(b"")
    listener.join()
    assert "more than" in heard[0]["error"]["message"]
    desk.greet().die()


def test_a_cancelled_request_is_not_waited_for(desk: ProxiedPipes) -> None:
    """No answer comes to a cancelled request, so its loss is not told when the server goes."""
    first = desk.greet()
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    desk.ask(call(1), cancel)
    assert first.hear() == call(1)
    assert first.hear() == cancel
    first.die()


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
    lines = json.dumps(HELLO) + "\n"
    done = subprocess.run(
        command_line("mcp", "--daemon", "required"),
        input=lines.encode(),
        cwd=project,
        env={**os.environ, "LORELOG_HOME": str(blocked / "home")},
        capture_output=True,
        timeout=300,
        check=False,
    )
    assert json.loads(done.stdout)["error"]["message"]
    assert done.returncode == 0


def test_the_proxy_loads_little(project: Path) -> None:
    """Ten agents are ten proxies: nothing that holds memory or takes time is loaded for one."""
    heavy = ("mcp", "asyncio", "msgspec", "numpy", "pydantic", "lorelog.engine", "lorelog.wiring", "pathlib")
    code = (
        "import sys; from lorelog.surfaces.cli.commands import programs; from lorelog.surfaces.mcp import proxy;"
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
