"""Which roots an index run reaches, and under which project each is filed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from tests.code.repositories import git

from lorelog.core.document import GLOBAL_PROJECT
from lorelog.core.errors import UsageError
from lorelog.services.places.root_selection import IndexTargets, select_default_roots, select_named_roots
from lorelog.services.places.roots import Root
from lorelog.services.places.workspace import Workspace, find_project


class TwoDirectories:
    """A current directory without Git, a repository beside it, and a home."""

    def __init__(self, top: Path) -> None:
        self.top = top.resolve()
        self.here = self.make("here")
        self.repository = self.make("repository")
        git(self.repository, "init", "-q")
        self.home = self.make("home")

    def make(self, *names: str) -> Path:
        place = self.top.joinpath(*names)
        place.mkdir(parents=True, exist_ok=True)
        return place

    def place(self, standing: Path | None = None, configured: Iterable[Path] = ()) -> Workspace:
        project = find_project(str(standing or self.here))
        return Workspace(project, self.home, "default", tuple(str(path) for path in configured))

    def given(
        self, *paths: object, standing: Path | None = None, known: Iterable[Root] = (), project: str | None = None
    ) -> dict[str, Root]:
        """Return the roots that naming these paths reaches, by path."""
        named = IndexTargets(tuple(str(path) for path in paths), project)
        return {root.path: root for root in select_named_roots(named, self.place(standing), tuple(known))}

    def usual(
        self, *, standing: Path | None = None, configured: Iterable[Path] = (), known: Iterable[Root] = ()
    ) -> dict[str, Root]:
        """Return the roots that a bare index reaches, by path."""
        return {root.path: root for root in select_default_roots(self.place(standing, configured), tuple(known))}


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TwoDirectories:
    world = TwoDirectories(tmp_path)
    monkeypatch.chdir(world.here)
    return world


# -- the project of a root -----------------------------------------------------------------------------------------------


PROJECTS = {
    "a folder of a repository belongs to it, wherever one stands": ("repository/docs", "repository"),
    "a repository belongs to itself": ("repository", "repository"),
    "a repository inside the current directory is its own project": ("here/inner", "here/inner"),
    "without Git, a folder below the current directory belongs to it": ("here/notes", "here"),
    "the current directory belongs to itself": ("here", "here"),
    "a namesake beside the current directory is global": ("here-too", ""),
    "notes outside any repository and outside the current directory are global": ("notes", ""),
}


@pytest.mark.parametrize(("path", "project"), PROJECTS.values(), ids=PROJECTS)
def test_a_root_belongs_to_the_project_it_lies_in(world: TwoDirectories, path: str, project: str) -> None:
    """A root is filed under its repository, else under the current directory, else it is global, also from a repository."""
    root = world.make(*path.split("/"))
    if path == "here/inner":
        git(root, "init", "-q")

    assert world.given(root)[str(root)].project == (str(world.top / project) if project else GLOBAL_PROJECT)
    assert project or world.given(root, standing=world.repository)[str(root)].project == GLOBAL_PROJECT


def test_a_known_root_keeps_its_project(world: TwoDirectories) -> None:
    """A root that was filed once stays there, whatever it lies in and wherever one stands."""
    docs, notes = world.make("repository", "docs"), world.make("here", "notes")
    known = [Root(str(docs), GLOBAL_PROJECT), Root(str(notes), "/another")]

    found = world.given(docs, notes, known=known)

    assert found[str(docs)].project == GLOBAL_PROJECT
    assert found[str(notes)].project == "/another"


@pytest.mark.parametrize("project", ["/chosen", GLOBAL_PROJECT])
def test_an_explicit_project_wins(world: TwoDirectories, project: str) -> None:
    """A project that was asked for, none included, goes before repository, current directory and what was known."""
    paths = [world.make("repository", "docs"), world.make("here", "notes"), world.make("notes")]
    known = [Root(str(paths[2]), "/another")]

    found = world.given(*paths, known=known, project=project)

    assert {root.project for root in found.values()} == {project}


def test_paths_are_known_by_their_real_names(world: TwoDirectories, monkeypatch: pytest.MonkeyPatch) -> None:
    """Relative paths, the person's home and links all become the one real path, so that a root is known again."""
    notes = world.make("here", "notes")
    (world.here / "link").symlink_to(notes)
    monkeypatch.setenv("HOME", str(world.here))

    for written in ("notes", "./notes/../notes/", "~/notes", "link"):
        assert list(world.given(written)) == [str(notes)], written


# -- exclusions ----------------------------------------------------------------------------------------------------------


def test_an_exclusion_goes_to_the_root_that_holds_it(world: TwoDirectories) -> None:
    """Each `!path` is kept with the root it lies in and with no other, not even with a namesake."""
    notes, notes_too = world.make("here", "notes"), world.make("here", "notes-too")
    drafts, old = world.make("here", "notes", "drafts"), world.make("here", "notes-too", "old")

    found = world.given("notes", "!notes/drafts", "notes-too", f"!{old}")

    assert found[str(notes)].exclude == (str(drafts),)
    assert found[str(notes_too)].exclude == (str(old),)


