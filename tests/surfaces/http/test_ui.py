"""`lorelog ui`: the address it tells, which server it uses or starts, and the daemon's own page."""

from __future__ import annotations

import os
import re
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.surfaces.conftest import command_line
from tests.surfaces.daemon.conftest import Warm, eventually, warm  # noqa: F401  (a fixture)
from tests.surfaces.http.conftest import Client, Reply

pytestmark = pytest.mark.slow
HTML = {"Accept": "text/html"}


@contextmanager
def started(project: Path, *words: str, **variables: str) -> Iterator[str]:
    """Run `lorelog ui` with a server of its own, and yield the first line that it prints."""
    process = subprocess.Popen(
        command_line("ui", *words),
        cwd=project,
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.communicate()


def run(project: Path, *words: str, **variables: str) -> tuple[int, str, str]:
    """Run `lorelog ui` to its end; return its status and what it printed."""
    done = subprocess.run(
        command_line("ui", *words),
        cwd=project,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def visit(address: str) -> Reply:
    """Open an address as a browser does."""
    parts = urlsplit(address)
    assert parts.port is not None
    return Client(parts.port).send("GET", f"{parts.path}?{parts.query}", None, HTML)


def session_of(address: str) -> Reply:
    """Log in with an address, and return what the page learns about itself."""
    reply = visit(address)
    assert reply.status == 303
    port = urlsplit(address).port
    assert port is not None
    cookie = {"Cookie": reply.headers["set-cookie"].partition(";")[0]}
    return Client(port).send("GET", "/api/page/session", None, cookie)


def browser_program(folder: Path, script: str) -> str:
    """Write a program that is started as the browser; return the value of BROWSER."""
    program = folder / "browser"
    program.write_text(f"#!/bin/sh\n{script}\n", "utf-8")
    program.chmod(0o755)
    return f"{program} %s"


def test_it_serves_the_page_and_its_address_works_once(warm: Warm) -> None:  # noqa: F811
    """Without a server it starts one and prints an address of this machine; the address logs in once, and shows the project."""
    with started(warm.project, "--no-open", "--port", "0") as address:
        parts = urlsplit(address)
        assert parts.hostname == "127.0.0.1"
        assert re.fullmatch(r"/home\?project=.+", parts.fragment)
        assert session_of(address).json["project"] == os.path.realpath(warm.project)
        again = visit(address)
        assert again.status == 200, "the page's empty frame, which holds no data"
        assert "set-cookie" not in again.headers


def test_it_uses_the_server_that_runs(warm: Warm) -> None:  # noqa: F811
    """A second call ends at once with another ticket for the same server, and shows the memory that was asked for."""
    with started(warm.project, "--no-open", "--port", "0") as address:
        status, out, _ = run(warm.project, "65fcbf6e", "--no-open")
        second = out.strip()
        assert status == 0
        assert urlsplit(second).netloc == urlsplit(address).netloc
        assert urlsplit(second).fragment.startswith("/memory/65fcbf6e?")
        assert parse_qs(urlsplit(second).query) != parse_qs(urlsplit(address).query)
        assert session_of(second).status == 200
    with started(warm.project, "--no-open", "--port", "0") as address:
        assert session_of(address).status == 200, "a server that has stopped is not asked"


def test_a_busy_port_does_not_stop_it(warm: Warm) -> None:  # noqa: F811
    """If the usual port is taken, a free one is used; a port that was asked for and is taken is an error."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with started(warm.project, "--no-open", LORELOG_HTTP_PORT=str(port)) as address:
            assert urlsplit(address).port != port
            assert session_of(address).status == 200
        status, _, said = run(warm.project, "--no-open", "--port", str(port))
        assert status == 2
        assert f"port {port} is not available" in said


def test_a_browser_gets_the_address_and_the_terminal_does_not(warm: Warm, tmp_path: Path) -> None:  # noqa: F811
    """The browser is started with the ticket; what is printed has none."""
    got = tmp_path / "address"
    browser = browser_program(tmp_path, f'echo "$1" > "{got}.new"; mv "{got}.new" "{got}"')
    with started(warm.project, "--port", "0", BROWSER=browser) as line:
        assert line.startswith("Opened http://127.0.0.1:")
        assert "ticket" not in line
        address = eventually(lambda: got.exists() and got.read_text("utf-8").strip(), "the browser was started")
        assert session_of(address).status == 200


def test_without_a_browser_the_address_is_printed(warm: Warm, tmp_path: Path) -> None:  # noqa: F811
    """If no browser can be started, the address is printed, and it works."""
    lonely = {"BROWSER": browser_program(tmp_path, "exit 1"), "PATH": str(tmp_path), "DISPLAY": ""}
    with started(warm.project, "--no-open", "--port", "0"):
        status, out, said = run(warm.project, **lonely)
        assert status == 0
        assert "no browser could be started" in said
        assert session_of(out.strip()).status == 200


def test_an_agent_that_opens_it_stays_an_agent(warm: Warm) -> None:  # noqa: F811
    """A ticket from an agent's shell logs in the agent, also at a person's server; one from a person's shell the person."""
    with started(warm.project, "--no-open", "--port", "0") as address:
        assert session_of(address).json["agent"] == ""
        _, out, _ = run(warm.project, "--no-open", CLAUDECODE="1")
        assert session_of(out.strip()).json["agent"] == "Claude Code"


def test_the_daemon_s_own_server_has_the_page(warm: Warm, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    """With daemon.http the daemon serves the page, and `lorelog ui` opens it there, as a person, though a hook started it."""
    monkeypatch.setenv("LORELOG_DAEMON_HTTP", "true")
    monkeypatch.setenv("LORELOG_HTTP_PORT", "0")
    monkeypatch.setenv("CLAUDECODE", "1")
    warm.start()
    url = eventually(lambda: (warm.status()["http"] or {}).get("url"), "it serves")
    monkeypatch.delenv("CLAUDECODE")

    assert Client(urlsplit(url).port or 0).send("GET", "/", None, HTML).status == 200
    status, out, _ = run(warm.project, "--no-open")
    assert status == 0
    assert out.startswith(url)
    assert session_of(out.strip()).json["agent"] == ""
