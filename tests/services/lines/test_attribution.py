"""A line leads to the captured session that wrote it, and to no other."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from tests.services.lines.history import BODY, History

from lorelog.core.errors import NotFound, UsageError


@pytest.fixture
def history(tmp_path: Path) -> History:
    """A repository with one commit, by a person."""
    return History(tmp_path)


def test_a_line_leads_to_its_commit_session_and_prompt(history: History) -> None:
    """The answer has the commit, the session with its prompt, and the text of the edit as evidence about the line."""
    history.writes("s1", 10, "cart.py", BODY)
    history.commit_at(12, "price the cart")
    found = history.why("cart.py:2")
    assert (found["commit"]["subject"], found["symbol"], found["unknown"]) == ("price the cart", "total_price", "")
    session = found["session"]
    assert (session["session"], session["host"], session["prompt"]) == ("s1", "claude", "price the cart")
    assert [(each["kind"], each["strength"]) for each in found["evidence"]] == [("text", "line")]
    assert history.call("memory.get", {"id": session["memory"]})["memory"]
    assert history.writer("cart.py:total_price") == "s1"


def test_a_persons_line_is_never_attributed(history: History) -> None:
    """Lines that no session wrote have none, also in a file that a session edited just before the commit."""
    history.writes("s1", 10, "cart.py", BODY)
    history.write("cart.py", BODY + "\n\ndef discount_of_customer(customer):\n    return customer.discount or 0\n")
    history.commit_at(12)
    assert history.writer("cart.py:2") == "s1"
    found = history.why("cart.py:6")
    assert (found["session"], found["unknown"]) == (None, "no captured session wrote this line")
    assert [(each["kind"], each["strength"]) for each in found["evidence"]] == [("time", "hint")]
    assert history.writer("config/settings.py:3") == ""


@pytest.mark.parametrize("kept_in", ["progress", "file"])
def test_what_a_subagent_wrote_is_its_sessions(history: History, kept_in: str) -> None:
    """A line that a subagent wrote leads to the turn that started it, and one whose edit failed to none."""
    refused = "def total_of_the_cart(cart):\n"
    calls = [("Write", {"file_path": str(history.root / "cart.py"), "content": text}) for text in (BODY, refused)]
    history.session("s1", 10, *calls, refused="not so", kept_in=kept_in)
    history.write("cart.py", BODY + refused)
    history.commit_at(12)
    found = history.why("cart.py:2")
    assert (found["session"]["turn"], found["session"]["prompt"]) == ("s1-turn", "price the cart")
    assert history.writer("cart.py:4") == ""


@pytest.mark.parametrize(("between", "expected"), [(BODY, "s1"), ("def other():\n    return None\n", "")])
def test_a_common_line_needs_its_neighbours(history: History, between: str, expected: str) -> None:
    """`return None` is attributed if the session wrote it among the same lines, and not otherwise."""
    history.session("s1", 10, ("Write", {"file_path": str(history.root / "cart.py"), "content": between}))
    history.write("cart.py", BODY)
    history.commit_at(12)
    assert history.writer("cart.py:3") == expected


def test_only_edits_before_the_commit_count(history: History) -> None:
    """A session that writes the same line after its commit was authored did not write it, nor did one whose edit failed."""
    history.write("cart.py", BODY)
    history.commit_at(12)
    history.writes("late", 30, "cart.py", BODY)
    with history.at(60):  # as after a rebase
        history.git("commit", "-q", "--amend", "--no-edit")
    history.session("failed", 10, ("Write", {"file_path": "cart.py", "content": BODY}), refused="not so")
    assert history.writer("cart.py:2") == ""


def test_of_two_sessions_the_one_of_the_commit_is_named(history: History) -> None:
    """A line that was deleted and written again belongs to the session before the commit that brought it back."""
    history.writes("first", 10, "cart.py", BODY)
    history.commit_at(12)
    history.write("cart.py", "")
    history.commit_at(20)
    history.writes("second", 30, "cart.py", BODY)
    history.commit_at(32)
    assert history.writer("cart.py:2") == "second"


def test_renames_moves_and_white_space_are_followed(history: History) -> None:
    """A line keeps its session when its file is renamed, when it moves to another file, and when it is indented."""
    history.writes("s1", 10, "cart.py", BODY * 1)
    history.commit_at(12)
    history.git("mv", "cart.py", "shop.py")
    history.commit_at(20)
    indented = "class Shop:\n" + "".join(f"    {line}\n" for line in BODY.splitlines())
    history.write("shop.py", indented)
    history.commit_at(30)
    found = history.why("shop.py:3")
    assert (found["session"]["session"], found["commit"]["path"]) == ("s1", "cart.py")


def test_commits_of_bots_are_not_attributed(history: History) -> None:
    """A bot's commit has no session, whatever a session wrote before it."""
    history.writes("s1", 10, "cart.py", BODY)
    history.git("add", "-A")
    with history.at(12):
        history.git("commit", "-q", "-m", "bump", "--author", "dependabot[bot] <b@example.org>")
    found = history.why("cart.py:2")
    assert (found["session"], found["unknown"], found["evidence"]) == (None, "a bot made this commit", [])


