"""Scan: which files under the roots are found, and what is said of the others."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from lorelog.core.options import ScanOptions
from lorelog.ingest.scan import ScanResult, scan

Plant = Callable[[Mapping[str, str]], Path]


def found(result: ScanResult, root: Path) -> list[str]:
    return [os.path.relpath(file.path, root) for file in result.files]


def scan_one(root: Path, **options: object) -> ScanResult:
    return scan([str(root)], ScanOptions(**options))  # type: ignore[arg-type]


def test_suffixes_of_any_case_are_found(plant: Plant) -> None:
    """Files ending in .md or .markdown are found whatever the case, others are not, sorted by path."""
    root = plant({"b.md": "", "A.MD": "", "c.Markdown": "", "sub/d.md": "", "e.txt": "", "md": "", "f.mdx": ""})
    result = scan_one(root)
    assert found(result, root) == ["A.MD", "b.md", "c.Markdown", "sub/d.md"]
    assert result.problems == ()
    assert result.roots == (str(root),)


def test_stamps_are_what_the_file_system_says(plant: Plant) -> None:
    """A file's stamp is its size, modification time and inode."""
    root = plant({"a.md": "five!"})
    status = (root / "a.md").stat()
    stamp = scan_one(root).files[0].stamp
    assert (stamp.size, stamp.mtime_ns, stamp.inode) == (5, status.st_mtime_ns, status.st_ino)


def test_hidden_names_are_skipped_below_a_root_only(plant: Plant) -> None:
    """Names with a leading dot are skipped below a root, but a root may itself be hidden."""
    root = plant({".lorelog/memory/a.md": "", ".lorelog/memory/.b.md": "", ".lorelog/memory/.c/d.md": ""})
    assert found(scan_one(root), root) == []
    assert found(scan_one(root / ".lorelog" / "memory"), root) == [".lorelog/memory/a.md"]


def test_a_symlinked_root_is_resolved(plant: Plant, tmp_path: Path) -> None:
    """A root that is a symbolic link gives real paths and a real root."""
    root = plant({"a.md": ""})
    link = tmp_path / "link"
    link.symlink_to(root)
    (file,) = scan_one(link).files
    assert (file.path, file.root) == (str(root / "a.md"), str(root))


def test_directory_links_are_not_followed(plant: Plant) -> None:
    """A link to a directory, even to the root itself, is not walked, so loops end."""
    root = plant({"sub/a.md": ""})
    (root / "loop").symlink_to(root)
    (root / "sub" / "up.md").symlink_to(root)
    result = scan_one(root)
    assert found(result, root) == ["sub/a.md"]
    assert result.problems == ()
    assert result.outside == ()


def test_a_link_out_of_the_roots_is_reported_and_left_alone(plant: Plant, tmp_path: Path) -> None:
    """A file link that leads out of all roots is not read, and is named in `outside`."""
    root = plant({"a.md": ""})
    secret = tmp_path / "secret.md"
    secret.write_text("secret")
    (root / "link.md").symlink_to(secret)
    result = scan_one(root)
    assert found(result, root) == ["a.md"]
    assert result.outside == (str(root / "link.md"),)
    assert scan([str(root), str(secret)], ScanOptions()).outside == ()


def test_a_link_inside_the_roots_adds_nothing(plant: Plant) -> None:
    """A file link to a file inside the roots does not double it, nor does it bring back a hidden or excluded one."""
    root = plant({"a.md": "", ".hidden/b.md": "", "drafts/c.md": ""})
    for number, target in enumerate(("a.md", ".hidden/b.md", "drafts/c.md")):
        (root / f"link{number}.md").symlink_to(root / target)
    assert found(scan_one(root, exclude=("drafts/",)), root) == ["a.md"]


def test_the_same_file_twice_is_one_file(plant: Plant, tmp_path: Path) -> None:
    """Equal roots, linked roots and a file named beside its directory give each file once."""
    root = plant({"a.md": ""})
    link = tmp_path / "link"
    link.symlink_to(root)
    result = scan([str(root), str(link), f"{root}/", str(root / "a.md"), str(link / "a.md")], ScanOptions())
    assert [(file.path, file.root) for file in result.files] == [(str(root / "a.md"), str(root))]


def test_a_file_belongs_to_its_innermost_root(plant: Plant) -> None:
    """With nested roots a file's root is the longest one that holds it, and patterns are relative to that one."""
    root = plant({"a.md": "", "in/b.md": "", "in/drafts/c.md": "", "drafts/d.md": ""})
    result = scan([str(root), str(root / "in")], ScanOptions(exclude=("/drafts/",)))
    assert {os.path.relpath(file.path, root): file.root for file in result.files} == {
        "a.md": str(root),
        "in/b.md": str(root / "in"),
    }


def test_a_file_root_stands_for_itself(plant: Plant) -> None:
    """A file given as a root is taken in spite of hidden names and patterns, and is its own root."""
    root = plant({".notes.md": "", ".gitignore": "*"})
    result = scan([str(root / ".notes.md")], ScanOptions(exclude=("*.md",)))
    assert [(file.path, file.root) for file in result.files] == [(str(root / ".notes.md"),) * 2]


