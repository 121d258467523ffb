"""Which files a scan finds and excludes; reading one gives its text and hash, or an error with the reason."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.ingest.conftest import Plant, RunUnprivileged

from lorelog.core.document import SourceFile
from lorelog.core.errors import SourceError, UsageError
from lorelog.core.options import ScanOptions
from lorelog.ingest.files import FileText, ScanResult, read_text, scan


def relative_names(result: ScanResult, root: Path) -> list[str]:
    return [os.path.relpath(file.path, root) for file in result.files]


def scan_one(root: Path, **options: object) -> ScanResult:
    return scan([str(root)], ScanOptions(**options))  # type: ignore[arg-type]


def test_suffixes_of_any_case_are_found(plant: Plant) -> None:
    """Files ending in .md or .markdown in any case are found, sorted by path; others are not."""
    root = plant({"b.md": "", "A.MD": "", "c.Markdown": "", "sub/d.md": "", "e.txt": "", "md": "", "f.mdx": ""})
    result = scan_one(root)
    assert relative_names(result, root) == ["A.MD", "b.md", "c.Markdown", "sub/d.md"]
    assert result.problems == ()
    assert result.roots == (str(root),)


def test_plain_text_is_counted_or_read_as_the_setting_says(plant: Plant) -> None:
    """Text files that are not ignored are counted by suffix; those of `extensions` are read."""
    root = plant({"a.md": "", "b.TXT": "", "c.txt": "", "d.rst": "", "e.py": "", "README": "", "x/f.txt": ""})
    plant({".gitignore": "x/"})
    assert scan_one(root).passed_over == {".txt": 2, ".rst": 1}
    result = scan_one(root, extensions=(".txt",))
    assert (relative_names(result, root), result.passed_over) == (["a.md", "b.TXT", "c.txt"], {".rst": 1})


def test_a_stamp_has_size_time_and_inode(plant: Plant) -> None:
    """A file's stamp is its size, modification time and inode."""
    root = plant({"a.md": "five!"})
    status = (root / "a.md").stat()
    stamp = scan_one(root).files[0].stamp
    assert (stamp.size, stamp.mtime_ns, stamp.inode) == (5, status.st_mtime_ns, status.st_ino)


def test_hidden_names_are_skipped_below_a_root_only(plant: Plant) -> None:
    """Names with a leading dot are skipped below a root, but a root may itself be hidden."""
    root = plant({".lorelog/memory/a.md": "", ".lorelog/memory/.b.md": "", ".lorelog/memory/.c/d.md": ""})
    assert relative_names(scan_one(root), root) == []
    assert relative_names(scan_one(root / ".lorelog" / "memory"), root) == [".lorelog/memory/a.md"]


def test_hidden_names_are_read_if_a_pattern_asks_for_them(plant: Plant) -> None:
    """`exclude` with `!.notes/` reads that folder, `!.*` everything hidden but the folders of Git and lorelog; an ignore file cannot ask."""
    files = (".notes/a.md", ".other/b.md", ".c.md", "d.md", ".git/e.md", ".lorelog/f.md", "sub/.notes/g.md")
    root = plant(dict.fromkeys(files, ""))
    assert relative_names(scan_one(root, exclude=("!.notes/",)), root) == [".notes/a.md", "d.md", "sub/.notes/g.md"]
    everything = [".c.md", ".notes/a.md", ".other/b.md", "d.md", "sub/.notes/g.md"]
    assert relative_names(scan_one(root, exclude=("!.*",)), root) == everything
    plant({".gitignore": "!.*\n"})
    assert relative_names(scan_one(root), root) == ["d.md"]


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
    assert relative_names(result, root) == ["sub/a.md"]
    assert result.problems == ()
    assert result.outside_links == ()


def test_a_link_out_of_the_roots_is_reported_and_left_alone(plant: Plant, tmp_path: Path) -> None:
    """A file link to a target outside all roots is not read and is in `outside_links`."""
    root = plant({"a.md": ""})
    secret = tmp_path / "secret.md"
    secret.write_text("secret")
    (root / "link.md").symlink_to(secret)
    result = scan_one(root)
    assert relative_names(result, root) == ["a.md"]
    assert result.outside_links == (str(root / "link.md"),)
    assert scan([str(root), str(secret)], ScanOptions()).outside_links == ()


