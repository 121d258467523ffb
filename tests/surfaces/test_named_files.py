"""Clients of MCP and HTTP cannot have files read by naming their paths, and anchors lead only to own conversations."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.ingest.transcripts.conversations import claude_turn, write_lines
from tests.surfaces.conftest import Shell, files_with, write

from lorelog.core.errors import LorelogError
from lorelog.operations.catalogue import all_operations
from lorelog.operations.dispatch import ClientIdentity, Dispatcher
from lorelog.surfaces.mcp.calls import call_tool
from lorelog.surfaces.mcp.session import CALLER

CANARY = "walrusdiary"
PATH_WORDS = ("path", "file", "dir", "folder", "place", "source", "transcript", "queries", "qrels", "tree")
REFERENCES = frozenset({"retain_source_chunks", "prefix"})

Calls = Callable[[str, dict[str, Any]], str]
"""Calls an operation and returns its reply or error as text."""


def identity(project: Path) -> ClientIdentity:
    return ClientIdentity(os.path.realpath(project), dict(os.environ))


def mcp_caller(project: Path) -> ClientIdentity:
    """Return the identity with which the MCP server calls operations."""
    return replace(identity(project), **CALLER)


@pytest.fixture(params=["mcp", "http"])
def client(request: pytest.FixtureRequest, project: Path, dispatcher: Dispatcher) -> Calls:
    """A client of each protocol."""
    surface = request.param
    caller = mcp_caller(project) if surface == "mcp" else replace(identity(project), own=False)

    def call(name: str, arguments: dict[str, Any]) -> str:
        if surface == "mcp":

            def bound(name: str, arguments: dict[str, Any]) -> Any:
                return dispatcher.call(name, arguments, caller)

            return call_tool("memory_call", {"op": name, "arguments": arguments}, bound).text
        if "http" in all_operations()[name].absent:
            return "not available"
        try:
            return json.dumps(dispatcher.call(name, arguments, caller))
        except LorelogError as error:
            return f"{error.message} {error.hint}"

    return call


def path_fields(request: type) -> list[str]:
    names = (field.name for field in msgspec.structs.fields(request))
    return [name for name in names if name not in REFERENCES and any(word in name for word in PATH_WORDS)]


def minimal_arguments(request: type) -> dict[str, Any]:
    """Return values for the required fields of a request."""
    values: dict[str, Any] = {}
    for field in msgspec.structs.fields(request):
        if field.required:
            for value in ("deploy", 1, ["deploy"], [{"text": "deploy"}], True):
                try:
                    msgspec.convert(value, field.type)
                except msgspec.ValidationError:
                    continue
                values[field.name] = value
                break
    return values


def write_talk(path: Path, turns: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return write_lines(path, turns)


def test_no_operation_reads_a_file_that_a_client_names(
    client: Calls, project: Path, home: Path, tmp_path: Path, dispatcher: Dispatcher
) -> None:
    """Every field of every operation that could be a path is given one outside: nothing of the file is shown or stored."""
    talk = write_talk(tmp_path / "out" / "talk.jsonl", claude_turn("u1", CANARY, CANARY, cwd=str(project)))
    log = write(
        tmp_path / "out" / "app.log", f"Traceback (most recent call last):\n  File 'x.py'\nValueError: {CANARY}\n"
    )
    note = write(tmp_path / "out" / "note.md", f"# Note\n\n{CANARY}\n")
    dispatcher.call("memory.add", {"text": "Deploys go out on Tuesdays."}, identity(project))
    tried = 0
    for name, operation in all_operations().items():
        for field in path_fields(operation.request):
            for file in (talk, log, note):
                for value in (str(file), [str(file)]):
                    text = client(name, {**minimal_arguments(operation.request), field: value})
                    assert CANARY not in text, (name, field)
                    tried += 1

    assert tried > 100
    assert files_with(CANARY, home, project) == []
    dispatcher.call("memory.index", {"paths": [str(note.parent)]}, identity(project))
    assert files_with(CANARY, home), "the shell reads the same note"


def test_an_agent_indexes_files_of_the_project_only(client: Calls, project: Path, tmp_path: Path) -> None:
    """Over MCP a path in the project is indexed, and one behind a link that leads out of it is refused; HTTP refuses both."""
    write(project / "docs" / "guide.md", "# Guide\n\nOtters hold hands.\n")
    write(tmp_path / "out" / "note.md", f"# Note\n\n{CANARY}\n")
    (project / "linked").symlink_to(tmp_path / "out")

    replies = [
        client("memory.index", {"paths": [path]}) for path in ("docs", "linked", "../out", str(tmp_path / "out"))
    ]

    assert ('"files": 1' in replies[0]) == ("only the shell" not in replies[0])
    assert all("the shell and Python can choose" in reply for reply in replies[1:])
    assert client("memory.search", {"query": CANARY}).count(CANARY) == 1, "the query alone"


def anchored(project: Path, address: object, *, memory: str = "m1", session: str = "session-1") -> str:
    """Write a journal as a clone has it, with an entry that names a conversation; return the entry's id."""
    anchor = f"memory:{memory} session:{session} turn:u1 transcript:{address}"
    write(
        project / ".lorelog" / "memory" / "2026-03-05.md",
        f"# 2026-03-05\n\n### 14:30\n<!-- {anchor} -->\nDeploys go out on Tuesdays.\n",
    )
    return memory


