"""Every operation is available on every surface, or has a reason why not, and replies the same everywhere."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.docs.pages import read, sections
from tests.operations.sample import JUDGE, NEW_GUARD, requests, tell, write_notes
from tests.surfaces.conftest import Shell

from lorelog import Lorelog
from lorelog.core.errors import LorelogError
from lorelog.core.options import HttpOptions
from lorelog.core.policy import Caller
from lorelog.operations.catalogue import all_operations
from lorelog.operations.dispatch import ClientIdentity, Dispatcher
from lorelog.operations.operation import SURFACES
from lorelog.surfaces.cli.commands import COMMANDS
from lorelog.surfaces.http.server import serve_in_thread
from lorelog.surfaces.mcp.calls import call_tool
from lorelog.surfaces.python import namespaces
from lorelog.wiring import ResourcePool

Ask = Callable[[str, dict[str, Any]], Any]

VERBS = {
    "session.why": "error_hints",
    "evaluate": "evaluate",
    "session.status": "session_status",
    "roots.list": "roots",
    "roots.remove": "forget_roots",
}
"""Names of Python methods that differ from the operation."""

SAME = {"memory.search", "memory.expand", "memory.get", "memory.list", "memory.stats", "memory.health", "roots.list"}
"""Operations whose replies do not depend on time or client."""


@pytest.fixture
def caller(project: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> ClientIdentity:
    write_notes(project)
    monkeypatch.setenv("LORELOG_LLM_COMMAND", JUDGE)
    environment = {"LORELOG_HOME": str(home), "LORELOG_EMBEDDING_PROVIDER": "fake", "LORELOG_LLM_COMMAND": JUDGE}
    return ClientIdentity(str(project), environment)


@pytest.fixture
def ways(caller: ClientIdentity, project: Path, shell: Shell, tmp_path: Path) -> Iterator[dict[str, Ask]]:
    holdings = ResourcePool()
    dispatcher = Dispatcher(holdings.engine)
    stranger = ClientIdentity(caller.directory, caller.environment, own=False)
    server = serve_in_thread(dispatcher.call, HttpOptions(port=0), stranger)

    def by_batch(op: str, arguments: dict[str, Any]) -> Any:
        lines = tmp_path / "batch.jsonl"
        lines.write_text(json.dumps({"op": op, "arguments": arguments}) + "\n", "utf-8")
        return json.loads(shell("batch", "--jsonl", lines).out)["result"]

    def by_http(op: str, arguments: dict[str, Any]) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", server.port)
        connection.request("POST", f"/api/call/{op}", json.dumps(arguments), {"Content-Type": "application/json"})
        answer = json.loads(connection.getresponse().read())
        connection.close()
        return answer

    def by_mcp(op: str, arguments: dict[str, Any]) -> Any:
        def ask(name: str, given: dict[str, Any]) -> dict[str, Any]:
            return dispatcher.call(name, given, replace(caller, agent="an MCP client", names_files=False))

        answer = dict(call_tool("memory_call", {"op": op, "arguments": arguments}, ask).structured)
        answer.pop("notice", None)
        return answer

    def by_python(op: str, arguments: dict[str, Any]) -> Any:
        with Lorelog(project=project) as memory:
            return memory.call(op, arguments)

    yield {
        "call": lambda op, arguments: shell("call", op, "--json", json.dumps(arguments)).json,
        "batch": by_batch,
        "python": by_python,
        "http": by_http,
        "mcp": by_mcp,
    }
    server.stop()
    holdings.close()


@pytest.mark.slow
@pytest.mark.parametrize("op", all_operations())
def test_an_operation_is_reached_from_everywhere(op: str, ways: dict[str, Ask], caller: ClientIdentity) -> None:
    """All surfaces reply with the same fields, and with the same JSON where it does not depend on time."""
    first = ways["call"]
    first("memory.index", {"paths": ["notes"]})
    identity = first("memory.search", {"query": "otter"})["hits"][0]["id"]
    if op == "memory.restore":
        first("memory.delete", {"id": identity})
    if op == "memory.forget_verify":
        memory = first("memory.add", {"text": "Soon forgotten: the otter's holt is below the third weir."})["memory"]
        first("memory.forget", {"ids": [memory], "confirm": True})
    if op == "session.handoff":
        first("session.capture", {"host": "claude", "session": "s", "transcript": "t.jsonl", "everything": True})
    asked = requests(identity, tell(first))[op]
    answers: dict[str, Any] = {}

    is_proposed = all_operations()[op].right.permission(Caller.MCP).endswith("proposed")  # test_policy.py has these
    skipped = {*all_operations()[op].absent, *({"http", "mcp"} if is_proposed else ())}
    skipped |= {"http", "mcp"} if op == "memory.transcript" else set()
    for name in (name for name in ways if name not in skipped):
        if op == "memory.restore" and answers:
            first("memory.delete", {"id": identity})
        if op == "memory.supersede" and answers:
            first("memory.delete", {"id": next(reversed(answers.values()))["memory"]})
        if op == "code.forget":
            first("code.index", {})
        if op == "roots.remove" and answers:
            first("memory.index", {"paths": ["notes"]})
        if op.startswith(("guard.", "review.")):  # a guard that every client may change: of an agent, and not approved
            ways["http"]("guard.add", NEW_GUARD)
        answers[name] = ways[name](op, asked)
        if op == "guard.enable":
            first("guard.change", asked | {"change": "remove"})

    assert {name: sorted(answer) for name, answer in answers.items() if "error" in answer} == {}
    assert len({tuple(sorted(answer)) for answer in answers.values()}) == 1
    if op in SAME:
        assert len({json.dumps(answer, sort_keys=True) for answer in answers.values()}) == 1


def test_absent_operations_are_refused_with_their_reason(ways: dict[str, Ask]) -> None:
    """An absent operation is refused with its reason."""
    for name, operation in all_operations().items():
        for surface, reason in operation.absent.items():
            try:
                said = json.dumps(ways[surface](name, {}))
            except LorelogError as error:
                said = error.message
            assert reason in said, (name, surface)


def is_method(op: str) -> bool:
    """Return True if Python has a method for an operation: on Lorelog, or on the namespace of its family."""
    family, _, name = op.partition(".")
    namespace = getattr(namespaces, f"{family.capitalize()}Namespace", Lorelog)
    return hasattr(namespace, VERBS.get(op, name))


def test_every_operation_has_a_command_a_method_and_a_page() -> None:
    """Each operation has a Python method and a section in docs/operations.md, its command is listed, and each surface has a page."""
    page = sections(read("docs/operations.md"))
    shells = [shell for operation in all_operations().values() for shell in operation.commands]

    assert {shell.words.split()[0] for shell in shells} <= set(COMMANDS)
    assert [name for name in all_operations() if name != "memory.metrics" and not is_method(name)] == []
    assert [name for name in all_operations() if name not in page] == []
    assert set(SURFACES) == {"cli", "python", "http", "mcp"}
    for surface in SURFACES:
        assert read(f"docs/{surface}.md")
