"""Starting and ending: where it may be served, by the daemon too, what is refused, and how soon it is over."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.surfaces.conftest import Shell, command_line, write
from tests.surfaces.daemon.conftest import Warm, eventually, warm  # noqa: F401  (a fixture)
from tests.surfaces.http.conftest import Client, ServedNotes

from lorelog.core.errors import Cancelled, ConfigError, UsageError
from lorelog.core.options import HttpOptions
from lorelog.core.ports import Progress
from lorelog.surfaces.http.server import SHUTDOWN_S, open_listener, serve_in_thread
from lorelog.surfaces.http.tickets import home_token

HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}
BOTH = "application/json, text/event-stream"


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_other_machines_need_a_token(host: str) -> None:
    """An address that other machines reach is served on with a token only."""
    with pytest.raises(ConfigError, match="no token is set") as refused:
        open_listener(HttpOptions(host=host, port=0))

    assert "http.token" in refused.value.hint
    open_listener(HttpOptions(host=host, port=0, token="t" * 20)).close()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.0.0.2"])
def test_loopback_needs_none(host: str) -> None:
    """Every address of loopback is served on without a token."""
    open_listener(HttpOptions(host=host, port=0)).close()


def test_small_answers_are_sent_at_once() -> None:
    """Connections are made so that asyncio sends without waiting for an acknowledgement: it looks at the protocol."""
    with open_listener(HttpOptions(port=0)) as listener, socket.create_connection(listener.getsockname()):
        accepted, _ = listener.accept()
        with accepted:
            assert (listener.proto, accepted.proto) == (socket.IPPROTO_TCP, socket.IPPROTO_TCP)


def test_a_token_that_no_header_can_carry_is_refused() -> None:
    """Blanks and letters beyond ASCII would lock everybody out."""
    for token in ("two words", "schlüssel", "line\nbreak"):
        with pytest.raises(ConfigError, match="characters") as refused:
            open_listener(HttpOptions(port=0, token=token))
        assert token not in str(refused.value)


def test_a_port_that_is_taken_is_told() -> None:
    """A port in use and a name that is nowhere are told with what to do."""
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(UsageError, match="is not available"):
        open_listener(HttpOptions(port=taken.getsockname()[1]))


def test_stopping_ends_what_is_under_way(world: ServedNotes) -> None:
    """A server that is stopped cancels long operations, answers them, lets half-open connections go, and is gone."""
    begun, ended = threading.Event(), threading.Event()

    def work(op: str, arguments: object, caller: object, progress: Progress | None = None) -> dict[str, Any]:
        assert progress is not None
        try:
            while True:
                progress("words", 1, 2)
                begun.set()
                threading.Event().wait(0.01)
        except Cancelled:
            ended.set()
            raise

    server = serve_in_thread(work, HttpOptions(port=0), world.caller)
    client = Client(server.port)
    answers: list[tuple[int, str]] = []
    asking = threading.Thread(
        target=lambda: answers.append(((reply := client.call("index")).status, reply.json["error"]["code"]))
    )
    with client.raw() as half_open:
        half_open.sendall(b"POST /api/call/add HTTP/1.1\r\nHost: localhost\r\n")
        asking.start()
        assert begun.wait(60)
        server.stop()
        asking.join()

        assert ended.is_set()
        assert answers == [(499, "cancelled")]
        assert half_open.recv(10) == b""
    with pytest.raises(OSError, match="refused"):
        client.raw()


@pytest.mark.slow
def test_a_hung_operation_does_not_keep_the_server(world: ServedNotes) -> None:
    """What neither ends nor listens is left behind: the server is gone all the same."""
    begun, let_go = threading.Event(), threading.Event()

    def hang(*_: object) -> dict[str, Any]:
        begun.set()
        let_go.wait(60)
        return {}

    server = serve_in_thread(hang, HttpOptions(port=0), world.caller)
    client = Client(server.port)
    with client.raw() as connection:
        connection.sendall(
            b"POST /api/call/stats HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
        )
        assert begun.wait(60)
        server.stop()

        assert not server._thread.is_alive()
    let_go.set()
    assert SHUTDOWN_S <= 5


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_serve_tells_its_address_and_ends_on_a_signal(
    project: Path, home: Path, shell: Shell, number: signal.Signals
) -> None:
    """`lorelog serve` prints where it is, answers, and ends well when told to, also in the middle of a request."""
    write(project / "notes" / "a.md", "# A\n\nalpha\n")
    assert shell("index", "notes").status == 0
    process = subprocess.Popen(
        command_line("serve", "--port", 0), cwd=project, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        url = process.stdout.readline().split(" ")[1]
        asked = urllib.request.Request(
            f"{url}/api/memory/files?dir_path={os.path.realpath(project)}",
            headers={"Authorization": f"Bearer {(home / 'run' / 'http.token').read_text('ascii').strip()}"},
        )
        with urllib.request.urlopen(asked) as answer:
            assert b"notes/a.md" in answer.read()
        with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2]))) as half_open:
            half_open.sendall(b"POST /api/call/add HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n")
            process.send_signal(number)
            out, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()

    assert (process.returncode, out) == (0, "")
    assert "run/http.token: Authorization: Bearer TOKEN" in " ".join(err.split())  # wrapped at 80 columns


@pytest.mark.slow
def test_serve_takes_its_settings(project: Path, shell: Shell) -> None:
    """Address, port, token and the size of bodies come from settings too; agents are behind the same guard."""
    environment = {"LORELOG_HTTP_PORT": "0", "LORELOG_HTTP_TOKEN": "env:TOK", "TOK": "t" * 20}
    process = subprocess.Popen(
        command_line("serve"),
        cwd=project,
        env={**os.environ, **environment, "LORELOG_HTTP_MAX_BODY_BYTES": "1000", "LORELOG_HTTP_HOST": "localhost"},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        url = process.stdout.readline().split(" ")[1]
        client = Client(int(url.rpartition(":")[2]), {"Authorization": f"Bearer {'t' * 20}"})
        assert url.startswith("http://localhost:")
        assert Client(client.port).call("stats").status == 401
        assert client.call("stats").status == 200
        assert client.call("add", text="x" * 1000).status == 413
        assert Client(client.port).post("/mcp", HELLO, Accept=BOTH).status == 401
        assert '"serverInfo"' in client.post("/mcp", HELLO, Accept=BOTH).text
    finally:
        process.terminate()
        process.communicate()


@contextmanager
def served(place: Warm, *words: str) -> Iterator[tuple[Client, int]]:
    """Give a client of a `lorelog serve` of its own, and the server's process id."""
    process = subprocess.Popen(
        command_line("serve", "--port", 0, *words), cwd=place.project, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline().split(" ")[1].rpartition(":")[2])
        yield Client(port, {"Authorization": f"Bearer {home_token(place.address.home)}"}), process.pid
    finally:
        process.terminate()
        process.communicate()


