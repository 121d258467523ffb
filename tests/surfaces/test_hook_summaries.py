"""A plugin fetches what is to be summarized and hands the summary in, each with one command."""

from __future__ import annotations

import json
import subprocess
import threading
from pathlib import Path

import pytest
from tests.surfaces.conftest import command_line, write

from lorelog.config.schema import BY_KEY
from lorelog.core.ports import Completion
from lorelog.services.session.host_summaries import PluginLanguage, folder_of
from lorelog.surfaces.cli.hook_summaries import hand_in_summary, request_summary
from lorelog.wiring import open_engine, standpoint


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Notes are worded by the agent's own model."""
    monkeypatch.setenv(BY_KEY["summarize.provider"].variable, "host")


def ran(moment: str, payload: dict[str, object], cwd: Path) -> dict[str, dict[str, str]]:
    """Run a hook as a plugin does, and return what it prints."""
    done = subprocess.run(
        command_line("hook", "openclaw", moment),
        input=json.dumps(payload),
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    answer: dict[str, dict[str, str]] = json.loads(done.stdout)
    return answer


@pytest.mark.usefixtures("chosen")
def test_a_summary_goes_out_and_comes_back(project: Path, home: Path) -> None:
    """The request of a session's turn is printed for its plugin, and what the plugin hands in is the answer."""
    answers: list[Completion] = []
    model = PluginLanguage(folder_of(home), "openclaw", "s", 60.0)
    waiting = threading.Thread(target=lambda: answers.append(model.complete("Write.", "A turn.", 600)))
    waiting.start()

    request = ran("summary-request", {"session": "s"}, project)["summarize"]
    assert request == {"id": request["id"], "system": "Write.", "text": "A turn.", "max_tokens": 600}
    summary = {"id": request["id"], "text": "- User asked", "tokens_in": 11, "tokens_out": 7}
    assert ran("summary", summary, project) == {}

    waiting.join()
    assert answers == [Completion("- User asked", 11, 7)]


@pytest.mark.usefixtures("chosen")
def test_where_nothing_waits_nothing_is_asked_for(home: Path) -> None:
    """Another session, an odd payload and a summary of nothing are answered with nothing."""
    for payload in ({"session": "other"}, {}, {"session": 3}):
        assert request_summary("openclaw", dict(payload), str(home), 0.0) == {"summarize": None}
    assert hand_in_summary({"id": ["x"], "text": None}, str(home)) == {}


def test_without_the_choice_nobody_waits(home: Path) -> None:
    """Where the agent's own model is not chosen, or the settings are broken, the answer is nothing, at once."""
    assert request_summary("openclaw", {"session": "s"}, str(home), 600.0) == {}
    write(home / "config.toml", "[summarize\n")
    assert request_summary("openclaw", {"session": "s"}, str(home), 600.0) == {}


@pytest.mark.usefixtures("chosen")
def test_the_engine_asks_the_plugin_of_hosts_that_have_no_program(project: Path, home: Path) -> None:
    """A turn of OpenClaw is worded by its plugin, redacted before it is handed out and after it comes back."""
    key = "sk-ant-api03-" + "Ab3dEf6hIj9kLm2nOp5qRs8tUv1wXy4z" * 3 + "-AA"
    notes: list[str | None] = []
    with open_engine(standpoint()) as engine:
        summarizer = engine.capturing().summarizer()
        assert summarizer is not None
        waiting = threading.Thread(target=lambda: notes.append(summarizer.summarize("a turn", "openclaw", "s")))
        waiting.start()
        request = request_summary("openclaw", {"session": "s"}, str(home), 30.0)["summarize"]
        hand_in_summary({"id": request["id"], "text": f"- User set {key}"}, str(home))
        waiting.join()

    assert "a turn" in request["text"]
    assert notes == ["- User set [redacted:anthropic-key]"]


def test_by_default_nobody_words_notes(project: Path) -> None:
    """Without a choice there is no summarizer, and no model is asked for anything."""
    with open_engine(standpoint()) as engine:
        assert engine.capturing().summarizer() is None
