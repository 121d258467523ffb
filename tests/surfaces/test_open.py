"""`lorelog open`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.surfaces.conftest import Shell, write

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