@pytest.mark.slow
def test_serve_asks_the_daemon_and_does_without_it(warm: Warm) -> None:  # noqa: F811
    """Requests are answered by the daemon while there is one, and by the server after that; neither may name files."""
    daemon = warm.start()
    secret = write(warm.project / "secret.md", "nobody chose this")
    with served(warm) as (client, own):
        for pid in (daemon, own):
            assert client.call("metrics").json["pid"] == pid
            assert client.call("index", paths=[str(secret)]).code == "usage"
            assert client.call("transcript", place=str(secret)).code == "usage"
            assert client.call("add", text=f"written by {pid}").status == 200
            warm.stop()
        found = client.call("search", query="written").json["hits"]

    assert {hit["content"].rpartition(" ")[2] for hit in found} >= {str(daemon), str(own)}


@pytest.mark.slow
def test_serve_can_be_told_to_need_or_leave_the_daemon(warm: Warm) -> None:  # noqa: F811
    """`--daemon off` never asks it; `--daemon required` starts one and answers with nothing else."""
    with served(warm, "--daemon", "off") as (client, own):
        assert client.call("metrics").json["pid"] == own
    assert warm.pids() == []
    with served(warm, "--daemon", "required") as (client, own):
        assert client.call("metrics").json["pid"] in set(warm.pids()) - {own}
