"""What a memory names is looked up in the working tree when it is recalled, in real repositories, and told; nothing is hidden."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from lorelog.code.history import History
from lorelog.core.code import Freshness, Verdict
from lorelog.core.memory import NewMemory
from lorelog.core.query import Hit
from lorelog.engine import Engine
from lorelog.services.code.indexing import CodeJob, index_code
from lorelog.services.freshness.surveying import defines
from lorelog.wiring import open_engine, standpoint

LOAD = '''"""Settings."""

LIMIT = 3


def parse_config(path):
    """Read a file."""
    text = open(path).read()
    values = [line.split("=") for line in text.splitlines()]
    return dict(values)


class Engine:
    def search(self, query, k=5):
        found = self.lookup(query)
        ordered = sorted(found, key=len)
        return ordered[:k]

    def lookup(self, query):
        return [query]
'''
OTHER = "def helper_of_all(one, other):\n    total = one + other\n    print(total)\n    return total\n"


class Repository:
    """A repository with a little code, and a home that remembers things about it."""

    def __init__(self, place: Path, *init: str) -> None:
        self.root, self._home = place / "repo", place / "home"
        self.root.mkdir()
        self.write("config/load.py", LOAD)
        self.write("other.py", OTHER)
        self.write("Makefile", "test:\n\tpytest\n")
        self.write("defaults.toml", "[search]\nkind = 5\nsearch.depth = 3\n")
        self.git("init", "-q", "-b", "main", *init)
        self.commit("first")

    def git(self, *args: str) -> str:
        named = {
            f"GIT_{who}_{what}": "mara@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
        }
        done = subprocess.run(
            ["git", *args],
            cwd=self.root,
            check=True,
            capture_output=True,
            env={**os.environ, **named, "GIT_CONFIG_GLOBAL": "/dev/null"},
        )
        return done.stdout.decode().strip()

    def commit(self, message: str) -> None:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)

    def write(self, name: str, text: str) -> None:
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(text)

    def edit(self, name: str, old: str, new: str) -> None:
        text = (self.root / name).read_text()
        assert old in text
        (self.root / name).write_text(text.replace(old, new))

    @contextmanager
    def engine(self, root: Path | None = None) -> Iterator[Engine]:
        here = standpoint(home=str(self._home), project=str(root or self.root))
        with open_engine(here, {"embedding.provider": "none"}) as engine:
            yield engine

    def index(self) -> None:
        with self.engine() as engine:
            place = engine.place
            index_code(engine.code().tables.path, CodeJob(place.project.root, place.project.id, processes=1))

    def remember(self, *texts: str) -> None:
        with self.engine() as engine:
            engine.add([NewMemory(text) for text in texts])
            engine.settle()

    def hits(self, query: str = "team agreed", root: Path | None = None) -> tuple[Hit, ...]:
        with self.engine(root) as engine:
            engine.settle()
            return engine.search(query, replace(engine.defaults.search, k=10)).hits

    def verdict(self, query: str = "team agreed", root: Path | None = None) -> Verdict:
        (hit,) = self.hits(query, root)
        return hit.verdict


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """A repository whose code is indexed."""
    made = Repository(tmp_path)
    made.index()
    return made


SYMBOL = "The team agreed on `parse_config`."
METHOD = "The team agreed on what Engine.search does."
FILE = "The team agreed on config/load.py."

Change = Callable[[Repository], None]


def _nothing(_: Repository) -> None:
    pass


def _beside(repository: Repository) -> None:
    repository.edit("config/load.py", "LIMIT = 3", "LIMIT = 4\nMORE = 1")


def _layout(repository: Repository) -> None:
    repository.edit(
        "config/load.py", "    text = open(path).read()\n", "\n    # why not\n    text = open(path).read()\n"
    )


def _edited(repository: Repository) -> None:
    repository.edit("config/load.py", "dict(values)", "dict(values[1:])")


def _signature(repository: Repository) -> None:
    repository.edit("config/load.py", "def parse_config(path)", "def parse_config(path, strict=False)")


def _renamed(repository: Repository) -> None:
    repository.edit("config/load.py", "parse_config", "read_settings")


def _renamed_and_edited(repository: Repository) -> None:
    repository.edit("config/load.py", "def parse_config(path):", "def read_settings(path):\n    print(path)")


def _moved(repository: Repository) -> None:
    start, end = LOAD.index("def parse_config"), LOAD.index("class Engine")
    repository.write("config/load.py", LOAD[:start] + LOAD[end:])
    repository.write("config/reading.py", LOAD[start:end])


def _deleted(repository: Repository) -> None:
    repository.write("config/load.py", LOAD[: LOAD.index("def parse_config")] + LOAD[LOAD.index("class Engine") :])


def _file_moved(repository: Repository) -> None:
    (repository.root / "settings").mkdir()
    repository.git("mv", "config/load.py", "settings/load.py")


def _file_renamed_unstaged(repository: Repository) -> None:
    (repository.root / "config/load.py").rename(repository.root / "config/loading.py")


def _file_deleted(repository: Repository) -> None:
    (repository.root / "config/load.py").unlink()


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
    (FILE, _edited, Freshness.DRIFTED, "config/load.py has changed since"),
    (FILE, _file_moved, Freshness.DRIFTED, "config/load.py moved to settings/load.py"),
    (FILE, _file_renamed_unstaged, Freshness.DRIFTED, "config/load.py renamed to config/loading.py"),
    (FILE, _file_deleted, Freshness.GONE, "config/load.py is gone"),
    (f"{FILE} And on `Engine.search` in it.", _edited, Freshness.FRESH, ""),
    (f"{FILE} And on `parse_config` in it.", _deleted, Freshness.DRIFTED, "parse_config is gone"),
    ("The team agreed on load.py:6-8.", _beside, Freshness.DRIFTED, "load.py has these lines at 7-9 now"),
    ("The team agreed on load.py:6-8.", _edited, Freshness.FRESH, ""),
    (
        "The team agreed on the config/load.py:6-10.",
        _edited,
        Freshness.DRIFTED,
        "config/load.py has changed there since",
    ),
]


@pytest.mark.parametrize("committed", [True, False], ids=["committed", "not committed"])
@pytest.mark.parametrize(("text", "change", "freshness", "told"), CASES)
def test_what_became_of_what_is_named_is_told(
    repository: Repository, text: str, change: Change, freshness: Freshness, told: str, *, committed: bool
) -> None:
    """As it was, changed and how, or gone: whether the change is committed or only lies in the working tree."""
    repository.remember(text)
    assert repository.verdict().freshness is Freshness.FRESH
    change(repository)
    if committed:
        repository.git("add", "-A")
        repository.git("commit", "-q", "--allow-empty", "-m", "changed")
    repository.index()
    verdict = repository.verdict()
    assert (verdict.freshness, "; ".join(verdict.told)) == (freshness, told)


@pytest.mark.parametrize(("text", "change", "freshness", "told"), [one for one in CASES if one[1] is not _nothing])
def test_history_tells_what_nobody_looked_at_in_time(
    repository: Repository, text: str, change: Change, freshness: Freshness, told: str
) -> None:
    """A memory that was never looked at before the change is judged alike, by the commit that it names."""
    with repository.engine() as engine:
        engine.add([NewMemory(text)])
    change(repository)
    repository.commit("changed")
    repository.index()
    verdict = repository.verdict()
    assert (verdict.freshness, "; ".join(verdict.told)) == (freshness, told)


def test_a_change_shows_before_the_index_has_followed(repository: Repository) -> None:
    """A file that changed since its code was indexed is read again for the verdict."""
    repository.remember(SYMBOL)
    _edited(repository)
    assert repository.verdict().told == ("parse_config has changed since",)


def test_settings_and_commands_are_followed(repository: Repository) -> None:
    """A key that no file of code or configuration has any more is gone, whatever documents say; so is a target."""
    repository.remember("The team agreed on `search.depth` and on `make test`.")
    assert repository.verdict().freshness is Freshness.FRESH
    repository.edit("defaults.toml", "search.depth = 3\n", "")
    repository.edit("Makefile", "test:", "check:")
    repository.write("CHANGELOG.md", "- search.depth was dropped\n")
    repository.commit("dropped")
    verdict = repository.verdict()
    assert verdict.freshness is Freshness.GONE
    assert verdict.told == ("search.depth is gone", "make test is gone")


@pytest.mark.parametrize(
    "text",
    [
        "The team agreed on lunch at noon.",
        "The team agreed on `numpy.array` and on some_other_function().",
        "The team agreed on README.md and on ../../etc/passwd and on /etc/passwd.",
    ],
)
def test_what_the_project_never_had_is_not_judged(repository: Repository, text: str) -> None:
    """Prose, libraries and files elsewhere are no mentions: a false alarm is worse than none."""
    repository.remember(text)
    assert repository.verdict() == Verdict()


def test_a_stale_memory_goes_down_and_stays(repository: Repository) -> None:
    """Of two memories that are as good, the one whose code is gone comes second; its score says why, and adds up."""
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


def test_a_memory_of_a_branch_says_so_until_it_is_merged(repository: Repository) -> None:
    """Made on a branch that has not come in, it is labelled and lower; on the branch, and after the merge, it is ordinary."""
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


def test_worktrees_share_memories_and_are_judged_apart(repository: Repository, tmp_path: Path) -> None:
    """One memory; where the function was renamed it has drifted, where it was not it is fresh."""
    repository.remember(SYMBOL)
    repository.git("worktree", "add", "-q", "-b", "work", str(tmp_path / "linked"))
    linked = tmp_path / "linked"
    with repository.engine(linked) as engine:
        place = engine.place
        index_code(engine.code().tables.path, CodeJob(place.project.root, place.project.id, processes=1))
    _renamed(repository)
    repository.commit("renamed")
    assert repository.verdict(root=linked).freshness is Freshness.FRESH
    assert repository.verdict().freshness is Freshness.DRIFTED


def test_files_are_judged_where_code_was_never_indexed(tmp_path: Path) -> None:
    """Without a code index symbols are not looked at; files are."""
    repository = Repository(tmp_path)
    repository.remember(f"{FILE} And on `parse_config`.")
    assert [one.kind for one in repository.verdict().findings] == ["path"]
    _file_deleted(repository)
    assert repository.verdict().freshness is Freshness.GONE


def test_without_git_things_count_from_the_first_look(tmp_path: Path) -> None:
    """A folder that is no repository: what a memory names is followed from when it was first looked at."""
    repository = Repository(tmp_path)
    import shutil

    shutil.rmtree(repository.root / ".git")
    repository.index()
    repository.remember(f"{SYMBOL} See other.py.")
    assert repository.verdict().freshness is Freshness.FRESH
    _renamed(repository)
    (repository.root / "other.py").unlink()
    repository.index()
    assert repository.verdict().told == ("parse_config renamed to read_settings", "other.py is gone")


def test_a_damaged_notebook_is_made_anew(repository: Repository) -> None:
    """What is derived may be lost: the search answers, and finds out again."""
    repository.remember(SYMBOL)
    with repository.engine() as engine:
        (engine.place.tenant_folder / "index" / "freshness.db").write_bytes(b"no database at all" * 100)
    assert repository.verdict().freshness is Freshness.FRESH


def test_a_link_does_not_lead_out_of_the_project(repository: Repository, tmp_path: Path) -> None:
    """A file that is a link to somewhere else is not looked into."""
    (tmp_path / "secret.py").write_text("def secret_function():\n    return 1\n")
    (repository.root / "linked.py").symlink_to(tmp_path / "secret.py")
    repository.remember("The team agreed on linked.py.")
    assert repository.verdict() == Verdict()


def test_what_a_branch_has_is_not_gone_elsewhere(repository: Repository) -> None:
    """A memory of a branch that has not come in is labelled, and not told to be of things that are gone or changed: they never were."""
    repository.git("checkout", "-q", "-b", "feature-x")
    repository.write("feature.py", "def brand_new_thing(one):\n    print(one)\n    return one\n")
    _edited(repository)
    repository.commit("feature")
    repository.index()
    repository.remember("The team agreed on feature.py, `brand_new_thing` and `parse_config`.")
    assert repository.verdict().freshness is Freshness.FRESH
    repository.git("checkout", "-q", "main")
    repository.index()
    assert repository.verdict() == Verdict(Freshness.UNCHECKED, (), "feature-x")
    repository.git("checkout", "-q", "feature-x")
    assert repository.verdict().freshness is Freshness.FRESH


def test_where_git_does_not_answer_nothing_is_told_to_be_gone(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That a moved file, or a setting, was not found in the time there was does not mean that it is gone."""
    repository.remember(f"{FILE} And on `search.depth`.")
    (repository.root / "settings").mkdir()
    repository.git("mv", "config/load.py", "settings/load.py")
    repository.git("mv", "defaults.toml", "settings/all.toml")
    repository.commit("moved")
    for name in ("renames", "renames_by_steps", "files_now", "files_with_now"):
        monkeypatch.setattr(History, name, lambda *_: None)
    assert repository.verdict() == Verdict()
    monkeypatch.undo()
    assert repository.verdict().told == (
        "config/load.py moved to settings/load.py",
        "search.depth is in settings/all.toml now",
    )


