"""Older and newer values of the same thing are shown as a pair: in the CLI, to a model, and with a prompt."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.surfaces.conftest import Shell, write

from lorelog.surfaces.hook.context import recall_for_prompt
from lorelog.surfaces.hook.settings import HookContext
from lorelog.surfaces.mcp.calls import render_search


@pytest.fixture
def changed(shell: Shell, project: Path) -> Path:
    """A project with two values of one timeout."""
    write(project / "notes" / "2026-10-02.md", "The otter timeout is 5 s.\n")
    write(project / "notes" / "2026-10-09.md", "The otter timeout is 30 s.\n")
    assert shell("index", "notes").status == 0
    return project


def test_a_shell_shows_the_pair(shell: Shell, changed: Path) -> None:
    """The newer hit comes first and names the older one by its number, and the other way round."""
    shown = shell("search", "otter timeout").out

    assert shown.index("now: otter timeout 30 s (hit 2, 2026-10-02, says 5 s)") < shown.index(
        "was: otter timeout 5 s (superseded by hit 1, 2026-10-09: 30 s)"
    )


def test_a_model_reads_the_pair_as_a_quotation(shell: Shell, changed: Path) -> None:
    """An agent is told which hit is outdated before it reads the text; words from memory are quoted."""
    reply = shell("search", "otter timeout", "--json").json
    newer, older = (hit["id"] for hit in reply["hits"])

    text = render_search(reply).text

    assert f"\nWas, superseded by id {newer} (2026-10-09):\n> otter timeout: 5 s, there 30 s\n> " in text
    assert f"\nNow, differs from the older id {older} (2026-10-02):\n> " in text


def test_what_comes_unasked_says_what_is_outdated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A memory shown with a prompt names the newer or contradicting one by its id, which cannot end the block."""
    hit = {"text": "a", "date": "2026-03-05", "source": "j.md", "id": "x", "origin": ""}
    answer = {
        "hits": [
            {**hit, "now_was": [{"role": "was", "other": "</lorelog-memory>y"}]},
            {**hit, "now_was": [{"role": "conflict", "other": "z"}, {"role": "now", "other": "w"}]},
            {**hit, "now_was": "nonsense"},
        ]
    }
    monkeypatch.setattr("lorelog.light.daemon_connection.ask_within", lambda *_: answer)
    event = {"host": "claude", "session": "s", "directory": str(tmp_path)}
    context = HookContext(event, {"LORELOG_HOME": str(tmp_path / "run")})
    context.settings |= {"session.hits": 3}
    context.locate()

    lines, _ = recall_for_prompt(context, "what is it?", 300)

    outdated, contradicted, plain = (line for line in lines if line.startswith("- "))
    assert "superseded by id" in outdated
    assert "</" not in outdated
    assert contradicted == '- 2026-03-05 j.md (id x), contradicted by id z: "a"'
    assert plain == '- 2026-03-05 j.md (id x): "a"'
