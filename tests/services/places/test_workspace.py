"""Which project a directory belongs to, what its scope file may choose, and its name on all machines."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.code.repositories import git, repository
from tests.examples import examples

from lorelog.core.document import GLOBAL_PROJECT
from lorelog.core.errors import ConfigError
from lorelog.services.places.workspace import Project, find_project, find_scope_file, shared_name, visible_projects
from lorelog.wiring import resolve_location, settings_at


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return tmp_path.resolve()


def test_repository(base: Path) -> None:
    """Anywhere inside a repository, also in a file of it, the project is its root."""
    root = repository(base / "harbor", {})
    deep = root / "src" / "api"
    deep.mkdir(parents=True)
    (deep / "notes.md").write_text("# Notes\n")

    expected = Project(str(root), str(root), "harbor", git=True)
    assert find_project(str(root)) == expected
    assert find_project(str(deep)) == expected
    assert find_project(str(deep / "notes.md")) == expected
    assert find_project(str(root / ".git")) == expected


def test_linked_worktree(base: Path) -> None:
    """A linked worktree has the identity of the main one and a root of its own, also if its back reference is relative."""
    root = repository(base / "harbor", {})
    linked = base / "elsewhere" / "hotfix"
    git(root, "worktree", "add", str(linked))
    (linked / "src").mkdir()

    assert find_project(str(linked / "src")) == Project(str(root), str(linked), "harbor", git=True)
    (root / ".git" / "worktrees" / "hotfix" / "gitdir").write_text("../../../../elsewhere/hotfix/.git\n")
    assert find_project(str(linked)).id == str(root)


def test_bare_repository(base: Path) -> None:
    """All worktrees of a bare repository, and the repository itself, are one project."""
    source = repository(base / "source", {})
    bare = base / "harbor.git"
    git(base, "clone", "--bare", str(source), str(bare))
    git(bare, "worktree", "add", str(base / "one"))
    git(bare, "worktree", "add", str(bare / "two"))

    assert find_project(str(base / "one")) == Project(str(bare), str(base / "one"), "harbor", git=True)
    assert find_project(str(bare / "two")) == Project(str(bare), str(bare / "two"), "harbor", git=True)
    assert find_project(str(bare / "refs")) == Project(str(bare), str(bare), "harbor", git=True)


def test_hidden_bare_repository(base: Path) -> None:
    """A `.bare` repository beside its worktrees takes their directory's name."""
    source = repository(base / "source", {})
    home = base / "harbor"
    home.mkdir()
    git(home, "clone", "--bare", str(source), ".bare")
    (home / ".git").write_text("gitdir: ./.bare\n")
    git(home, "worktree", "add", "feature")

    assert find_project(str(home / "feature")).id == find_project(str(home)).id == str(home / ".bare")
    assert find_project(str(home)).name == "harbor"


def test_separate_git_directory(base: Path) -> None:
    """A repository kept elsewhere with --separate-git-dir gives all its worktrees one identity."""
    work = base / "work"
    git(base, "init", f"--separate-git-dir={base / 'kept'}", str(work))
    git(work, "commit", "--allow-empty", "-m", "first")
    git(work, "worktree", "add", str(base / "linked"))

    assert find_project(str(work)).id == find_project(str(base / "linked")).id == str(base / "kept")
    assert find_project(str(work)).root == str(work)


def test_submodule(base: Path) -> None:
    """A submodule is a project of its own, in its working directory, and so are its worktrees."""
    library = repository(base / "library", {})
    root = repository(base / "harbor", {})
    git(root, "submodule", "add", str(library), "vendor/library")
    inside = root / "vendor" / "library"
    git(inside, "worktree", "add", str(base / "patch"))

    assert find_project(str(inside)) == Project(str(inside), str(inside), "library", git=True)
    assert find_project(str(base / "patch")).id == str(inside)
    assert find_project(str(root / "vendor")).id == str(root)


