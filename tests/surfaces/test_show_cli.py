"""`lorelog show`, `open` and `status`, edits of a memory in its file, and how other commands name what they changed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.surfaces.conftest import Shell, write

from lorelog import Lorelog
from lorelog.core.editor import editor_command
from lorelog.core.errors import SourceChanged, StoreDamaged, UsageError
from lorelog.surfaces.cli.commands import status as status_command


def test_every_printed_id_works_in_every_verb(shell: Shell) -> None:
    """The short id of a chunk, its memory id, and a prefix of four characters all name the same memory, which is answered by its short id."""
    added = shell("add", "seven otters in the river", "--type", "fact", "--json").json
    listed = shell("list", "--json").json["memories"][0]["id"]

    for name in (added["id"], added["id"][:8], added["memory"], added["memory"][:13], listed[:4]):
        shown = shell("show", name)
        assert "seven otters in the river" in shown.out, name
        told = f"{added['id'][:8]} (seven otters in the river)"
        assert shell("expire", name, "never").out == f"{told}: never expires\n"
        assert shell("feedback", "otters", name, "relevant").out.startswith(told)
    assert shell("forget", added["id"][:8], "--dry-run").status == 0
    assert shell("delete", added["memory"][:13]).status == 0


def test_an_ambiguous_id_lists_where_each_leads(shell: Shell) -> None:
    """Only ids that begin as typed are listed, each with its line; one that is too short is refused."""
    first = shell("add", "otters swim", "--json").json["memory"]
    second = shell("add", "herons fly", "--json").json["memory"]
    same = next(number for number in range(len(first)) if first[number] != second[number])

    told = shell("show", first[:same])
    assert told.status == 2
    assert f"{first} (" in told.err
    assert "otters swim" in told.err
    assert "herons fly" in told.err
    assert "too short" in shell("show", first[:3]).err


def test_show_finds_records_and_tasks(shell: Shell) -> None:
    """A record is shown with its replies, its history or its trust, and a task with its records."""
    task = shell("task", "start", "count otters", "--as", "mara", "--json").json["task_id"]
    made = shell("decide", "count at dawn", "--as", "mara", "--task", task, "--json").json["artifact_id"]
    assert "say why" in shell("decide", "count herons", "--as", "mara").err
    assert shell("verify", made, "they sleep at noon", "--as", "otto").status == 0

    assert "they sleep at noon" in shell("show", made).out
    assert "writer: mara, not signed" in shell("show", made, "--trust").out
    assert shell("show", made, "--history").out.count("\n") == 3
    assert shell("show", task, "--json").json["task"]["goal"] == "count otters"
    assert shell("show", task, "--history").status == 2
    both = shell("show", made, task, "--json").json["shown"]
    assert [min(reply) for reply in both] == ["artifact", "artifacts"]


def test_a_verification_of_few_words_ranks_below_what_it_verifies(shell: Shell) -> None:
    """The decision comes first, and the brief lists no verification among the decisions in force."""
    made = shell("decide", "charges have a unique event id", "--as", "mara", "--json").json["artifact_id"]
    shell("verify", made, "unique event id", "--as", "otto")

    hits = shell("search", "unique event id", "--json").json["hits"]
    assert [hit["type"] for hit in hits] == ["decision", "verification"]
    brief = shell("brief")
    assert brief.out.startswith("Project app has")
    assert "unique event id" in brief.out
    assert "Checked" not in brief.out


def test_memds_name_of_the_writer_is_accepted(shell: Shell) -> None:
    """A request may say `agent_id`; the reply and the settings say `writer`. Both at once are refused."""
    told = shell("call", "artifact.decision", "--json", '{"summary": "tabs", "agent_id": "mara"}').json
    shown = shell("show", told["artifact_id"], "--json").json["artifact"]
    assert (shown["writer"], "agent_id" in shown) == ("mara", False)
    both = shell("call", "artifact.decision", "--json", '{"summary": "x", "agent_id": "mara", "writer": "otto"}')
    assert both.status == 2
    nobody = shell("decide", "spaces", "--json").json["artifact_id"]
    assert "  nobody  " in shell("show", nobody).out


def test_status_fits_one_screen_and_survives_its_parts(
    shell: Shell, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One screen at 80 columns, also without a daemon; a part that cannot be told becomes a problem with a remedy."""
    shell("add", "tabs, not spaces", "--type", "decision")
    screen = shell("status")
    lines = screen.out.splitlines()
    assert screen.status == 0
    assert len(lines) < 25
    assert max(map(len, lines)) < 80
    assert lines[0] == f"project    {project.name}: 1 memory in 1 document"
    assert "1 decision" in screen.out

    def fail(args: object) -> None:
        raise StoreDamaged("the receipts are gone", hint="lorelog doctor")

    monkeypatch.setattr(status_command, "_read_cost", fail)
    told = shell("status")
    assert (told.status, "cost       unknown" in told.out, "the receipts are gone" in told.out) == (0, True, True)


@pytest.mark.parametrize(
    ("editor", "expected"),
    [
        ("vim", ["vim", "+7", "/n.md"]),
        ("/usr/bin/nano -w", ["/usr/bin/nano", "-w", "+7", "/n.md"]),
        ("emacsclient -t", ["emacsclient", "-t", "+7", "/n.md"]),
        ("code --wait", ["code", "--wait", "-g", "/n.md:7"]),
        ("cursor", ["cursor", "-g", "/n.md:7"]),
        ("subl", ["subl", "/n.md:7"]),
        ("hx", ["hx", "/n.md:7"]),
        ("pycharm.sh", ["pycharm.sh", "--line", "7", "/n.md"]),
        ("other", ["other", "/n.md"]),
    ],
)
def test_each_editor_starts_at_the_line(editor: str, expected: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each known editor gets the line as it expects it, VISUAL goes before EDITOR, and other editors get the file."""
    monkeypatch.setenv("VISUAL", editor)
    monkeypatch.setenv("EDITOR", "false")

    assert editor_command("/n.md", 7, os.environ) == expected


def test_open_runs_the_editor(shell: Shell, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`open` runs the editor on the file of a hit; without an editor, or with one that is not there, it says what to do."""
    note = write(project / "notes" / "otter.md", "# Otters\n\n## Where\n\nThe otter swims.\n")
    assert shell("index", "notes").status == 0
    identity = shell("search", "otter", "--json").json["hits"][0]["id"]
    said = project / "said"
    monkeypatch.setenv("EDITOR", str(write(project / "vim", f'#!/bin/sh\necho "$@" > "{said}"\n')))
    (project / "vim").chmod(0o755)
    monkeypatch.delenv("VISUAL", raising=False)

    assert shell("open", identity[:8]).status == 0
    assert said.read_text("utf-8") == f"+3 {note.resolve()}\n"

    monkeypatch.setenv("EDITOR", "no-such-editor")
    assert "the editor 'no-such-editor' does not start" in shell("open", identity).err
    monkeypatch.delenv("EDITOR")
    missing = shell("open", identity)
    assert (missing.status, missing.err.split("\n")[0]) == (2, "lorelog: no editor is set")


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
