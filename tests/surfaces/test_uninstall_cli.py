"""`lorelog uninstall`: what it removes, what stays, and what happens if a part fails."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.surfaces.conftest import MINE, Shell, run_process, write


@pytest.mark.slow
def test_everything_but_memories_is_removed(user: Path, home: Path, project: Path) -> None:
    """Host, project block, daemon and cache go, data and journals stay; --data then empties the home."""
    for words in (["hosts", "install", "codex"], ["init"], ["add", "we use pnpm", "--daemon", "required"]):
        assert run_process(words, project).status == 0
    journals = {path: path.read_bytes() for path in (project / ".lorelog" / "memory").glob("*.md")}
    dry = run_process(["uninstall", "--dry-run"], project)
    assert "lorelog in Codex" in dry.out
    assert (home / "cache").is_dir()
    assert run_process(["uninstall"], project).status == 2  # nobody can answer

    done = run_process(["uninstall", "--yes"], project)

    assert done.status == 0
    assert "pip uninstall lorelog lorelog-encoder" in done.out
    assert (user / ".codex" / "config.toml").read_text() == MINE
    assert not (user / ".codex" / "hooks.json").exists()
    assert not (project / "AGENTS.md").exists()
    assert not (home / "cache").exists()
    assert not (home / "run").exists()
    assert (home / "data").is_dir()
    assert run_process(["uninstall", "--data", "--yes"], project).status == 0
    assert not home.exists()
    assert journals
    assert {path: path.read_bytes() for path in journals} == journals


def test_what_fails_is_reported_and_the_rest_goes_on(shell: Shell, user: Path, home: Path, project: Path) -> None:
    """A host file that cannot be edited is a problem; the cache is removed, but no data while a host is left."""
    shell("hosts", "install", "codex")
    shell("add", "we use pnpm")
    write(user / ".codex" / "config.toml", "model = \n")

    done = shell("uninstall", "--data", "--yes", "--json")

    assert done.status == 1
    reply = json.loads(done.out)
    assert "config.toml cannot be parsed" in reply["problems"][0]["message"]
    assert not (home / "cache").exists()
    assert (home / "hosts" / "codex.json").is_file()
    assert (home / "data").is_dir()