def make_forged_pointer(kind: str, forged: Path, victim: Path) -> None:
    """Write what an archive can contain: a directory that names another directory's repository as its own."""
    forged.mkdir()
    fake = forged / "fake"
    if kind == "linked worktree":
        fake.mkdir()
        (forged / ".git").write_text("gitdir: fake\n")
        (fake / "commondir").write_text(f"{victim / '.git'}\n")
        (fake / "gitdir").write_text(f"{forged / '.git'}\n")
        (fake / "HEAD").write_text("ref: refs/heads/main\n")
    elif kind == "worktree of another directory":
        git(victim, "worktree", "add", "-b", "side", str(victim.parent / "side"))
        (forged / ".git").write_text(f"gitdir: {victim / '.git' / 'worktrees' / 'side'}\n")
    elif kind == "git file":
        (forged / ".git").write_text(f"gitdir: {victim / '.git'}\n")
    elif kind == "link":
        (forged / ".git").symlink_to(victim / ".git")
    else:
        git(forged, "init", "--bare", ".")
        git(forged, "config", "core.bare", "false")
        git(forged, "config", "core.worktree", str(victim))


@pytest.mark.parametrize(
    "kind", ["linked worktree", "worktree of another directory", "git file", "link", "repository with a worktree"]
)
def test_repository_without_back_reference(base: Path, kind: str) -> None:
    """A directory that names a repository which does not list it is a project of its own."""
    victim, forged = repository(base / "victim", {}), base / "forged"
    make_forged_pointer(kind, forged, victim)

    assert find_project(str(forged)).id == str(forged)
    assert find_project(str(victim)).id == str(victim)


def test_paths_without_a_repository(base: Path) -> None:
    """A link to a project is that project; without Git it is the directory itself, also one that does not exist."""
    root = repository(base / "harbor", {})
    (base / "link").symlink_to(root, target_is_directory=True)
    notes = base / "notes" / "2026"
    notes.mkdir(parents=True)

    assert find_project(str(base / "link")) == find_project(str(root))
    assert find_project(str(notes)) == Project(str(notes), str(notes), "2026", git=False)
    assert find_project(str(base / "gone")).id == str(base / "gone")
    assert find_project(str(base / ("x" * 5000))).git is False


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"gitdir:",
        b"gitdir: ",
        b"gitdir: nowhere/to/be/found\n",
        b"gitdir: .\n",
        b"gitdir: a\0b\n",
        b"gitdir: " + b"x" * 100_000,
        b"\xff\xfe\x00",
        b"not a pointer at all",
    ],
)
def test_malformed_git_file(base: Path, content: bytes) -> None:
    """A broken `.git` file is as if it were not there."""
    (base / ".git").write_bytes(content)

    assert find_project(str(base)) == Project(str(base), str(base), base.name, git=False)


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=examples(60))
@given(pointer=st.binary(max_size=60), common=st.binary(max_size=60), config=st.binary(max_size=60))
def test_arbitrary_git_files(base: Path, pointer: bytes, common: bytes, config: bytes) -> None:
    """Whatever `.git`, `commondir` and `config` hold, a project is found and it is a real path."""
    top = base / "top"
    kept = base / "kept"
    for name in ("objects", "refs"):
        (kept / name).mkdir(parents=True, exist_ok=True)
    top.mkdir(exist_ok=True)
    (kept / "HEAD").write_text("ref: refs/heads/main\n")
    (kept / "commondir").write_bytes(common)
    (kept / "config").write_bytes(b"[core]\n\tworktree = " + config)
    for text in (pointer, b"gitdir: ../kept\n"):
        (top / ".git").write_bytes(text)
        project = find_project(str(top))
        assert project.id == os.path.realpath(project.id)
        assert project.name


def test_broken_repositories(base: Path) -> None:
    """An empty `.git` directory, a pipe and a link to nothing are passed over for the repository around them."""
    root = repository(base / "harbor", {})
    for name in ("empty", "pipe", "dangling"):
        (root / name).mkdir()
    (root / "empty" / ".git").mkdir()
    os.mkfifo(root / "pipe" / ".git")
    (root / "dangling" / ".git").symlink_to(base / "nowhere")

    assert {find_project(str(root / name)).id for name in ("empty", "pipe", "dangling")} == {str(root)}


