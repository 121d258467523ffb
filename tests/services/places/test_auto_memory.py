"""What a host keeps for a project is found and indexed without being named."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.code.repositories import git
from tests.services.watch.watching import Watch, engine_in, eventually, index

from lorelog.core.document import GLOBAL_PROJECT
from lorelog.core.errors import UsageError
from lorelog.services.places.root_selection import (
    IndexTargets,
    encode_directory,
    find_auto_memory,
    list_auto_memory_paths,
)
from lorelog.services.places.workspace import find_project


@pytest.fixture
def claude(home: Path) -> Path:
    """Claude Code's directory of the person."""
    place = home.parent / ".claude"
    place.mkdir()
    return place


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository to stand in."""
    place = (tmp_path / "my.app_v2").resolve()
    place.mkdir()
    git(place, "init", "-q")
    monkeypatch.chdir(place)
    monkeypatch.setenv("LORELOG_EMBEDDING_PROVIDER", "none")
    return place


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n", "utf-8")
    return path


def memory_of(claude: Path, directory: Path, encoding: int = 0) -> Path:
    """Where Claude Code keeps what it remembers of a directory, by today's encoding or an earlier one."""
    return claude / "projects" / encode_directory(str(directory))[encoding] / "memory"


def found(directory: Path, claude: Path) -> dict[str, str]:
    """What is found from a directory: real path to project."""
    return {root.path: root.project for root in find_auto_memory(find_project(str(directory)), claude)}


def indexed(project: Path) -> dict[str, str]:
    with engine_in(project) as engine:
        documents = engine.memories().list(documents=True, limit=1000, all_projects=True).documents
        return {document.source: document.project for document in documents}


# -- where it lies -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("directory", "names"),
    [
        ("/Users/dev/loop", ("-Users-dev-loop",)),
        ("/Users/me/.loop/work", ("-Users-me--loop-work", "-Users-me-.loop-work")),
        ("/home/x/a_b c", ("-home-x-a-b-c", "-home-x-a_b c")),
        ("/home/x/é😀", ("-home-x----", "-home-x-é😀")),
    ],
)
def test_directories_are_named_as_claude_code_names_them(directory: str, names: tuple[str, ...]) -> None:
    """All that is no letter or digit is a dash, each UTF-16 unit one; earlier versions wrote fewer dashes."""
    assert encode_directory(directory) == names


@given(st.text(st.characters(codec="utf-8"), max_size=60))
def test_todays_name_is_letters_digits_and_dashes(directory: str) -> None:
    """Whatever the path, its name has the length that JavaScript counts, and stays one file name."""
    name = encode_directory("/" + directory)[0]

    assert len(name) == 1 + len(directory.encode("utf-16-le")) // 2
    assert all(letter == "-" or (letter.isascii() and letter.isalnum()) for letter in name)


@pytest.mark.parametrize("encoding", [0, 1, 2])
def test_the_memory_of_a_project_is_found_under_every_encoding(claude: Path, project: Path, encoding: int) -> None:
    """Today's name and those of earlier versions count."""
    memory = memory_of(claude, project, encoding)
    memory.mkdir(parents=True)

    assert found(project, claude) == {str(memory): str(project)}


def test_files_of_the_project_and_of_the_person_are_found(claude: Path, project: Path) -> None:
    """CLAUDE.md, AGENTS.md and their kin belong to the project; the person's own CLAUDE.md to every project."""
    for name in ("CLAUDE.md", "AGENTS.md", "CLAUDE.local.md", ".claude/CLAUDE.md"):
        write(project / name, name)
    write(claude / "CLAUDE.md", "mine")
    write(project / "README.md", "not one of them")

    assert found(project, claude) == {
        str(project / "CLAUDE.md"): str(project),
        str(project / "AGENTS.md"): str(project),
        str(project / "CLAUDE.local.md"): str(project),
        str(project / ".claude" / "CLAUDE.md"): str(project),
        str(claude / "CLAUDE.md"): GLOBAL_PROJECT,
    }


def test_a_worktree_shares_the_files_of_its_repository(claude: Path, project: Path) -> None:
    """Both directories' memories belong to the one project; a file that both have is taken from the main one."""
    write(project / "CLAUDE.md", "main")
    tree = project.parent / "tree"
    for words in (["add", "-A"], ["commit", "-qm", "x"], ["worktree", "add", "-q", str(tree)]):
        git(project, *words)
    write(tree / "AGENTS.md", "only here")
    memories = [memory_of(claude, project), memory_of(claude, tree)]
    for memory in memories:
        memory.mkdir(parents=True)

    expected = {str(path): str(project) for path in (*memories, project / "CLAUDE.md", tree / "AGENTS.md")}
    assert found(tree, claude) == expected


# -- links ---------------------------------------------------------------------------------------------------------------


def test_a_repository_cannot_have_files_outside_it_read(claude: Path, project: Path) -> None:
    """A CLAUDE.md that is a link out of the repository is left alone; one to a file in it is that file."""
    secret = write(project.parent / "secret.md", "secret")
    (project / "CLAUDE.md").symlink_to(secret)
    write(project / "docs" / "agents.md", "inside")
    (project / "AGENTS.md").symlink_to("docs/agents.md")
    (project / ".claude").symlink_to(project.parent)
    write(project.parent / "CLAUDE.md", "outside")

    assert found(project, claude) == {str(project / "docs" / "agents.md"): str(project)}


