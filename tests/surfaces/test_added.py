"""What is added, on every channel: its origin follows from the caller, and secrets in it are redacted before anything is written."""

from __future__ import annotations

import json
import os
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.surfaces.conftest import Shell, files_with, write
from tests.surfaces.test_hook import PAYLOAD, context_of, hook

from lorelog import Lorelog
from lorelog.core.errors import UsageError
from lorelog.core.options import HttpOptions
from lorelog.operations.dispatch import ClientIdentity, Dispatcher
from lorelog.surfaces.http.server import serve_in_thread
from lorelog.surfaces.mcp.calls import call_tool
from lorelog.surfaces.mcp.session import CALLER
from lorelog.wiring import ResourcePool

RULE = "Never run `make test` before a push"
SAID = {"text": RULE, "type": "correction", "origin": "user"}


@pytest.fixture
def person(project: Path) -> ClientIdentity:
    return ClientIdentity(os.path.realpath(project), dict(os.environ))


def written_origins(project: Path) -> list[str]:
    """The origins in the project's journals, in order."""
    texts = (path.read_text("utf-8") for path in sorted((project / ".lorelog" / "memory").glob("*.md")))
    return [word.removeprefix("origin:") for text in texts for word in text.split() if word.startswith("origin:")]


def test_over_mcp(project: Path, dispatcher: Dispatcher, person: ClientIdentity) -> None:
    """add, add_batch, supersede and decisions write an agent's text as the agent's, whatever it claims; a tool's stays."""
    agent = replace(person, **CALLER)

    def call(op: str, arguments: dict[str, Any]) -> Any:
        called = {"op": op, "arguments": arguments}
        done = call_tool("memory_call", called, lambda name, given: dispatcher.call(name, given, agent))
        assert not done.failed, done.text
        return done.structured

    added = call("memory.add", SAID)
    second = [{**SAID, "text": "No push on Friday"}, {"text": "otters", "origin": "tool"}]
    batch = call("memory.add_batch", {"memories": second})
    newer = call("memory.supersede", {"id": added["id"], "text": f"{RULE} to main", "origin": "user"})
    decided = call("artifact.decision", {"summary": RULE, "origin": "user"})
    record = call("artifact.get", {"artifact_id": decided["artifact_id"]})

    replies = (added, *batch["memories"], newer, record["artifact"])
    assert [reply["origin"] for reply in replies] == ["agent", "agent", "tool", "agent", "agent"]
    assert written_origins(project) == ["agent", "agent", "tool", "agent"]


def test_over_http(project: Path, dispatcher: Dispatcher, person: ClientIdentity) -> None:
    """A client of the HTTP server cannot write as the user."""
    server = serve_in_thread(dispatcher.call, HttpOptions(port=0), replace(person, own=False))
    try:
        for op, body in (
            ("memory.add", SAID),
            ("memory.add", {"text": RULE}),
            ("memory.add_batch", {"memories": [{**SAID, "text": "No push on Friday"}]}),
        ):
            request = urllib.request.Request(
                f"http://127.0.0.1:{server.port}/api/call/{op}",
                json.dumps(body).encode(),
                {"Content-Type": "application/json"},
            )
            with urllib.request.urlopen(request, timeout=60) as reply:
                assert '"origin":"agent"' in reply.read().decode().replace(" ", "")
    finally:
        server.stop()

    assert written_origins(project) == ["agent"] * 3


