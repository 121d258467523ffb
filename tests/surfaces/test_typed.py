"""Text output: ids that can be typed back, consistent wording, and nothing misleading."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.surfaces.conftest import Shell
from tests.surfaces.test_task_cli import start, typed_id
from tests.surfaces.test_terminal import Seat, sit

CITED = re.compile(r"`([^`]+:[0-9a-f]{12})`")


def test_records_are_not_listed_among_memories(shell: Shell) -> None:
    """`list` shows memories and files, not the pages that records are searched by; `search` finds both."""
    start(shell, "otters charge twice")
    shell("add", "otters are clever")
    assert shell("search", "otters", "--json").json["hits"][1:]

    assert [memory["content"].splitlines()[-1] for memory in shell("list", "--json").json["memories"]] == [
        "otters are clever"
    ]
    assert shell("list", "-n", 1).err == ""
    (document,) = shell("list", "--documents", "--json").json["documents"]
    assert document["source"].endswith(".md")
    assert "index/records" not in document["source"]


def test_a_task_that_is_finished_already_is_said_to_be(shell: Shell) -> None:
    """Continuing a finished task is reported as reopening it, and finishing it twice is reported as well."""
    task = start(shell)
    ended = shell("task", "finish", task)
    assert (ended.out, ended.err) == (f"Finished task {task}\n", "")

    assert "already finished" in shell("task", "finish", task).err
    assert "this reopens it" in shell("task", "progress", task, "more to do", "--next", "do it").err
    assert shell("task", "progress", task, "more to do", "--next", "do it").err == ""


def test_what_a_context_cites_can_be_looked_up(shell: Shell) -> None:
    """Each citation names something: a task, a record or a memory."""
    task = start(shell, "otters charge twice")
    shell("decide", "otters pay once", "--because", "they are many", "--as", "mara")
    shell("add", "otters are clever")
    out = shell("agent-context", "--query", "otters clever", "--query", "otters pay", "--k", 1).out
    tasks = {item: shell("task", "show", item).status == 0 for item in CITED.findall(out)}

    assert len(tasks) == 3
    assert next(element for element, found in tasks.items() if found).startswith(task)
    assert all(shell("show", entry).status == 0 for entry in tasks)
    assert "decision by mara" in out
    assert "otters pay once Because: they are many" in out
    assert "(recorded)" not in out


def test_a_verification_without_a_name_says_how_to_give_one(shell: Shell) -> None:
    """A verification without a name says how to give one; other refusals do not."""
    decided = typed_id(shell("decide", "otters pay once", "--because", "they are many", "--as", "mara"))

    assert "--as" in shell("verify", decided).err
    assert shell("verify", decided, "--as", "mara").err == ""


@pytest.mark.slow
def test_a_table_fits_the_terminal(shell: Shell, project: Path) -> None:
    """On a terminal no line is wider than it; if space is short, a record's summary goes below its line."""
    task = start(shell, "otters " * 20)
    for columns in (120, 60):
        told = sit(["task", "show", task], project, Seat(err=False, columns=columns), env={"NO_COLOR": "1"}).out
        rows = told.replace("\r", "").split("\n\n", 1)[1].splitlines()
        assert max(map(len, rows)) <= max(columns, 80)
        assert len(rows) == (1 if columns == 120 else 2)


def test_a_restored_backup_is_not_called_imported(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tool output stays tool output after restoring a backup, and no note says otherwise."""
    start(shell)
    shell("task", "evidence", "otters came twice", "--kind", "log", "--origin", "tool")
    backup = tmp_path / "backup.jsonl"
    shell("export", "--format", "ledger", "--output", backup)
    monkeypatch.setenv("LORELOG_HOME", str(tmp_path / "elsewhere"))

    assert "count as imported text" in shell("import", backup, "--dry-run").err
    assert shell("import", backup, "--restore").err == ""


def test_operations_are_listed_in_columns(shell: Shell) -> None:
    """The summaries of `ops` are aligned, whatever the length of the names."""
    lines = shell("ops").out.splitlines()

    assert len({len(line) - len(line.split(None, 1)[1]) for line in lines}) == 1
