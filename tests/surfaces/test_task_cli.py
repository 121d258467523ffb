"""`lorelog task`, `decide`, `verify` and `artifact`."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from tests.surfaces.conftest import Outcome, Shell

SHORT = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}\b")


def typed_id(done: Outcome) -> str:
    """Return the first id that a command printed, as it printed it."""
    found = SHORT.search(done.out)
    assert found is not None, done
    return found[0]


def start(shell: Shell, goal: str = "Stop charging customers twice", agent: str = "mara") -> str:
    """Begin a task, and return its id as it was printed."""
    done = shell("task", "start", goal, "--as", agent)
    assert (done.status, done.err) == (0, "")
    return typed_id(done)


def records(shell: Shell, task: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = shell("task", "show", task, "--json").json["artifacts"]
    return found


def test_a_task_is_told_from_start_to_finish(shell: Shell) -> None:
    """Each verb writes a record of its kind, by whom `--as` says, with the fields that its options name."""
    task = start(shell)
    for line in (
        "progress 'found it' --next 'mend it' --blocker 'no database' --failed guessing --worked reading --as mara",
        "run-start --tool pytest --command 'pytest -q' --why 'it is there' --input tests --tool-version 9 --as mara",
        "run-finish 'all green' --metric passed=12 --validation twice --output report",
        "evidence 'came twice' --kind log --against --metric times=2 --origin tool",
    ):
        assert shell("task", *shlex.split(line)).status == 0
    done = shell(
        *("task", "finish", "--worked", "a constraint", "--failed", "a set", "--validation", "replayed"),
        *("--uncertain", "the weather", "--followup", "tell all", "--confidence", "0.8", "--summary", "done"),
    )

    assert (done.status, typed_id(done)[:8]) == (0, task[:8])
    wanted: list[dict[str, Any]] = [
        {"artifact_kind": "task_start", "writer": "mara"},
        {"artifact_kind": "task_progress", "writer": "mara", "summary": "found it", "next_step": "mend it"}
        | {"blockers": ["no database"], "what_failed": ["guessing"], "what_worked": ["reading"]},
        {"artifact_kind": "run_start", "writer": "mara", "tool_name": "pytest", "command": "pytest -q"}
        | {"why_chosen": "it is there", "inputs": ["tests"], "tool_version": "9"},
        {"artifact_kind": "run_finish", "status": "completed", "summary": "all green", "metrics": {"passed": 12.0}}
        | {"validation": ["twice"], "outputs": ["report"]},
        {"artifact_kind": "evidence", "evidence_kind": "log", "supports_claim": False, "metrics": {"times": 2.0}}
        | {"origin": "tool"},
        {"artifact_kind": "task_finish", "status": "completed", "summary": "done", "what_worked": ["a constraint"]}
        | {"what_failed": ["a set"], "validation": ["replayed"], "uncertainty": ["the weather"]}
        | {"followups": ["tell all"], "confidence": 0.8},
    ]
    told = records(shell, task)
    assert [{name: record.get(name) for name in fields} for record, fields in zip(told, wanted, strict=True)] == wanted
    assert ["writer" in record and bool(record["writer"]) for record in told] == [True] * 3 + [False] * 3


def test_the_only_task_in_progress_is_meant(shell: Shell) -> None:
    """If one task is in progress, TASK may be omitted, and the command prints which one it used."""
    task = start(shell)
    done = shell("task", "progress", "half way", "--next", "the other half")

    assert done.status == 0
    assert f"task {task}: Stop charging customers twice" in done.err
    assert [record["artifact_kind"] for record in records(shell, task)] == ["task_start", "task_progress"]


def test_of_several_tasks_one_must_be_named(shell: Shell) -> None:
    """If several tasks are in progress, the error lists them, and nothing is written."""
    first, second = start(shell, "one thing"), start(shell, "another thing")
    done = shell("task", "finish")

    assert done.status == 2
    assert all(word in done.err for word in (first, second, "one thing", "another thing"))
    assert len(records(shell, first)) == len(records(shell, second)) == 1
    assert shell("task", "finish", first).status == 0
    assert shell("task", "progress", "only this is left", "--next", "x").status == 0


def test_without_a_task_nothing_is_written(shell: Shell) -> None:
    """If no task is in progress, the error says how to start one."""
    done = shell("task", "progress", "half way", "--next", "the other half")

    assert (done.status, "task start" in done.err) == (2, True)
    assert shell("task", "list", "--json").json["hits"] == []


def test_another_project_has_its_own_tasks(shell: Shell, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task of another project is neither listed nor meant; `--all-projects` lists it with its project."""
    other = project.parent / "other"
    other.mkdir()
    start(shell, "mine")
    monkeypatch.chdir(other)

    assert shell("task", "finish").status == 2
    assert shell("task", "list").out == ""
    (line,) = shell("task", "list", "--all-projects").out.splitlines()
    assert line.endswith("mine")
    assert "app" in line