def test_a_link_inside_the_roots_adds_nothing(plant: Plant) -> None:
    """A file link inside the roots neither duplicates its target nor includes a hidden or excluded one."""
    root = plant({"a.md": "", ".hidden/b.md": "", "drafts/c.md": ""})
    for number, target in enumerate(("a.md", ".hidden/b.md", "drafts/c.md")):
        (root / f"link{number}.md").symlink_to(root / target)
    assert relative_names(scan_one(root, exclude=("drafts/",)), root) == ["a.md"]


def test_the_same_file_twice_is_one_file(plant: Plant, tmp_path: Path) -> None:
    """Equal roots, linked roots and a file given along with its directory yield each file once."""
    root = plant({"a.md": ""})
    link = tmp_path / "link"
    link.symlink_to(root)
    result = scan([str(root), str(link), f"{root}/", str(root / "a.md"), str(link / "a.md")], ScanOptions())
    assert [(file.path, file.root) for file in result.files] == [(str(root / "a.md"), str(root))]


def test_a_file_belongs_to_its_innermost_root(plant: Plant) -> None:
    """With nested roots a file's root is the innermost one, and patterns are relative to it."""
    root = plant({"a.md": "", "in/b.md": "", "in/drafts/c.md": "", "drafts/d.md": ""})
    result = scan([str(root), str(root / "in")], ScanOptions(exclude=("/drafts/",)))
    assert {os.path.relpath(file.path, root): file.root for file in result.files} == {
        "a.md": str(root),
        "in/b.md": str(root / "in"),
    }


def test_a_file_root_is_its_own_root(plant: Plant) -> None:
    """A file given as a root is included despite hidden names and patterns, and is its own root."""
    root = plant({".notes.md": "", ".gitignore": "*"})
    result = scan([str(root / ".notes.md")], ScanOptions(exclude=("*.md",)))
    assert [(file.path, file.root) for file in result.files] == [(str(root / ".notes.md"),) * 2]


def test_a_file_root_must_be_markdown(plant: Plant) -> None:
    """A file given as a root that is not Markdown is a problem, and the other roots are scanned."""
    root = plant({"a.txt": "", "sub/b.md": ""})
    result = scan([str(root / "a.txt"), str(root / "sub")], ScanOptions())
    assert relative_names(result, root) == ["sub/b.md"]
    assert [problem.message for problem in result.problems] == [f"{root}/a.txt is not a Markdown file"]


@pytest.mark.parametrize("name", ["missing", "missing.md", "a.md/below", "", "nul\0"])
def test_a_missing_root_is_a_problem(plant: Plant, name: str) -> None:
    """A missing root is a problem with a hint, and the other roots are scanned."""
    root = plant({"a.md": ""})
    result = scan([f"{root}/{name}" if name else "", str(root)], ScanOptions())
    assert relative_names(result, root) == ["a.md"]
    assert len(result.problems) == 1
    assert result.problems[0].hint
    assert result.roots == (str(root),)


def test_large_files_count_as_unreadable(plant: Plant) -> None:
    """A file over the limit is a problem with both sizes, and counts as unreadable; one at the limit is included."""
    root = plant({"big.md": "x" * 1001, "fits.md": "x" * 1000})
    result = scan_one(root, max_file_bytes=1000)
    assert relative_names(result, root) == ["fits.md"]
    assert result.problems[0].path == str(root / "big.md")
    assert "1,001" in result.problems[0].message
    assert result.may_exist(str(root / "big.md"))
    assert not result.may_exist(str(root / "bigger.md"))


def test_broken_links_and_pipes_are_problems(plant: Plant) -> None:
    """A broken link, a link to itself and a pipe are problems."""
    root = plant({"a.md": ""})
    (root / "broken.md").symlink_to(root / "nowhere.md")
    (root / "self.md").symlink_to(root / "self.md")
    os.mkfifo(root / "pipe.md")
    result = scan_one(root)
    assert relative_names(result, root) == ["a.md"]
    assert [Path(problem.path).name for problem in result.problems] == ["broken.md", "pipe.md", "self.md"]
    assert result.may_exist(str(root / "pipe.md"))


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


