"""Memories are checked against real repositories when they are found; none is hidden."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.services.freshness.repository import LOAD, Repository

from lorelog.code.git import GitHistory
from lorelog.core.document import StoredChunk
from lorelog.core.memory import NewMemory
from lorelog.core.query import Freshness, FreshnessVerdict
from lorelog.services.code.index_run import CodeIndexJob, index_code
from lorelog.services.freshness.mention_targets import defines_command
from lorelog.services.places.root_selection import IndexTargets
from lorelog.stores.embedded import rows


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """A repository whose code is indexed."""
    made = Repository(tmp_path)
    made.index()
    return made


SYMBOL = "The team agreed on `parse_config`."
METHOD = "The team agreed on what Engine.search does."
FILE = "The team agreed on config/settings.py."

Change = Callable[[Repository], None]


def _nothing(_: Repository) -> None:
    pass


def _edit(old: str, new: str) -> Change:
    return lambda repository: repository.edit("config/settings.py", old, new)


_beside = _edit("LIMIT = 3", "LIMIT = 4\nMORE = 1")
_layout = _edit("    text = open(path).read()\n", "\n    # why not\n    text = open(path).read()\n")
_edited = _edit("dict(values)", "dict(values[1:])")
_signature = _edit("def parse_config(path)", "def parse_config(path, strict=False)")
_renamed = _edit("parse_config", "read_settings")
_renamed_and_edited = _edit("def parse_config(path):", "def read_settings(path):\n    print(path)")


def _moved(repository: Repository) -> None:
    start, end = LOAD.index("def parse_config"), LOAD.index("class Engine")
    repository.write("config/settings.py", LOAD[:start] + LOAD[end:])
    repository.write("config/reading.py", LOAD[start:end])


def _deleted(repository: Repository) -> None:
    repository.write("config/settings.py", LOAD[: LOAD.index("def parse_config")] + LOAD[LOAD.index("class Engine") :])


def _file_moved(repository: Repository) -> None:
    (repository.root / "settings").mkdir()
    repository.git("mv", "config/settings.py", "settings/load.py")


def _file_renamed_unstaged(repository: Repository) -> None:
    (repository.root / "config/settings.py").rename(repository.root / "config/loading.py")


def _file_deleted(repository: Repository) -> None:
    (repository.root / "config/settings.py").unlink()


CASES: list[tuple[str, Change, Freshness, str]] = [
    (SYMBOL, _nothing, Freshness.FRESH, ""),
    (SYMBOL, _beside, Freshness.FRESH, ""),
    (SYMBOL, _layout, Freshness.FRESH, ""),
    (SYMBOL, _edited, Freshness.DRIFTED, "parse_config has changed since"),
    (SYMBOL, _signature, Freshness.DRIFTED, "parse_config has another signature: def parse_config(path, strict=False)"),
    (SYMBOL, _renamed, Freshness.DRIFTED, "parse_config renamed to read_settings"),
    (SYMBOL, _renamed_and_edited, Freshness.DRIFTED, "parse_config renamed to read_settings"),
    (SYMBOL, _moved, Freshness.DRIFTED, "parse_config moved to config/reading.py:1"),
    (SYMBOL, _deleted, Freshness.GONE, "parse_config is gone"),
    (SYMBOL, _file_moved, Freshness.DRIFTED, "parse_config moved to settings/load.py"),
    (METHOD, _edited, Freshness.FRESH, ""),
    (METHOD, _file_deleted, Freshness.GONE, "Engine.search is gone"),
    (FILE, _nothing, Freshness.FRESH, ""),
    (FILE, _edited, Freshness.DRIFTED, "config/settings.py has changed since"),
    (FILE, _file_moved, Freshness.DRIFTED, "config/settings.py moved to settings/load.py"),
    (FILE, _file_renamed_unstaged, Freshness.DRIFTED, "config/settings.py renamed to config/loading.py"),
    (FILE, _file_deleted, Freshness.GONE, "config/settings.py is gone"),
    (f"{FILE} And on `Engine.search` in it.", _edited, Freshness.FRESH, ""),
    (f"{FILE} And on `parse_config` in it.", _deleted, Freshness.DRIFTED, "parse_config is gone"),
    ("The team agreed on settings.py:6-8.", _beside, Freshness.DRIFTED, "settings.py has these lines at 7-9 now"),
    ("The team agreed on settings.py:6-8.", _edited, Freshness.FRESH, ""),
    (
        "The team agreed on the config/settings.py:6-10.",
        _edited,
        Freshness.DRIFTED,
        "config/settings.py has changed there since",
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize("committed", [True, False], ids=["committed", "not committed"])
@pytest.mark.parametrize(("text", "change", "freshness", "expected"), CASES)
def test_mentions_are_fresh_drifted_or_gone(
    repository: Repository, text: str, change: Change, freshness: Freshness, expected: str, *, committed: bool
) -> None:
    """A mention is unchanged, changed and how, or gone, whether the change is committed or not."""
    repository.remember(text)
    assert repository.verdict().freshness is Freshness.FRESH
    change(repository)
    if committed:
        repository.git("add", "-A")
        repository.git("commit", "-q", "--allow-empty", "-m", "changed")
    repository.index()
    verdict = repository.verdict()
    assert (verdict.freshness, "; ".join(verdict.change_phrases)) == (freshness, expected)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "change", "freshness", "expected"), [case for case in CASES if case[1] is not _nothing]
)
def test_a_memory_first_checked_after_the_change_is_judged(
    repository: Repository, text: str, change: Change, freshness: Freshness, expected: str
) -> None:
    """A memory that was not checked before the change is judged by the commit it was made on."""
    with repository.engine() as engine:
        engine.memories().add([NewMemory(text)])
    change(repository)
    repository.commit("changed")
    repository.index()
    verdict = repository.verdict()
    assert (verdict.freshness, "; ".join(verdict.change_phrases)) == (freshness, expected)


def test_a_change_shows_before_the_next_index_run(repository: Repository) -> None:
    """A file that changed since it was indexed is parsed for the verdict."""
    repository.remember(SYMBOL)
    _edited(repository)
    assert repository.verdict().change_phrases == ("parse_config has changed since",)


def test_settings_and_commands_are_followed(repository: Repository) -> None:
    """A setting that is left only in documents is gone, and so is a removed command."""
    repository.remember("The team agreed on `search.depth` and on `make test`.")
    assert repository.verdict().freshness is Freshness.FRESH
    repository.edit("defaults.toml", "search.depth = 3\n", "")
    repository.edit("Makefile", "test:", "check:")
    repository.write("CHANGELOG.md", "- search.depth was dropped\n")
    repository.commit("dropped")
    verdict = repository.verdict()
    assert verdict.freshness is Freshness.GONE
    assert verdict.change_phrases == ("search.depth is gone", "make test is gone")


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "The team agreed on lunch at noon.",
        "The team agreed on `numpy.array` and on some_other_function().",
        "The team agreed on README.md and on ../../etc/passwd and on /etc/passwd.",
    ],
)
def test_unknown_things_are_not_judged(repository: Repository, text: str) -> None:
    """Prose, libraries and files elsewhere are not mentions: a false alarm is worse than none."""
    repository.remember(text)
    assert repository.verdict() == FreshnessVerdict()


@pytest.mark.slow
def test_a_stale_memory_ranks_lower(repository: Repository) -> None:
    """Of two equal memories, the one whose code is gone comes second, and its score explains why."""
    repository.remember("The team agreed: helper_of_all adds up.", "The team agreed: parse_config reads files.")
    _deleted(repository)
    repository.commit("deleted")
    repository.index()
    first, second = repository.hits("the team agreed")
    assert "helper_of_all" in first.content
    assert second.verdict.freshness is Freshness.GONE
    part = second.explanation.parts[-1]
    assert (part.name, part.note) == ("freshness", "parse_config is gone")
    assert second.score == pytest.approx(second.explanation.score)


@pytest.mark.slow
def test_a_memory_of_an_unmerged_branch_is_labelled(repository: Repository) -> None:
    """A memory of an unmerged branch is labelled and ranks lower, except on the branch and after the merge."""
    repository.git("checkout", "-q", "-b", "feature-x")
    repository.write("feature.py", "def brand_new_thing(one):\n    print(one)\n    return one\n")
    repository.commit("feature")
    repository.remember("The team agreed on lunch.")
    assert repository.verdict().unmerged == ""
    repository.git("checkout", "-q", "main")
    (hit,) = repository.hits()
    assert hit.verdict.unmerged == "feature-x"
    assert (hit.explanation.parts[-1].name, hit.explanation.parts[-1].note) == ("branch", "on feature-x, not merged")
    repository.git("merge", "-q", "--squash", "feature-x")
    repository.commit("squashed")
    repository.git("branch", "-q", "-D", "feature-x")
    assert repository.verdict().unmerged == ""


@pytest.mark.slow
def test_worktrees_share_memories_and_are_judged_separately(repository: Repository, tmp_path: Path) -> None:
    """One memory has drifted in the worktree that renamed the function, and is fresh in the other."""
    repository.remember(SYMBOL)
    repository.git("worktree", "add", "-q", "-b", "work", str(tmp_path / "linked"))
    linked = tmp_path / "linked"
    with repository.engine(linked) as engine:
        place = engine.place
        index_code(engine.code().tables.path, CodeIndexJob(place.project.root, place.project.id, processes=1))
    _renamed(repository)
    repository.commit("renamed")
    assert repository.verdict(root=linked).freshness is Freshness.FRESH
    assert repository.verdict().freshness is Freshness.DRIFTED


def test_files_are_judged_without_a_code_index(tmp_path: Path) -> None:
    """Without a code index files are judged, and symbols are not."""
    repository = Repository(tmp_path)
    repository.remember(f"{FILE} And on `parse_config`.")
    assert [finding.kind for finding in repository.verdict().findings] == ["path"]
    _file_deleted(repository)
    assert repository.verdict().freshness is Freshness.GONE


def test_git_is_not_asked_about_a_branch_without_a_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A memory of a branch without a commit is judged by the files, though Git gives no answer."""
    repository = Repository(tmp_path)
    repository.git("update-ref", "-d", "HEAD")
    monkeypatch.setattr(GitHistory, "_run", lambda *_, **__: None)
    repository.remember(FILE)
    assert repository.verdict().freshness is Freshness.FRESH