def test_a_file_root_must_be_markdown(plant: Plant) -> None:
    """A file given as a root that is not Markdown is a problem, and the other roots are scanned."""
    root = plant({"a.txt": "", "sub/b.md": ""})
    result = scan([str(root / "a.txt"), str(root / "sub")], ScanOptions())
    assert found(result, root) == ["sub/b.md"]
    assert [problem.message for problem in result.problems] == [f"{root}/a.txt is not a Markdown file"]


@pytest.mark.parametrize("name", ["missing", "missing.md", "a.md/below", "", "nul\0"])
def test_a_missing_root_is_a_problem(plant: Plant, name: str) -> None:
    """A root that is not there is named in a problem with a hint, and the other roots are scanned."""
    root = plant({"a.md": ""})
    result = scan([f"{root}/{name}" if name else "", str(root)], ScanOptions())
    assert found(result, root) == ["a.md"]
    assert len(result.problems) == 1
    assert result.problems[0].hint
    assert result.roots == (str(root),)


def test_large_files_are_kept_but_not_taken(plant: Plant) -> None:
    """A file over the limit is a problem that names both sizes, and is kept, not gone; one at the limit is taken."""
    root = plant({"big.md": "x" * 1001, "fits.md": "x" * 1000})
    result = scan_one(root, max_file_bytes=1000)
    assert found(result, root) == ["fits.md"]
    assert result.problems[0].path == str(root / "big.md")
    assert "1,001" in result.problems[0].message
    assert result.keeps(str(root / "big.md"))
    assert not result.keeps(str(root / "bigger.md"))


def test_broken_links_and_pipes_are_problems(plant: Plant) -> None:
    """A link that leads nowhere, a link to itself and a pipe are each named in a problem."""
    root = plant({"a.md": ""})
    (root / "broken.md").symlink_to(root / "nowhere.md")
    (root / "self.md").symlink_to(root / "self.md")
    os.mkfifo(root / "pipe.md")
    result = scan_one(root)
    assert found(result, root) == ["a.md"]
    assert [Path(problem.path).name for problem in result.problems] == ["broken.md", "pipe.md", "self.md"]
    assert result.keeps(str(root / "pipe.md"))


def test_odd_names_do_not_crash(plant: Plant) -> None:
    """Names with newlines, quotes and spaces are found; names that are not UTF-8 are problems."""
    root = plant({"a\nb.md": "", 'it\'s "so" %_.md': "", "é 记忆.md": ""})
    directory = root / os.fsdecode(b"dir\xff")
    try:
        (root / os.fsdecode(b"bad\xff.md")).touch()
        directory.mkdir()
    except OSError:
        pytest.skip("this file system refuses names that are not UTF-8")
    result = scan([str(root), str(directory)], ScanOptions())
    assert len(result.files) == 3
    assert {problem.path for problem in result.problems} == {f"{root}/bad\\xff.md", f"{root}/dir\\xff"}


def test_unreadable_directories_protect_what_is_below(plant: Plant, run_unprivileged: Callable[..., str]) -> None:
    """An unreadable directory is a problem, its prefix is kept without touching its neighbours, and the scan goes on."""
    root = plant({"locked/a.md": "", "locked-v2/b.md": "", "listed/c.md": "", "d.md": ""})
    (root / "locked").chmod(0)
    (root / "listed").chmod(0o400)  # names can be read, files cannot be looked at
    code = """if True:
        import sys
        from lorelog.core.options import ScanOptions
        from lorelog.ingest.scan import scan
        root = sys.argv[1]
        result = scan([root], ScanOptions())
        print([file.path[len(root) + 1:] for file in result.files])
        print([problem.path[len(root) + 1:] for problem in result.problems])
        print([result.keeps(root + name) for name in ("/locked/a.md", "/locked-v2/b.md", "/listed/c.md", "/gone.md")])
    """
    try:
        lines = run_unprivileged(code, str(root)).splitlines()
    finally:
        (root / "locked").chmod(0o700)
        (root / "listed").chmod(0o700)
    assert lines == ["['d.md', 'locked-v2/b.md']", "['listed/c.md', 'locked']", "[True, False, True, False]"]


def test_pathspec_is_not_imported_without_patterns(plant: Plant) -> None:
    """A scan without patterns and ignore files does not pay for importing pathspec; one with an ignore file does."""
    code = (
        "import sys; from lorelog.core.options import ScanOptions; from lorelog.ingest.scan import scan;"
        "scan([sys.argv[1]], ScanOptions()); print('pathspec' in sys.modules)"
    )
    root = plant({"a.md": ""})

    def imports_pathspec() -> str:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-c", code, str(root)]
        return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout.strip()

    assert imports_pathspec() == "False"
    plant({".gitignore": "b.md"})
    assert imports_pathspec() == "True"


def test_deep_trees_do_not_exhaust_the_stack(plant: Plant) -> None:
    """A tree of many hundred levels is walked to its end."""
    root = plant({})
    deep = root.joinpath(*["d"] * 900)
    deep.mkdir(parents=True)
    (deep / "a.md").write_text("")
    assert len(scan_one(root).files) == 1
