"""The Python surface: typed, frozen, and the same answers as the shell's."""

from __future__ import annotations

import inspect
from dataclasses import FrozenInstanceError
from datetime import date
from pathlib import Path

import pytest
from tests.surfaces.conftest import write

from lorelog import Filters, Lane, Lorelog, LorelogError

FAKE = {"embedding.provider": "fake"}


def test_index_search_expand_add_list(tmp_path: Path) -> None:
    """The verbs work together, from nothing to an expanded hit."""
    write(tmp_path / "notes" / "a.md", "# Cache\n\nRedis holds prices for five minutes\n")

    with Lorelog(project=tmp_path, settings=FAKE) as memory:
        report = memory.index([tmp_path / "notes"])
        reply = memory.search("redis prices", k=3)
        section = memory.expand(reply.hits[0].id)
        added = memory.add("Postgres stays", type="decision", tags=["db"])
        listed = memory.list(Filters(types=("decision",)))

        assert (report.files, report.changed, report.problems) == (1, 1, ())
        assert reply.hits[0].heading == "Cache"
        assert section.content.startswith("# Cache")
        assert listed.memories[0].id == added.id
        assert memory.stats().documents == 2
        assert memory.search("postgres", lane=Lane.LEXICAL, filters=Filters(tags=("db",))).hits


def test_results_cannot_be_changed(tmp_path: Path) -> None:
    """What a search returns is a value: it has no dictionary and refuses assignment."""
    write(tmp_path / "a.md", "alpha\n")
    with Lorelog(project=tmp_path, settings=FAKE) as memory:
        memory.index([tmp_path])
        hit = memory.search("alpha").hits[0]

    with pytest.raises(FrozenInstanceError):
        hit.score = 2.0  # type: ignore[misc]


def test_scores_are_their_explanation(tmp_path: Path) -> None:
    """A hit's score is the sum of the parts of its explanation."""
    write(tmp_path / "a.md", "".join(f"# {n}\n\nalpha beta {n}\n\n" for n in range(30)))
    with Lorelog(project=tmp_path, settings=FAKE) as memory:
        memory.index([tmp_path])
        for lane in Lane:
            for hit in memory.search("alpha 7", k=30, lane=lane).hits:
                assert hit.score == hit.explanation.score


def test_a_closed_memory_can_be_closed_again(tmp_path: Path) -> None:
    """Closing twice does no harm."""
    memory = Lorelog(project=tmp_path, settings=FAKE)
    memory.close()
    memory.close()


def test_wrong_settings_are_refused_at_once(tmp_path: Path) -> None:
    """A setting that is not there, or a project that is not there, raises before anything is opened."""
    with pytest.raises(LorelogError, match=r"embedding\.providr"):
        Lorelog(project=tmp_path, settings={"embedding.providr": "fake"})
    with pytest.raises(LorelogError, match="nowhere"):
        Lorelog(project=tmp_path / "nowhere")


def test_wrong_arguments_are_named(tmp_path: Path) -> None:
    """A lane or a day that does not exist raises our own error."""
    with Lorelog(project=tmp_path, settings=FAKE) as memory:
        with pytest.raises(LorelogError, match="nope"):
            memory.search("x", lane="nope")  # type: ignore[arg-type]
        with pytest.raises(LorelogError, match="someday"):
            memory.search("x", filters=Filters(since="someday"))


def test_all_projects_can_be_asked(tmp_path: Path) -> None:
    """A search looks beyond its project when told to."""
    for name in ("one", "two"):
        (tmp_path / name / ".git" / "objects").mkdir(parents=True)
        (tmp_path / name / ".git" / "refs").mkdir()
        write(tmp_path / name / ".git" / "HEAD", "ref: refs/heads/main\n")
        write(tmp_path / name / "a.md", f"albatross {name}\n")
        with Lorelog(project=tmp_path / name, settings=FAKE) as memory:
            memory.index([tmp_path / name])

    with Lorelog(project=tmp_path / "one", settings=FAKE) as memory:
        assert len(memory.search("albatross").hits) == 1
        assert len(memory.search("albatross", all_projects=True).hits) == 2
        assert len(memory.list(all_projects=True).memories) == 2


