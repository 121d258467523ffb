"""The history of an error is found in turns, memories and records."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.ingest.transcripts.conversations import claude, tool_result, tool_use
from tests.services.traces.stored_errors import store_errors

from lorelog.operations.dispatch import ClientIdentity, Dispatcher
from lorelog.services.traces.error_history import parse_error
from lorelog.wiring import ResourcePool

LINT = "src/db.py:3:1 unused variable\nerror: found 1 problem in src/db.py"
STACK = (
    "Traceback (most recent call last):\n  File \"/app/db.py\", line {line}, in load\n    x\nKeyError: 'customer_id'\n"
)

Ask = Callable[..., Any]


@pytest.fixture
def ask(project: Path, tmp_path: Path) -> Iterator[Ask]:
    holdings = ResourcePool()
    dispatcher = Dispatcher(holdings.engine)
    environment = {"LORELOG_HOME": str(tmp_path / "home"), "LORELOG_EMBEDDING_PROVIDER": "none"}

    def call(op: str, **arguments: Any) -> Any:
        return dispatcher.call(op, arguments, ClientIdentity(str(project), environment))

    yield call
    holdings.close()


def session(ask: Ask, folder: Path, *turns: list[Any], session_id: str = "s-1") -> list[str]:
    """Capture a Claude Code session of prompts, commands with results, and written files; return its memories."""
    when = datetime.now(UTC) - timedelta(hours=1)
    lines: list[dict[str, Any]] = []
    for number, (asked, *deeds) in enumerate(turns):
        lines.append(claude("user", f"{number}-ask", asked))
        for place, deed in enumerate(deeds):
            name = f"{number}-{place}"
            given = {"file_path": deed} if isinstance(deed, str) else {"command": deed[0]}
            tool = "Edit" if isinstance(deed, str) else "Bash"
            lines.append(claude("assistant", f"{name}-call", [tool_use(name, tool, **given)]))
            result = "" if isinstance(deed, str) else deed[1]
            is_error = "Traceback" in result or "error:" in result
            lines.append(claude("user", f"{name}-done", [tool_result(name, result, is_error=is_error)]))
        lines.append(claude("assistant", f"{number}-said", [{"type": "text", "text": f"Answered {asked}"}]))
    for line in lines:
        when += timedelta(seconds=10)
        line |= {"sessionId": session_id, "timestamp": when.isoformat()}
    path = folder / f"{session_id}.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    event = {
        "host": "claude",
        "session": session_id,
        "transcript": str(path),
        "moment": "session-end",
        "everything": True,
    }
    late = (when - timedelta(days=3)).date().isoformat()
    captured = ask("session.capture", **event, branch="main", since=late)["captured"]
    return [item["memory"] for item in captured]


def test_an_error_that_was_never_seen_is_told_so(ask: Ask) -> None:
    """Without traces the history is empty."""
    ask("memory.add", text="We keep sessions in Redis, because restarts lost them.")
    reply = ask("debug.why", text="KeyError: 'customer_id'")
    assert reply["seen_before"] is False
    assert [reply[name] for name in ("seen", "occurrences", "fixes", "turns", "decisions", "tasks", "memories")] == [
        []
    ] * 7
    assert (reply["asked"]["error_type"], reply["asked"]["error_message"]) == ("KeyError", "'customer_id'")


def test_what_fixed_it_is_told(ask: Ask, tmp_path: Path) -> None:
    """The failing turn, the next one, and the files written before the command passed are returned."""
    first, second = session(
        ask,
        tmp_path,
        ["why do tests fail?", ("cd /app && make test 2>&1 | tail", STACK.format(line=3))],
        ["mend it", "/app/src/db.py", ("make lint", "ok"), ("make test", "3 passed")],
    )
    reply = ask("debug.why", text=STACK.format(line=99).replace("/app/", "/elsewhere/"))

    assert reply["seen_before"] is True
    (seen,) = reply["seen"]
    assert (seen["match"], seen["times"], seen["sessions"]) == ("exact", 1, 1)
    (fix,) = reply["fixes"]
    assert (fix["command"], fix["files"], fix["memory"]) == ("make test", ["/app/src/db.py"], second)
    assert "mend it" in fix["text"]
    assert [(turn["memory"], turn["is_after"]) for turn in reply["turns"]] == [(first, False), (second, True)]
    assert "why do tests fail?" in reply["turns"][0]["text"]
    assert (reply["turns"][0]["session_id"], reply["turns"][0]["branch"]) == ("s-1", "main")
    (occurrence,) = reply["occurrences"]
    assert (occurrence["session_id"], occurrence["command"], occurrence["host"]) == ("s-1", "make test", "claude")


def test_a_hook_is_told_what_fixed_it(ask: Ask, tmp_path: Path) -> None:
    """The hint names the changed files, the turn in which the command passed, and a count; its own session gets none."""
    _, second = session(
        ask,
        tmp_path,
        ["why do tests fail?", ("make test", STACK.format(line=3))],
        ["mend it", "/app/src/db.py", ("make test", "3 passed")],
    )
    output = "collected 3 items\n" + STACK.format(line=7)
    (hint,) = ask("session.why", text=output, session="another")["hints"]

    assert (hint["id"], hint["files"], hint["sessions"]) == (second, ["/app/src/db.py"], 1)
    assert hint["date"]
    assert ask("session.why", text=output, session="s-1")["hints"] == []

    other = ["again", ("make test", STACK.format(line=3)), "/app/src/web.py", ("make test", "3 passed")]
    session(ask, tmp_path, other, session_id="s-2")
    assert ask("session.why", text=output, session="another")["hints"] == []  # one of two: no remedy


@pytest.mark.parametrize(
    "text", ["KeyError: 'customer'", "ls: cannot access 'a': No such file or directory", "ok", "\ud800", LINT]
)
def test_a_hook_is_told_nothing_of_other_errors(ask: Ask, tmp_path: Path, text: str) -> None:
    """A similar error, a common one, a linter's summary and no error at all give no hint."""
    missing = ("ls b", "ls: cannot access 'b': No such file or directory")
    session(
        ask,
        tmp_path,
        ["a", ("make test", STACK.format(line=3)), missing, ("make lint", LINT)],
        ["b", "/app/src/db.py", ("make test", "3 passed"), ("make lint", "ok")],
    )
    assert ask("session.why", text=text)["hints"] == []


