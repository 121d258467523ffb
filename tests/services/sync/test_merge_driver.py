"""Git merges journals that a team tracks: by entry with lorelog, by line without it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lorelog.services.sync.merge import merge_journal_texts

JOURNAL = ".lorelog/memory/2026-03-05.md"
ONE, TWO = "### 10:00\n<!-- memory:m1 -->\none\n", "### 11:00\n<!-- memory:m2 -->\ntwo\n"
BASE = f"# 2026-03-05\n\n{ONE}\n{TWO}"
FOREIGN_BYTE = "\n### 13:00\n<!-- memory:m5 -->\ncaf\udce9\n"
LATER = "\n### 12:00\n<!-- memory:m{0} -->\ntext {0}\n"


class TwoBranches:
    """A clone with two branches, `main` and `theirs`, that a person merges with or without lorelog."""

    def __init__(self, folder: Path) -> None:
        self.clone, self.tools = folder / "clone", folder / "bin"
        self.tools.mkdir()
        program = self.tools / "lorelog"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m lorelog "$@"\n', "utf-8")
        program.chmod(0o755)
        self.run("init", "-q", "-b", "main", str(self.clone), within=folder)
        self.commit("main", BASE)
        (self.clone / ".gitattributes").write_text(".lorelog/memory/*.md merge=lorelog\n", "utf-8")
        self.commit("main", BASE)
        self.run("branch", "theirs")

    def run(self, *words: str, within: Path | None = None) -> subprocess.CompletedProcess[str]:
        identity = {
            f"GIT_{who}_{what}": f"m{at}"
            for who in ("AUTHOR", "COMMITTER")
            for what, at in (("NAME", ""), ("EMAIL", "@x"))
        }
        path = f"{self.tools}{os.pathsep}{os.environ['PATH']}"
        environment = {
            **os.environ,
            **identity,
            "PATH": path,
            "HOME": str(self.tools),
            "LORELOG_HOME": str(self.tools / "h"),
        }
        command = list(words) if words[0] == "lorelog" else ["git", *words]
        return subprocess.run(
            command, cwd=within or self.clone, env=environment, capture_output=True, text=True, check=False
        )

    def commit(self, branch: str, text: str) -> None:
        if self.run("rev-parse", "--verify", "-q", branch).returncode == 0:
            self.run("checkout", "-q", branch)
        file = self.clone / JOURNAL
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode("utf-8", "surrogateescape"))
        self.run("add", "-A")
        assert self.run("commit", "-q", "-m", "x").returncode == 0

    def merge(self) -> tuple[int, str]:
        """Merge `theirs` into `main`; return the exit status and the journal."""
        self.run("checkout", "-q", "main")
        status = self.run("merge", "-q", "--no-edit", "theirs").returncode
        return status, (self.clone / JOURNAL).read_bytes().decode("utf-8", "surrogateescape")


@pytest.fixture
def team(tmp_path: Path) -> TwoBranches:
    """A clone in which the merge driver is set up, from a subdirectory."""
    team = TwoBranches(tmp_path)
    (team.clone / "src").mkdir()
    done = team.run("lorelog", "sync", "--merge-driver", within=team.clone / "src")
    assert done.returncode == 0
    assert ".gitattributes" not in done.stderr
    return team


@pytest.mark.slow
def test_a_merge_keeps_what_both_added_and_drops_what_one_took_out(team: TwoBranches) -> None:
    """Both appended to one day, one forgot an entry, the other edited one: the merge has all of it, without a conflict."""
    team.commit("main", BASE.replace(f"\n{TWO}", "") + LATER.format("3"))
    team.commit("theirs", BASE.replace("\none\n", "\none, edited\n") + LATER.format("4") + FOREIGN_BYTE)
    edited = ONE.replace("\none\n", "\none, edited\n")
    expected = f"# 2026-03-05\n\n{edited}{LATER.format('3')}{LATER.format('4')}{FOREIGN_BYTE}"
    assert team.merge() == (0, expected)


@pytest.mark.slow
def test_without_lorelog_git_merges_lines_and_marks_conflicts(team: TwoBranches) -> None:
    """A teammate whose lorelog is gone gets Git's own merge: both sides between marks, and none is lost."""
    (team.tools / "lorelog").write_text("#!/bin/sh\nexit 127\n", "utf-8")
    team.commit("main", BASE + LATER.format("3"))
    team.commit("theirs", BASE + LATER.format("4"))
    status, text = team.merge()
    assert status != 0
    assert "<<<<<<<" in text
    assert "text 3" in text
    assert "text 4" in text


def test_text_and_headings_of_a_person_stay_where_they_are() -> None:
    """A heading without text, an introduction, the path of a transcript and the ends of lines survive a merge."""
    base = (
        "# Day\n\nAn introduction.\n\n## Morning\n\n"
        + ONE.replace("<!-- ", "<!-- transcript:/home/x.jsonl ")
        + "\n## Evening\n"
    )
    ours, theirs = base + LATER.format("3"), base + LATER.format("4")
    merged, conflicts = merge_journal_texts(base, ours, theirs)
    assert (merged, conflicts) == (base + LATER.format("3") + LATER.format("4"), ())
    windows = [text.replace("\n", "\r\n") for text in (base, ours, theirs)]
    assert merge_journal_texts(*windows)[0] == merged.replace("\n", "\r\n")


def test_an_edit_wins_over_a_removal_and_is_named() -> None:
    """An entry that one side removed and the other one edited stays with the edit; a copy of a conflict may be removed alone."""
    without, edited = f"# 2026-03-05\n\n{ONE}", BASE.replace("\ntwo\n", "\ntwo, edited\n")
    for sides in ((without, edited), (edited, without)):
        assert merge_journal_texts(BASE, *sides) == (edited, ("m2",))
    copy = f"{BASE}\n{TWO.replace('m2', 'm2~conflict-1234abcd')}"
    merged, _ = merge_journal_texts(copy, copy.replace(f"\n{TWO}", "", 1), copy)
    assert "m2~conflict" in merged
    assert "memory:m2 " not in merged
