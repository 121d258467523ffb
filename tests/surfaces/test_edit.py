"""`memory.edit`: a person edits a memory in its file."""

from __future__ import annotations

from pathlib import Path

import pytest

from lorelog import Lorelog
from lorelog.core.errors import SourceChanged, UsageError


def test_an_edited_memory_stays_the_user_s_own(project: Path) -> None:
    """The file has the new text, the id stays, the memory is found by its new words, and it is still the user's word."""
    with Lorelog(project=project) as memory:
        added = memory.add("The heron nests at the weir.", type="correction")
        section = memory.expand(added.memory)
        reply = memory.edit(added.memory, section.content, section.content.replace("weir", "mill"))
        assert reply.changed
        assert reply.memory == added.memory
        assert "at the mill" in Path(added.source).read_text("utf-8")
        found = memory.search("mill").hits[0]
        assert (found.anchor and found.anchor.memory, found.origin) == (added.memory, "user")


def test_an_edit_of_an_outdated_text_writes_nothing(project: Path) -> None:
    """If the file was changed meanwhile, the edit fails with the code `changed`, and the file is as it was."""
    with Lorelog(project=project) as memory:
        added = memory.add("The heron nests at the weir.")
        section = memory.expand(added.memory).content
        path = Path(added.source)
        path.write_text(path.read_text("utf-8").replace("weir", "lock"), "utf-8")
        with pytest.raises(SourceChanged):
            memory.edit(added.memory, section, section.replace("weir", "mill"))
        assert "at the lock" in path.read_text("utf-8")


def test_an_edit_keeps_ids_and_fences_and_removes_secrets(project: Path) -> None:
    """A text without the id or with an open fence is refused; a secret in it is redacted."""
    with Lorelog(project=project) as memory:
        added = memory.add("The heron nests at the weir.")
        section = memory.expand(added.memory).content
        heading, _, body = section.split("\n", 2)
        for bad in (f"{heading}\n{body}", f"{section}\n```\ncode", " \n"):
            with pytest.raises(UsageError):
                memory.edit(added.memory, section, bad)
        token = "ghp_" + "a1B2c3D4e5F6" * 3
        reply = memory.edit(added.memory, section, f"{section}\n- token {token}")
        assert reply.redacted
        assert token not in Path(added.source).read_text("utf-8")
