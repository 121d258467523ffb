"""Who may ask, and how much: names, origins, the token, kinds and sizes of bodies, before anything is done."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.surfaces.conftest import command_line, run_process
from tests.surfaces.http.conftest import JSON, Client, ServedNotes
from tests.threads import in_threads

from lorelog.surfaces.http.tickets import home_token, token_path

TOKEN = "correct-horse-battery-staple"

HOSTS = {
    "localhost": 200,
    "localhost:{port}": 200,
    "LocalHost:{port}": 200,
    "localhost.:{port}": 200,
    "127.0.0.1:{port}": 200,
    "127.8.9.1": 200,
    "[::1]:{port}": 200,
    "127.0.0.1:1": 200,
    "evil.example": 403,
    "evil.example:{port}": 403,
    "localhost.evil.example": 403,
    "127.0.0.1.evil.example": 403,
    "192.168.1.5:{port}": 403,
    "0.0.0.0:{port}": 403,
    "[fe80::1]": 403,
    "2130706433": 403,
    "": 400,
    "localhost:{port}:1": 400,
    "user@localhost": 400,
    "localhost/": 400,
    "[::1": 400,
}

ORIGINS = {
    "http://localhost:{port}": 200,
    "https://localhost:{port}": 200,
    "HTTP://LOCALHOST:{port}": 200,
    "http://127.0.0.1:{port}": 403,
    "http://localhost:3000": 403,
    "http://localhost": 403,
    "http://evil.example": 403,
    "null": 403,
    "": 403,
    "file://": 403,
    "chrome-extension://abcdef": 403,
}


@pytest.fixture
def world(bare_world: ServedNotes) -> ServedNotes:
    """The project without its index: nothing here is about memories."""
    return bare_world


def test_only_names_of_this_machine_are_answered(client: Client) -> None:
    """A Host that is not loopback's is refused, so that a name pointed at this machine reads nothing."""
    for host, status in HOSTS.items():
        reply = client.send("GET", "/health", headers={"Host": host.format(port=client.port)})

        assert reply.status == status, host


def test_on_all_addresses_any_address_is_a_name(world: ServedNotes) -> None:
    """Served on every address of the machine, it answers to addresses and to the machine's name, not to other names; a set name is its own."""
    named = world.serve(host="localhost", token=TOKEN)
    assert named.send("GET", "/health", headers={"Host": "localhost"}).status == 200
    client = world.serve(host="0.0.0.0", token=TOKEN)
    for host, status in {
        "192.168.1.5:80": 200,
        "[fe80::1]": 200,
        socket.gethostname(): 200,
        "evil.example": 403,
    }.items():
        assert client.send("GET", "/health", headers={"Host": host}).status == status, host


def test_only_our_own_origin_may_ask(client: Client) -> None:
    """A page of another site, of another port, or of no origin is refused, for every method and path."""
    for origin, status in ORIGINS.items():
        headers = {"Host": f"localhost:{client.port}", "Origin": origin.format(port=client.port)}

        assert client.send("GET", "/health", headers=headers).status == status, origin
        assert client.send("POST", "/api/call/stats", "{}", {**JSON, **headers}).status == status, origin


def test_what_a_browser_calls_cross_site_is_refused(client: Client) -> None:
    """Also what bears no Origin, as a picture of another page does not."""
    assert client.send("GET", "/api/ops", headers={"Sec-Fetch-Site": "cross-site"}).status == 403
    assert client.send("GET", "/api/ops", headers={"Sec-Fetch-Site": "same-site"}).status == 403
    assert client.send("GET", "/api/ops", headers={"Sec-Fetch-Site": "same-origin"}).status == 200


def test_no_answer_invites_another_site(client: Client) -> None:
    """A preflight is refused, and no answer has a header that would let another site read it."""
    asking = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
    replies = [
        client.send("OPTIONS", "/api/call/stats", headers=asking),
        client.send("OPTIONS", "/api/call/stats"),
        client.get("/health"),
    ]

    assert [reply.status for reply in replies] == [403, 405, 200]
    assert not [name for reply in replies for name in reply.headers if name.lower().startswith("access-control")]


def test_what_a_form_can_send_is_refused(client: Client, world: ServedNotes) -> None:
    """A POST that is not JSON by its type changes nothing: those a page may send anywhere. JSON with parameters is JSON."""
    json_with_charset = {"Content-Type": "Application/JSON; charset=utf-8"}
    assert client.send("POST", "/api/call/stats", "{}", json_with_charset).status == 200
    for kind in (
        None,
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "text/json",
    ):
        headers = {} if kind is None else {"Content-Type": kind}
        for path in ("/api/call/add", "/api/memory/index"):
            assert client.send("POST", path, '{"text": "planted"}', headers).status == 415
    assert "planted" not in client.call("list").text


@pytest.mark.slow
def test_the_token_opens_everything_and_nothing_opens_without(world: ServedNotes) -> None:
    """With a token set, only /health is answered without it."""
    client = world.serve(token=TOKEN)
    right = {"Authorization": f"Bearer {TOKEN}"}
    wrong: list[dict[str, str]] = [
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": f"Bearer {TOKEN}x"},
        {"Authorization": f"Bearer {TOKEN[:-1]}"},
        {"Authorization": "Bearer "},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": TOKEN},
        {"Authorization": "Bearer \xff\xfe"},
    ]
    for path in ("/metrics", "/openapi.json", "/api/ops", "/api/memory/files?dir_path=/", "/nowhere"):
        for headers in wrong:
            reply = client.send("GET", path, headers=headers)

            assert (reply.status, reply.headers["www-authenticate"]) == (401, "Bearer"), (path, headers)
        assert client.send("GET", path, headers=right).status in {200, 404}
    assert client.send("POST", "/api/call/stats", "{}", JSON).status == 401
    assert client.send("POST", "/api/call/stats", "{}", {**JSON, **right}).status == 200
    assert client.get("/health").status == 200
    assert client.send("GET", "/metrics", headers={"Authorization": f"bearer {TOKEN}"}).status == 200