def host_talk(project: Path | str, name: str = "talk", text: str = CANARY) -> Path:
    """Write a conversation of a project where Claude Code keeps it."""
    path = Path.home() / ".claude" / "projects" / "folder" / f"{name}.jsonl"
    return write_talk(path, claude_turn("u1", f"Remember {text}", "Done.", cwd=os.path.realpath(project)))


def test_an_anchor_leads_to_a_conversation_of_its_project(shell: Shell, client: Calls, project: Path) -> None:
    """What a host keeps for the memory's project is shown, by id, on every surface; secrets in it are redacted."""
    key = "AKIA" + "QYLPMN5HHHFPZAM2"
    memory = anchored(project, host_talk(project, text=f"{CANARY} {key}"))
    shell("index")

    for text in (client("memory.transcript", {"place": memory}), shell("transcript", memory).out):
        assert CANARY in text
        assert key not in text
        assert "[redacted:aws-access-key-id]" in text
    assert key not in shell("transcript", host_talk(project, text=key)).out
    assert shell("show", memory, "--json").json["transcript"]["exists"] is True


@pytest.mark.parametrize(
    "kind", ["other project", "elsewhere", "link", "folder link", "password file", "missing", "url"]
)
def test_a_foreign_anchor_leads_nowhere(shell: Shell, client: Calls, project: Path, tmp_path: Path, kind: str) -> None:
    """The anchor of a clone's journal shows nothing of other files, and does not tell whether they exist."""
    elsewhere = write_talk(tmp_path / "out" / "talk.jsonl", claude_turn("u1", CANARY, CANARY, cwd=str(project)))
    inside = host_talk(project, "other").parent
    (inside / "link.jsonl").symlink_to(elsewhere)
    (inside / "folder").symlink_to(elsewhere.parent)
    addresses = {
        "other project": host_talk(tmp_path / "other"),
        "elsewhere": elsewhere,
        "link": inside / "link.jsonl",
        "folder link": inside / "folder" / "talk.jsonl",
        "password file": "/etc/passwd",
        "missing": inside / "none.jsonl",
        "url": f"openclaw-session://main/session?sessionKey=k&store={elsewhere}",
    }
    memory = anchored(project, addresses[kind])
    shell("index")

    replies = [client("memory.transcript", {"place": memory}), shell("transcript", memory).err]
    section = shell("show", memory, "--json").json["transcript"]

    assert all("cannot be shown" in reply and CANARY not in reply for reply in replies)
    assert (section["exists"], section["tokens"]) == (False, None)


def test_a_captured_conversation_is_followed_wherever_it_is(
    shell: Shell, client: Calls, project: Path, tmp_path: Path, dispatcher: Dispatcher
) -> None:
    """Capture registers the conversation of an entry; an entry of the same id that names another one leads nowhere."""
    talk = write_talk(tmp_path / "host" / "t.jsonl", claude_turn("u1", f"Why {CANARY}?", "Because.", cwd=str(project)))
    event = {"host": "claude", "session": "session-1", "transcript": str(talk), "everything": True}
    dispatcher.call("session.capture", event, identity(project))
    (journal,) = (project / ".lorelog" / "memory").glob("*.md")
    memory = journal.read_text().partition("memory:")[2].split()[0]

    assert CANARY in client("memory.transcript", {"place": memory})
    other = write_talk(tmp_path / "host" / "other.jsonl", claude_turn("u1", "otters", "Done.", cwd=str(project)))
    journal.write_text(journal.read_text().replace(str(talk), str(other)))
    shell("index")
    assert "cannot be shown" in client("memory.transcript", {"place": memory})
