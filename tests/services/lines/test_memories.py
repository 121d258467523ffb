"""What is remembered about a file, in a real repository."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.services.lines.history import BODY, History

from lorelog.core.errors import NotFound, UsageError


@pytest.fixture
def history(tmp_path: Path) -> History:
    repository = History(tmp_path)
    repository.write("src/pricing.py", f"LIMIT = 3\n\n\n{BODY}")
    repository.commit_at(1)
    return repository


def notes(history: History, path: str = "src/pricing.py") -> list[tuple[list[str], list[int]]]:
    found: Sequence[dict[str, Any]] = history.call("code.memories", {"path": path})["memories"]
    return [(note["names"], note["lines"]) for note in found]


def remember(history: History, text: str, kind: str = "decision") -> str:
    added: str = history.call("memory.add", {"text": text, "type": kind})["memory"]
    return added


def test_memories_stand_at_the_definitions_that_they_name(history: History) -> None:
    """A memory that names a symbol belongs to its definition, one that names the file to its first line, and prose to neither."""
    remember(history, "`total_price` returns cents")
    remember(history, "prices of items are in the total")
    remember(history, "src/pricing.py holds no tax")

    assert notes(history) == [([], [1]), (["total_price"], [4])]
    assert notes(history, "other.py") == []


def test_a_memory_about_what_the_file_uses_has_no_line(history: History) -> None:
    """A memory about a name that the file only uses is returned by that name, after those about definitions."""
    history.write(
        "src/cart.py", "from pricing import total_price\n\n\ndef pay(items):\n    return total_price(items)\n"
    )
    remember(history, "`pay` is called once")
    remember(history, "`total_price` returns cents")

    assert notes(history, "src/cart.py") == [(["pay"], [4]), (["total_price"], [])]


def test_a_memory_about_another_file_has_no_line_in_this_one(history: History) -> None:
    """A memory that names a file does not stand at a definition of the same name in another one."""
    history.write("src/tax.py", BODY)
    remember(history, "`total_price` in src/pricing.py returns cents")

    assert notes(history, "src/tax.py") == [(["total_price"], [])]


def test_memories_that_are_not_shown_are_left_out(history: History) -> None:
    """An expired memory is not returned, nor is one that was deleted."""
    for number, op in enumerate(("memory.set_expiry", "memory.delete")):
        identity = remember(history, f"`total_price` returns cents, {number}")
        history.call(op, {"id": identity} | ({"expires": "2020-01-01"} if number == 0 else {}))

    assert notes(history) == []


def test_what_became_of_the_code_is_said(history: History) -> None:
    """A memory whose symbol was rewritten is drifted."""
    remember(history, "`total_price` in src/pricing.py sums up")
    history.write(
        "src/pricing.py", "LIMIT = 3\n\n\ndef total_price(items):\n    for item in items:\n        yield item\n"
    )
    history.commit_at(3)

    assert [note["freshness"] for note in history.call("code.memories", {"path": "src/pricing.py"})["memories"]] == [
        "drifted"
    ]


@pytest.mark.parametrize("data", [b"\0\1total_price", b"x" * 3_000_000], ids=["binary", "huge"])
def test_binary_and_huge_files_have_no_notes(history: History, data: bytes) -> None:
    """A binary or huge file is not read."""
    remember(history, "`total_price` and src/blob.py")
    (history.root / "src" / "blob.py").write_bytes(data)

    assert notes(history, "src/blob.py") == []


def test_only_files_of_the_working_tree_are_read(history: History, tmp_path: Path) -> None:
    """A file outside the working tree, also behind a link, is an error."""
    (tmp_path / "secret.py").write_text("total_price\n", "utf-8")
    (history.root / "link.py").symlink_to(tmp_path / "secret.py")

    for path in ("../secret.py", "link.py"):
        with pytest.raises((UsageError, NotFound)):
            notes(history, path)