def test_an_uncommitted_line_is_attributed(history: History) -> None:
    """A line that is not committed leads to its session too, also in a file that Git does not know."""
    history.writes("s1", 10, "cart.py", BODY)
    found = history.why("cart.py:2")
    assert (found["commit"], found["session"]["session"]) == (None, "s1")


def test_a_secret_leaves_no_digest(history: History) -> None:
    """A line with a secret is not attributed: not even a digest of it is stored."""
    secret = "ghp_x7Kq2mZ9vB4nT1wY6rL8" + "sD3fG5hJ0pQaCeUi"
    history.writes("s1", 10, "cart.py", f"{BODY}UPLOAD_TOKEN_OF_THE_SHOP = '{secret}'\n")
    assert (history.writer("cart.py:2"), history.writer("cart.py:4")) == ("s1", "")
    assert secret not in history.why("cart.py:4")["text"]


def test_a_later_backfill_adds_what_is_missing(history: History) -> None:
    """A backfill stores the digests of turns that were captured before, and they end with the memory of the turn."""
    history.writes("s1", 10, "cart.py", BODY)
    tables = history.place / "home" / "data" / "default" / "traces.db"
    for file in tables.parent.glob("traces.db*"):
        file.unlink()
    assert history.writer("cart.py:2") == ""
    history.writes("s1", 10, "cart.py", BODY)
    memory = history.why("cart.py:2")["session"]["memory"]
    history.call("memory.delete", {"id": memory})
    assert history.writer("cart.py:2") == ""


@pytest.mark.parametrize(
    ("name", "data", "line", "reason"),
    [
        ("logo.py", b"\x89PNG\0\n", 1, "the file is binary"),
        ("cart.py", b"one\n", 2, "the file has 1 lines"),
        ("cart.py", b"one\n", 99_999_999_999, "the file has 1 lines"),
        ("cart.py", b"\n\n", 1, "the line is blank"),
        ("cart.min.js", b"x" * 5_000, 1, "the line is minified or generated"),
        ("big.py", b"x = 1\n" * 400_000, 1, "the file is larger than 2 MB"),
    ],
)
def test_what_cannot_be_asked_about_is_said(history: History, name: str, data: bytes, line: int, reason: str) -> None:
    """Binary, huge and minified files, and lines that are blank or not there, have an answer that says so."""
    (history.root / name).write_bytes(data)
    assert history.why(f"{name}:{line}")["unknown"] == reason


@pytest.mark.parametrize("place", ["cart.py", "../home/data/x:1", "/etc/passwd:1", "cart.py:", ":3", "link.py:1"])
def test_only_lines_of_the_working_tree_are_read(history: History, place: str) -> None:
    """A place without a line, or outside the working tree, also behind a link, is refused."""
    history.write("cart.py", BODY)
    (history.root / "link.py").symlink_to("/etc/passwd")
    with pytest.raises(UsageError):
        history.why(place)


@pytest.mark.parametrize("place", ["gone.py:1", ".git/config:1", "cart.py:missing_name", "cart\0.py:1x"])
def test_what_is_not_there_is_not_found(history: History, place: str) -> None:
    """A missing file or symbol is an error that says so, and Git's own files count as missing."""
    history.write("cart.py", BODY)
    with pytest.raises(NotFound):
        history.why(place)


def test_http_and_mcp_read_no_file(history: History) -> None:
    """A surface that may not read files gets no text of a file that Git does not know."""
    history.write("notes.txt", "the launch code is hidden here\n")
    assert history.over_http("notes.txt:1")["text"] == ""
    assert history.over_http("other.py:1")["text"].startswith("def helper_of_all")


def test_a_repositorys_filters_do_not_run(history: History) -> None:
    """A file that a filter of the repository changes is not asked about: the filter would be run."""
    mark = history.place / "ran"
    history.write(".gitattributes", "*.dat filter=evil\n")
    history.write("a.dat", "some distinctive words of data\n")
    history.commit_at(5)
    history.git("config", "filter.evil.clean", f"touch {mark}; cat")
    os.utime(history.root / "a.dat")
    assert "filter" in history.why("a.dat:1")["unknown"]
    assert not mark.exists()


def test_shallow_detached_and_linked_checkouts_answer(history: History) -> None:
    """A shallow clone, a detached head and a linked worktree answer as the repository does; a shallow clone names no commit that it cannot know."""
    history.writes("s1", 10, "cart.py", BODY)
    history.commit_at(12)
    history.git("worktree", "add", "-q", "--detach", str(history.place / "linked"))
    shallow = history.place / "shallow"
    subprocess.run(["git", "clone", "-q", "--depth", "1", history.root.as_uri(), str(shallow)], check=True)
    for place in (history.place / "linked", shallow):
        history.root, root = place, history.root
        found = history.call("code.why", {"place": "cart.py:2", "all_projects": True})
        history.root = root
        assert found["session"]["session"] == "s1"
        assert (found["commit"] is None) == (place == shallow)