def test_unreadable_directories_protect_their_files(plant: Plant, run_unprivileged: RunUnprivileged) -> None:
    """Files below an unreadable directory count as possibly existing, and the scan continues."""
    root = plant({"locked/a.md": "", "locked-v2/b.md": "", "listed/c.md": "", "d.md": ""})
    (root / "locked").chmod(0)
    (root / "listed").chmod(0o400)  # names can be read, files cannot be looked at
    code = """if True:
        import sys
        from lorelog.core.options import ScanOptions
        from lorelog.ingest.files import scan
        root = sys.argv[1]
        result = scan([root], ScanOptions())
        print([file.path[len(root) + 1:] for file in result.files])
        print([problem.path[len(root) + 1:] for problem in result.problems])
        print([result.may_exist(root + name) for name in ("/locked/a.md", "/locked-v2/b.md", "/listed/c.md", "/gone.md")])
    """
    try:
        lines = run_unprivileged(code, str(root)).splitlines()
    finally:
        (root / "locked").chmod(0o700)
        (root / "listed").chmod(0o700)
    assert lines == ["['d.md', 'locked-v2/b.md']", "['listed/c.md', 'locked']", "[True, False, True, False]"]


def test_deep_trees_do_not_exhaust_the_stack(plant: Plant) -> None:
    """A tree of many hundred levels is walked to its end."""
    root = plant({})
    deep = root.joinpath(*["d"] * 900)
    deep.mkdir(parents=True)
    (deep / "a.md").write_text("")
    assert len(scan_one(root).files) == 1


def scan_names(root: Path, *roots: Path, **options: object) -> list[str]:
    result = scan([str(path) for path in roots or (root,)], ScanOptions(**options))  # type: ignore[arg-type]
    return [os.path.relpath(file.path, root) for file in result.files]


TREE = "a.md tmp/b.md sub/tmp/c.md sub/a.md sub/keep.md build.md"
NAMED = {".gitignore": "a.md", ".lorelogignore": "b.md", ".otherignore": "c.md"}
NESTED = {".gitignore": "# comment\n*.tmp.md\n/top.md\r\nnotes/\n", "sub/.gitignore": "!a.tmp.md\n/only.md\n"}
LEFT_OUT: dict[str, tuple[str, dict[str, str], dict[str, Any], str]] = {
    "a pattern for directories": (TREE, {}, {"exclude": ("tmp/",)}, "a.md build.md sub/a.md sub/keep.md"),
    "an anchored one": (TREE, {}, {"exclude": ("/tmp", "/a.md")}, "build.md sub/a.md sub/keep.md sub/tmp/c.md"),
    "a negated one": (TREE, {}, {"exclude": ("*.md", "!keep.md")}, "sub/keep.md"),
    "two stars": (TREE, {}, {"exclude": ("**/tmp/*.md", "build/")}, "a.md build.md sub/a.md sub/keep.md"),
    "nothing returns from an excluded directory": (
        *("drafts/keep.md a.md", {"drafts/.gitignore": "!keep.md"}),
        *({"exclude": ("drafts/", "!drafts/keep.md")}, "a.md"),
    ),
    "a nested ignore file holds below its own directory, and may negate a parent's rule": (
        "top.md a.tmp.md sub/a.tmp.md sub/b.tmp.md sub/only.md sub/deep/only.md sub/top.md sub/notes/x.md only.md",
        *(NESTED, {}, "only.md sub/a.tmp.md sub/deep/only.md sub/top.md"),
    ),
    "both default names are ignore files": ("a.md b.md c.md", NAMED, {}, "c.md"),
    "and no others are if the setting names none": ("a.md b.md c.md", NAMED, {"ignore_files": ()}, "a.md b.md c.md"),
    "or one": ("a.md b.md c.md", NAMED, {"ignore_files": (".otherignore",)}, "a.md b.md"),
    "of two the later in the setting decides": (
        *("x.md", {".a": "*.md", ".b": "!x.md"}),
        *({"ignore_files": (".a", ".b")}, "x.md"),
    ),
    "whatever their names": ("x.md", {".a": "*.md", ".b": "!x.md"}, {"ignore_files": (".b", ".a")}, ""),
    "exclude overrides every ignore file, in both directions": (
        *("a.md b.md", {".gitignore": "a.md\n!b.md\n"}),
        *({"exclude": ("b.md", "!a.md")}, "a.md"),
    ),
    "a malformed line of an ignore file is passed over": (
        "a.md b.md",
        {".gitignore": "!\na.md\ntrailing\\\n"},
        {},
        "b.md",
    ),
}


@pytest.mark.parametrize(("files", "ignore", "options", "found"), LEFT_OUT.values(), ids=LEFT_OUT)
def test_patterns_leave_files_out_as_git_does(
    plant: Plant, files: str, ignore: dict[str, str], options: dict[str, object], found: str
) -> None:
    """Patterns and ignore files work as in Git; `exclude` has the last word, and the setting names the ignore files."""
    assert scan_names(plant(dict.fromkeys(files.split(), "") | ignore), **options) == found.split()


