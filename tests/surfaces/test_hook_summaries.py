"""A plugin fetches a text to summarize and submits the summary, with one command each."""

from __future__ import annotations

import json
import subprocess
import threading
from pathlib import Path

import pytest
from tests.surfaces.conftest import command_line, write

from lorelog.config.schema import SETTINGS_BY_KEY
from lorelog.core.ports import Completion
from lorelog.services.sessions.summarizer import PluginLanguageModel, requests_folder
from lorelog.surfaces.hook.summaries import request_summary, submit_summary
from lorelog.wiring import open_engine, resolve_location


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings with the agent's own model as summarizer."""
    monkeypatch.setenv(SETTINGS_BY_KEY["summarize.provider"].variable, "host")


def ran(moment: str, payload: dict[str, object], cwd: Path) -> dict[str, dict[str, str]]:
    """Run a hook as a plugin does, and return its JSON."""
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
    """The request of a session's turn is printed for its plugin, and the submitted summary is used."""
    answers: list[Completion] = []
    model = PluginLanguageModel(requests_folder(home), "openclaw", "s", 60.0)
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
    """Another session, an invalid payload and an unknown summary get an empty reply."""
    for payload in ({"session": "other"}, {}, {"session": 3}):
        assert request_summary("openclaw", dict(payload), str(home), 0.0) == {"summarize": None}
    assert submit_summary({"id": ["x"], "text": None}, str(home)) == {}


def test_without_the_setting_the_reply_is_empty_at_once(home: Path) -> None:
    """If the agent's model is not chosen, or the settings are invalid, the reply is empty at once."""
    assert request_summary("openclaw", {"session": "s"}, str(home), 600.0) == {}
    write(home / "config.toml", "[summarize\n")
    assert request_summary("openclaw", {"session": "s"}, str(home), 600.0) == {}


@pytest.mark.usefixtures("chosen")
def test_the_engine_asks_the_plugin_of_hosts_that_have_no_program(project: Path, home: Path) -> None:
    """A turn of OpenClaw is summarized by its plugin, and redacted before and after."""
    key = "sk-ant-api03-" + "Ab3dEf6hIj9kLm2nOp5qRs8tUv1wXy4z" * 3 + "-AA"
    notes: list[str | None] = []
    with open_engine(resolve_location()) as engine:
        summarizer = engine.capture_context().summarizer()
        assert summarizer is not None
        waiting = threading.Thread(target=lambda: notes.append(summarizer.summarize("a turn", "openclaw", "s")))
        waiting.start()
        request = request_summary("openclaw", {"session": "s"}, str(home), 30.0)["summarize"]
        submit_summary({"id": request["id"], "text": f"- User set {key}"}, str(home))
        waiting.join()

    assert "a turn" in request["text"]
    assert notes == ["- User set [redacted:anthropic-key]"]