@pytest.mark.slow
def test_without_git_the_first_check_counts(tmp_path: Path) -> None:
    """In a folder that is not a repository, mentions are compared with their state at the first check."""
    repository = Repository(tmp_path)
    import shutil

    shutil.rmtree(repository.root / ".git")
    repository.index()
    repository.remember(f"{SYMBOL} See other.py.")
    assert repository.verdict().freshness is Freshness.FRESH
    _renamed(repository)
    (repository.root / "other.py").unlink()
    repository.index()
    assert repository.verdict().change_phrases == ("parse_config renamed to read_settings", "other.py is gone")


def test_a_damaged_cache_is_rebuilt(repository: Repository) -> None:
    """A search works with a damaged cache, and resolves the mentions again."""
    repository.remember(SYMBOL)
    with repository.engine() as engine:
        (engine.place.cache_folder / "freshness.db").write_bytes(b"no database at all" * 100)
    assert repository.verdict().freshness is Freshness.FRESH


def test_links_out_of_the_project_are_not_followed(repository: Repository, tmp_path: Path) -> None:
    """A file that is a link out of the project is not read."""
    (tmp_path / "secret.py").write_text("def secret_function():\n    return 1\n")
    (repository.root / "linked.py").symlink_to(tmp_path / "secret.py")
    repository.remember("The team agreed on linked.py.")
    assert repository.verdict() == FreshnessVerdict()


