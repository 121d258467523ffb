"""A plugin's model answers requests: each is taken once, and answered or withdrawn."""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from lorelog.core.errors import ModelFault, ModelUnavailable
from lorelog.core.ports import Completion
from lorelog.services.sessions.summarizer import PluginLanguageModel, requests_folder, submit_answer, take_request


class Asking(threading.Thread):
    def __init__(self, model: PluginLanguageModel) -> None:
        super().__init__()
        self.model = model
        self.said: Completion | None = None
        self.error: Exception | None = None
        self.start()

    def run(self) -> None:
        try:
            self.said = self.model.complete("Write notes.", "A turn.", 600)
        except Exception as error:  # noqa: BLE001  (a test looks at it)
            self.error = error


@pytest.fixture
def folder(home: Path) -> Path:
    return requests_folder(home)


def asking(folder: Path, session: str = "s", *, timeout_s: float = 20.0, fetch_s: float = 20.0) -> Asking:
    return Asking(PluginLanguageModel(folder, "openclaw", session, timeout_s, fetch_s=fetch_s))


def fetched(folder: Path, session: str = "s") -> dict[str, Any]:
    request = take_request(folder, "openclaw", session, 10.0)
    assert request is not None
    return request


def test_a_plugin_answers(folder: Path) -> None:
    """A request reaches the session's plugin, its answer is returned, and no file remains."""
    waiting = asking(folder)

    request = fetched(folder)
    assert (request["system"], request["text"], request["max_tokens"]) == ("Write notes.", "A turn.", 600)
    assert submit_answer(folder, request["id"], {"text": "- User asked", "tokens_in": 11, "tokens_out": 7})

    waiting.join()
    assert waiting.said == Completion("- User asked", 11, 7)
    assert list(folder.iterdir()) == []


def test_a_request_is_fetched_once_and_by_its_own_session(folder: Path) -> None:
    """Requests are private. Another host or session gets nothing; of several takers one gets the request."""
    waiting = asking(folder)
    while not list(folder.glob("*.json")):
        time.sleep(0.01)
    (path,) = folder.glob("*.json")
    assert (path.stat().st_mode & 0o777, folder.stat().st_mode & 0o777) == (0o600, 0o700)
    assert take_request(folder, "opencode", "s", 0) is None
    assert take_request(folder, "openclaw", "other", 0) is None

    taken: list[dict[str, Any] | None] = []
    plugins = [
        threading.Thread(target=lambda: taken.append(take_request(folder, "openclaw", "s", 0.3))) for _ in range(4)
    ]
    for plugin in plugins:
        plugin.start()
    for plugin in plugins:
        plugin.join()

    (request,) = [item for item in taken if item]
    submit_answer(folder, request["id"], {"text": "- x"})
    waiting.join()
    assert waiting.said == Completion("- x")


def test_an_unclaimed_request_is_withdrawn(folder: Path) -> None:
    """A request that no plugin takes is withdrawn early."""
    waiting = asking(folder, timeout_s=600.0, fetch_s=0.2)
    waiting.join(30)

    assert not waiting.is_alive()
    assert isinstance(waiting.error, ModelUnavailable)
    assert take_request(folder, "openclaw", "s", 0) is None
    assert list(folder.iterdir()) == []


@pytest.mark.slow
def test_a_request_that_was_fetched_is_waited_for_and_then_given_up(folder: Path) -> None:
    """A plugin that does not answer costs no more than the time limit, and its late answer is ignored."""
    waiting = asking(folder, timeout_s=1.0, fetch_s=0.5)
    request = fetched(folder)
    waiting.join(30)

    assert isinstance(waiting.error, ModelUnavailable)
    assert not submit_answer(folder, request["id"], {"text": "- late"})
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("name", ["", "../../etc/passwd", "x/y", "0" * 32])
def test_an_answer_to_nothing_is_passed_over(folder: Path, name: str) -> None:
    """An unknown request id is refused."""
    folder.mkdir(parents=True)

    assert not submit_answer(folder, name, {"text": "- x"})
    assert list(folder.iterdir()) == []


def test_an_odd_answer_is_a_fault_or_costs_nothing_known(folder: Path) -> None:
    """Invalid token counts are ignored; an answer without text is a ModelFault."""
    waiting = asking(folder)
    request = fetched(folder)
    submit_answer(folder, request["id"], {"text": "- x", "tokens_in": "many", "tokens_out": -3})
    waiting.join()
    assert waiting.said == Completion("- x")

    waiting = asking(folder)
    request = fetched(folder)
    (folder / f"{request['id']}.answer").write_text("[]", "utf-8")
    waiting.join()
    assert isinstance(waiting.error, ModelFault)


def test_what_a_killed_process_left_is_swept(folder: Path) -> None:
    """Old files are removed by the next request; invalid ones are not handed out."""
    folder.mkdir(parents=True)
    (folder / "old.json").write_text(
        json.dumps({"id": "old", "host": "openclaw", "session": "s", "until": 1.0}), "utf-8"
    )
    os.utime(folder / "old.json", (1, 1))
    (folder / "broken.json").write_text("{", "utf-8")
    waiting = asking(folder)

    request = fetched(folder)
    submit_answer(folder, request["id"], {"text": "- x"})
    waiting.join()

    assert request["id"] != "old"
    assert [path.name for path in folder.iterdir()] == ["broken.json"]


def test_an_unwritable_folder_makes_the_model_unavailable(home: Path) -> None:
    """A folder that cannot be created is a ModelUnavailable error."""
    home.parent.mkdir(exist_ok=True)
    home.write_text("", "utf-8")

    with pytest.raises(ModelUnavailable):
        PluginLanguageModel(requests_folder(home), "openclaw", "s", 5.0).complete("s", "t", 1)


@pytest.mark.slow
def test_an_agent_that_has_ended_fetches_nothing(folder: Path) -> None:
    """A request is left alone when the plugin is gone."""
    waiting = asking(folder, fetch_s=1.0)

    assert take_request(folder, "openclaw", "s", 30.0, lambda: False) is None

    waiting.join()
    assert isinstance(waiting.error, ModelUnavailable)
