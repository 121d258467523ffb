"""`lorelog undo`: the last thing that a person did is taken back, and said."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.surfaces.conftest import Shell
from tests.surfaces.test_review import decide, kinds, proposals, write_talk

from lorelog import Lorelog
from lorelog.core.paths import cache_folder, tenant_folder


def listed(shell: Shell) -> list[str]:
    """Return the first lines of the memories that are shown."""
    return [memory["content"].splitlines()[-1] for memory in shell("list", "--json").json["memories"]]


def test_one_change_after_the_other_is_taken_back(shell: Shell, project: Path) -> None:
    """Additions are hidden, deletions shown again and replaced memories back; --dry-run lists them, and takes nothing back."""
    first = shell("add", "seven otters", "--json").json["id"]
    states = [listed(shell)]
    shell("supersede", first, "eight otters")
    states.append(listed(shell))
    heron = shell("add", "a heron", "--json").json["id"]
    shell("add", "a heron")  # is there already
    for verb in ("delete", "restore"):
        states.append(listed(shell))
        shell(verb, heron)
    done = shell("undo", "--dry-run").out.splitlines()
    assert [re.split(r" [0-9a-f]{8}", line.split("  ")[1])[0] for line in done] == [
        "showed again",
        "hid",
        "added",
        "replaced a memory by",
        "added",
    ]
    assert f"{heron[:8]} (a heron)" in done[0]  # the id that `add` printed
    for state in reversed(states):
        assert shell("undo").out.startswith("Took back: ")
        assert listed(shell) == state
    assert "(seven otters)" in shell("undo").out
    assert shell("undo").status == 1
    assert listed(shell) == []


@pytest.mark.parametrize("secret", ["", " ghp_" + "a1B2c3D4e5F6" * 3])
def test_an_edit_is_taken_back_unless_a_secret_was_in_it(secret: str, shell: Shell, project: Path) -> None:
    """The section gets its earlier text; a text with a secret is not kept a second time, and the change before it comes next."""
    with Lorelog(project=project) as memory:
        added = memory.add("The heron nests at the weir.")
        section = memory.expand(added.memory).content
        memory.edit(added.memory, section, section.replace("weir.", f"mill.{secret}"))
    done = shell("undo")
    assert done.status == (1 if secret else 0)
    assert ("its earlier state is not kept" in done.err) == bool(secret)
    assert ("at the weir" in Path(added.source).read_text("utf-8")) == (not secret)
    assert shell("undo").status == 0
    assert listed(shell) == []


def test_decisions_in_the_inbox_are_taken_back(shell: Shell, project: Path, tmp_path: Path) -> None:
    """What was approved, refused, filed or closed is as before: it waits again, or the rule that was written is hidden."""
    with Lorelog(project=project) as memory:
        memory.capture(host="claude", session="session-1", transcript=str(write_talk(tmp_path)), everything=True)
        rule = proposals(memory)["rule"]
        said = {item.text: item.id for item in memory.review.list(kind="statement").items}
        before = kinds(memory)
        steps = [(rule, "rule", "approve"), (rule, "rule", "refuse"), (said["the other nest"], "statement", "other")]
        for number, (identity, kind, label) in enumerate(steps, 3):
            decide(memory, identity, kind, label)
            assert kinds(memory) != before
            assert shell("undo").status == 0, number
            assert kinds(memory) == before
        decide(memory, said["willow for nests"], "statement", "rule")
        assert memory.call("session.status", {})["rules"] == 1
        assert "willow" in shell("undo").out
        assert memory.call("session.status", {})["rules"] == 0


def test_an_import_is_taken_back(shell: Shell, project: Path) -> None:
    """`undo` removes the entries of the last import, as `import --undo` does."""
    (project / "r.md").write_text("# Rules\n- Always use tabs.\n", "utf-8")
    assert shell("import", "rules", "r.md", "--yes").status == 0
    assert "1 entry removed" in shell("undo").out
    assert listed(shell) == []


def test_agents_have_no_undo(shell: Shell, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent's shell is refused, and what it did is not the user's to take back with `undo`."""
    shell("add", "seven otters")
    monkeypatch.setenv("CLAUDECODE", "1")
    shell("add", "a heron")
    assert "Claude Code cannot take back" in shell("undo").err
    monkeypatch.delenv("CLAUDECODE")
    assert "(seven otters)" in shell("undo").out
    assert listed(shell) == ["a heron"]


def test_what_is_forgotten_is_not_kept_for_undo(shell: Shell, project: Path, home: Path) -> None:
    """`forget` erases the notes about an edit with the text."""
    with Lorelog(project=project) as memory:
        added = memory.add("The heron nests at the weir.")
        section = memory.expand(added.memory).content
        memory.edit(added.memory, section, section.replace("weir", "mill"))
    notes = Path(cache_folder(tenant_folder(str(home), "default")), "delivery", "own.changes")
    assert "heron" in notes.read_text("utf-8")
    assert shell("forget", added.memory, "--yes").status == 0
    assert not notes.exists() or "heron" not in notes.read_text("utf-8")
