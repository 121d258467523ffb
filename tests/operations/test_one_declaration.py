"""An operation is declared once: surfaces and documentation follow from the declaration."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Annotated

import pytest
from msgspec import Meta
from msgspec.structs import replace
from scripts.generate_reference import render_operations

from lorelog import Lorelog
from lorelog.core.errors import UsageError
from lorelog.core.options import HttpOptions
from lorelog.engine import Engine
from lorelog.operations import catalogue
from lorelog.operations.dispatch import ClientIdentity, Dispatcher
from lorelog.operations.operation import OperationFamily, OperationReply, RequestContext, ShellCommand
from lorelog.operations.requests import OperationRequest
from lorelog.surfaces.cli.main import main
from lorelog.surfaces.http.server import serve_in_thread
from lorelog.surfaces.mcp.calls import call_tool
from lorelog.surfaces.python.methods import Blocking, ModeT, OperationMethods, method

OPERATIONS = OperationFamily()


class GreetRequest(OperationRequest, frozen=True):
    """Whom to greet."""

    name: Annotated[str, Meta(min_length=1, description="Name of the person.")]
    times: Annotated[int, Meta(ge=1, le=9, description="Number of greetings.")] = 1


class Greeting(OperationReply, frozen=True, kw_only=True):
    """A greeting."""

    text: str


@OPERATIONS.declare("made.greet", ShellCommand("greet", ("name",)))
def greet(engine: Engine, request: GreetRequest, call: RequestContext) -> Greeting:
    """Greet a person."""
    return Greeting(text=" ".join([f"hello {request.name}"] * request.times))


class MadeNamespace(OperationMethods[ModeT]):
    """Made-up operations."""

    greet = method(GreetRequest, greet)


FAKE = {"embedding.provider": "fake"}


def _client(directory: Path) -> ClientIdentity:
    environment = {"LORELOG_EMBEDDING_PROVIDER": "fake", "LORELOG_HOME": str(directory / "home")}
    return ClientIdentity(str(directory), environment)


@pytest.fixture(autouse=True)
def declared(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Add the family to the catalogue."""
    monkeypatch.setitem(catalogue.FAMILIES, "made", (__name__,))
    catalogue.all_operations.cache_clear()
    yield
    catalogue.all_operations.cache_clear()


def test_python_has_a_method_with_parameters_and_help(tmp_path: Path) -> None:
    """The method takes the fields of the request by position and name, and describes them."""
    assert str(inspect.signature(MadeNamespace.greet)).startswith("(self, name: str, *, times: int = 1, project:")
    assert "    times: Number of greetings." in (MadeNamespace.greet.__doc__ or "")
    with Lorelog(tmp_path, settings=FAKE) as memory:
        made = MadeNamespace[Blocking](memory.run_operation)
        assert made.greet("Mara", times=2) == Greeting(text="hello Mara hello Mara")
        with pytest.raises(UsageError, match="'times'"):
            made.greet("Mara", tims=2)  # type: ignore[call-arg]


def test_the_shell_reaches_it_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`call` and `batch` reach it by name; its options are those of every operation (test_derived_options.py)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LORELOG_EMBEDDING_PROVIDER", "fake")
    assert main(["--daemon", "off", "call", "made.greet", "--json", json.dumps({"name": "Mara"})]) == 0
    assert json.loads(capsys.readouterr().out) == {"text": "hello Mara"}
    batch = tmp_path / "batch.jsonl"
    batch.write_text(json.dumps({"op": "made.greet", "arguments": {"name": "Odo"}}), "utf-8")
    assert main(["--daemon", "off", "batch", "--jsonl", str(batch)]) == 0
    assert json.loads(capsys.readouterr().out)["result"] == {"text": "hello Odo"}


def test_http_has_a_route_with_schemas(tmp_path: Path) -> None:
    """A server answers at the operation's route, and OpenAPI describes the route, its request and its reply."""
    remote = replace(_client(tmp_path), own=False)
    server = serve_in_thread(Dispatcher().call, HttpOptions(port=0), remote)
    connection = HTTPConnection("127.0.0.1", server.port)
    try:
        body = json.dumps({"name": "Mara", "times": 2})
        connection.request("POST", "/api/call/made.greet", body, {"Content-Type": "application/json"})
        assert json.load(connection.getresponse()) == {"text": "hello Mara hello Mara"}
        connection.request("GET", "/openapi.json")
        described = json.load(connection.getresponse())
    finally:
        connection.close()
        server.stop()
    schemas = described["components"]["schemas"]
    assert described["paths"]["/api/call/made.greet"]["post"]["summary"] == "Greet a person."
    assert schemas["GreetRequest"]["properties"]["times"]["description"] == "Number of greetings."
    assert schemas["Greeting"]["required"] == ["text"]


def test_agents_reach_it_over_mcp(tmp_path: Path) -> None:
    """`memory_call` calls it, and explains its arguments."""
    dispatcher = Dispatcher()

    def call(op: str, arguments: dict[str, object]) -> dict[str, object]:
        return dispatcher.call(op, arguments, _client(tmp_path))

    reply = call_tool("memory_call", {"op": "made.greet", "arguments": {"name": "Mara"}}, call)
    explained = call_tool("memory_call", {"op": "help", "arguments": {"op": "made.greet"}}, call)
    assert reply.structured["text"] == "hello Mara"
    assert explained.structured["arguments"]["properties"]["name"]["description"] == "Name of the person."


def test_the_reference_describes_it() -> None:
    """The generated page of operations has its fields."""
    page = render_operations()

    assert "## made.greet" in page
    assert "| `times` | whole number | `1` | Number of greetings. |" in page