@pytest.mark.parametrize(
    ("excluded", "found"),
    [
        (("drafts",), "drafts-v2/c.md drafts.md"),
        (("drafts/",), "drafts-v2/c.md drafts.md"),
        (("drafts.md", "missing"), "drafts-v2/c.md drafts/a.md drafts/deep/b.md"),
    ],
)
def test_excluded_paths_end_at_separators(plant: Plant, excluded: tuple[str, ...], found: str) -> None:
    """An excluded path covers its whole subtree and never a sibling with the same name prefix."""
    root = plant(dict.fromkeys(("drafts/a.md", "drafts/deep/b.md", "drafts-v2/c.md", "drafts.md"), ""))
    assert scan_names(root, exclude_paths=tuple(f"{root}/{path}" for path in excluded)) == found.split()


def test_ignore_files_above_the_root_do_not_count(plant: Plant) -> None:
    """Ignore files above the root are not read."""
    root = plant({".gitignore": "*", "sub/a.md": ""})
    assert scan_names(root, root / "sub") == ["sub/a.md"]


def test_a_malformed_exclude_pattern_is_an_error(plant: Plant) -> None:
    """A malformed exclude pattern is an error that names it."""
    root = plant({"a.md": ""})
    with pytest.raises(UsageError, match="'!'"):
        scan_names(root, exclude=("ok", "!"))


def test_a_linked_ignore_file_is_not_read(plant: Plant, tmp_path: Path) -> None:
    """An ignore file that is a symbolic link is not followed out of the root."""
    root = plant({"a.md": ""})
    (tmp_path / "rules").write_text("*")
    (root / ".gitignore").symlink_to(tmp_path / "rules")
    assert scan_names(root) == ["a.md"]


def test_an_unreadable_ignore_file_closes_its_directory(plant: Plant, run_unprivileged: RunUnprivileged) -> None:
    """A directory with an unreadable ignore file is skipped and reported, and its indexed documents are kept."""
    root = plant({"sub/.gitignore": "secret.md", "sub/secret.md": "", "a.md": ""})
    (root / "sub" / ".gitignore").chmod(0)
    code = """if True:
        import sys
        from lorelog.core.options import ScanOptions
        from lorelog.ingest.files import scan
        root = sys.argv[1]
        result = scan([root], ScanOptions())
        print([file.path[len(root) + 1:] for file in result.files], [problem.path[len(root) + 1:] for problem in
              result.problems], result.may_exist(root + "/sub/b.md"))
    """
    assert run_unprivileged(code, str(root)) == "['a.md'] ['sub/.gitignore'] True\n"


def test_excluded_paths_are_resolved_on_both_sides(plant: Plant, tmp_path: Path) -> None:
    """The root and the excluded path may each be given through a symbolic link."""
    root = plant({"drafts/a.md": "", "b.md": ""})
    link = tmp_path / "link"
    link.symlink_to(root)
    assert scan_names(root, link, exclude_paths=(str(root / "drafts"),)) == ["b.md"]
    assert scan_names(root, root, exclude_paths=(str(link / "drafts"),)) == ["b.md"]


def test_excluded_paths_win_over_roots(plant: Plant) -> None:
    """A root at or below an excluded path yields nothing, whether directory or file."""
    root = plant({"drafts/deep/a.md": "", "b.md": ""})
    assert scan_names(root, root / "drafts" / "deep", exclude_paths=(str(root / "drafts"),)) == []
    assert scan_names(root, root / "b.md", exclude_paths=(str(root / "b.md"),)) == []


def scanned(path: Path, data: bytes) -> SourceFile:
    path.write_bytes(data)
    (file,) = scan([str(path)], ScanOptions()).files
    return file


def test_text_and_hash_of_the_bytes(tmp_path: Path) -> None:
    """The hash is that of the bytes on disk; the text is decoded."""
    data = "é 记忆\n".encode()
    assert read_text(scanned(tmp_path / "a.md", data)) == FileText(
        "é 记忆\n", hashlib.sha256(data).hexdigest(), size=len(data)
    )


