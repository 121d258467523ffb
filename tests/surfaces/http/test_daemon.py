"""HTTP and the daemon: `serve` asks the one that is there and does without it, and the daemon serves by itself."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.surfaces.conftest import command_line, write
from tests.surfaces.daemon.conftest import Warm, eventually, warm  # noqa: F401  (a fixture)
from tests.surfaces.http.conftest import Client

from lorelog.surfaces.http.tickets import home_token


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