def test_a_body_that_is_too_large_is_refused_and_told(world: ServedNotes) -> None:
    """Whoever sends all of it first still gets the answer."""
    client = world.serve(max_body_bytes=1000)

    assert client.call("add", text="x" * 2_000_000).code == "too_large"
    assert client.call("add", text="x" * 500).status == 200


def test_a_body_without_a_length_is_counted(world: ServedNotes) -> None:
    """A chunked body is refused as soon as it is too large, not when it ends."""
    client = world.serve(max_body_bytes=10_000)
    for path in ("POST /api/call/add", "POST /api/memory/search", "PUT /api/memory/file?dir_path=/&path=/a.md"):
        with client.raw() as connection:
            connection.sendall(
                f"{path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                "Transfer-Encoding: chunked\r\n\r\n".encode()
            )
            for _ in range(20):
                connection.sendall(b"400\r\n" + b"x" * 1024 + b"\r\n")

            assert connection.recv(65_536).startswith(b"HTTP/1.1 413 "), path


def test_a_body_that_breaks_off_does_nothing(client: Client, world: ServedNotes) -> None:
    """A request that ends before its body does is not carried out, and the server goes on."""
    body = json.dumps({"text": "half a memory"}).encode()
    with client.raw() as connection:
        connection.sendall(
            b"POST /api/call/add HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n%s" % (len(body) + 10, body)
        )
        connection.shutdown(socket.SHUT_WR)

        assert connection.recv(65_536) == b""
    assert "half a memory" not in client.call("list", limit=100).text
    assert client.get("/health").status == 200


POST = b"POST /api/call/add HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
REFUSED = {
    # A Host that is missing or given twice.
    b"GET /health HTTP/1.1\r\n\r\n": b"400",
    b"GET /health HTTP/1.0\r\n\r\n": b"400",
    b"GET /health HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n": b"400",
    # The length alone is enough to refuse: 100 MB are announced, none are sent.
    POST + b"Content-Length: 100000000\r\n\r\n": b"413",
}
NONSENSE = [
    b"\x00\xff\x00\r\n\r\n",
    b"GET\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /nothing HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 100_000 + b"\r\n\r\n",
]


def test_malformed_http_is_refused(client: Client) -> None:
    """Malformed and overlong requests, two hosts and no host are refused, and the server goes on."""
    for nonsense in (*REFUSED, *NONSENSE):
        with client.raw() as connection:
            connection.sendall(nonsense)
            connection.shutdown(socket.SHUT_WR)
            answer = connection.recv(65_536)

        expected = {REFUSED[nonsense]} if nonsense in REFUSED else {b"400", b"404", b"415", b"431"}
        assert answer.split(b" ")[1] in expected, nonsense[:80]
    assert client.get("/health").status == 200


def test_a_fault_of_ours_shows_no_more_than_its_name(world: ServedNotes) -> None:
    """An unexpected error is 500 with the usual object; neither its text nor where it happened is told."""

    def broken(*_: object) -> dict[str, Any]:
        raise KeyError("/somewhere/secret")

    client = world.serve(broken)
    replies = [client.call("stats"), client.get("/metrics"), client.get("/api/memory/files", dir_path="/")]

    assert [reply.status for reply in replies] == [500, 500, 500]
    assert all(b"secret" not in reply.body and b"Traceback" not in reply.body for reply in replies)
    assert replies[0].json["error"]["message"] == "internal error: KeyError"
    assert replies[2].text == "internal error: KeyError\n"


def test_the_token_is_made_once_and_only_its_owner_can_read_it(home: Path) -> None:
    """Processes that start at once share one token in a private file; one that others could read is replaced."""
    found: list[str] = []
    assert in_threads(lambda _: found.append(home_token(str(home))), 8) == []
    path = Path(token_path(str(home)))

    assert set(found) == {path.read_text("ascii").strip()}
    assert len(found[0]) >= 43
    assert path.stat().st_mode & 0o777 == 0o600
    assert sorted(file.name for file in path.parent.iterdir()) == ["http.token"]
    path.chmod(0o644)
    assert home_token(str(home)) not in found
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.slow
def test_serve_requires_the_token_of_the_home(project: Path, home: Path) -> None:
    """`lorelog serve` refuses who has no token, and keeps the token out of its output; `--no-token` warns and serves."""
    outputs = []
    for words, without, with_it in (((), 401, 200), (("--no-token",), 200, 200)):
        with subprocess.Popen(
            command_line("serve", "--port", 0, "--daemon", "off", *words),
            cwd=project,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as server:
            assert server.stdout is not None
            port = int(server.stdout.readline().split()[1].rpartition(":")[2])
            stranger, owner = Client(port), Client(port, {"Authorization": f"Bearer {home_token(str(home))}"})
            assert stranger.get("/health").status == 200
            assert (stranger.call("stats").status, owner.call("stats").status) == (without, with_it)
            server.terminate()
            outputs.append("".join(server.communicate()))

    assert home_token(str(home)) not in "".join(outputs)
    assert f"{os.path.realpath(home)}/run/http.token" in outputs[0] or "run/http.token" in outputs[0]
    assert "every user of this machine" in outputs[1]
    both = run_process(["serve", "--no-token", "--token-env", "X"], project)
    assert (both.status, "exclude each other" in both.err) == (2, True)
