"""`lorelog identity`: create, show, export, trust and forget; no secret is printed."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.surfaces.conftest import Shell, command_line, run_process

from lorelog.light.daemon_control import spawn_environment
from lorelog.operations.dispatch import ClientIdentity, Dispatcher


def start_task(shell: Shell, **said: Any) -> dict[str, Any]:
    written = shell("call", "task.start", "--json", json.dumps({"goal": "count otters", **said})).json
    shown = shell("call", "artifact.get", "--json", json.dumps({"artifact_id": written["artifact_id"]})).json
    artifact: dict[str, Any] = shown["artifact"]
    return artifact


def test_what_one_exports_another_trusts(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A trusted public key makes signatures valid in another home, and forgetting it makes them invalid."""
    shell("identity", "create", "otto")
    line = shell("identity", "export", "otto").out.strip()
    own = shell("identity", "show", "otto", "--json").json
    shell("config", "set", "records.identity", "otto")
    start_task(shell)
    file = tmp_path / "out.jsonl"
    assert shell("export", "--format", "ledger", "--output", file).status == 0

    monkeypatch.setenv("LORELOG_HOME", str(tmp_path / "other"))
    trusted = shell("identity", "trust", "otto", line, "--json").json
    assert trusted["own"] is False
    assert trusted["keys"][0]["fingerprint"] == own["keys"][0]["fingerprint"]
    assert shell("import", file).status == 0
    assert shell("ledger", "check", "--json").json["signatures"]["valid"] == 1

    gone = shell("identity", "forget", "otto", "--json").json
    assert gone == {"name": "otto", "forgotten": [own["keys"][0]["fingerprint"]], "private_key": ""}
    after = shell("ledger", "check", "--json")
    assert (after.status, after.json["signatures"]["valid"], after.json["signatures"]["unknown_key"]) == (0, 0, 1)
    assert after.json["unproven"][0]["state"] == "unknown key"


def test_the_list_tells_own_from_trusted(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Own, trusted and forgotten identities are distinguished."""
    assert "No identities yet" in shell("identity", "list").out
    shell("identity", "create", "mara")
    shell("identity", "create", "greta")
    monkeypatch.setenv("LORELOG_HOME", str(tmp_path / "other"))
    shell("identity", "create", "otto")
    line = shell("identity", "export", "otto").out.strip()
    monkeypatch.setenv("LORELOG_HOME", str(tmp_path / "third"))
    shell("identity", "create", "mara")
    shell("identity", "trust", "otto", line)
    shell("identity", "forget", "mara")

    told = shell("identity", "list").out.splitlines()
    assert [line.split()[:2] for line in told] == [["mara", "own"], ["otto", "trusted"]]
    assert told[0].endswith("forgotten")


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["show", "nobody"], 1),
        (["export", "nobody"], 1),
        (["forget", "nobody"], 1),
        (["trust", "otto", "nonsense"], 2),
        (["create", " "], 2),
        (["create", "mara", "--passphrase"], 2),
    ],
)
def test_what_cannot_be_is_said(shell: Shell, words: list[str], status: int) -> None:
    """Unknown names, invalid keys and a missing terminal are errors with a hint, and create nothing."""
    done = shell("identity", *words, "--json")

    assert done.status == status
    assert done.json["error"]["hint"]
    assert shell("identity", "list", "--json").json == {"identities": []}


@pytest.mark.slow
def test_no_secret_is_printed(shell: Shell, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No command prints the private key or the passphrase, even on failure."""
    monkeypatch.setenv("LORELOG_IDENTITY_PASSPHRASE", "open-sesame")
    said = [shell("identity", "create", "mara", "--passphrase")]
    secret = (home / "identities" / "mara.key").read_text().splitlines()[1:-1]
    shell("config", "set", "records.identity", "mara")
    said += [
        shell("identity", verb, *names) for verb, names in (("list", []), ("show", ["mara"]), ("export", ["mara"]))
    ]
    said.append(shell("call", "task.start", "--json", '{"goal": "x"}'))
    monkeypatch.setenv("LORELOG_IDENTITY_PASSPHRASE", "closed-sesame")
    said.append(shell("call", "task.start", "--json", '{"goal": "x"}'))
    said += [shell("config", "list"), shell("identity", "forget", "mara"), shell("export", "--format", "ledger")]

    assert [item.status for item in said] == [0, 0, 0, 0, 0, 1, 0, 0, 0]
    assert "does not decrypt it" in said[5].out
    text = "".join(entry.out + entry.err for entry in said)
    assert "sesame" not in text
    assert not [line for line in secret if line in text]


@pytest.mark.parametrize("own", [True, False])
def test_a_stranger_has_nothing_signed(shell: Shell, project: Path, home: Path, own: bool) -> None:  # noqa: FBT001
    """Records written over HTTP are not signed with the server's key."""
    shell("identity", "create", "mara")
    shell("config", "set", "records.identity", "mara")
    caller = ClientIdentity(str(project), {"LORELOG_HOME": str(home), "LORELOG_EMBEDDING_PROVIDER": "none"}, own=own)
    written = Dispatcher().call("task.start", {"goal": "count otters"}, caller)

    assert written["trust"]["signed"] is own


def test_a_daemon_does_not_keep_a_passphrase() -> None:
    """The passphrase is not passed on to the daemon's environment."""
    kept = spawn_environment({"LORELOG_IDENTITY_PASSPHRASE": "x", "LORELOG_SEARCH_K": "3"})

    assert "LORELOG_IDENTITY_PASSPHRASE" not in kept
    assert kept["LORELOG_SEARCH_K"] == "3"


@pytest.mark.slow
def test_a_passphrase_is_asked_for_at_a_terminal(project: Path, home: Path) -> None:
    """The passphrase is asked for twice without echo, and encrypts the key."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        command_line("identity", "create", "mara", "--passphrase"), stdin=theirs, stdout=theirs, stderr=theirs, cwd=project,
        start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    shown = b""
    for question in (b"Passphrase:", b"Repeat passphrase:"):
        while question not in shown:
            shown += os.read(ours, 1000)
        os.write(ours, b"open-sesame\n")
    assert process.wait(60) == 0
    while True:
        try:
            piece = os.read(ours, 1000)
        except OSError:
            break
        if not piece:
            break
        shown += piece
    os.close(ours)

    assert b"Created" in shown
    assert b"sesame" not in shown
    assert "ENCRYPTED" in (home / "identities" / "mara.key").read_text()


def test_a_home_that_cannot_be_written_is_named(project: Path, home: Path) -> None:
    """If the key cannot be stored, none is created, and the reason is reported."""
    home.mkdir(parents=True, exist_ok=True)
    home.chmod(0o500)
    try:
        done = run_process(["identity", "create", "mara"], project, mortal=True)
    finally:
        home.chmod(0o700)

    assert done.status == 1
    assert "cannot be written" in done.err
    assert "Traceback" not in done.err
