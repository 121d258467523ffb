"""`lorelog forget` takes text out of every file below the home and the project, and proves it."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest
from tests.surfaces.conftest import Outcome, Shell, write

from lorelog.core.caller import AGENT_MARKERS
from lorelog.services.delivery.guards import GuardConditions, GuardDraft, GuardLog
from lorelog.services.delivery.log import append_delivery
from lorelog.services.places.project import find_project
from lorelog.services.places.workspace import Workspace

CANARY = "quaggafoal7731"
SECRET = f"The launch sequence of the balloon begins with {CANARY} at dawn."
STEPS = (
    "plan",
    "_add_tombstones",
    "_mark_captures",
    "_edit_files",
    "_redact_records",
    "_remove_from_index",
    "_scrub_databases",
    "_scrub_logs",
    "_refresh_derived",
    "_scrub_found",
    "receipt",
)


@pytest.fixture(autouse=True)
def _no_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shell belongs to a person, also where an agent runs the tests."""
    for variable in AGENT_MARKERS:
        monkeypatch.delenv(variable, raising=False)


def transcript(path: Path, project: Path) -> Path:
    """Write a session with one turn that holds the canary in a command and its error, and one without it."""
    lines = []
    said = (
        ("user", f"please try the command of {CANARY}"),
        ("assistant", [{"type": "tool_use", "id": "c1", "name": "Bash", "input": {"command": f"launch {CANARY}"}}]),
        (
            "user",
            [
                {
                    "type": "tool_result",
                    "tool_use_id": "c1",
                    "is_error": True,
                    "content": f'Traceback (most recent call last):\n  File "a.py", line 1, in f\nValueError: {CANARY}',
                }
            ],
        ),
        ("assistant", [{"type": "text", "text": f"It failed because {CANARY} is not a number."}]),
        ("user", "what is the weather in the harbour"),
        ("assistant", [{"type": "text", "text": "The harbour is foggy, so the ferry waits until noon."}]),
        ("user", "thanks"),
        ("assistant", [{"type": "text", "text": "You are welcome."}]),
    )
    for number, (kind, content) in enumerate(said):
        lines.append(
            {
                "type": kind,
                "uuid": f"00000000-0000-4000-8000-{number:012d}",
                "sessionId": "session-1",
                "cwd": str(project),
                "timestamp": f"2026-03-05T10:00:{number:02d}.000Z",
                "message": {"role": kind, "content": content},
            }
        )
    return write(path, "".join(json.dumps(line) + "\n" for line in lines))


def capture(shell: Shell, path: Path) -> Outcome:
    event = {"host": "claude", "session": "session-1", "transcript": str(path), "everything": True}
    return shell("call", "session.capture", "--json", json.dumps(event))


def holders(*places: Path) -> list[str]:
    """Return the files below some places whose bytes hold the canary, in either case."""
    files = [path for place in places for path in place.rglob("*") if path.is_file()]
    return [str(path) for path in files if CANARY.encode() in path.read_bytes().lower()]


def contents(*places: Path) -> dict[str, bytes]:
    """Return the bytes of all files, but not of the small files that SQLite makes for readers, nor of traced calls."""
    files = [path for place in places for path in place.rglob("*") if path.is_file()]
    left_out = ("-shm", "-wal", "traces.spool")
    return {str(path): path.read_bytes() for path in files if not path.name.endswith(left_out) or CANARY in str(path)}


@pytest.fixture
def tenant(home: Path, project: Path) -> Path:
    """The folder of the default tenant."""
    return Workspace(find_project(str(project)), home, "default").tenant_folder


@pytest.fixture
def full(shell: Shell, project: Path, home: Path, tenant: Path, tmp_path: Path) -> Path:
    """A home with the canary in every place, beside other memories; returns the host's transcript."""
    shell("add", "The ferry to the island leaves at noon from pier four.", "--type", "fact")
    secret = shell("add", SECRET, "--type", "decision", "--json").json["memory"]
    shell("add", "Maps are stored as tiles because the tablets have little memory.", "--type", "decision")
    assert shell("compact", "--llm", "none").status == 0
    path = transcript(tmp_path / "host" / "session-1.jsonl", project)
    assert len(capture(shell, path).json["captured"]) == 3
    assert shell("feedback", f"what is {CANARY} about", secret, "relevant").status == 0
    assert shell("expire", secret, "2099-01-01").status == 0
    assert shell("decide", f"Use {CANARY} as the call sign", "--because", "nobody else uses it").status == 0
    assert shell("decide", "Use the northern slip", "--because", "the southern one is under repair").status == 0
    guards = GuardLog(tenant / "guards.jsonl")
    for word, memory in ((CANARY, secret), ("rm -r *", "")):
        draft = GuardDraft(conditions=GuardConditions(command=f"{word} *"), message=f"do not {word}", memory=memory)
        guards.enable(guards.add(draft, "person").guard, "person")
    append_delivery(
        str(tenant / "deliveries"), "claude", "s", {"memories": [secret], "kind": "cue", "cue": f"command={CANARY}"}
    )
    write(home / "logs" / "daemon.log", f"started\nfailed for {CANARY}\nstopped\n")
    write(home / "spool" / "failed" / "e.json", json.dumps({"answer": SECRET}))
    write(home / "summaries" / "r.json", json.dumps({"text": SECRET}))
    write(project / ".lorelog" / "context.md", f"# Context\n\n- {SECRET}\n- The ferry leaves at noon.\n")
    (home / "backups").mkdir()
    with tarfile.open(home / "backups" / "old.tar.gz", "w:gz") as archive:
        member = tarfile.TarInfo("journal.md")
        member.size = len(SECRET)
        archive.addfile(member, io.BytesIO(SECRET.encode()))
    shell("search", "balloon launch sequence")
    shell("search", "call sign")
    return path


def test_nothing_of_it_is_left_and_everything_else_is_as_it_was(
    full: Path, shell: Shell, project: Path, home: Path, tenant: Path
) -> None:
    """After a forget no file holds the text, other entries keep their bytes, the ledger verifies, nothing brings it back."""
    journals = sorted((project / ".lorelog" / "memory").glob("*.md"))
    before = {path: path.read_bytes() for path in journals}
    assert len(holders(home, project)) > 10

    done = shell("forget", "--match", CANARY.upper(), "--yes")

    assert done.status == 0, done.out + done.err
    assert done.out.startswith("forgotten: 0 residues in ")
    assert "session-1.jsonl" in done.err
    assert holders(home, project) == []
    for path in journals:
        kept = [part for part in before[path].split(b"\n### ") if CANARY.encode() not in part]
        assert [part.rstrip() for part in path.read_bytes().split(b"\n### ") if b"in their own" not in part] == [
            part.rstrip() for part in kept if b"in their own" not in part
        ]
    assert "The ferry to the island leaves at noon" in shell("search", "ferry island").out
    assert "Summary of 2 chunks" in shell("search", "ferry tiles tablets", "--json").out
    assert CANARY not in shell("search", CANARY, "balloon launch").out.lower()
    assert shell("ledger", "verify").status == 0
    assert "northern slip" in shell("search", "northern slip").out
    assert [guard.message for guard in GuardLog(tenant / "guards.jsonl").all()] == ["do not rm -r *"]
    assert (home / "logs" / "daemon.log").read_text() == "started\nstopped\n"

    assert capture(shell, full).json.get("captured", []) == []
    shell("index", "--force")
    assert holders(home, project) == []
    assert shell("forget", "--verify", "last").status == 0
