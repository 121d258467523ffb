"""Text output: colour, progress and confirmation at a terminal, ids that can be typed back, and progress without one."""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from tests.models.embedding_server import Answer, EmbeddingServer, Request, well
from tests.surfaces.conftest import Outcome, Shell, command_line, write
from tests.surfaces.test_task_cli import start, typed_id

from lorelog.surfaces.cli.progress import ProgressLines, TimeEstimate, WaitNotice

COLOUR = "\x1b["
TEXTS = 12


@dataclass(frozen=True)
class Seat:
    """Which of a command's streams are the terminal; the others are pipes."""

    out: bool = True
    err: bool = True
    columns: int = 0
    """How wide it says that it is; 0 says nothing."""


def sit(
    words: Sequence[object],
    cwd: Path,
    seat: Seat | None = None,
    *,
    typed: str = "",
    env: Mapping[str, str] | None = None,
) -> Outcome:
    """Run a command with a real terminal for some of its streams, and return each stream's output."""
    seat = seat or Seat()
    keyboard, pipes = os.openpty(), {name: _stream(at_terminal=getattr(seat, name)) for name in ("out", "err")}
    if seat.columns:
        termios.tcsetwinsize(pipes["out"][1], (24, seat.columns))
    try:
        process = subprocess.Popen(
            command_line(*words),
            cwd=cwd,
            env={**os.environ, "TERM": "xterm-256color", **(env or {})},
            stdin=keyboard[1],
            stdout=pipes["out"][1],
            stderr=pipes["err"][1],
        )
        for _, theirs in pipes.values():
            os.close(theirs)
        os.write(keyboard[0], typed.encode())
        shown = _read_all({name: ours for name, (ours, _) in pipes.items()}, process)
        status = process.wait(60)
    finally:
        for descriptor in (*keyboard, *(ours for ours, _ in pipes.values())):
            os.close(descriptor)
    return Outcome(status, shown["out"], shown["err"])


def _stream(*, at_terminal: bool) -> tuple[int, int]:
    """Return our end and the command's end of a stream."""
    return os.openpty() if at_terminal else os.pipe()


def _read_all(streams: Mapping[str, int], process: subprocess.Popen[bytes]) -> dict[str, str]:
    """Read until the command has closed all of its streams."""
    shown = dict.fromkeys(streams, b"")
    names = {descriptor: name for name, descriptor in streams.items()}
    give_up = time.monotonic() + 120
    while names:
        ready, _, _ = select.select(list(names), [], [], 1.0)
        for descriptor in ready:
            try:
                data = os.read(descriptor, 65536)
            except OSError:  # how a terminal says that nobody is there any more
                data = b""
            shown[names[descriptor]] += data
            if not data:
                del names[descriptor]
        if time.monotonic() > give_up:
            process.kill()
    return {name: data.decode().replace("\r\n", "\n") for name, data in shown.items()}


@pytest.fixture
def indexed(shell: Shell, project: Path) -> Path:
    """A project with a page about otters, indexed."""
    write(project / "notes" / "otter.md", "# Otters\n\nThe otter swims.\n")
    assert shell("index", "notes").status == 0
    return project


def slowly(request: Request) -> Answer:
    """Respond correctly, but late enough for a progress bar."""
    return replace(well(request), delay_s=0.2)