def test_only_crlf_is_a_line_end_beside_lf(tmp_path: Path) -> None:
    """CRLF becomes LF and a byte order mark is dropped; CR alone, form feed, NEL and LS stay."""
    data = "\ufeffa\r\nb\rc\x0cd\u2028e\x85f\r\n".encode()
    assert read_text(scanned(tmp_path / "a.md", data)).text == "a\nb\rc\x0cd\u2028e\x85f\n"


def test_an_empty_file_is_empty_text(tmp_path: Path) -> None:
    """An empty file is not an error."""
    assert read_text(scanned(tmp_path / "a.md", b"")).text == ""


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"one\r\ntwo\n\xe9t\xe9\n", "one\ntwo\n\ufffdt\ufffd\n"),
        ("one\ntwo\n记忆".encode()[:-1], "one\ntwo\n记\ufffd"),
        (b"one\ntwo\nthree" + b"\0" * 5_000, "one\ntwo\nthree\ufffd"),
        (b"one\ntwo\n" + b"\0" * 5_000 + b"\n\nthree\n", "one\ntwo\n\ufffd\n\nthree\n"),
    ],
)
def test_bad_bytes_are_replaced_and_noted(tmp_path: Path, mark: bytes, data: bytes, text: str) -> None:
    """A few bytes that are not text become U+FFFD, the rest is kept, and a note names the file and the line."""
    content = read_text(scanned(tmp_path / "a.md", mark + data))
    assert content.text == text
    assert content.note.startswith(f"{tmp_path}/a.md has bytes that are not valid UTF-8, the first on line 3")


def test_a_binary_file_is_not_text(tmp_path: Path) -> None:
    """A file with many bytes that are not UTF-8 is rejected."""
    with pytest.raises(SourceError, match=r"a\.md is not text: .* are not valid UTF-8"):
        read_text(scanned(tmp_path / "a.md", bytes(range(256)) * 40))
    with pytest.raises(SourceError, match="is not text"):
        read_text(scanned(tmp_path / "a.md", b"\xff"))


def test_utf16_is_decoded_by_its_mark(tmp_path: Path) -> None:
    """UTF-16 with a byte order mark is text; half a character of it is an error that says so."""
    data = "# 记忆\r\n".encode("utf-16")
    assert read_text(scanned(tmp_path / "a.md", data)).text == "# 记忆\n"
    with pytest.raises(SourceError, match="begins as UTF-16"):
        read_text(scanned(tmp_path / "b.md", data[:-1]))


def test_a_file_that_was_deleted_or_swapped_for_a_pipe_is_refused(tmp_path: Path) -> None:
    """A file deleted between scan and read is an error that says so; a pipe put in its place is rejected at once."""
    file = scanned(tmp_path / "a.md", b"x")
    (tmp_path / "a.md").unlink()
    with pytest.raises(SourceError, match=r"a\.md vanished"):
        read_text(file)
    os.mkfifo(tmp_path / "a.md")
    with pytest.raises(SourceError, match="was replaced"):
        read_text(file)


def test_a_file_swapped_for_a_link_is_not_followed(tmp_path: Path) -> None:
    """A link put in place of a scanned file or its directory does not lead out of the roots."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "a.md").write_text("secret")
    (tmp_path / "sub").mkdir()
    file = scanned(tmp_path / "sub" / "a.md", b"x")
    (tmp_path / "sub" / "a.md").unlink()
    (tmp_path / "sub" / "a.md").symlink_to(tmp_path / "outside" / "a.md")
    with pytest.raises(SourceError):
        read_text(file)
    (tmp_path / "sub" / "a.md").unlink()
    (tmp_path / "sub").rmdir()
    (tmp_path / "sub").symlink_to(tmp_path / "outside")
    with pytest.raises(SourceError, match="was replaced"):
        read_text(file)


def test_an_unreadable_file_is_found_and_refused(tmp_path: Path, run_unprivileged: Callable[..., str]) -> None:
    """A file without read permission is scanned, so that it does not count as deleted, and rejected with the reason."""
    path = tmp_path / "a.md"
    path.write_text("x")
    path.chmod(0)
    code = """if True:
        import sys
        from lorelog.core.errors import SourceError
        from lorelog.core.options import ScanOptions
        from lorelog.ingest.files import read_text
        from lorelog.ingest.files import scan
        (file,) = scan([sys.argv[1]], ScanOptions()).files
        try:
            read_text(file)
        except SourceError as error:
            print(error.message.removeprefix(file.path), bool(error.hint))
    """
    assert run_unprivileged(code, str(path)) == " cannot be read: Permission denied True\n"