def test_pipe_inside_repository(base: Path) -> None:
    """A pipe where a repository's configuration should be does not keep us waiting."""
    bare = base / "odd"
    git(base, "init", "--bare", str(bare))
    (bare / "config").unlink()
    os.mkfifo(bare / "config")

    assert find_project(str(bare)).id == str(bare)


@pytest.mark.parametrize(
    ("current", "git", "seen"),
    [
        ("/home/a/code/harbor", True, ()),
        ("/home/a/notes", False, ("/", "/home/a", "/home/a/notes/2026")),
        ("/srv/new", False, ("/",)),
    ],
)
def test_visible_projects(current: str, seen: tuple[str, ...], *, git: bool) -> None:
    """From anywhere one sees its own and the global memories; without Git also directories above and below it."""
    known = ["", "/", "/home/a", "/home/a/code", "/home/a/code/harbor", "/home/a/code/harbor/vendor"]
    known += ["/home/a/notes", "/home/a/notes/2026", "/home/a/notes-old"]

    assert visible_projects(Project(current, current, "x", git=git), known) == (current, GLOBAL_PROJECT, *seen)


def scope(directory: Path, **entry: object) -> Path:
    file = directory / ".lorelog" / "scope.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(entry), "utf-8")
    return file


def allow(home: Path, *tenants: str) -> None:
    home.mkdir(parents=True, exist_ok=True)
    (home / "config.toml").write_text(f"[scope]\ntenants = {json.dumps(tenants)}\n", "utf-8")


def test_an_allowed_tenant_is_used(tmp_path: Path, home: Path) -> None:
    """From the directory and from below it, the tenant that the file names holds."""
    scope(tmp_path, tenant="work")
    allow(home, "work")
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)

    for start in (tmp_path, below):
        assert settings_at(resolve_location(project=start)).tenant() == "work"


def test_a_tenant_must_be_allowed(tmp_path: Path) -> None:
    """A clone cannot open another tenant's memories by itself."""
    scope(tmp_path, tenant="work")

    with pytest.raises(ConfigError, match="not allowed") as raised:
        settings_at(resolve_location(project=tmp_path))
    assert "scope.tenants" in raised.value.hint


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '"work"', '{"tenant": 3}', '{"tenant": ""}', '{"tenant": "a", "x": 1}', '{"project": "/etc"}'],
)
def test_a_malformed_file_is_an_error(tmp_path: Path, text: str) -> None:
    """Nothing falls back to the default tenant because of a typing error."""
    scope(tmp_path).write_text(text, "utf-8")

    with pytest.raises(ConfigError, match=r"scope\.json"):
        resolve_location(project=tmp_path)


def test_a_directory_or_link_is_not_a_scope_file(tmp_path: Path) -> None:
    """Neither a directory nor a link to somewhere else is taken for a scope file."""
    file = scope(tmp_path)
    file.unlink()
    file.mkdir()
    with pytest.raises(ConfigError, match="regular file"):
        find_scope_file(str(tmp_path))
    file.rmdir()
    os.mkfifo(file)
    with pytest.raises(ConfigError, match="regular file"):
        find_scope_file(str(tmp_path))
    file.unlink()
    file.symlink_to(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="regular file"):
        find_scope_file(str(tmp_path))