def test_open_tasks_are_listed(shell: Shell) -> None:
    """`list` shows open tasks with ids that can be typed back; --status shows others."""
    first, second = start(shell, "one thing"), start(shell, "another thing")
    shell("task", "finish", first, "--status", "failed")

    assert [line.split()[0] for line in shell("task", "list").out.splitlines()] == [second]
    assert [line.split()[0] for line in shell("task", "list", "--status", "failed").out.splitlines()] == [first]
    assert len(shell("task", "list", "--status", "all").out.splitlines()) == 2
    assert len(shell("task", "list", "--status", "all", "-n", "1").out.splitlines()) == 1


def test_a_task_is_found_by_what_was_said(shell: Shell) -> None:
    """`search` finds the task, says its goal and the records that fit; filters are exact."""
    task = start(shell)
    shell("task", "progress", "the retry finds no trace of the first delivery", "--next", "keep the event id")
    found = shell("task", "search", "retry", "delivery")

    assert found.status == 0
    assert [word in found.out for word in (task, "Stop charging customers twice", "[record]")] == [True] * 3
    assert shell("task", "search", "retry", "--status", "failed").out == "Nothing found.\n"
    assert shell("task", "search", "retry", "--tool", "pytest").out == "Nothing found.\n"


def test_a_task_is_resumed(shell: Shell) -> None:
    """`resume` shows the last progress, the next step and failures, each with its record."""
    task = start(shell)
    shell("task", "progress", "half way", "--next", "keep the event id", "--failed", "a set in memory")
    told = shell("task", "resume", task)

    assert told.status == 0
    for said in ("half way", "keep the event id", "a set in memory"):
        (line,) = (line for line in told.out.splitlines() if said in line)
        assert SHORT.search(line)
    assert told.out.startswith("Goal\n")


def test_another_writer_verifies(shell: Shell) -> None:
    """A verification by another writer is granted, says that only names tell the writers apart, and is shown with the decision."""
    decided = typed_id(shell("decide", "a constraint", "--because", "it holds", "--as", "mara"))
    verified = shell("verify", decided, "--as", "otto", "--note", "replayed", "--validation", "400 deliveries")

    assert (verified.status, verified.err) == (0, "")
    assert "promotion: granted" in verified.out
    assert "told apart by name only" in verified.out
    shown = shell("show", decided).out
    assert "verified by otto" in shown
    assert "verified (unsigned)" in shown


def test_verifying_an_own_record_has_no_effect(shell: Shell) -> None:
    """Verifying one's own record is recorded without effect, the reason is printed once, and the command succeeds."""
    decided = typed_id(shell("decide", "a constraint", "--because", "it holds", "--as", "mara"))
    verified = shell("verify", decided, "--as", " Mara ")

    assert verified.status == 0
    assert (verified.out + verified.err).count("the same writer") == 1
    assert "promotion: refused" in verified.out
    assert "verified by" not in shell("show", decided).out


@pytest.mark.parametrize(
    "words",
    [
        ["task", "progress"],
        ["task", "start"],
        ["task", "evidence", "x", "--supports", "--against"],
        ["task", "evidence", "x", "--metric", "many"],
        ["task", "run-start", "--tool", "x"],
        ["decide"],
        ["decide", " ", "--because", " "],
        ["verify"],
    ],
    ids=" ".join,
)
def test_what_is_missing_is_said(words: list[str], shell: Shell) -> None:
    """A verb without its required options is a usage error, and nothing is written."""
    start(shell)

    assert shell(*words).status == 2
    assert len(shell("call", "artifact.search").json["hits"]) == 1


def test_an_unknown_id_is_not_found(shell: Shell) -> None:
    """Ids that name nothing fail with status 1, and found no task."""
    start(shell)
    for words in (["task", "show"], ["task", "finish"], ["task", "resume"], ["show"], ["verify"]):
        assert shell(*words, "0123456789ab").status == 1
    assert len(shell("call", "artifact.search").json["hits"]) == 1