@pytest.mark.parametrize("stray", ["elsewhere/drafts", "notes-too", "."])
def test_an_exclusion_that_excludes_nothing_is_a_mistake(world: TwoDirectories, stray: str) -> None:
    """A `!path` that lies in none of the given paths was mistyped: it is refused by name."""
    world.make("here", "notes")
    world.make("here", "notes-too")

    with pytest.raises(UsageError) as refused:
        world.given("notes", "!notes/drafts", f"!{stray}")

    said = f"{refused.value.message} {refused.value.hint}"
    assert stray in said or str((world.here / stray).resolve()) in said


@pytest.mark.parametrize(
    ("paths", "message"),
    [
        (["!notes"], "every path"),
        ([""], "path is empty"),
        (["notes", ""], "path is empty"),
        (["notes", "!"], "path is empty"),
        (["a\x00b"], "cannot be a path"),
        (["half \ud83e"], "cannot be a path"),
    ],
)
def test_paths_that_select_nothing_are_a_mistake(world: TwoDirectories, paths: list[str], message: str) -> None:
    """Exclusions alone, an empty path (an unset variable), and names that no file can have are refused."""
    world.make("here", "notes")

    with pytest.raises(UsageError, match=message):
        world.given(*paths)


def test_known_roots_inside_a_given_root_are_indexed_with_it(world: TwoDirectories) -> None:
    """Roots known below a given path are indexed with it, as they were filed and without what they leave out."""
    inner = Root(
        str(world.make("here", "notes", "inner")), "/another", (str(world.here / "notes/inner/x"),), ("*.tmp",)
    )
    outer = Root(str(world.here), str(world.here))
    beside = Root(str(world.make("here", "notes-too")), str(world.here))

    found = world.given("notes", known=[inner, outer, beside])

    assert set(found) == {str(world.here / "notes"), inner.path}
    assert found[inner.path] == inner


def test_patterns_are_kept_with_the_given_roots_only(world: TwoDirectories) -> None:
    """Patterns to leave out go to every path that was named, and to no root that merely came along."""
    notes, inner = world.make("here", "notes"), world.make("here", "notes", "inner")
    named = IndexTargets((str(notes), str(world.repository)), None, ("*.tmp.md",))

    found = {root.path: root for root in select_named_roots(named, world.place(), (Root(str(inner), "/another"),))}

    assert found[str(notes)].patterns == found[str(world.repository)].patterns == ("*.tmp.md",)
    assert found[str(inner)].patterns == ()


# -- a bare index --------------------------------------------------------------------------------------------------------


def test_a_bare_index_takes_journals_paths_and_known_roots(world: TwoDirectories) -> None:
    """Without paths come the journals here and of no project, configured paths, and known roots of both."""
    journals = world.make("here", ".lorelog", "memory")
    global_journals = world.make("home", "data", "default", "memory")
    configured = world.make("here", "docs")
    mine = Root(str(world.make("notes")), str(world.here), ("/x",), ("*.tmp",))
    everyone = Root(str(world.make("shared")), GLOBAL_PROJECT)
    others = Root(str(world.make("repository", "docs")), str(world.repository))

    found = world.usual(configured=[configured], known=[mine, everyone, others])

    assert {path: root.project for path, root in found.items()} == {
        str(journals): str(world.here),
        str(global_journals): GLOBAL_PROJECT,
        str(configured): str(world.here),
        mine.path: str(world.here),
        everyone.path: GLOBAL_PROJECT,
    }
    assert found[mine.path] == mine


def test_a_configured_path_that_is_known_stays_as_it_was_filed(world: TwoDirectories) -> None:
    """A path that is configured and was indexed before keeps its project and what it leaves out."""
    docs = world.make("here", "docs")
    known = Root(str(docs), GLOBAL_PROJECT, (str(docs / "drafts"),))

    assert world.usual(configured=[docs], known=[known]) == {str(docs): known}


def test_configured_paths_lie_where_they_lie(world: TwoDirectories) -> None:
    """A configured path in another repository is filed there, and one outside everything is global; missing journals are not selected."""
    docs, notes = world.make("repository", "docs"), world.make("notes")

    found = world.usual(configured=[docs, notes])

    assert {path: root.project for path, root in found.items()} == {
        str(docs): str(world.repository),
        str(notes): GLOBAL_PROJECT,
    }


def test_a_project_without_roots_is_refused_with_a_command(world: TwoDirectories) -> None:
    """Where a project knows nothing, a bare index is refused with the command that begins."""
    others = Root(str(world.make("repository", "docs")), str(world.repository))

    with pytest.raises(UsageError) as refused:
        world.usual(known=[others])

    assert "lorelog index" in refused.value.hint
