"""`lorelog ledger`: verify, export and import; damage is reported with exit status 1."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from tests.surfaces.conftest import Shell


def start_task(shell: Shell, goal: str = "count otters", **said: Any) -> dict[str, Any]:
    written: dict[str, Any] = shell("call", "task.start", "--json", json.dumps({"goal": goal, **said})).json
    return written


def ledger_of(home: Path) -> Path:
    return home / "data" / "default" / "ledger.jsonl"


def test_a_sound_ledger_is_said_to_be(shell: Shell, home: Path) -> None:
    """Nothing written, or all as it was written: exit 0; and looking makes no file."""
    empty = shell("ledger", "check")
    assert (empty.status, empty.out) == (0, "Nothing is recorded yet.\n")
    assert not ledger_of(home).exists()

    start_task(shell)
    found = shell("ledger", "check", "--json")
    assert (found.status, found.json["ok"], found.json["records"]) == (0, True, 1)


def test_damage_is_named_with_its_line(shell: Shell, home: Path) -> None:
    """A changed line is reported with its file and line, exit status 1, and the first record that cannot be verified."""
    for number in range(3):
        start_task(shell, f"goal {number}")
    file = ledger_of(home)
    file.write_bytes(file.read_bytes().replace(b"goal 1", b"goal 7"))

    found = shell("ledger", "check")
    assert found.status == 1
    assert "ledger.jsonl:2: it was changed after it was written" in found.out
    assert "Records from 2 on" in found.out
    told = shell("ledger", "check", "--json")
    assert (told.status, told.json["first_unverified"], told.json["fault_count"]) == (1, 2, 1)
    assert told.json["faults"] == [{"file": "ledger.jsonl", "line": 2, "what": "it was changed after it was written"}]


def test_a_false_signature_is_a_fault(shell: Shell, home: Path, tmp_path: Path) -> None:
    """A record with a signature that does not fit it, restored from a file: exit 1, and the record is named."""
    shell("identity", "create", "mara")
    shell("config", "set", "records.identity", "mara")
    start_task(shell)
    text = shell("export", "--format", "ledger").out.replace("count otters", "count beavers")
    file = tmp_path / "in.jsonl"
    file.write_text(text, "utf-8")
    assert shell("import", file, "--restore", "--tenant", "other").status == 0

    found = shell("ledger", "check", "--tenant", "other")
    assert found.status == 1
    assert "does not match its content" in found.out
    assert shell("ledger", "check").status == 0


@pytest.mark.parametrize("form", ["jsonl", "omf", "ledger"])
def test_what_is_exported_is_imported(form: str, shell: Shell, tmp_path: Path) -> None:
    """Every format is exported to a private file and imported into another tenant; importing again writes nothing."""
    start_task(shell)
    file = tmp_path / "out"
    assert shell("export", "--format", form, "--output", file).status == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    if form != "omf":
        assert shell("export", "--format", form).out == file.read_text("utf-8")

    dry = shell("import", file, "--dry-run", "--json", "--tenant", "t").json
    taken = shell("import", file, "--json", "--tenant", "t")
    again = shell("import", file, "--restore", "--json", "--tenant", "t")
    assert (taken.status, taken.json["written"], taken.json["tainted"]) == (0, 1, 1)
    assert {**dry, "dry_run": False} == taken.json
    assert (again.status, again.json["refused"]) == (1, 1)
    assert "exists and differs" in again.json["problems"][0]["message"]
    assert shell("import", file, "--json", "--tenant", "t").json["there"] == 1


def test_a_bad_line_is_told_and_changes_the_exit_status(shell: Shell, tmp_path: Path) -> None:
    """The rest is taken; the line is named."""
    start_task(shell)
    file = tmp_path / "in.jsonl"
    file.write_text("nonsense\n" + shell("export", "--format", "ledger").out, "utf-8")

    done = shell("import", file, "--tenant", "t")
    assert done.status == 1
    assert "line 1: it is not valid JSON" in done.err
    assert "1 record written, 1 refused" in done.out


def test_memories_travel_in_omf(shell: Shell, project: Path, tmp_path: Path) -> None:
    """Memories leave without their anchors and arrive as imported ones, once; no page of a record goes with them as a memory."""
    shell("add", "a heron was seen", "--type", "fact", "--tag", "bird:heron")
    start_task(shell)
    shell("search", "heron otters")
    file = tmp_path / "all.omf"
    shell("export", "--format", "omf", "--output", file)
    items = json.loads(file.read_text("utf-8"))["memories"]
    assert [("record" in item["extensions"]["lorelog"]) for item in items] == [True, False]
    assert (items[1]["content"], items[1]["tags"]) == ("a heron was seen", ["bird:heron"])

    first = shell("import", file, "--json", "--tenant", "t").json
    again = shell("import", file, "--json", "--tenant", "t").json
    assert (first["memories"]["added"], again["memories"]["added"], again["memories"]["there"]) == (1, 0, 1)
    found = shell("search", "heron", "--tenant", "t", "--json").json["hits"]
    assert [
        (entry["type"], entry["tags"], entry["anchor"]["origin"]) for entry in found if entry["type"] == "fact"
    ] == [("fact", ["bird:heron"], "import")]
    assert shell("export", "--format", "omf", "--output", file).status == 2  # never written over


def test_a_file_that_is_not_there_is_named(shell: Shell, tmp_path: Path) -> None:
    """No file, a directory, and a place that cannot be written: an error, not a traceback."""
    for words in (
        ["import", tmp_path / "none"],
        ["import", tmp_path],
        ["export", "--format", "ledger", "--output", tmp_path / "no" / "where"],
    ):
        done = shell(*words, "--json")
        assert done.status == 1
        assert str(tmp_path) in done.json["error"]["message"]