def test_a_repository_of_the_newer_format_is_judged_alike(tmp_path: Path) -> None:
    """Where Git names contents by SHA-256, what has not changed is fresh."""
    repository = Repository(tmp_path, "--object-format=sha256")
    repository.index()
    repository.remember(f"{FILE} See other.py.")
    assert repository.verdict().freshness is Freshness.FRESH
    _edited(repository)
    assert repository.verdict().told == ("config/load.py has changed since",)


def test_line_ends_of_the_system_are_no_change(repository: Repository) -> None:
    """A checkout that turned every line's end into two letters holds the same."""
    repository.remember(f"{FILE} And on load.py:6-8 and on `Engine.search`.")
    for name in ("config/load.py", "other.py"):
        (repository.root / name).write_bytes((repository.root / name).read_bytes().replace(b"\n", b"\r\n"))
    assert repository.verdict().freshness is Freshness.FRESH


def test_a_damaged_notebook_that_cannot_be_deleted_fails_no_search(repository: Repository) -> None:
    """The search answers without it."""
    repository.remember(SYMBOL)
    with repository.engine() as engine:
        kept = engine.place.tenant_folder / "index" / "freshness.db"
        kept.unlink()
        kept.mkdir()
    assert repository.verdict().freshness is Freshness.FRESH


@pytest.mark.parametrize(
    ("text", "path", "command", "told"),
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
def test_a_command_is_known_by_its_file(text: str, path: str, command: str, *, told: bool) -> None:
    """A target has its rule, alone or with others; a long file that has none is looked through at once."""
    assert defines(text, path, command) is told


def test_a_file_that_a_filter_keeps_elsewhere_has_not_changed(repository: Repository) -> None:
    """What LFS puts into the working tree is never what the commit holds: as long as the commit's is staged, it is as it was."""
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
    assert repository.verdict().told == ("model.bin has changed since",)


def test_what_a_sparse_checkout_leaves_out_is_not_gone(repository: Repository) -> None:
    """Files that Git keeps out of the working tree are there for everybody else: they are not judged."""
    repository.write("docs/setting.toml", "search.breadth = 1\n")
    repository.commit("docs")
    repository.remember("The team agreed on config/load.py, `parse_config`, `search.breadth` and docs/setting.toml.")
    assert repository.verdict().freshness is Freshness.FRESH
    repository.git("sparse-checkout", "set", "--no-cone", "/other.py", "/Makefile")
    assert not (repository.root / "config/load.py").exists()
    repository.index()
    assert repository.verdict() == Verdict()
