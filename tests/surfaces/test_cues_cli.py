"""Cues are given and shown on every surface, and bad ones are refused with a reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lorelog.surfaces.cli.main import main


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project without a model."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LORELOG_EMBEDDING_PROVIDER", "fake")
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Run a command; return its status and what it printed."""
    try:
        status = main(list(words))
    except SystemExit as stopped:
        status = int(stopped.code or 0)
    printed = capsys.readouterr()
    return status, printed.out, printed.err


OPTIONS = (
    "--when-editing", "src/db/**", "--when-running", "npm *", "--when-symbol", "parse_config", "--when-error", "ECONNREFUSED",
    "--when-topic", "database pools", "--on-event", "commit", "--on-day", "2026-12-01",
)  # fmt: skip
CUES = [
    "path=src/db/**", "command=npm *", "symbol=parse_config", "error=ECONNREFUSED", "topic=database pools",
    "event=commit", "day=2026-12-01",
]  # fmt: skip


def test_cues_are_written_to_the_journal_and_shown(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`add`, `get`, `list` and their JSON agree, and a rebuilt index reads the same cues from the file."""
    status, out, _ = run(capsys, "add", "close the pool", "--type", "correction", *OPTIONS, "--json")
    added: dict[str, Any] = json.loads(out)
    assert status == 0
    journal = Path(added["source"]).read_text("utf-8")
    assert "cues:path=src/db/**,command=npm%20*,symbol=parse_config," in journal

    run(capsys, "reset", "--yes")
    run(capsys, "index")
    assert json.loads(run(capsys, "show", added["memory"], "--json")[1])["anchor"]["cues"] == CUES
    assert "shown on path=src/db/**, command=npm *" in run(capsys, "show", added["memory"])[1]
    assert "path=src/db/**" in run(capsys, "list")[1]


def test_a_superseding_memory_keeps_the_cues(capsys: pytest.CaptureFixture[str]) -> None:
    """Unless it is given others."""
    first = json.loads(run(capsys, "add", "use tabs", "--when-editing", "*.py", "--json")[1])
    second = json.loads(run(capsys, "supersede", first["memory"], "use four spaces", "--json")[1])
    assert json.loads(run(capsys, "show", second["memory"], "--json")[1])["anchor"]["cues"] == ["path=*.py"]

    third = json.loads(run(capsys, "supersede", second["memory"], "two", "--when-editing", "*.js", "--json")[1])
    assert json.loads(run(capsys, "show", third["memory"], "--json")[1])["anchor"]["cues"] == ["path=*.js"]
