"""`lorelog how`: commands that passed for a purpose."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest
from tests.services.lines.history import History

from lorelog.core.errors import ModelUnavailable
from lorelog.core.options import EmbedOptions, TraceOptions
from lorelog.core.ports import EmbeddedTexts, Embedder
from lorelog.language.analyser import WordAnalyser
from lorelog.models.embed.builtin import BuiltinEmbedder
from lorelog.models.embed.fake import FakeEmbedder
from lorelog.services.traces.how import HowReply, PurposeMatcher, find_commands
from lorelog.services.traces.remedies import command_form
from lorelog.services.traces.tables import TracedAction, TracedCall, TraceFilter, TraceTables

DAY_MS = 86_400_000
BASE = {"source": "turn", "project": "/app", "turn": "t", "host": "claude", "tool": "Bash", "file": "", "chars": 10}


def ran(command: str, purpose: str = "", *, session: str = "s1", day: int = 0, error: str = "") -> TracedAction:
    """Return a run of a command, on a day; with an error it failed."""
    mark = f"{session} {day} {command} {purpose}"
    fields = {**BASE, "failed": bool(error), "error": error, "memory": session, "session": session}
    return TracedAction(id=mark, at=1_700_000_000_000 + day * DAY_MS, command=command, purpose=purpose, **fields)  # type: ignore[arg-type]


def ask(purpose: str, *runs: TracedAction, embedder: Embedder | None = None, limit: int = 3) -> HowReply:
    matcher = PurposeMatcher(WordAnalyser().words, embedder, "fake/fake-64" if embedder else "none")
    return find_commands(purpose, sorted(runs, key=lambda run: run.at), matcher, limit)


def commands(reply: HowReply) -> list[str]:
    return [known.command for known in reply]


@pytest.mark.parametrize("embedder", [None, FakeEmbedder()])
def test_what_passed_for_the_purpose_is_told_newest_first(embedder: Embedder | None) -> None:
    """Commands that passed for the purpose are told, the newest first, without those for other purposes, whatever their files are called."""
    reply = ask(
        "run the tests",
        ran("make test", "Run the tests", day=1),
        ran("tox run tests", "Run the tests", session="s2", day=5),
        ran("git push", "Push the branch", day=6),
        ran("git add tests/run_the_tests.py", "Stage it", day=7),
        embedder=embedder,
    )
    assert commands(reply) == ["tox run tests", "make test"]


def test_runs_and_failures_are_counted_by_form() -> None:
    """Runs with other files count together; the answer is the last run that passed, and says when and how it failed last."""
    (known,) = ask(
        "run the tests",
        ran("pytest tests/test_a.py", "Run tests of a", day=1),
        ran("pytest tests/test_b.py 2>&1 | tail -5", "Run tests of b", session="s2", day=2),
        ran("pytest tests/test_c.py", "Run tests of c", session="s3", day=3, error="E   assert 1 == 2"),
    )
    assert (known.command, known.runs, known.sessions, known.failures) == ("pytest tests/test_b.py", 3, 3, 1)
    assert known.purposes == ("Run tests of b", "Run tests of a")
    assert (known.passed_at < known.failed_at, known.error) == (True, "E assert … == …")


def test_what_only_failed_or_never_ran_is_left_out() -> None:
    """A command that never passed is not told, and one that the user refused counts as no run."""
    failed = ran("npm test", "Run the tests", error="missing script: test")
    refused = ran("make test", "Run the tests", error="rejected by the user")
    assert commands(ask("run the tests", failed, refused)) == []
    (known,) = ask("run the tests", ran("make test", "Run the tests", day=1), refused)
    assert (known.runs, known.failures) == (1, 0)


def test_words_of_the_command_count_where_nothing_was_said() -> None:
    """A command without a purpose is found by its own words, but not by the names of its files."""
    runs = ran("bun run lint"), ran("cat docs/lint/lint.md", session="s2")
    assert commands(ask("lint", *runs)) == ["bun run lint"]


@pytest.mark.parametrize("embedder", [None, FakeEmbedder()])
def test_an_unknown_purpose_has_no_answer(embedder: Embedder | None) -> None:
    """Without sessions the answer says so; without words in common nothing is told by words alone."""
    assert ask("run the tests", embedder=embedder).unknown == "no captured session ran a command here"
    if embedder is None:
        assert "such a purpose" in ask("bake a cake", ran("make test", "Run the tests")).unknown


def test_one_word_in_common_does_not_make_an_answer() -> None:
    """A command that shares one word of many with the question is not told; other words for the same thing are understood."""
    embedder = BuiltinEmbedder(EmbedOptions())
    matcher = PurposeMatcher(WordAnalyser().words, embedder, f"{embedder.provider}/{embedder.model}")
    runs = [ran("git status", "Show working tree status"), ran("bun run test", "Run tests to verify all pass")]

    assert "such a purpose" in find_commands("Check ark-ui tree-view exports", runs, matcher, 3).unknown
    assert commands(find_commands("execute the unit tests", runs, matcher, 3)) == ["bun run test"]


class _Broken(FakeEmbedder):
    def embed_query(self, text: str) -> bytes:
        raise ModelUnavailable("the model is not there")

    def embed_documents(self, texts: object) -> EmbeddedTexts:
        raise ModelUnavailable("the model is not there")


def test_without_the_model_words_are_compared() -> None:
    """If the model fails, the answer is found by words, and says so."""
    reply = ask("run the tests", ran("make test", "Run the tests"), embedder=_Broken())
    assert commands(reply) == ["make test"]
    assert "by words only" in reply.notes[0]


@pytest.mark.parametrize(
    ("command", "form"),
    [
        ("cd api && bun run test 2>&1 | tail -5", "bun run test"),
        ("git add a.py b.py c.py", "git add *"),
        ("npm test && npm run lint > out.txt", "npm test && npm run lint"),
        ('git commit -m "$(cat <<EOF\nAdd it\nEOF\n)"', "git commit -m $()"),
        ("cat", ""),
    ],
)
def test_a_form_has_no_files_and_filters(command: str, form: str) -> None:
    """Files, redirections and filters of the output differ from run to run."""
    assert command_form(command) == form


def test_signatures_outlive_calls(tmp_path: Path) -> None:
    """`traces.days` does not delete signatures, and deleting the memory of their turn hides them."""
    tables = TraceTables(tmp_path / "traces.db", TraceOptions(days=0))
    tables.add(actions=[ran("make test", "Run the tests")])
    time.sleep(0.01)
    tables.trim()
    assert [run.command for run in tables.actions(("/app",), 10)] == ["make test"]
    assert tables.actions(("/other",), 10) == []


def test_a_database_without_signatures_gets_them(tmp_path: Path) -> None:
    """Traces of the version before are kept, and take signatures."""
    old = TraceTables(tmp_path / "traces.db", TraceOptions())
    old.add([TracedCall(id="c", at=1, tool="Bash", source="turn")])
    old.close()
    with closing(sqlite3.connect(old.path)) as db:
        db.executescript("DROP TABLE actions; PRAGMA user_version = 2")
    tables = TraceTables(old.path, TraceOptions())
    tables.add(actions=[ran("make test")])
    assert [run.command for run in tables.actions(None, 10)] == ["make test"]
    assert tables.calls(TraceFilter())[1] == 1
    tables.close()


def test_a_captured_session_answers_until_it_is_forgotten(tmp_path: Path) -> None:
    """A captured command is told with its purpose and without its secret; forgetting its session removes it."""
    secret = "ghp_x7Kq2mZ9vB4nT1wY6rL8" + "sD3fG5hJ0pQaCeUi"
    history = History(tmp_path)
    call = {"command": f"make release TOKEN={secret}", "description": "Release a new version"}
    history.session("s1", 10, ("Bash", call))
    (known,) = history.call("debug.how", {"purpose": "release a version"})["commands"]
    assert known["purposes"] == ["Release a new version"]
    assert known["command"].startswith("make release")
    assert secret not in known["command"]
    history.call("memory.forget", {"session": "s1", "confirm": True})
    assert history.call("debug.how", {"purpose": "release a version"})["commands"] == []