def test_a_line_of_it_is_enough(ask: Ask, tmp_path: Path) -> None:
    """An error without a stack is found by its message, whatever numbers and paths it has."""
    session(ask, tmp_path, ["a", ("make", STACK.format(line=3).replace("'customer_id'", "row 17 of /var/lib/a.db"))])
    for text in ("KeyError: row 99 of /tmp/b.db", "  KeyError: row 1 of '/x/y.db'  "):
        (seen,) = ask("debug.why", text=text)["seen"]
        assert seen["match"] == "same message"


def test_a_secret_in_it_does_not_hide_it(ask: Ask, tmp_path: Path) -> None:
    """An error is found whatever secrets it contains."""
    first, second = ("ghp_" + half + "sD3fG5hJ0pQaCeUi" for half in ("x7Kq2mZ9vB4nT1wY6rL8", "y8Lr3nA0wC5oU2xZ7sM9"))
    session(ask, tmp_path, ["a", ("make", STACK.format(line=3).replace("'customer_id'", f"token {first}"))])
    reply = ask("debug.why", text=STACK.format(line=4).replace("'customer_id'", f"token {second}"))
    assert [item["match"] for item in reply["seen"]] == ["exact"]
    assert second not in json.dumps(reply)


def test_what_is_nearly_the_same_is_told_as_such(ask: Ask, tmp_path: Path) -> None:
    """An error with similar words and no other type is similar, not the same."""
    stack = STACK.format(line=3).replace(
        "KeyError: 'customer_id'", "ConnectionError: could not connect to postgres database orders"
    )
    session(ask, tmp_path, ["a", ("make", stack)])
    reply = ask("debug.why", text="ConnectionError: could not connect to postgres database invoices")
    assert [item["match"] for item in reply["seen"]] == ["similar"]
    assert reply["seen_before"] is False
    assert ask("debug.why", text="TimeoutError: could not connect to postgres database orders")["seen"] == []


def test_decisions_tasks_and_memories_that_mention_it_are_told(ask: Ask) -> None:
    """Decisions, tasks and memories that mention the error are returned, each in its section."""
    ask(
        "memory.add",
        text="KeyError customer_id comes from orders without a customer: import them first.",
        type="lesson",
    )
    ask("memory.add", text="Decided: a KeyError for customer_id is answered with 404, not 500.", type="decision")
    ask("memory.add", text="The customer portal shows an id.")
    task = ask("task.start", goal="Stop KeyError customer_id in the importer", writer="mara")["task_id"]
    ask(
        "task.finish",
        task_id=task,
        summary="KeyError customer_id is gone: orders are sorted first",
        what_worked=["sorting"],
        writer="mara",
    )

    reply = ask("debug.why", text="KeyError: 'customer_id'")

    assert [item["type"] for item in reply["decisions"]] == ["decision"]
    assert {item["task"] for item in reply["tasks"]} == {task}
    assert any("sorted first" in item["snippet"] for item in reply["tasks"])
    assert [item["type"] for item in reply["memories"]] == ["lesson"]


def test_another_projects_errors_are_not_told_unless_asked_for(
    ask: Ask, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Traces of other projects are omitted."""
    other = project.parent / "other"
    other.mkdir()
    monkeypatch.setenv("LORELOG_HOME", str(tmp_path / "home"))
    store_errors(other, STACK.format(line=3))
    assert ask("debug.why", text=STACK.format(line=3))["seen"] == []
    assert len(ask("debug.why", text=STACK.format(line=3), all_projects=True)["seen"]) == 1


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("noise\nerror: first\n" + STACK.format(line=1) + "make: *** [test] Error 1\n", "KeyError"),
        ("src/a.c:1:2: error: one\nsrc/a.c:3:4: error: two\n", "error"),
        ("it just says that it cannot", ""),
        ("\n\n  something odd\nand more", ""),
    ],
)
def test_the_error_of_a_long_output_is_chosen(text: str, kind: str) -> None:
    """The last stack of a text is used; else the first message; else the first line with text."""
    assert parse_error(text).type == kind


def test_odd_letters_are_asked_for_without_a_fault(ask: Ask) -> None:
    """Surrogates and null characters match nothing and raise nothing."""
    odd = "\ud800 \0 ValueError: \udfff"
    assert ask("debug.find_errors", text=odd, error_signature=odd, function_name=odd, file_path=odd)["errors"] == []
    assert ask("debug.find_tool_calls", tool_name=odd, session_id=odd)["tool_calls"] == []
    assert ask("debug.why", text=odd)["seen"] == []