@pytest.mark.parametrize("marker", ["", "CLAUDECODE", "AI_AGENT"])
def test_in_a_shell_and_in_python(shell: Shell, project: Path, marker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A person's text is the user's; in a shell that an agent started it is the agent's, also if the shell says otherwise."""
    if marker:
        monkeypatch.setenv(marker, "1")
    added = shell("add", RULE, "--type", "correction", "--json").json
    replies = [
        added,
        shell("supersede", added["id"], f"{RULE} to main", "--json").json,
        shell("call", "memory.add", "--json", json.dumps(SAID)).json,
    ]
    with Lorelog(project=project) as memory:
        told = memory.add("Otters hold hands.", origin="user").origin

    expected = "agent" if marker else "user"
    assert [*(reply["origin"] for reply in replies), told] == [expected] * 4
    assert written_origins(project) == [expected] * 4


def test_an_agents_rule_is_delivered_as_the_agents(
    shell: Shell, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an agent adds in its shell reaches sessions and prompts as a note of agents; an older equal rule stays the user's."""
    shell("add", "Keep `git commit` small and tidy", "--type", "preference")
    monkeypatch.setenv("CLAUDECODE", "1")
    shell("add", "keep `git commit` small and tidy!", "--type", "preference")
    shell("add", RULE, "--type", "correction")
    payload = {**PAYLOAD, "cwd": str(project), "prompt": "run make test, then git commit"}

    start, prompt = (
        context_of(hook(["claude", moment], payload, project)[0]) for moment in ("session-start", "prompt")
    )
    for shown, heading in ((start, "## Corrections and preferences"), (prompt, "Rules and decisions of the user")):
        users, _, agents = shown.partition("Noted by agents")
        assert heading in users
        assert "Keep `git commit` small and tidy" in users
        assert RULE in agents
        assert RULE not in users


KEY = "AKIA" + "QYLPMN5HHHFPZAM2"
KIND = "aws-access-key-id"
TEXT = f"The deploy user has the key {KEY} in production."

Dispatch = Callable[..., dict[str, Any]]


@pytest.fixture
def dispatch(project: Path) -> Iterator[Dispatch]:
    """Calls an operation as a person, or as another client."""
    pool = ResourcePool()
    dispatcher = Dispatcher(pool.engine)
    person = ClientIdentity(os.path.realpath(project), dict(os.environ))

    def call(name: str, arguments: dict[str, Any], **client: Any) -> dict[str, Any]:
        return dispatcher.call(name, arguments, replace(person, **client))

    yield call
    pool.close()


def add_by_shell(shell: Shell, dispatch: Dispatch, project: Path) -> Any:
    done = shell("add", TEXT)
    assert f"Redacted: 1 {KIND}. Run again with --keep-secrets to keep it." in done.err
    return shell("add", f"Again: {TEXT}", "--json").json["redacted"]


def add_by_mcp(shell: Shell, dispatch: Dispatch, project: Path) -> Any:
    result = call_tool(
        "add_memory", {"text": TEXT}, lambda op, arguments: dispatch(op, arguments, agent="an MCP client")
    )
    assert f"Note: redacted before writing: 1 {KIND}" in result.text
    return result.structured["redacted"]


def add_by_http(shell: Shell, dispatch: Dispatch, project: Path) -> Any:
    return dispatch("memory.add", {"text": TEXT, "origin": "user"}, own=False)["redacted"]


def add_by_python(shell: Shell, dispatch: Dispatch, project: Path) -> Any:
    with Lorelog(project=project) as memory:
        return dict(memory.add(TEXT, origin="tool").redacted)


def add_batch(shell: Shell, dispatch: Dispatch, project: Path) -> Any:
    first, second = dispatch("memory.add_batch", {"memories": [{"text": TEXT}, {"text": "Otters hold hands."}]})[
        "memories"
    ]
    assert second["redacted"] == {}
    return first["redacted"]


def add_names(shell: Shell, dispatch: Dispatch, project: Path) -> Any:
    request = {"text": "Otters hold hands.", "tags": ["otter", KEY], "cues": [f"command=aws {KEY}"]}
    reply = dispatch("memory.add", request)
    assert dispatch("memory.get", {"id": reply["id"]})["memory"]["tags"] == ["otter"]
    return {KIND: reply["redacted"][KIND] // 2}


def supersede(shell: Shell, dispatch: Dispatch, project: Path) -> Any:
    old = dispatch("memory.add", {"text": "Otters hold hands."})["id"]
    return dispatch("memory.supersede", {"id": old, "text": TEXT})["redacted"]


def import_memories(shell: Shell, dispatch: Dispatch, project: Path) -> Any:
    file = write(project.parent / "theirs.json", json.dumps({"omf": "1.0", "memories": [{"content": TEXT}]}))
    reply = shell("import", file, "--json").json
    return {KIND: reply["memories"]["redacted"]}


def add_guard(shell: Shell, dispatch: Dispatch, project: Path) -> Any:
    reply = dispatch("guard.add", {"command": "aws *", "message": TEXT})
    assert reply["notes"] == [f"redacted before writing: 1 {KIND}"]
    return {KIND: reply["guard"]["message"].count("[redacted:")}


def decide(shell: Shell, dispatch: Dispatch, project: Path) -> Any:
    reply = dispatch("artifact.decision", {"summary": TEXT})
    return {KIND: int(f"1 {KIND}" in str(reply["notes"]))}


def start_task(shell: Shell, dispatch: Dispatch, project: Path) -> Any:
    reply = dispatch("task.start", {"goal": TEXT})
    return {KIND: int(f"1 {KIND}" in str(reply["notes"]))}


CHANNELS = [
    *(add_by_shell, add_by_mcp, add_by_http, add_by_python, add_batch, add_names),
    *(supersede, import_memories, add_guard, decide, start_task),
]


@pytest.mark.parametrize("channel", CHANNELS, ids=lambda channel: channel.__name__)
def test_a_secret_is_in_no_file(
    shell: Shell, dispatch: Dispatch, project: Path, home: Path, channel: Callable[..., Any]
) -> None:
    """The reply counts what was redacted, and neither the home nor the project has the secret afterwards."""
    assert channel(shell, dispatch, project) == {KIND: 1}

    assert files_with(KEY, home, project) == []
    assert files_with("redacted:" if channel is not add_names else "otter", home, project)


def test_an_agent_is_not_told_to_keep_a_secret(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an agent's shell, where it is refused, the line about a redaction does not recommend --keep-secrets."""
    monkeypatch.setenv("CLAUDECODE", "1")

    assert shell("add", TEXT).err.splitlines()[0] == f"note: Redacted: 1 {KIND}."


def test_a_person_keeps_a_secret(shell: Shell, project: Path, home: Path) -> None:
    """With --keep-secrets the text is written as it is, by `add`, `supersede` and Python."""
    done = shell("add", TEXT, "--keep-secrets", "--json")
    assert done.json["redacted"] == {}
    replaced = shell("supersede", done.json["id"], f"New: {TEXT}", "--keep-secrets", "--json")
    assert replaced.json["redacted"] == {}
    with Lorelog(project=project) as memory:
        assert memory.add(f"Python: {TEXT}", keep_secrets=True).redacted == {}

    (journal,) = (project / ".lorelog" / "memory").glob("*.md")
    assert journal.read_text().count(KEY) == 3


@pytest.mark.parametrize("client", [{"agent": "an MCP client"}, {"own": False}, {"environment": "CLAUDECODE"}])
@pytest.mark.parametrize("op", ["memory.add", "memory.add_batch", "memory.supersede"])
def test_others_cannot_keep_a_secret(
    dispatch: Dispatch, project: Path, home: Path, client: dict[str, Any], op: str
) -> None:
    """MCP, HTTP and an agent's shell are refused, and nothing is written."""
    texts: dict[str, dict[str, Any]] = {
        "memory.add": {"text": TEXT},
        "memory.add_batch": {"memories": [{"text": TEXT}]},
    }
    request: dict[str, Any] = texts.get(op, {"id": "65fcbf6e", "text": TEXT})
    if "environment" in client:
        client = {"environment": {**os.environ, client["environment"]: "1"}}

    with pytest.raises(UsageError, match="cannot keep secrets"):
        dispatch(op, {**request, "keep_secrets": True}, **client)

    assert files_with(KEY, home, project) == []


def test_text_of_programs_is_always_redacted(dispatch: Dispatch, project: Path, home: Path) -> None:
    """Even a person cannot keep secrets in text of an agent, a tool or an import."""
    for origin in ("agent", "tool", "import"):
        with pytest.raises(UsageError, match="own text only"):
            dispatch("memory.add", {"text": TEXT, "origin": origin, "keep_secrets": True})
    assert files_with(KEY, home, project) == []


@pytest.mark.parametrize("caller", ["shell", "mcp"])
def test_the_question_of_feedback_is_redacted(caller: str, shell: Shell, dispatch: Dispatch, home: Path) -> None:
    """A secret in a judged question is not written, in any case of letters."""
    memory = shell("add", "Deploys run at night.", "--json").json["id"]
    if caller == "shell":
        shell("feedback", f"why {KEY}?", memory, "relevant")
    else:
        dispatch(
            "memory.feedback", {"query": f"why {KEY}?", "id": memory, "relevance": "relevant"}, agent="an MCP client"
        )

    assert [path for path in home.rglob("feedback.jsonl") if "[redacted:" in path.read_text("utf-8")]
    assert not [path for path in home.rglob("*.jsonl") if KEY.lower() in path.read_text("utf-8").lower()]
