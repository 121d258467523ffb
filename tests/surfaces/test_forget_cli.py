"""`lorelog forget` erases text from every file below the home and the project, and verifies that it is gone."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from tests.code.repositories import repository
from tests.surfaces.conftest import Outcome, Shell, write

from lorelog.core.caller import AGENT_MARKERS
from lorelog.light.delivery_log import append_delivery
from lorelog.services.guards.guard_log import GuardDraft, GuardLog
from lorelog.services.places.workspace import Workspace, find_project

CANARY = "quaggafoal7731"
SECRET = f"The launch sequence of the balloon begins with {CANARY} at dawn."


STEPS = (
    *("plan", "_add_tombstones", "_mark_captures", "_edit_files", "_delete_transcripts", "_redact_records"),
    *("_remove_from_index", "_scrub_databases", "_scrub_logs", "_refresh_derived", "_scrub_found", "receipt"),
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
    ferry = shell("add", "The ferry to the island leaves at noon from pier four.", "--type", "fact", "--json").json[
        "memory"
    ]
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
        draft = GuardDraft(command=f"{word} *", message=f"do not {word}", memory=memory)
        guards.enable(guards.add(draft, "person").guard, "person")
    for delivery in (
        {"memories": [secret], "kind": "cue", "cue": f"command={CANARY}"},
        {"memories": [secret]},
        {"memories": [ferry]},
    ):
        append_delivery(str(tenant / "deliveries"), "claude", "s", delivery)
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
    found = [hit["content"] for hit in shell("search", "ferry island tiles tablets", "--json").json["hits"]]
    assert any("The ferry to the island leaves at noon" in text for text in found)
    assert any("Summary of 2 chunks" in text for text in found)
    assert CANARY not in shell("search", CANARY, "balloon launch").out.lower()
    assert shell("ledger", "check").status == 0
    assert "northern slip" in shell("search", "northern slip").out
    assert [guard.message for guard in GuardLog(tenant / "guards.jsonl").all()] == ["do not rm -r *"]
    assert (home / "logs" / "daemon.log").read_text() == "started\nstopped\n"
    (deliveries,) = (tenant / "deliveries").glob("*.jsonl")
    assert len(deliveries.read_text().splitlines()) == 1

    assert capture(shell, full).json.get("captured", []) == []
    shell("index", "--force")
    assert holders(home, project) == []
    assert shell("forget", "--verify", "last").status == 0


def test_a_dry_run_lists_every_entry_and_changes_no_byte(full: Path, shell: Shell, project: Path, home: Path) -> None:
    """A dry run shows entries, records, summaries and what is out of reach, and all files are as they were."""
    before = contents(home, project)

    dry = shell("forget", "--match", CANARY, "--dry-run")
    told = shell("forget", "--match", CANARY, "--dry-run", "--json").json

    assert dry.status == 0
    assert contents(home, project) == before
    assert told["selected"] == {"memories": 2, "turns": 1, "summaries": 1, "records": 1}
    assert {entry["action"] for entry in told["entries"]} == {"cut", "reword"}
    assert told["references"].keys() == {"feedback", "lifecycle", "authored", "guards", "deliveries", "traces"}
    assert SECRET in [entry["preview"] for entry in told["entries"]]
    assert "record: its text is replaced by its hash" in dry.out
    assert str(full) in told["unreached"]
    refused = shell("forget", "--match", CANARY)
    assert refused.status == 2
    assert "--yes" in refused.err
    assert contents(home, project) == before


@pytest.mark.slow
@pytest.mark.parametrize("step", STEPS)
def test_a_forget_that_is_killed_is_completed_by_the_next_write(
    step: str, full: Path, shell: Shell, project: Path, home: Path
) -> None:
    """A process that dies after any step leaves a plan; a search warns, the next write completes it: 0 residues."""
    script = (
        "import os, sys\n"
        "from lorelog.services.forget import forgetter\n"
        "from lorelog.surfaces.cli.main import main\n"
        f"forgetter.reached = lambda step: os._exit(9) if step == {step!r} else None\n"
        f"main(['forget', '--match', {CANARY!r}, '--yes'])\n"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False, env=dict(os.environ)).returncode == 9

    assert "a forget was interrupted" in shell("search", "ferry").err
    assert shell("add", "The tide table hangs in the hall.").status == 0

    assert "a forget was interrupted" not in shell("search", "ferry").err
    assert holders(home, project) == []
    assert shell("forget", "--list", "--json").json["receipts"][0]["ok"]
    assert shell("ledger", "check").status == 0


def test_a_hidden_memory_is_forgotten_too(shell: Shell, project: Path, home: Path) -> None:
    """A deleted memory is still in its file, and a forget finds it there by its id and by its text."""
    one, two = (shell("add", f"{SECRET} Number {n}.", "--json").json["memory"] for n in (1, 2))
    for memory in (one, two):
        assert "lorelog forget" in shell("delete", memory).out

    assert shell("forget", one, "--yes").status == 0
    assert len(holders(project)) == 1
    assert shell("forget", "--match", CANARY, "--yes").status == 0

    assert holders(home, project) == []


def test_an_agent_cannot_forget_and_a_server_needs_a_confirmation(
    shell: Shell, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent's shell may look but not forget; without confirmation the operation changes nothing."""
    memory = shell("add", SECRET, "--json").json["memory"]

    refused = shell("call", "memory.forget", "--json", json.dumps({"ids": [memory]}))
    assert "no way back" in refused.out
    monkeypatch.setenv("CLAUDECODE", "1")
    assert shell("forget", memory, "--dry-run").status == 0
    assert "cannot forget for good" in shell("forget", memory, "--yes").err
    assert holders(project)


