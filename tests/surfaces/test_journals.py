"""`lorelog add` and the user's own journal files."""

from __future__ import annotations

import fcntl
import os
import subprocess
import time
from pathlib import Path

import pytest
from tests.surfaces.conftest import Shell, command_line, write


def journal_of(shell: Shell) -> Path:
    """Return today's journal, with one entry in it."""
    return Path(shell("add", "first entry", "--json").json["source"])


def test_a_linked_journal_is_refused(shell: Shell, project: Path) -> None:
    """A link in the place of a journal is neither written through nor indexed."""
    victim = write(project.parent / "secret.txt", "SECRET quokka\n")
    journal = journal_of(shell)
    journal.unlink()
    journal.symlink_to(victim)

    done = shell("add", "note")

    assert done.status == 1
    assert victim.read_text("utf-8") == "SECRET quokka\n"
    assert not shell("search", "quokka", "--all-projects", "--lane", "lexical", "--json").json["hits"]


@pytest.mark.slow
def test_an_editor_that_replaces_the_journal_loses_no_entry(shell: Shell, project: Path) -> None:
    """An entry that was waiting for its turn goes into the file that is there when the turn comes."""
    journal = journal_of(shell)
    with journal.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        process = subprocess.Popen(command_line("add", "the platypus entry"), cwd=project)
        time.sleep(1.0)
        replacement = write(project / "edited.md", journal.read_text("utf-8") + "\nedited by hand\n")
        os.replace(replacement, journal)  # noqa: PTH105
    assert process.wait(timeout=60) == 0

    text = journal.read_text("utf-8")
    assert "edited by hand" in text
    assert text.count("the platypus entry") == 1
    assert shell("search", "platypus", "--json").json["hits"]


@pytest.mark.parametrize("tail", ["```python\nprint(1)\n", "~~~~\ncode", "text\n\n````\n```\n"])
def test_an_open_fence_does_not_swallow_entries(shell: Shell, project: Path, tail: str) -> None:
    """An entry after an unclosed code fence is still an entry."""
    journal = journal_of(shell)
    with journal.open("a", encoding="utf-8") as file:
        file.write("\n" + tail)

    done = shell("add", "the numbat entry", "--json")

    assert done.status == 0
    assert done.json["searchable"]
    assert shell("search", "numbat", "--json").json["hits"][0]["heading_level"] == 3


@pytest.mark.parametrize(
    "text",
    [
        "Title\n=====\nwith a body",
        "Title\n---\nwith a body",
        "---\na: b\n---\nbody",
        "# A\n## B\nbody",
        "```\n# no\n```",
    ],
)
def test_any_text_stays_one_entry(shell: Shell, project: Path, text: str) -> None:
    """Headings of any kind inside a memory do not take its anchor away, and its words are kept."""
    reply = shell("add", text, "--type", "note", "--json")

    assert reply.status == 0
    assert reply.json["searchable"]
    assert reply.json["id"]
    written = Path(reply.json["source"]).read_text("utf-8")
    for word in ("Title", "body", "# no"):
        assert (word in written) == (word in text)
    following = shell("add", "the next entry", "--json").json
    assert shell("show", following["memory"], "--json").json["content"].endswith("the next entry")


@pytest.mark.slow
def test_an_entry_made_during_an_index_run_stays(shell: Shell, project: Path) -> None:
    """Memories that are added while a long run goes on are found when it has ended."""
    for number in range(400):
        write(project / ".lorelog" / "memory" / f"n{number}.md", f"# {number}\n\nfiller {number}\n")
    running = subprocess.Popen(command_line("index"), cwd=project, stdout=subprocess.DEVNULL)
    added = [shell("add", f"kookaburra number {number}", "--json").json for number in range(6)]
    assert running.wait(timeout=120) == 0

    hits = shell("search", "kookaburra", "-k", 20, "--lane", "lexical", "--json").json["hits"]

    assert {hit["anchor"]["memory"] for hit in hits} == {item["memory"] for item in added}


def test_adding_under_another_model_does_not_turn_the_index_over(
    shell: Shell, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One entry written without a model changes no id and takes no vector away; the next run embeds it."""
    write(project / "notes" / "a.md", "# A\n\nthe dugong grazes\n")
    shell("index", "notes")
    before = shell("search", "dugong", "--json").json
    monkeypatch.setenv("LORELOG_EMBEDDING_PROVIDER", "none")
    assert shell("add", "an entry of words").status == 0
    monkeypatch.setenv("LORELOG_EMBEDDING_PROVIDER", "fake")

    after = shell("search", "dugong", "--json").json

    assert after["hits"][0]["id"] == before["hits"][0]["id"]
    assert after["coverage"] == {"chunks": 2, "with_vectors": 1}
    assert shell("index", "--json").json["embedded"] == 1


def test_doctor_names_a_file_that_is_not_indexed(shell: Shell, project: Path) -> None:
    """A file that cannot be indexed is a failed check with its name; a few bad bytes in a journal are not."""
    journal = journal_of(shell)
    journal.write_bytes(journal.read_bytes() + "记忆".encode()[:-1])
    done = shell("add", "the platypus entry")
    assert done.status == 0
    assert shell("search", "platypus", "--json").json["hits"]
    assert shell("doctor").status == 0
    (journal.parent / "binary.md").write_bytes(bytes(range(256)) * 40)
    done = shell("doctor")
    assert done.status == 1
    assert "binary.md is not text" in done.out + done.err
