"""Output on a terminal: colour, progress bars, confirmation."""

from __future__ import annotations

import json
import os
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
