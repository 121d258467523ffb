"""What is left out of a scan: patterns, ignore files and excluded paths."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from lorelog.core.errors import UsageError
from lorelog.core.options import ScanOptions
from lorelog.ingest.scan import scan

Plant = Callable[[Mapping[str, str]], Path]


def found(root: Path, *roots: Path, **options: object) -> list[str]:
    result = scan([str(path) for path in roots or (root,)], ScanOptions(**options))  # type: ignore[arg-type]
    return [os.path.relpath(file.path, root) for file in result.files]


def test_exclude_patterns_are_gitignore_patterns(plant: Plant) -> None:
    """Patterns work as in a .gitignore at the root: anchored, for directories only, and taken back with `!`."""
    root = plant(dict.fromkeys(("a.md", "tmp/b.md", "sub/tmp/c.md", "sub/a.md", "sub/keep.md", "build.md"), ""))
    assert found(root, exclude=("tmp/",)) == ["a.md", "build.md", "sub/a.md", "sub/keep.md"]
    assert found(root, exclude=("/tmp", "/a.md")) == ["build.md", "sub/a.md", "sub/keep.md", "sub/tmp/c.md"]
    assert found(root, exclude=("*.md", "!keep.md")) == ["sub/keep.md"]
    assert found(root, exclude=("**/tmp/*.md", "build/")) == ["a.md", "build.md", "sub/a.md", "sub/keep.md"]


def test_nothing_returns_from_an_excluded_directory(plant: Plant) -> None:
    """As in git, a file cannot be brought back when its directory is excluded."""
    root = plant({"drafts/keep.md": "", "drafts/.gitignore": "!keep.md", "a.md": ""})
    assert found(root, exclude=("drafts/", "!drafts/keep.md")) == ["a.md"]


def test_nested_ignore_files_come_after_their_parents(plant: Plant) -> None:
    """A nested ignore file holds below its own directory only, and may take back what a parent excluded."""
    root = plant(
        {
            ".gitignore": "# comment\n*.tmp.md\n/top.md\r\nnotes/\n",
            "top.md": "",
            "a.tmp.md": "",
            "sub/.gitignore": "!a.tmp.md\n/only.md\n",
            "sub/a.tmp.md": "",
            "sub/b.tmp.md": "",
            "sub/only.md": "",
            "sub/deep/only.md": "",
            "sub/top.md": "",
            "sub/notes/x.md": "",
            "only.md": "",
        }
    )
    assert found(root) == ["only.md", "sub/a.tmp.md", "sub/deep/only.md", "sub/top.md"]


def test_ignore_files_have_the_names_that_were_chosen(plant: Plant) -> None:
    """Only files of the configured names hold rules; both default names do."""
    root = plant({".gitignore": "a.md", ".lorelogignore": "b.md", ".otherignore": "c.md", "a.md": "", "b.md": ""})
    plant({"c.md": ""})
    assert found(root) == ["c.md"]
    assert found(root, ignore_files=()) == ["a.md", "b.md", "c.md"]
    assert found(root, ignore_files=(".otherignore",)) == ["a.md", "b.md"]


def test_exclude_has_the_last_word_over_ignore_files(plant: Plant) -> None:
    """An exclude pattern decides over every ignore file, in both directions."""
    root = plant({".gitignore": "a.md\n!b.md\n", "a.md": "", "b.md": ""})
    assert found(root, exclude=("b.md", "!a.md")) == ["a.md"]


def test_ignore_files_above_the_root_do_not_count(plant: Plant) -> None:
    """Rules are looked for inside the root only."""
    root = plant({".gitignore": "*", "sub/a.md": ""})
    assert found(root, root / "sub") == ["sub/a.md"]


def test_malformed_lines_of_an_ignore_file_are_passed_over(plant: Plant) -> None:
    """A line that is no pattern spoils neither the other lines nor the scan."""
    root = plant({".gitignore": "!\na.md\ntrailing\\\n", "a.md": "", "b.md": ""})
    assert found(root) == ["b.md"]


def test_a_malformed_exclude_pattern_is_an_error(plant: Plant) -> None:
    """A pattern that was asked for and cannot be understood is refused by name instead of being dropped."""
    root = plant({"a.md": ""})
    with pytest.raises(UsageError, match="'!'"):
        found(root, exclude=("ok", "!"))


def test_a_linked_ignore_file_is_not_read(plant: Plant, tmp_path: Path) -> None:
    """An ignore file that is a symbolic link is not followed out of the root."""
    root = plant({"a.md": ""})
    (tmp_path / "rules").write_text("*")
    (root / ".gitignore").symlink_to(tmp_path / "rules")
    assert found(root) == ["a.md"]


def test_an_unreadable_ignore_file_closes_its_directory(plant: Plant, run_unprivileged: Callable[..., str]) -> None:
    """Where rules cannot be read nothing is taken, the ignore file is named, and earlier documents are kept."""
    root = plant({"sub/.gitignore": "secret.md", "sub/secret.md": "", "a.md": ""})
    (root / "sub" / ".gitignore").chmod(0)
    code = """if True:
        import sys
        from lorelog.core.options import ScanOptions
        from lorelog.ingest.scan import scan
        root = sys.argv[1]
        result = scan([root], ScanOptions())
        print([file.path[len(root) + 1:] for file in result.files], [problem.path[len(root) + 1:] for problem in
              result.problems], result.keeps(root + "/sub/b.md"))
    """
    assert run_unprivileged(code, str(root)) == "['a.md'] ['sub/.gitignore'] True\n"


def test_excluded_paths_end_at_separators(plant: Plant) -> None:
    """An excluded path takes its whole subtree and never a neighbour whose name only begins alike."""
    root = plant(dict.fromkeys(("drafts/a.md", "drafts/deep/b.md", "drafts-v2/c.md", "drafts.md"), ""))
    assert found(root, exclude_paths=(str(root / "drafts"),)) == ["drafts-v2/c.md", "drafts.md"]
    assert found(root, exclude_paths=(f"{root}/drafts/",)) == ["drafts-v2/c.md", "drafts.md"]
    assert found(root, exclude_paths=(str(root / "drafts.md"), str(root / "missing"))) == [
        "drafts-v2/c.md",
        "drafts/a.md",
        "drafts/deep/b.md",
    ]


def test_excluded_paths_are_resolved_on_both_sides(plant: Plant, tmp_path: Path) -> None:
    """It does not matter whether the root or the excluded path is given through a symbolic link."""
    root = plant({"drafts/a.md": "", "b.md": ""})
    link = tmp_path / "link"
    link.symlink_to(root)
    assert found(root, link, exclude_paths=(str(root / "drafts"),)) == ["b.md"]
    assert found(root, root, exclude_paths=(str(link / "drafts"),)) == ["b.md"]


def test_excluded_paths_win_over_roots(plant: Plant) -> None:
    """A root at or below an excluded path gives nothing, be it a directory or a file."""
    root = plant({"drafts/deep/a.md": "", "b.md": ""})
    assert found(root, root / "drafts" / "deep", exclude_paths=(str(root / "drafts"),)) == []
    assert found(root, root / "b.md", exclude_paths=(str(root / "b.md"),)) == []