def test_an_explicit_tenant_leaves_the_file_out(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever names a tenant gets neither the file's tenant nor its project, not even its error."""
    scope(tmp_path, tenant="work", project=".")
    below = tmp_path / "sub"
    below.mkdir()
    allow(home, "work")
    borrowed = resolve_location(project=below)
    own = resolve_location(project=below, tenant="other")

    assert borrowed.project.id == str(tmp_path)
    assert own.project.id == str(below)
    assert settings_at(own, {"scope.tenant": "other"}).tenant() == "other"
    monkeypatch.setenv("LORELOG_SCOPE_TENANT", "third")
    assert settings_at(resolve_location(project=below)).tenant() == "third"
    (tmp_path / ".lorelog" / "scope.json").write_text("broken", "utf-8")
    assert settings_at(resolve_location(project=below)).tenant() == "third"


def test_the_nearest_file_counts(tmp_path: Path, home: Path) -> None:
    """An inner scope file takes the place of an outer one."""
    scope(tmp_path, tenant="outer")
    inner = tmp_path / "inner"
    scope(inner, tenant="inner")
    allow(home, "outer", "inner")

    assert settings_at(resolve_location(project=inner)).tenant() == "inner"


def test_a_scope_file_in_the_home_is_ignored(home: Path) -> None:
    """What lies in the home directory itself speaks for nobody: every directory is below it."""
    scope(home.parent, tenant="work")
    below = home.parent / "projects"
    below.mkdir()

    assert find_scope_file(str(below)) is None


def remote_clone(place: Path, *remotes: tuple[str, str]) -> str:
    place.mkdir(parents=True)
    git(place, "init", "-q")
    for name, url in remotes:
        git(place, "remote", "add", name, url)
    return find_project(str(place)).id


@pytest.mark.parametrize(
    "url",
    [
        "https://example.org/team/app.git",
        "https://example.org/team/app",
        "https://Example.ORG/team/app/",
        "https://me:s3cret@example.org/team/app.git",
        "ssh://git@example.org:2222/team/app.git",
        "git@example.org:team/app.git",
        "example.org:team/app",
        "git://example.org/team/app.git",
    ],
)
def test_all_clones_have_one_name(tmp_path: Path, url: str) -> None:
    """However a clone reaches its remote, its name is host and path: no user, no password, no port, no ending."""
    assert shared_name(remote_clone(tmp_path / "clone", ("origin", url))) == "git:example.org/team/app"


@pytest.mark.parametrize(
    "url", ["/srv/git/app.git", "../app", "file:///srv/app.git", "C:\\git\\app", "https://example.org"]
)
def test_a_local_path_is_not_a_shared_name(tmp_path: Path, url: str) -> None:
    """What another machine could not reach names nothing there."""
    assert shared_name(remote_clone(tmp_path / "clone", ("origin", url))) == ""


def test_origin_counts_or_the_only_remote(tmp_path: Path) -> None:
    """Of several remotes `origin` names the project; without it, only one that is alone does."""
    one, two = ("fork", "https://example.org/me/app"), ("origin", "https://example.org/team/app")
    assert shared_name(remote_clone(tmp_path / "a", one, two)) == "git:example.org/team/app"
    assert shared_name(remote_clone(tmp_path / "b", one)) == "git:example.org/me/app"
    assert shared_name(remote_clone(tmp_path / "c", one, ("mine", "https://example.org/x/app"))) == ""


def test_worktrees_and_directories_inside_have_the_name_of_theirs(tmp_path: Path) -> None:
    """A linked worktree is the same project; a directory that a scope file makes a project of is one inside it."""
    project = remote_clone(tmp_path / "main", ("origin", "https://example.org/team/app"))
    git(Path(project), "commit", "-q", "--allow-empty", "-m", "x")
    git(Path(project), "worktree", "add", "-q", str(tmp_path / "linked"))
    (tmp_path / "main" / "part").mkdir()

    assert shared_name(str(tmp_path / "linked")) == "git:example.org/team/app"
    assert shared_name(str(tmp_path / "main" / "part")) == "git:example.org/team/app//part"


def test_a_project_without_a_remote_has_no_shared_name(tmp_path: Path) -> None:
    """Neither a directory, nor a repository without remote, nor one that is gone has a name; what is of no project has one."""
    (tmp_path / "plain").mkdir()
    assert shared_name(str(tmp_path / "plain")) == ""
    assert shared_name(remote_clone(tmp_path / "alone")) == ""
    assert shared_name(str(tmp_path / "gone")) == ""
    assert shared_name("") == "global"