def test_nothing_is_gone_if_git_gives_no_answer(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    """A moved file or a setting that was not found in time is not reported as gone."""
    repository.remember(f"{FILE} And on `search.depth`.")
    (repository.root / "settings").mkdir()
    repository.git("mv", "config/settings.py", "settings/load.py")
    repository.git("mv", "defaults.toml", "settings/all.toml")
    repository.commit("moved")
    for name in ("renames", "renames_by_steps", "files_now", "files_with_now"):
        monkeypatch.setattr(GitHistory, name, lambda *_: None)
    assert repository.verdict() == FreshnessVerdict()
    monkeypatch.undo()
    assert repository.verdict().change_phrases == (
        "config/settings.py moved to settings/load.py",
        "search.depth is in settings/all.toml now",
    )


def test_a_sha256_repository_is_judged(tmp_path: Path) -> None:
    """In a repository with SHA-256 ids, unchanged files are fresh."""
    repository = Repository(tmp_path, "--object-format=sha256")
    repository.index()
    repository.remember(f"{FILE} See other.py.")
    assert repository.verdict().freshness is Freshness.FRESH
    _edited(repository)
    assert repository.verdict().change_phrases == ("config/settings.py has changed since",)


def test_line_endings_are_not_a_change(repository: Repository) -> None:
    """A checkout with CRLF line endings has the same content."""
    repository.remember(f"{FILE} And on settings.py:6-8 and on `Engine.search`.")
    for name in ("config/settings.py", "other.py"):
        (repository.root / name).write_bytes((repository.root / name).read_bytes().replace(b"\n", b"\r\n"))
    assert repository.verdict().freshness is Freshness.FRESH


@pytest.mark.parametrize(
    ("text", "path", "command", "expected"),
    [
        ("build test: lint\n\tx\n", "Makefile", "make test", True),
        ("test : lint\n", "Makefile", "make test", True),
        ("test-all: lint\n", "Makefile", "make test", False),
        ("test := 1\n", "Makefile", "make test", False),
        ("# test: no\nall: test\n", "Makefile", "make test", False),
        ("a b c\n" * 50_000 + "\n" * 50_000, "Makefile", "make test", False),
        ("\n" * 100_000, "pyproject.toml", "uv run test", False),
        ('[scripts]\ntest = "x"\n', "pyproject.toml", "uv run test", True),
        ("tasks:\n  test:\n    cmds: []\n", "Taskfile.yml", "task test", True),
        ('{"scripts": {"build:all": "x"}}', "package.json", "npm run build:all", True),
    ],
)
def test_a_command_is_defined_by_its_file(text: str, path: str, command: str, *, expected: bool) -> None:
    """A target has a rule, alone or with others; a long file without it is searched in linear time."""
    assert defines_command(text, path, command) is expected


def test_a_file_with_a_filter_has_not_changed(repository: Repository) -> None:
    """An LFS file, which differs from its commit by design, is unchanged while the commit's content is staged."""
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0123\nsize 9\n"
    repository.write("model.bin", pointer)
    repository.commit("model")
    repository.write(".gitattributes", "*.bin filter=lfs -text\n")
    repository.commit("attributes")
    repository.write("model.bin", "the thing")
    repository.remember("The team agreed on model.bin.")
    assert repository.verdict().freshness is Freshness.FRESH
    repository.write("model.bin", pointer.replace("0123", "4567"))
    repository.commit("another model")
    assert repository.verdict().change_phrases == ("model.bin has changed since",)


def test_files_outside_of_a_sparse_checkout_are_not_gone(repository: Repository) -> None:
    """Files that a sparse checkout leaves out are not judged."""
    repository.write("docs/setting.toml", "search.breadth = 1\n")
    repository.commit("docs")
    repository.remember(
        "The team agreed on config/settings.py, `parse_config`, `search.breadth` and docs/setting.toml."
    )
    assert repository.verdict().freshness is Freshness.FRESH
    repository.git("sparse-checkout", "set", "--no-cone", "/other.py", "/Makefile")
    assert not (repository.root / "config/settings.py").exists()
    repository.index()
    assert repository.verdict() == FreshnessVerdict()


def test_a_pass_after_a_write_reads_what_is_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After one memory was added, background work reads it and not the others; after a checkout it reads all."""
    repository = Repository(tmp_path)
    for number in range(60):
        repository.write(f"notes/n{number}.md", f"# Note {number}\n\nThe team agreed on `parse_config` {number}.\n")
    with repository.engine() as engine:
        engine.maintenance().index(IndexTargets((str(repository.root / "notes"),)))
        engine.run_background_work()
        engine.memories().add([NewMemory("the okapi hides")])
        read, statements, read_chunk = list[object](), list[str](), rows.read_chunk

        def count(row: tuple[Any, ...], *, current_space: bool) -> StoredChunk:
            read.append(row)
            return read_chunk(row, current_space=current_space)

        monkeypatch.setattr(rows, "read_chunk", count)
        with engine.store._open_reader() as catalog:  # type: ignore[attr-defined]
            catalog.database.set_trace_callback(statements.append)

        engine.run_background_work()

        assert 1 <= len(read) <= 4
        assert 1 <= len(statements) <= 20
        repository.git("checkout", "-q", "-b", "other")
        engine.run_background_work()
        assert len(read) >= 60
