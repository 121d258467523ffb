"""A server on a real socket over a small index, and a client that sends what it is told to."""

from __future__ import annotations

import http.client
import json
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from msgspec.structs import replace
from tests.surfaces.conftest import write

from lorelog.core.options import HttpOptions
from lorelog.operations.dispatch import CallOperation, ClientIdentity, Dispatcher
from lorelog.surfaces.http.server import RunningServer, serve_in_thread
from lorelog.wiring import ResourcePool

JSON = {"Content-Type": "application/json"}


@dataclass(frozen=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def code(self) -> str:
        return str(self.json["error"]["code"])


@dataclass(frozen=True)
class Client:
    port: int
    headers: Mapping[str, str] = field(default_factory=dict)

    def send(
        self, method: str, path: str, body: bytes | str | None = None, headers: Mapping[str, str] | None = None
    ) -> Reply:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, body, {**self.headers, **(headers or {})})
            answer = connection.getresponse()
            return Reply(answer.status, dict(answer.getheaders()), answer.read())
        finally:
            connection.close()

    def get(self, path: str, /, **query: str) -> Reply:
        return self.send("GET", f"{path}?{urlencode(query, quote_via=quote)}" if query else path)

    def post(self, path: str, body: Any, **headers: str) -> Reply:
        return self.send("POST", path, json.dumps(body), {**JSON, **headers})

    def put(self, path: str, body: bytes, query: Mapping[str, str], **headers: str) -> Reply:
        return self.send("PUT", f"{path}?{urlencode(query, quote_via=quote)}", body, headers)

    def call(self, op: str, **arguments: Any) -> Reply:
        return self.post(f"/api/call/{op}", arguments)

    def raw(self) -> socket.socket:
        """Return a connection on which anything may be said."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=60)


@dataclass(frozen=True)
class ServedNotes:
    """A project with three notes, beside a file that is not indexed, and who answers about it."""

    project: Path
    outside: Path
    dispatcher: Dispatcher
    caller: ClientIdentity
    serve: Callable[..., Client]

    @property
    def here(self) -> str:
        return str(self.project)

    @property
    def note(self) -> Path:
        return self.project / "notes" / "cache.md"


@pytest.fixture
def bare_world(project: Path, home: Path) -> Iterator[ServedNotes]:
    """The project, not indexed; servers that are started from it are stopped, and what they held is let go."""
    project = Path(os.path.realpath(project))
    write(project / "notes" / "cache.md", "# Cache\n\nWe chose Redis because it runs already.\n")
    write(project / "notes" / "deploy.md", "# Deploy\n\nDeploys go through the blue cluster.\n")
    write(project / "notes" / "Über Ötter.markdown", "# Otter\n\nOtters hold hands while they sleep.\n")
    outside = write(project.parent / "secret.md", "# Secret\n\nnobody may read this\n")
    held = ResourcePool()
    dispatcher = Dispatcher(held.engine)
    person = ClientIdentity(str(project), dict(os.environ), str(home))
    servers: list[RunningServer] = []

    def serve(answer: CallOperation | None = None, **options: Any) -> Client:
        chosen = HttpOptions(**{"port": 0, **options})
        servers.append(serve_in_thread(answer or dispatcher.call, chosen, replace(person, own=False)))
        return Client(servers[-1].port)

    yield ServedNotes(project, outside, dispatcher, replace(person, own=False), serve)
    for server in servers:
        server.stop()
    held.close()


@pytest.fixture
def world(bare_world: ServedNotes) -> ServedNotes:
    """The project, indexed. Modules that ask for no memory take `bare_world` in its place."""
    person = replace(bare_world.caller, own=True)
    bare_world.dispatcher.call("memory.index", {"paths": ["notes"]}, person)
    return bare_world


@pytest.fixture
def client(world: ServedNotes) -> Client:
    """A client of a server as it is by default."""
    return world.serve()
