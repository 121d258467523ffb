"""`lorelog code index` and `status`: indexed, skipped and failed files."""

from __future__ import annotations

from pathlib import Path

from tests.surfaces.conftest import Shell, write


def test_a_run_is_told_in_a_line_and_what_was_left_out_in_another(shell: Shell, project: Path) -> None:
    """The report counts files, changes and languages; minified files are noted, and listed by status."""
    write(project / "a.py", "def alpha(): pass\n")
    write(project / "b.js", "function beta() {}\n")
    write(project / "c.min.js", "x=1;" * 5_000)
    first, again = shell("code", "index"), shell("code", "index")
    assert first.status == again.status == 0
    assert "Indexed 3 files: 3 changed, 0 unchanged (1 python, 1 javascript). 2 symbols" in first.out
    assert "skipped: 1 minified" in first.err
    assert "3 unchanged. 0 symbols" in again.out
    status = shell("code", "status").out
    assert "2 files, 2 symbols: " in status
    assert "skipped: c.min.js (minified)" in status


def test_a_part_and_a_forgotten_tree(shell: Shell, project: Path) -> None:
    """A directory can be indexed and forgotten; forgetting twice and --forget with --force are errors."""
    write(project / "src" / "a.py", "def alpha(): pass\n")
    write(project / "b.py", "def beta(): pass\n")
    (project / ".git").mkdir()
    for name in ("objects", "refs"):
        (project / ".git" / name).mkdir()
    write(project / ".git" / "HEAD", "ref: refs/heads/main\n")
    assert "Indexed 1 file" in shell("code", "index", "src").out
    assert "only src" in shell("code", "status").out
    assert shell("code", "index", "--forget", "--force").status == 2
    assert "1 file. Your files are unchanged." in shell("code", "index", "--forget").out
    assert "No code is indexed" in shell("code", "status").out
    missing = shell("code", "index", "--forget")
    assert missing.status != 0
    assert "lorelog code status" in missing.err


def test_a_file_that_cannot_be_taken_fails_the_command_and_not_the_run(shell: Shell, project: Path) -> None:
    """If a file fails, the others are indexed, the file is named, and the exit status is 1."""
    write(project / "a.py", "def alpha(): pass\n")
    (project / "bad\udcff.py").write_text("def beta(): pass\n")
    run = shell("code", "index")
    assert run.status == 1
    assert "not valid UTF-8" in run.err
    assert "1 failed" in run.out
    assert shell("code", "def", "alpha").status == 0
