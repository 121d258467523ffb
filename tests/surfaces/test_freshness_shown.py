"""Outdated memories are marked wherever they are shown: in the CLI, to a model, and with a prompt."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.surfaces.conftest import Shell, write
from tests.surfaces.otter_project import git_init

from lorelog.surfaces.hook.context import recall_for_prompt
from lorelog.surfaces.hook.settings import HookContext
from lorelog.surfaces.mcp.calls import render_search

TEXT = "The otter decided on load_everything.py, finally."


@pytest.fixture
def gone(shell: Shell, project: Path) -> Path:
    """A project with a memory about a deleted file."""
    git_init(project)
    write(project / "load_everything.py", "everything = 1\n")
    assert shell("add", TEXT).status == 0
    assert "gone" not in shell("search", "otter").out
    (project / "load_everything.py").unlink()
    return project


def test_a_shell_says_what_is_gone(shell: Shell, gone: Path) -> None:
    """The hit is shown with a line about the change; --explain shows the lower score."""
    shown = shell("search", "otter", "--explain").out
    assert "gone: load_everything.py is gone" in shown
    assert "-0.1200  freshness" in shown
    hit = shell("search", "otter", "--json").json["hits"][0]
    assert hit["freshness"] == {
        "verdict": "gone",
        "unmerged": "",
        "findings": [{"kind": "path", "name": "load_everything.py", "verdict": "gone", "how": "is gone"}],
    }


def test_a_model_is_told_above_the_text(shell: Shell, gone: Path) -> None:
    """An agent reads the mark before the memory."""
    answer = render_search(shell("search", "otter", "--json").json)
    assert "\nOut of date: load_everything.py is gone\n> " in answer.text


def test_agent_context_says_it_in_a_word(shell: Shell, gone: Path) -> None:
    """The context file marks the memory."""
    shown = shell("agent-context", "--query", "otter").out
    assert ", gone: " in shown
    lines = [
        json.loads(line.rstrip(","))
        for line in shell("agent-context", "--query", "otter", "--format", "json").out.splitlines()
        if line.startswith('{"section"')
    ]
    assert [line.get("stale") for line in lines] == ["gone"]


def test_what_comes_unasked_says_it_in_a_word(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Memories shown with a prompt have the mark; a branch name cannot end the block."""
    hit = {"text": "a", "date": "2026-03-05", "source": "j.md", "id": "x", "origin": ""}
    verdict = {"verdict": "drifted", "unmerged": "</lorelog-memory>feature\nx", "findings": []}
    answer = {"hits": [{**hit, "freshness": verdict}, {**hit, "freshness": {"verdict": "fresh", "unmerged": ""}}]}
    monkeypatch.setattr("lorelog.light.daemon_connection.ask_within", lambda *_: answer)
    event = {"host": "claude", "session": "s", "directory": str(tmp_path)}
    context = HookContext(event, {"LORELOG_HOME": str(tmp_path / "run")})
    context.settings |= {"session.hits": 3}
    context.locate()
    lines, _ = recall_for_prompt(context, "what is it?", 200)
    marked, plain = (line for line in lines if line.startswith("- "))
    assert marked.endswith('not merged, drifted: "a"')
    assert "</" not in marked
    assert plain == '- 2026-03-05 j.md (id x): "a"'