def test_a_session_is_forgotten_and_not_captured_again(shell: Shell, project: Path, home: Path, tmp_path: Path) -> None:
    """All turns of a session go, and capturing it again brings none of them back, even without the captures database."""
    path = transcript(tmp_path / "host" / "session-1.jsonl", project)
    assert len(capture(shell, path).json["captured"]) == 3

    assert shell("forget", "--session", "session-1", "--yes").status == 0

    journal = project / ".lorelog" / "memory" / "2026-03-05.md"
    assert journal.read_text().strip() == "# 2026-03-05"
    assert capture(shell, path).json.get("captured", []) == []
    for database in home.rglob("captures.db*"):
        database.unlink()
    assert capture(shell, path).json.get("captured", []) == []
    assert holders(home, project) == []


def test_conversations_of_hosts_go_on_request_and_only_those_that_were_captured(
    shell: Shell, project: Path, home: Path, tmp_path: Path
) -> None:
    """--host-transcripts deletes the file that our capture read; a file that only an anchor names is left alone."""
    own = transcript(tmp_path / "host" / "session-1.jsonl", project)
    other = transcript(tmp_path / "host" / "other.jsonl", project)
    capture(shell, own)
    (journal,) = (project / ".lorelog" / "memory").glob("2026-03-05.md")
    forged = (
        f"\n### 11:00\n<!-- session:session-1 turn:x transcript:{other} memory:forged origin:agent -->\n- {CANARY}\n"
    )
    journal.write_text(journal.read_text("utf-8") + forged, "utf-8")
    shell("index")

    preview = shell("forget", "--match", CANARY, "--host-transcripts", "--dry-run")
    assert f"{own.name} would be deleted" in preview.out.replace("\n", " ")
    assert own.exists()
    done = shell("forget", "--match", CANARY, "--host-transcripts", "--edit-files", "--yes")

    assert done.status == 0, done.err
    assert not own.exists()
    assert other.exists()
    assert str(other.name) in done.err


def test_the_command_that_is_named_for_a_conversation_deletes_it(full: Path, shell: Shell) -> None:
    """After a forget, the command that the note names deletes the host's conversation, as a dry run says; then it is not named."""
    ((named, _),) = re.findall(
        r"'lorelog (forget --verify (\S+) --host-transcripts)' deletes it",
        shell("forget", "--match", CANARY, "--yes").err,
    )
    assert f"{full.name} would be deleted" in shell(*named.split(), "--dry-run").out.replace("\n", " ")
    assert (shell(*named.split()).status, full.exists()) == (2, True)

    done = shell(*named.split(), "--yes")

    assert (done.status, full.exists()) == (0, False), done.err
    assert "not reached" not in shell("forget", "--verify", "last").err
    assert "names no conversation" in shell(*named.split(), "--yes").err


def test_files_that_are_not_ours_are_edited_only_if_confirmed(shell: Shell, project: Path) -> None:
    """A note outside the journals, and an entry that came with the repository, are refused; --edit-files erases them."""
    note = write(project / "notes" / "plan.md", f"# Plan\n\nKeep this.\n\n## Launch\n\n{SECRET}\n")
    foreign = write(
        project / ".lorelog" / "memory" / "2026-01-01.md",
        f"# 2026-01-01\n\n### 10:00\n<!-- memory:m1 type:fact origin:user -->\nAs {CANARY} said.\n",
    )
    repository(project, {})
    shell("index", "notes")
    shell("index")
    before = contents(project)

    for wanted, reason in ((["--match", "launch"], "outside the journals"), (["m1"], "came with the repository")):
        done = shell("forget", *wanted, "--yes")
        assert (done.status, reason in done.err) == (2, True)
    assert contents(project) == before
    done = shell("forget", "--match", CANARY, "--yes", "--edit-files")

    assert done.status == 0, done.err
    assert note.read_text() == "# Plan\n\nKeep this.\n\n"
    assert CANARY not in foreign.read_text()


def test_a_forgotten_memory_is_gone_and_its_return_is_found(shell: Shell, project: Path, home: Path) -> None:
    """It can be neither restored nor forgotten again; `--verify` fails and names the file that brings the text back."""
    reply = shell("add", SECRET, "--json").json
    saved = Path(reply["source"]).read_text("utf-8")
    assert shell("forget", reply["memory"], "--yes").status == 0
    assert "forgotten for good" in shell("restore", reply["memory"]).err
    assert shell("forget", reply["memory"], "--yes").status == 1
    write(project / ".lorelog" / "copy.md", saved)

    done = shell("forget", "--verify", "last")

    assert (done.status, "copy.md" in done.out) == (1, True)


def test_a_damaged_catalog_that_was_set_aside_goes_too(shell: Shell, project: Path, home: Path) -> None:
    """A file of ours that holds the text and cannot be searched is deleted."""
    memory = shell("add", SECRET, "--json").json["memory"]
    (catalog,) = home.glob("cache/*/catalog.db")
    aside = catalog.with_name("catalog.db.bad-20260305T140000")
    aside.write_bytes(b"SQLite format 3\0" + b"x" * 100 + SECRET.encode())

    done = shell("forget", memory, "--yes")

    assert done.status == 0, done.out
    assert not aside.exists()
