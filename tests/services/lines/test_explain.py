"""The answer joins a line with what was said and tested then, and with the decisions that name it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.services.lines.history import BODY, History

from lorelog.core.caller import AGENT_MARKERS
from lorelog.surfaces.cli.main import main


@pytest.fixture
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> History:
    """A repository in whose shell a person stands, with a session that wrote a file, tested it, and was corrected."""
    for variable in AGENT_MARKERS:
        monkeypatch.delenv(variable, raising=False)
    history = History(tmp_path)
    history.write("cart.py", BODY)
    history.session(
        "s1",
        10,
        ("Write", {"file_path": "cart.py", "content": BODY}),
        ("Bash", {"command": "pytest -q tests"}),
        ("Bash", {"command": "pip install money"}),
        refused="no dependencies for prices",
    )
    history.commit_at(12)
    monkeypatch.chdir(history.root)
    monkeypatch.setenv("LORELOG_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("LORELOG_EMBEDDING_PROVIDER", "none")
    return history


def test_what_was_said_tested_and_decided_is_told(history: History) -> None:
    """The answer has the session's tests and corrections, and decisions that name the file, without superseded ones."""
    old = history.call("memory.add", {"text": "Prices in cart.py are floats.", "type": "decision"})["memory"]
    history.call("memory.add", {"text": "Prices in shopping_cart.py are cents.", "type": "decision"})
    history.call("memory.supersede", {"id": old, "text": "Prices in `cart.py` are Decimal, never floats."})
    found = history.why("cart.py:2")
    assert [(test["command"], test["passed"]) for test in found["tests"]] == [("pytest -q tests", True)]
    assert [(said["type"], "no dependencies for prices" in said["text"]) for said in found["said"]] == [
        ("correction", True)
    ]
    assert [decision["text"] for decision in found["decisions"]] == ["Prices in `cart.py` are Decimal, never floats."]


def test_forget_removes_the_digests(history: History) -> None:
    """When a turn is forgotten, its line has no session any more, and the rows are gone from the database."""
    database = history.place / "home" / "data" / "default" / "traces.db"
    with closing(sqlite3.connect(database)) as db:
        assert db.execute("SELECT count(*) FROM edits").fetchone() == (1,)
    history.call("memory.forget", {"session": "s1", "confirm": True})
    assert history.writer("cart.py:2") == ""
    with closing(sqlite3.connect(database)) as db:
        assert db.execute("SELECT count(*) FROM edits").fetchone() == (0,)


def test_the_shell_tells_a_line_from_an_error(history: History, capsys: pytest.CaptureFixture[str]) -> None:
    """`lorelog why` explains a line by its number or symbol, names a file that is not there, and takes all else as an error's text."""
    for place in ("cart.py:2", "cart.py:total_price"):
        assert main(["why", place]) == 0
        shown = capsys.readouterr().out
        assert all(
            words in shown for words in ("session s1", "prompt  price the cart", "evidence  session s1 wrote this line")
        )
    assert main(["why", "other.py:1"]) == 0
    assert "unknown  no captured session wrote this line" in capsys.readouterr().out
    assert main(["why", "gone.py:3"]) == 1
    assert "there is no file gone.py" in capsys.readouterr().err
    assert main(["why", "KeyError: id"]) == 0
    assert "Not seen before." in capsys.readouterr().out