def test_no_link_is_followed_out_of_claude_codes_projects(claude: Path, project: Path) -> None:
    """A memory that is a link to anywhere else is left alone; one to another project's memory is that memory."""
    memory = memory_of(claude, project)
    memory.parent.mkdir(parents=True)
    memory.symlink_to(project.parent)
    assert found(project, claude) == {}

    memory.unlink()
    shared = claude / "projects" / "shared" / "memory"
    shared.mkdir(parents=True)
    memory.symlink_to(shared)
    assert found(project, claude) == {str(shared): str(project)}


def test_directories_and_links_named_md_are_ignored(claude: Path, project: Path) -> None:
    """A directory of that name, a link to nowhere, or to a file of another kind, is passed over."""
    (project / "CLAUDE.md").mkdir()
    (project / "AGENTS.md").symlink_to("nowhere.md")
    write(project / "run.sh", "#!/bin/sh")
    (project / "CLAUDE.local.md").symlink_to("run.sh")

    assert found(project, claude) == {}
    assert str(project / "CLAUDE.md") in list_auto_memory_paths(find_project(str(project)), claude)


# -- indexing ------------------------------------------------------------------------------------------------------------


def test_a_bare_index_takes_them_and_the_switch_turns_them_off(
    claude: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are indexed for the project without a word; index.auto_memory=false drops them and leaves the rest."""
    memory = write(memory_of(claude, project) / "MEMORY.md", "otter")
    agents = write(project / "AGENTS.md", "beaver")
    notes = write(project / "notes" / "a.md", "heron")
    index(project, project / "notes")
    index(project)
    assert indexed(project) == {str(path): str(project) for path in (memory, agents, notes)}

    monkeypatch.setenv("LORELOG_INDEX_AUTO_MEMORY", "false")
    index(project)
    assert indexed(project) == {str(notes): str(project)}
    with engine_in(project) as engine:
        assert [known.path for known in engine.maintenance().list_roots()] == [str(project / "notes")]


def test_switched_off_there_is_nothing_to_index(claude: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With nothing else known, a bare index then says so as it always did."""
    write(project / "AGENTS.md", "beaver")
    monkeypatch.setenv("LORELOG_INDEX_AUTO_MEMORY", "false")

    with pytest.raises(UsageError, match="nothing to index yet"):
        index(project)
    write(project / ".memsearch" / "memory" / "2026-03-05.md", "heron")
    with pytest.raises(UsageError, match="nothing to index yet"):
        index(project)


def test_a_bare_index_reads_the_journals_of_memsearch(claude: Path, project: Path, tmp_path: Path) -> None:
    """Without a path, `index` finds `.memsearch/memory` of the project, also beside other roots, and no link out of it."""
    write(project / "notes" / "a.md", "otter")
    journal = write(project / ".memsearch" / "memory" / "2026-03-05.md", "heron")
    index(project, project)
    index(project)
    assert set(indexed(project)) == {str(project / "notes" / "a.md"), str(journal)}

    journal.parent.rename(tmp_path / "elsewhere")
    journal.parent.symlink_to(tmp_path / "elsewhere")
    index(project)
    assert str(tmp_path / "elsewhere" / journal.name) not in indexed(project)


def test_they_leave_and_return_with_their_files(claude: Path, project: Path) -> None:
    """A deleted file leaves the index; a directory that is away for a while keeps its documents, and is no problem."""
    memory = write(memory_of(claude, project) / "MEMORY.md", "otter")
    agents = write(project / "AGENTS.md", "beaver")
    index(project)
    agents.unlink()
    memory.parent.rename(claude / "away")
    with engine_in(project) as engine:
        assert engine.maintenance().index().problems == ()
    assert indexed(project) == {str(memory): str(project)}

    (claude / "away").rename(memory.parent)
    write(agents, "beaver, back")
    index(project)
    assert indexed(project) == {str(path): str(project) for path in (memory, agents)}


def test_a_chosen_root_decides_about_files_inside_it(claude: Path, project: Path) -> None:
    """Where the whole repository is indexed, its exclusions hold for CLAUDE.md too; hidden ones are found all the same."""
    write(project / "CLAUDE.md", "excluded")
    hidden = write(project / ".claude" / "CLAUDE.md", "hidden")
    readme = write(project / "README.md", "readme")
    with engine_in(project) as engine:
        engine.maintenance().index(IndexTargets((str(project),), patterns=("CLAUDE.md",)))
    index(project)

    assert set(indexed(project)) == {str(hidden), str(readme)}


def test_claude_config_dir_is_used(claude: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CLAUDE_CONFIG_DIR moves it, for Claude Code and for us."""
    moved = project.parent / "elsewhere"
    write(claude / "CLAUDE.md", "not this one")
    mine = write(moved / "CLAUDE.md", "mine")
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(moved))
    index(project)

    assert indexed(project) == {str(mine): GLOBAL_PROJECT}


# -- watching ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_they_are_watched_from_when_they_appear(claude: Path, project: Path) -> None:
    """A project that someone works in is watched for them though nothing of it was indexed yet."""
    with Watch(project) as watch:
        watch.watcher.visit("default", str(project))
        agents = write(project / "AGENTS.md", "beaver")
        eventually(lambda: indexed(project) == {str(agents): str(project)})
        memory = write(memory_of(claude, project) / "MEMORY.md", "otter")
        eventually(lambda: indexed(project) == {str(path): str(project) for path in (agents, memory)})
        watch.sees((agents, "beaver"), (write(memory, "otter, edited"), "otter, edited"))
