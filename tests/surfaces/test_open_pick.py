"""`lorelog open` and `lorelog pick`."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest
from tests.surfaces.conftest import Outcome, Shell, command_line, write

from lorelog.core.editor import editor_command


@pytest.mark.parametrize(
    ("editor", "expected"),
    [
        ("vim", ["vim", "+7", "/n.md"]),
        ("/usr/bin/nano -w", ["/usr/bin/nano", "-w", "+7", "/n.md"]),
        ("emacsclient -t", ["emacsclient", "-t", "+7", "/n.md"]),
        ("code --wait", ["code", "--wait", "-g", "/n.md:7"]),
        ("cursor", ["cursor", "-g", "/n.md:7"]),
        ("subl", ["subl", "/n.md:7"]),
        ("hx", ["hx", "/n.md:7"]),
        ("pycharm.sh", ["pycharm.sh", "--line", "7", "/n.md"]),
        ("other", ["other", "/n.md"]),
    ],
)
def test_each_editor_starts_at_the_line(editor: str, expected: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each known editor gets the line as it expects it, VISUAL goes before EDITOR, and other editors get the file."""
    monkeypatch.setenv("VISUAL", editor)
    monkeypatch.setenv("EDITOR", "false")

    assert editor_command("/n.md", 7, os.environ) == expected


def test_open_runs_the_editor(shell: Shell, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`open` runs the editor on the file of a hit; without an editor, or with one that is not there, it says what to do."""
    note = write(project / "notes" / "otter.md", "# Otters\n\n## Where\n\nThe otter swims.\n")
    assert shell("index", "notes").status == 0
    identity = shell("search", "otter", "--json").json["hits"][0]["id"]
    said = project / "said"
    monkeypatch.setenv("EDITOR", str(write(project / "vim", f'#!/bin/sh\necho "$@" > "{said}"\n')))
    (project / "vim").chmod(0o755)
    monkeypatch.delenv("VISUAL", raising=False)

    assert shell("open", identity[:8]).status == 0
    assert said.read_text("utf-8") == f"+3 {note.resolve()}\n"

    monkeypatch.setenv("EDITOR", "no-such-editor")
    assert "the editor 'no-such-editor' does not start" in shell("open", identity).err
    monkeypatch.delenv("EDITOR")
    missing = shell("open", identity)
    assert (missing.status, missing.err.split("\n")[0]) == (2, "lorelog: no editor is set")


def type_at_terminal(words: list[object], cwd: Path, keys: list[tuple[str, str]], *, pipe: bool) -> Outcome:
    """Run a command in a pseudo-terminal of 24 x 80; type each key when the text before it has appeared."""
    ours, theirs = os.openpty()
    termios.tcsetwinsize(theirs, (24, 80))
    process = subprocess.Popen(
        command_line(*words),
        cwd=cwd,
        env={**os.environ, "TERM": "xterm-256color"},
        stdin=theirs,
        stdout=subprocess.PIPE if pipe else theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    screen, waiting, give_up = "", list(keys), time.monotonic() + 60
    while time.monotonic() < give_up:
        if select.select([ours], [], [], 0.2)[0]:
            try:
                data = os.read(ours, 65536)
            except OSError:  # the program has left
                break
            screen += data.decode("utf-8", "replace")
            if b"\x1b[6n" in data:  # where is the cursor?
                os.write(ours, b"\x1b[1;1R")
        elif process.poll() is not None:
            break
        if waiting and waiting[0][0] in screen:
            os.write(ours, waiting.pop(0)[1].encode())
            screen = ""
    with process:
        out = process.stdout.read().decode() if process.stdout else screen
        status = process.wait(30)
    os.close(ours)
    assert not waiting, screen
    return Outcome(status, out, screen)


@pytest.mark.slow
def test_pick_searches_as_you_type(shell: Shell, project: Path) -> None:
    """Typing searches, an arrow key chooses the next hit, its section is previewed, and Enter prints it; into a pipe, its id."""
    pytest.importorskip("prompt_toolkit")
    write(project / "notes" / "a.md", "# Otters\n\nThe otter swims in the river.\n\nA second paragraph.\n")
    write(project / "notes" / "b.md", "# Herons\n\nThe heron saw an otter once, standing in shallow water.\n")
    assert shell("index", "notes").status == 0
    first, second = (hit["id"] for hit in shell("search", "otter", "--json").json["hits"])
    down = "\x1b[B"

    done = type_at_terminal(["pick"], project, [("Esc leave", "otter"), ("second paragraph", "\r")], pipe=False)
    assert done.status == 0
    assert "notes/a.md:1" in done.out
    assert "A second paragraph." in done.out
    keys = [("second paragraph", down), ("shallow water", "\r")]
    piped = type_at_terminal(["pick", "otter"], project, keys, pipe=True)
    assert (piped.status, piped.out) == (0, f"{second}\n")
    assert first != second
    left = type_at_terminal(["pick", "otter"], project, [("second paragraph", "\x1b")], pipe=True)
    assert (left.status, left.out) == (1, "")


def test_pick_without_a_terminal_or_its_package(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a terminal `pick` refers to `search`; without its package it names the extra."""
    assert shell("pick").err == "lorelog: pick needs a terminal\n  hint: lorelog search QUERY\n"

    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setitem(sys.modules, "prompt_toolkit", None)
    assert "lorelog[pick]" in shell("pick").err