def test_two_homes_do_not_know_each_other(tmp_path: Path) -> None:
    """What is indexed in one home is not found in another, nor by another tenant of the same home."""
    write(tmp_path / "a.md", "alpha\n")
    with Lorelog(project=tmp_path, home=tmp_path / "one", settings=FAKE) as memory:
        memory.index([tmp_path / "a.md"])
        assert memory.search("alpha").hits

    with Lorelog(project=tmp_path, home=tmp_path / "two", settings=FAKE) as memory:
        assert not memory.search("alpha").hits
    with Lorelog(project=tmp_path, home=tmp_path / "one", settings={**FAKE, "scope.tenant": "other"}) as memory:
        assert not memory.search("alpha").hits


def test_one_path_is_indexed_as_one_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A string or a Path is one path: `./notes` indexes that folder and nothing else."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "notes" / "a.md", "alpha\n")
    write(tmp_path / "other" / "b.md", "beta\n")
    with Lorelog(settings=FAKE) as memory:
        assert memory.index("./notes").files == 1
        assert memory.index(tmp_path / "notes").files == 1
        assert [status.root.path for status in memory.roots()] == [str((tmp_path / "notes").resolve())]
        assert memory.forget_roots("notes") == 1


def test_one_tag_is_one_tag(tmp_path: Path) -> None:
    """A string is one tag or type, in `add`, `add_batch`, `supersede` and in filters."""
    with Lorelog(tmp_path, settings=FAKE) as memory:
        added = memory.add("alpha rests", tags="redis", type="decision")
        memory.add_batch([{"text": "alpha swims", "tags": "redis"}])
        memory.supersede(added, "alpha sleeps", tags="redis")

        tagged = memory.list(Filters(tags="redis"))  # type: ignore[arg-type]
        assert [memory.chunk.tags for memory in tagged.memories] == [("redis",), ("redis",)]


def test_hits_are_accepted_where_an_id_is(tmp_path: Path) -> None:
    """A hit names itself; a reply can be iterated and counted."""
    write(tmp_path / "a.md", "# Alpha\n\nalpha\n")
    with Lorelog(tmp_path, settings=FAKE) as memory:
        memory.index(tmp_path / "a.md")
        reply = memory.search("alpha")

        assert [memory.expand(hit).content for hit in reply] == ["# Alpha\n\nalpha"]
        assert len(reply) == 1
        assert memory.feedback("alpha", reply.hits[0], relevant=True).relevance == "relevant"


def test_days_may_be_dates(tmp_path: Path) -> None:
    """Filters and expiry days accept `datetime.date`."""
    with Lorelog(tmp_path, settings=FAKE) as memory:
        added = memory.add("alpha", expires=date(2999, 1, 1))
        filters = Filters(since=date(2000, 1, 1))  # type: ignore[arg-type]

        assert memory.list(filters).memories[0].id == added.id
        assert memory.set_expiry(added, expires=date(2998, 1, 1)).expires == "2998-01-01"
        assert memory.set_expiry(added, expires=None).expires == ""


def test_parameters_are_visible_in_help(tmp_path: Path) -> None:
    """No method hides its parameters in `**kwargs`, and repr names project and home."""
    for name, method in inspect.getmembers(Lorelog, inspect.isfunction):
        if not name.startswith("_"):
            kinds = {parameter.kind for parameter in inspect.signature(method).parameters.values()}
            assert inspect.Parameter.VAR_KEYWORD not in kinds, name
    with Lorelog(tmp_path, home=tmp_path / "home", settings=FAKE) as memory:
        assert repr(memory) == f"Lorelog(project={str(tmp_path)!r}, home={str(tmp_path / 'home')!r})"
