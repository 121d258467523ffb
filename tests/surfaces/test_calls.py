"""`call`, `batch` and `ops`: JSON in, JSON out, and one failure never hides another."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.surfaces.conftest import Shell, command_line, write

from lorelog.operations.catalogue import all_operations


@pytest.fixture(autouse=True)
def notes(project: Path, shell: Shell) -> Path:
    path = write(project / "notes" / "a.md", "# A\n\nan otter in the river\n")
    assert shell("index", "notes").status == 0
    return path


def batch(shell: Shell, project: Path, lines: list[Any], *words: str) -> tuple[int, list[Any]]:
    """Run a batch and return the status and the rows."""
    text = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
    done = shell("batch", "--jsonl", write(project / "b.jsonl", text), *words)
    return done.status, [json.loads(row) for row in done.out.splitlines()]


@pytest.mark.slow
def test_call_reads_a_file_and_standard_input(shell: Shell, project: Path) -> None:
    """The request may come from a file or a pipe."""
    request = write(project / "r.json", '{"query": "otter"}')

    assert shell("call", "memory.search", "--input", request).json["hits"]
    piped = subprocess.run(
        command_line("call", "search", "-"), input=b'{"query": "otter"}', capture_output=True, check=True
    )
    assert json.loads(piped.stdout)["hits"]


@pytest.mark.parametrize(
    ("words", "status", "code"),
    [
        (["serch"], 2, "usage"),
        (["search", "{"], 2, "usage"),
        (["search", "[]"], 2, "usage"),
        (["search", '{"query": 1}'], 2, "usage"),
        (["search", "--json", '{"query": 1}'], 2, "usage"),
        (["search", "{}", "--input", "-"], 2, "usage"),
        (["expand", '{"id": "zzz"}'], 1, "not_found"),
        (["daemon.stop"], 2, "usage"),
        (["search", '--json={"query": 1}'], 2, "usage"),
    ],
)
def test_a_wrong_call_is_told_in_json(shell: Shell, words: list[str], status: int, code: str) -> None:
    """An error is JSON with its code, and sets the exit status."""
    done = shell("call", *words)

    assert (done.status, done.json["error"]["code"]) == (status, code)


def test_rows_say_what_came_of_each_line(shell: Shell, project: Path) -> None:
    """A row has its index, its line in the file, its operation, its duration and its reply."""
    status, rows = batch(
        shell,
        project,
        [
            {"op": "memory.add", "arguments": {"text": "a heron"}},
            "",
            {"op": "search", "arguments": {"query": "heron"}},
            {"tool": "memory.stats"},
        ],
    )

    assert status == 0
    assert [(row["ok"], row["index"], row["line"], row["op"]) for row in rows] == [
        (True, 0, 1, "memory.add"),
        (True, 1, 3, "search"),
        (True, 2, 4, "memory.stats"),
    ]
    assert all(row["elapsed_ms"] >= 0 for row in rows)
    assert any("heron" in hit["content"] for hit in rows[1]["result"]["hits"])


BAD = ["not json", '{"op": 3}', '{"op": "search", "arguments": []}', '{"op": "nope"}', '{"op": "search", "extra": 1}']


@pytest.mark.slow
@pytest.mark.parametrize("bad", BAD)
def test_the_first_failure_ends_a_batch(shell: Shell, project: Path, bad: str) -> None:
    """The batch stops at the first failure; earlier rows and the failed one are printed."""
    good = {"op": "memory.add", "arguments": {"text": "a heron"}}

    status, rows = batch(shell, project, [good, bad, {"op": "add", "arguments": {"text": "a walrus"}}])

    assert status == 1
    assert [row["ok"] for row in rows] == [True, False]
    assert rows[1]["error"]["code"] == "usage"
    assert not any("walrus" in hit["content"] for hit in shell("search", "walrus", "--json").json["hits"])


def test_a_batch_goes_on_when_told_to(shell: Shell, project: Path) -> None:
    """With --continue-on-error every line runs, and the status still reports the failure."""
    lines = [*BAD, {"op": "memory.add", "arguments": {"text": "a walrus"}}]

    status, rows = batch(shell, project, lines, "--continue-on-error")

    assert status == 1
    assert [row["ok"] for row in rows] == [False] * len(BAD) + [True]


@pytest.mark.slow
def test_a_stream_is_answered_line_by_line(project: Path) -> None:
    """With --stream each line gets its reply before the next one arrives."""
    with subprocess.Popen(
        command_line("batch", "--jsonl", "-", "--stream"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for number in range(3):
            process.stdin.write(json.dumps({"op": "search", "arguments": {"query": "otter"}}) + "\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["index"] == number
        process.stdin.close()
        assert process.wait(60) == 0


def test_flags_hold_for_lines_that_say_nothing_else(shell: Shell, project: Path) -> None:
    """--tenant applies to every line of a batch that names no tenant."""
    lines = [
        {"op": "add", "arguments": {"text": "a heron"}},
        {"op": "search", "arguments": {"query": "otter", "tenant": "default"}},
    ]

    _, rows = batch(shell, project, lines, "--tenant", "other")

    assert "/.lorelog/tenants/other/memory/" in rows[0]["result"]["source"]
    assert rows[1]["result"]["hits"]
    assert shell("search", "heron", "--tenant", "other", "--json").json["hits"]
    assert not any("heron" in hit["content"] for hit in shell("search", "heron", "--json").json["hits"])


@pytest.mark.slow
def test_ops_tell_everything(shell: Shell) -> None:
    """The list has every operation, and `ops NAME` shows its fields."""
    listed = shell("ops")

    assert [name for name in all_operations() if name not in listed.out] == []
    assert [operation["name"] for operation in shell("ops", "--json").json["operations"]] == sorted(all_operations())
    shown = shell("ops", "memory.search")
    assert "query (required)" in shown.out
    assert shell("ops", "nope").status == 2


@pytest.mark.slow
@pytest.mark.parametrize("said", ["off", "auto", "required"])
def test_the_settings_say_whether_to_go_through_the_daemon(
    shell: Shell, home: Path, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    """`daemon.warm` of the settings applies unless a flag or the environment overrides it."""
    monkeypatch.delenv("LORELOG_DAEMON_WARM")
    write(home / "config.toml", f'[daemon]\nwarm = "{said}"\n')

    assert shell("status", "index", "--json", "--daemon", "off").status == 0
    assert not (home / "run" / "daemon.sock").exists()
    assert shell("status", "index", "--json").status == 0  # worth asking a daemon for, and not worth starting one
    assert (home / "run" / "daemon.sock").exists() is (said == "required")
    assert shell("daemon", "stop").status == 0
