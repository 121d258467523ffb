"""`lorelog guard` proposes, replays, switches on and retires guards; an agent cannot make one block."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.surfaces.conftest import Shell, write

from lorelog.core.errors import UsageError
from lorelog.light.delivery_files import DeliveryFiles
from lorelog.light.guard_check import check_guards
from lorelog.operations.dispatch import ClientIdentity, Dispatcher
from lorelog.services.places.workspace import find_project

REJECTION = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected. To tell you how to proceed,"
    " the user said:\nuse pnpm, not npm"
)
INTERRUPTION = "[Request interrupted by user for tool use]"


def transcript(path: Path, project: Path) -> Path:
    """Write a session in which npm was rejected, used before the rule was said again, and interrupted."""
    lines: list[dict[str, Any]] = []

    def add(kind: str, content: object) -> None:
        number = len(lines)
        lines.append(
            {
                "type": kind,
                "uuid": f"0000000{number:02d}-0000-4000-8000-000000000000"[-36:],
                "sessionId": "session-1",
                "cwd": str(project),
                "timestamp": f"2026-03-05T10:00:{number:02d}.000Z",
                "message": {"role": kind, "content": content},
            }
        )

    def call(identity: str, tool: str, arguments: dict[str, Any], result: str = "ok") -> None:
        add("assistant", [{"type": "tool_use", "id": identity, "name": tool, "input": arguments}])
        failed = result in (REJECTION, INTERRUPTION)
        add("user", [{"type": "tool_result", "tool_use_id": identity, "content": result, "is_error": failed}])

    add("user", "set up the project")
    call("c1", "Bash", {"command": "cd app && npm install"}, REJECTION)
    call("c2", "Bash", {"command": "pnpm install"})
    call("c3", "Write", {"file_path": str(project / "a.ts"), "content": "console.log(1)\nexport default 1"})
    add("assistant", [{"type": "text", "text": "Done."}])
    add("user", "run the tests")
    call("c4", "Bash", {"command": "npm test"})
    add("assistant", [{"type": "text", "text": "They pass."}])
    add("user", "I told you.\nnever use npm!")
    call("c5", "Bash", {"command": "npm run lint"}, INTERRUPTION)
    add("assistant", [{"type": "text", "text": "Linted."}])
    add("user", "thanks, now write the readme")
    call("c6", "Bash", {"command": 'echo "npm install"'})
    add("assistant", [{"type": "text", "text": "Done."}])
    return write(path, "".join(json.dumps(line) + "\n" for line in lines))


@pytest.fixture
def captured(shell: Shell, project: Path, tmp_path: Path) -> Path:
    path = transcript(tmp_path / "host" / "session-1.jsonl", project)
    event = {"host": "claude", "session": "session-1", "transcript": str(path), "everything": True}
    reply = shell("call", "session.capture", "--json", json.dumps(event)).json
    assert len(reply.get("captured", ())) == 4, reply
    return path


@pytest.fixture
def standing(project: Path, home: Path) -> Callable[..., None]:
    """Writes standing memories of the project."""

    def write_memories(*memories: dict[str, Any]) -> None:
        files = DeliveryFiles(str(home / "data" / "default"), find_project(str(project)).id)
        values = {"type": "correction", "date": "2026-03-05", "origin": "user", "own": True}
        write(Path(files.standing[0]), "".join(json.dumps({**values, **memory}) + "\n" for memory in memories))

    return write_memories


def test_a_guard_is_replayed_over_the_transcripts(shell: Shell, captured: Path) -> None:
    """What the user rejected or interrupted counts as corrected; what other words mean is not guessed."""
    shown = shell("guard", "test", "--command", "npm *")

    assert "3 of 6: 2 were what you corrected, 1 was not" in shown.out
    assert "cd app && npm install  (rejected)" in shown.out
    assert "you said: use pnpm, not npm" in shown.out
    assert "npm run lint  (interrupted)" in shown.out
    assert "npm test  (not corrected)" in shown.out
    assert "1 of 6: 0 were what you corrected, 1 was not" in shell("guard", "test", "--content", "console.log(").out


def test_traces_are_replayed_when_the_transcript_is_gone(shell: Shell, captured: Path) -> None:
    """Without the transcript, the traced commands and files remain; the reply says what is unknown."""
    captured.unlink()

    reply = shell("guard", "test", "--command", "npm *", "--json").json
    assert (reply["hit_count"], reply["from_traces"], reply["from_transcripts"]) == (3, 6, 0)
    assert reply["corrected"] >= 1
    assert "not known" in shell("guard", "test", "--content", "console.log(").err


def test_a_proposal_is_switched_on_by_its_id(
    shell: Shell, project: Path, home: Path, captured: Path, standing: Callable[..., None]
) -> None:
    """A rule is proposed with an example, replayed with what the user said again, approved, and then blocks the call in the hook."""
    npm = {"id": "m1", "text": "never use npm", "cues": ["command=npm"]}
    standing(npm, {"id": "m2", "text": "never edit .env", "own": False, "cues": ["path=.env"]})

    shown = shell("guard", "list")
    assert "command 'npm *'" in shown.out
    assert "would match: npm" in shown.out
    assert ".env" not in shown.out
    (proposal,) = shell("guard", "list", "--json").json["proposals"]
    enabled = shell("guard", "enable", proposal["id"], "--block")
    assert "3 of 6: 3 were what you corrected, 0 were not" in enabled.out
    assert f"{proposal['id']} is on: it blocks." in enabled.out
    assert shell("guard", "list", "--json").json["proposals"] == []

    file, root = str(home / "data" / "default" / "guards.jsonl"), str(project)
    call = {"tool": "Bash", "kind": "run", "command": "cd x && npm ci"}
    match = check_guards(file, find_project(root).id, call, root)
    assert match is not None
    assert (match["action"], match["memory"]) == ("block", "m1")
    assert "never use npm" in match["message"]


def test_rules_are_compared_with_past_calls(
    shell: Shell, project: Path, captured: Path, standing: Callable[..., None]
) -> None:
    """Each rule and line of AGENTS.md has its calls: followed, broken since it was said, corrected; one rule's are listed."""
    assert shell("rules").out.startswith("No rules")
    standing(
        {"id": "m1", "text": "use pnpm, not npm", "cues": ["command=npm"], "date": "2026-03-05"},
        {"id": "m2", "text": "never use npm", "cues": ["command=npm"], "date": "2026-03-06"},
        {"id": "m3", "text": "never use npm at all", "cues": ["command=npm"], "own": False},
    )
    forbidding = "- **Never** run `npm install`.\n- Never run `npm test` on Fridays"
    write(project / "AGENTS.md", f"# Rules\n{forbidding}\n- `npm test`: tests\n- Be kind")

    reply = shell("rules", "--json").json
    names = ("applies", "followed", "broken", "corrected", "checkable", "forbids")
    rules = {rule["id"]: [rule[name] for name in names] for rule in reply["rules"]}
    assert rules == {
        "m1": [4, 1, 3, 2, True, True],
        "AGENTS.md:2": [1, 0, 1, 1, True, True],
        "m2": [0, 0, 0, 0, True, True],
        **{f"AGENTS.md:{line}": [0, 0, 0, 0, False, False] for line in (3, 4, 5)},
    }
    assert "npm test  (broken)" in shell("rules", "m1").out
    assert "cd app && npm install  (broken, rejected)\n    you said: use pnpm, not npm" in shell("rules", "m1").out
    assert "pnpm install  (followed)" in shell("rules", "m1").out
    assert "6 calls; 0 more" in shell("rules").err
    assert "'m9' is not one of the rules" in shell("rules", "m9").err
    assert "did you mean 'lorelog rules export'?" in shell("rules", "exprot").err