@pytest.fixture
def slow_project(project: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project whose dozen texts go to a slow model, two at a time."""
    write(project / "notes" / "many.md", "".join(f"## Section {n}\n\ntext number {n}\n\n" for n in range(TEXTS)))
    server = EmbeddingServer(slowly)
    monkeypatch.setenv("LORELOG_EMBEDDING_PROVIDER", "openai")
    monkeypatch.setenv("LORELOG_EMBEDDING_BASE_URL", server.url)
    monkeypatch.setenv("LORELOG_EMBEDDING_BATCH_SIZE", "2")
    yield project
    server.stop()
    assert len(server.requests) == TEXTS / 2


# -- colour ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_search_is_colourful_at_a_terminal(indexed: Path) -> None:
    """At a terminal a hit is in colour, its matching words too, and they need no other mark; JSON is the same as in a pipe."""
    words = ["search", "otter", "--json"]
    assert json.loads(sit(words, indexed).out) == json.loads(sit(words, indexed, Seat(out=False)).out)
    done = sit(["search", "otter"], indexed)

    assert done.status == 0
    assert f"{COLOUR}36mnotes/otter.md:1-3{COLOUR}0m" in done.out
    assert f"{COLOUR}33motter{COLOUR}0m swims" in done.out
    assert "«" not in done.out


@pytest.mark.parametrize(
    ("seat", "env"),
    [
        (Seat(out=False), {}),
        pytest.param(Seat(), {"NO_COLOR": "1"}, marks=pytest.mark.slow),
        pytest.param(Seat(), {"TERM": "dumb"}, marks=pytest.mark.slow),
    ],
)
def test_plain_text_has_no_colour(indexed: Path, seat: Seat, env: dict[str, str]) -> None:
    """In a pipe, with NO_COLOR and at a terminal without colours, hits are plain text with the matches marked."""
    done = sit(["search", "otter"], indexed, seat, env=env)

    assert done.status == 0
    assert "\x1b" not in done.out
    assert "«otter» swims" in done.out


@pytest.mark.slow
def test_each_stream_is_coloured_for_itself(indexed: Path) -> None:
    """Notes are in colour if standard error is a terminal, and plain otherwise."""
    words = ["search", "otter", "--explain"]

    assert f"{COLOUR}2mnote: " in sit(words, indexed, Seat(out=False)).err
    piped = sit(words, indexed, Seat(err=False))
    assert piped.err.startswith("note: ")
    assert "\x1b" not in piped.err


# -- progress ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_long_work_draws_a_bar_at_a_terminal(slow_project: Path) -> None:
    """A long index run shows its progress on the terminal, and standard output stays clean."""
    done = sit(["index", "notes", "--json"], slow_project, Seat(out=False))

    assert done.status == 0
    assert "embedding" in done.err
    assert f"/{TEXTS}" in done.err
    assert json.loads(done.out)["embedded"] == TEXTS


@pytest.mark.slow
def test_no_bar_where_errors_are_not_shown(slow_project: Path) -> None:
    """Where errors go to a file nothing is drawn, however long it takes, terminal or not elsewhere."""
    done = sit(["index", "notes"], slow_project, Seat(err=False))

    assert done.status == 0
    assert done.err == ""
    assert f"{TEXTS} texts embedded" in done.out
    assert "embedding" not in done.out


# -- questions ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("typed", ["n\n", "\n", "no\n", "yikes\n", "\x04", "y\n", "YES\n"])
def test_reset_asks_first(shell: Shell, indexed: Path, typed: str) -> None:
    """At a terminal reset deletes the index only if the answer is yes, and never the files."""
    done = sit(["reset"], indexed, typed=typed)

    kept = typed not in {"y\n", "YES\n"}
    assert "[y/N]" in done.err
    assert (done.status, "Nothing deleted" in done.err) == (int(kept), kept)
    assert shell("status", "index", "--json").json["documents"] == int(kept)
    assert (indexed / "notes" / "otter.md").exists()


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


def test_a_wait_is_said_after_a_second_and_then_every_thirty() -> None:
    """What is waited for is said once, and again every 30 seconds."""
    notice = WaitNotice()
    lines = [notice.text("waiting for the index run of process 7", second) for second in range(62)]
    assert [line for line in lines if line] == [
        f"waiting for the index run of process 7 ({second} s so far)" for second in (1, 31, 61)
    ]


@pytest.mark.parametrize(
    ("reports", "wanted"),
    [
        ([(0, 0), (8, 60), (24, 62), (88, 66), (108, 70)], [None, None, None, None, 90]),  # 100 steps
        ([(0, 0), (8, 60), (16, 75), (24, 80)], [None, None, None, 1230]),  # or 10, and 10 s
        ([(0, 0), (8, 9), (108, 19), (0, 20), (8, 80), (16, 95), (208, 120)], [None, None, 90, 100.8, 100, 99.2, 160]),
    ],
)
def test_the_time_left_is_known_once_it_was_measured(
    reports: list[tuple[int, float]], wanted: list[float | None]
) -> None:
    """The first step, which loads the model, does not count; if another worker goes on, the rate of the first holds for 100 steps."""
    estimate = TimeEstimate()
    assert [estimate.seconds_left(done, 1008, now) for done, now in reports] == pytest.approx(wanted)


def test_the_time_for_vectors_is_announced_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """After reading, one line says how long vectors take and that words are searched already."""
    now = iter(range(0, 1000, 1))
    monkeypatch.setattr("time.monotonic", lambda: float(next(now)))
    lines = ProgressLines()
    for done in (0, 8, 24, 140):
        lines.show("vectors", done, 2438)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("2,438 sections; vectors take about ")
    assert line.endswith("min; you can search by words already")
