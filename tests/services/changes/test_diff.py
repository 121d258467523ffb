"""A diff is read as it is: bounded, without following its words, from every kind of clone."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.services.changes.changed import PRICING, Changed

from lorelog.code.git import Git
from lorelog.core.errors import UsageError
from lorelog.services.changes.diff import parse_diff, read_change


@pytest.fixture
def repository(tmp_path: Path) -> Changed:
    return Changed(tmp_path).begin()


def test_the_new_text_is_made_from_the_hunks(repository: Changed) -> None:
    """Renamed, new, deleted and unusually named files, and files without a last line break, have the text that Git has."""
    repository.git("mv", "src/pricing.py", "src/two words.py")
    repository.edit("src/two words.py", "RATE = 3", "RATE = 4\nLIMIT = 5")
    repository.write('new/"tab\tand ü".py', "x = 1\n-- a line\n++ b line\ny = 2")
    repository.git("rm", "-q", "other.py")
    repository.write("Makefile", "")
    repository.commit("all at once")
    change = read_change(Git(str(repository.root)), "HEAD~1..HEAD", None)
    assert {(file.old_path, file.new_path) for file in change.files} == {
        ("src/pricing.py", "src/two words.py"),
        ("", 'new/"tab\tand ü".py'),
        ("other.py", ""),
        ("Makefile", "Makefile"),
    }
    for file in change.files:
        path = repository.root / (file.new_path or "-")
        assert (file.new_text or "").rstrip("\n") == (path.read_text("utf-8") if path.exists() else "").rstrip("\n")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no diff at all\n@@ nonsense\n",
        "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n",
        "--- a/x.py\n+++ b/x.py\n@@ -1,999999999 +x @@\n-a\n",
        'diff --git "a/\\xq" "b/\\377"\n--- "a/\\\n@@ -0,0 +1,3 @@\n+a\n',
        "--- /etc/passwd\n+++ /etc/passwd\n@@ -1 +1 @@\n-a\n+b\n",
        "--- a/../../x\n+++ b/../../x\n@@ -1 +1 @@\n-a\n+b\n",
    ],
)
def test_a_broken_or_hostile_patch_is_read_as_far_as_it_goes(text: str, repository: Changed) -> None:
    """What is no diff, and paths that lead out of the tree, give no finding and no error."""
    paths = [path for file in parse_diff(text) for path in file.paths]
    assert not any(path.startswith("/") or ".." in path.split("/") for path in paths)
    patch = repository.place / "broken.patch"
    patch.write_text(text, "utf-8")
    assert repository.check(patch=str(patch))["findings"] == []


def test_a_huge_change_is_bounded(repository: Changed) -> None:
    """Of 100,000 lines some are left out, as are minified and generated files, and the reply says what; names of files still count."""
    repository.guard(paths=["big/5.txt"])
    for number in range(10):
        repository.write(f"big/{number}.txt", "".join(f"line {number} {line}\n" for line in range(10_000)))
    repository.write("site.min.js", "x" * 5_000)
    repository.write("api_pb.py", "# Code generated. DO NOT EDIT.\nx = 1\n")
    reply = repository.check()
    assert reply["lines"] == 20_000
    assert set(reply["notes"]) == {
        "left out: 8 files, beyond the first 20,000 lines",
        "left out: 1 file, minified",
        "left out: 1 file, generated",
    }
    assert [each["path"] for each in reply["findings"]] == ["big/5.txt"]


def test_every_kind_of_clone_is_read(repository: Changed) -> None:
    """A linked working tree, a detached head, a submodule and a shallow clone are checked like any other."""
    repository.edit("src/pricing.py", "RATE = 3", "RATE = 4")
    repository.commit("rate")
    head, url = repository.git("rev-parse", "HEAD"), repository.root.as_uri()
    repository.git("worktree", "add", "-q", "--detach", str(repository.place / "linked"))
    repository.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", url, "inner")
    subprocess.run(["git", "clone", "-q", "--depth", "2", url, repository.place / "shallow"], check=True)
    for root in (repository.place / "linked", repository.place / "shallow", repository.root / "inner"):
        change = read_change(Git(str(root)), "HEAD~1..HEAD", None)
        assert [(file.path, len(file.added), file.new_text) for file in change.files] == [
            ("src/pricing.py", 1, PRICING.replace("RATE = 3", "RATE = 4"))
        ]
        assert change.head == head
    staged = read_change(Git(str(repository.root)), "", None)
    assert [file.path for file in staged.files] == [".gitmodules"]
    with pytest.raises(UsageError) as raised:
        read_change(Git(str(repository.place / "shallow")), "HEAD~5..HEAD", None)
    assert "shallow" in str(raised.value.hint)


@pytest.mark.parametrize("diff", ["nowhere..HEAD", "--output=x..HEAD", "HEAD..-x", "a b..c", "HEAD..\0"])
def test_a_bad_revision_is_refused(diff: str, repository: Changed) -> None:
    """A name that is no commit is named, and nothing that begins with a dash reaches Git as an option."""
    with pytest.raises(UsageError, match="there is no commit"):
        read_change(Git(str(repository.root)), diff, None)


def test_a_first_commit_and_no_repository(tmp_path: Path) -> None:
    """Before the first commit everything is new; outside of a repository that is said."""
    subprocess.run(["git", "init", "-q", tmp_path / "new"], check=True)
    (tmp_path / "new" / "a.py").write_text("x = 1\n", "utf-8")
    subprocess.run(["git", "-C", tmp_path / "new", "add", "a.py"], check=True)
    change = read_change(Git(str(tmp_path / "new")), "", None)
    assert [(file.path, file.new_text) for file in change.files] == [("a.py", "x = 1\n")]
    with pytest.raises(UsageError, match="not the working tree"):
        read_change(Git(str(tmp_path)), "", None)


def test_names_count_where_contents_are_missing(repository: Changed) -> None:
    """If Git cannot read a content, as in a partial clone, guards on paths still apply, and the reply says so."""
    repository.guard(paths=["src/**"])
    repository.edit("src/pricing.py", "RATE = 3", "RATE = 4")
    repository.commit("rate")
    blob = repository.git("rev-parse", "HEAD:src/pricing.py")
    (repository.root / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    reply = repository.check(diff="HEAD~1..HEAD")
    assert [each["path"] for each in reply["findings"]] == ["src/pricing.py"]
    assert "only the names of 1 file are checked" in reply["notes"][0]