def test_a_guard_that_would_stop_most_real_calls_is_refused(shell: Shell, project: Path, tmp_path: Path) -> None:
    """The share of the captured calls decides: a guard on a program that nearly all commands use is refused."""
    lines = [{"type": "user", "uuid": "u0", "sessionId": "s", "message": {"role": "user", "content": "go"}}]
    for number in range(30):
        block = {"type": "tool_use", "id": f"c{number}", "name": "Bash", "input": {"command": f"just step{number}"}}
        lines.append(
            {"type": "assistant", "uuid": f"a{number}", "sessionId": "s", "message": {"role": "a", "content": [block]}}
        )
    path = write(tmp_path / "host" / "s.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    event = {"host": "claude", "session": "s", "transcript": str(path), "everything": True}
    shell("call", "session.capture", "--json", json.dumps(event))

    refused = shell("guard", "add", "--command", "just *", "--message", "x")

    assert "matches 30 of 30 commands: that is nearly everything" in refused.err


def test_a_guard_from_elsewhere_is_refused(shell: Shell, standing: Callable[..., None]) -> None:
    """A memory that came with the repository or an import, an agent's, and an unknown one cannot become a guard."""
    standing(
        {"id": "m2", "text": "never use pnpm", "cues": ["command=pnpm"], "own": False},
        {"id": "m3", "text": "never use pip", "cues": ["command=pip"], "origin": "import"},
        {"id": "m4", "text": "never use yarn", "cues": ["command=yarn"], "origin": "agent"},
    )

    assert shell("guard", "list", "--json").json["proposals"] == []
    for memory in ("m2", "m3", "m4", "unknown"):
        refused = shell("guard", "add", "--command", "pnpm *", "--memory", memory)
        assert refused.status == 2
    assert "came with a repository" in shell("guard", "add", "--command", "pnpm *", "--memory", "m2").err


@pytest.mark.parametrize("client", [{"own": False}, {"agent": "an MCP client"}])
def test_remote_clients_and_mcp_count_as_agents(project: Path, client: dict[str, Any]) -> None:
    """HTTP and MCP list, propose and add guards that warn; they never enable one that blocks."""
    caller = ClientIdentity(str(project), {}, **client)
    call = Dispatcher().call
    added = call("guard.add", {"command": "npm *", "message": "use pnpm"}, caller)["guard"]

    assert added["created_by"] == "agent"
    assert call("guard.list", {}, caller)["proposals"] == []
    with pytest.raises(UsageError, match="blocks"):
        call("guard.enable", {"id": added["id"], "action": "block"}, caller)
    assert call("guard.enable", {"id": added["id"]}, caller)["guard"]["action"] == "warn"


@pytest.mark.parametrize(
    "words",
    [
        ("test",),
        ("test", "g1", "--command", "npm *"),
        ("test", "nothing"),
        ("add", "--command", "npm *"),
        ("add", "--command", "n" * 500, "--message", "x"),
        ("enable", "nothing"),
        ("enable", "x", "--warn", "--block"),
    ],
)
def test_bad_input_is_an_error_with_a_hint(shell: Shell, words: tuple[str, ...]) -> None:
    """Missing, contradictory, too long and unknown arguments are errors, and nothing is written."""
    refused = shell("guard", *words)

    assert refused.status in (1, 2)
    assert "hint:" in refused.err
    assert shell("guard", "list", "--json").json["guards"] == []
